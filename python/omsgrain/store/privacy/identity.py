# SPDX-License-Identifier: Apache-2.0
"""Select the grains about a person, for reports, restrictions and erasures.

A person is a set of names: user ids, DIDs, e-mail addresses. A grain is about the person if the
whole value of one of these fields equals a name in NFC. A part of a text never matches.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

from omsgrain import _core
from omsgrain.errors import ErasedError, KeyMissingError, OmsError, SchemaError, StoreError
from omsgrain.grain import Grain, text_marks
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.storage import blind_index
from omsgrain.storage.base import Reader, Transactions
from omsgrain.storage.encrypted import DecryptingReader
from omsgrain.storage.tables import KEYED, SEALED, SEQUENCE
from omsgrain.store.context import destroyed

FIELDS = (
    "user_id",
    "subject",
    "object",
    "subject_did",
    "grantee_did",
    "author_did",
    "observer_id",
    "observer_did",
    "entity_id",
    "owner",
    "witness_dids",
)
"""Fields that can name a person."""

OWN = frozenset(name for name in FIELDS if name == "user_id" or name.endswith(("_did", "_dids")))
"""Fields that identify a person: other people may have the same name, but no other DID."""

_ABOUT = OWN - {"author_did"}
"""Fields that say whom a grain is about; its author need not be that person."""

MOST = 1_000
"""Maximum number of names of one person."""

Find: TypeAlias = Callable[[list[bytes]], list[int]]
"""Returns the positions of blobs."""


def is_about_nobody(grain: Grain) -> bool:
    """Whether no readable field says whom a grain is about; its author does not count.

    Its policy then decides about restrictions, and about erasures from outside.
    """
    return not grain.sealed and not any(grain.get(name) for name in _ABOUT)


class Identities:
    """The names of one or several people: user ids, DIDs, e-mail addresses."""

    __slots__ = ("_names",)

    _names: frozenset[str]

    def __init__(self, names: Iterable[str]) -> None:
        if isinstance(names, Identities):
            self._names = names._names
            return
        # A text is iterable too, but it is not a list of names.
        given = None if isinstance(names, str | bytes) else list(names)
        if given is None or not 0 < len(given) <= MOST or not all(map(_is_name, given)):
            expected = f"a list of 1 to {MOST} non-empty strings"
            raise SchemaError("invalid names of a person", field="/identities", expected=expected)
        self._names = frozenset(unicodedata.normalize("NFC", name) for name in given)

    def __contains__(self, item: object) -> bool:
        """Whether a string is one of the names."""
        return item in self._names

    def __iter__(self) -> Iterator[str]:
        """Iterate over the sorted names."""
        return iter(sorted(self._names))

    def __repr__(self) -> str:
        """Return only the number of names, because logs must not contain them."""
        return f"<Identities {len(self._names)}>"

    def search(self) -> Find | None:
        """Return what finds the blobs that may have one of the names; None if nothing can."""
        return text_marks(self).find


def _is_name(value: object) -> bool:
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # an unpaired surrogate, which no grain contains
        return False
    return True


@dataclass(frozen=True, slots=True)
class PersonalGrain:
    """A grain about the person."""

    seq: int  # its sequence number
    address: str  # its stored address
    fields: tuple[str, ...]  # the fields that name the person
    own: bool  # whether it is the person's; if not, it only has a name that others may have too
    number: bytes | None  # the number of the key that encrypts it; None for a plain grain
    other: bool = False  # whether it belongs to another user


@dataclass(slots=True)
class Selection:
    """The current grains about a person, in storage order.

    You may write during the iteration: each page's snapshot is closed before its grains are
    returned. A blob without the bytes of a name is not decoded.
    """

    store: Transactions = field(repr=False)
    identities: Identities
    # number of grains so far that could not be read, because a key is missing or they are damaged.
    # They may be about the person too.
    unopened: int = 0
    destroyed: int = 0  # number of grains so far whose key was destroyed

    def __iter__(self) -> Iterator[PersonalGrain]:
        """Iterate from the start."""
        self.unopened = self.destroyed = 0
        search = self.identities.search()
        with self.store.read() as reader:
            after, last = 0, reader.last_seq()
        while after < last:
            with self.store.read() as reader:
                page = [row for row in reader.page(after) if row[0] <= last]
                found = [f for seq in _candidates(page, search) if (f := self._look(reader, seq))]
            if not page:
                return
            yield from found
            after = page[-1][0]

    def _look(self, reader: Reader, seq: int) -> PersonalGrain | None:
        try:
            grain = reader.grain(seq)
            sealed = grain is not None and grain.sealed
            fields = () if grain is None or sealed else fields_of(grain, self.identities)
            gone = sealed and destroyed(reader, seq)
        except StoreError:
            raise
        except OmsError:  # no key, or damage
            self.unopened += 1
            return None
        self.destroyed += gone
        self.unopened += sealed and not gone
        if grain is None or not fields:
            return None
        number = reader.row(SEALED, SEQUENCE.pack(seq))
        own = not OWN.isdisjoint(fields)
        other = "user_id" in grain.fields and "user_id" not in fields
        return PersonalGrain(seq, grain.address, fields, own, number, other)


def select(store: Transactions, identities: Identities | Iterable[str]) -> Selection:
    """Return the grains about a person; they are read by iterating. Spec: OMS §9."""
    return Selection(store, Identities(identities))


def by_pages(found: Iterable[PersonalGrain], most: int) -> Iterator[list[PersonalGrain]]:
    rest = iter(found)
    while page := list(islice(rest, most)):
        yield page


def fields_of(grain: Grain, identities: Identities) -> tuple[str, ...]:
    """Return the fields that name the person. Spec: OMS §9."""
    fields = grain.fields
    return tuple(
        name
        for name in FIELDS
        if name in fields and any(text in identities for text in _texts(fields[name]))
    )


def unopened(reader: Reader) -> bool:
    """Whether the store has encrypted grains that the index cannot find for these keys."""
    sealed = _core.term("sealed", None)
    if not isinstance(reader, DecryptingReader):
        return next(reader.places(sealed, None, False), None) is not None
    known = 0
    for number in blind_index.key_numbers(reader):
        try:
            reader.ring.by_number(number)
        except ErasedError:
            pass
        except KeyMissingError:
            return True
        known += sum(1 for _ in reader.rows(KEYED, prefix=number))
    # Grains encrypted here have a row under their key. The cheap count can be too high.
    return known < reader.term_count(sealed) and known < sum(
        1 for _ in reader.places(sealed, None, False)
    )


def _texts(value: Any) -> Iterator[str]:
    """Return all strings in a value at any depth, including keys of maps."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _candidates(page: list[tuple[int, bytes]], find: Find | None) -> list[int]:
    """Return the numbers of blobs that may name the person, or that cannot be searched."""
    if find is None:
        return [seq for seq, _ in page]
    found = set(find([blob for _, blob in page]))
    return [seq for i, (seq, blob) in enumerate(page) if i in found or blob[1] & ENCRYPTED_BIT]
