# SPDX-License-Identifier: Apache-2.0
"""Which grains are about a person: the one selector of reports, restrictions and erasures.

A person is a set of names: user ids, DIDs, e-mail addresses. A grain is theirs, or names them,
where a field is one of these, letter for letter in NFC; a part of a text never counts.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from omsgrain import _core
from omsgrain.errors import ErasedError, KeyMissingError, OmsError, SchemaError, StoreError
from omsgrain.grain import Grain
from omsgrain.header import COMPRESSED_BIT, ENCRYPTED_BIT
from omsgrain.storage.base import Reader, Storage
from omsgrain.storage.blind_index import NUMBER
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
"""Where a grain can name somebody."""

OWN = frozenset(name for name in FIELDS if name == "user_id" or name.endswith(("_did", "_dids")))
"""Where it names nobody else: other people may bear the same name, and no other DID."""

_ABOUT = OWN - {"author_did"}
"""Where it says whom it is about; who wrote it is another question."""

MOST = 1_000
"""GrainAddresses of one person."""

_OPAQUE = ENCRYPTED_BIT | COMPRESSED_BIT


def is_about_nobody(grain: Grain) -> bool:
    """Whether no field of a grain that can be read says whom it is about; its author does not.

    Then its policy decides in a restriction, and in an erasure from outside.
    """
    return not grain.sealed and not any(grain.get(name) for name in _ABOUT)


class Identities:
    """The names of a person, or of several: user ids, DIDs, e-mail addresses."""

    __slots__ = ("_names",)

    _names: frozenset[str]

    def __init__(self, names: Iterable[str]) -> None:
        if isinstance(names, Identities):
            self._names = names._names
            return
        # One text would be taken for a list of its letters.
        given = None if isinstance(names, str | bytes) else list(names)
        if given is None or not 0 < len(given) <= MOST or not all(map(_is_name, given)):
            expected = f"a list of 1 to {MOST} strings that are not empty"
            raise SchemaError("not the names of a person", field="/identities", expected=expected)
        self._names = frozenset(unicodedata.normalize("NFC", name) for name in given)

    def __contains__(self, item: object) -> bool:
        """Whether a string is one of the names."""
        return item in self._names

    def __iter__(self) -> Iterator[str]:
        """Walk the names, sorted."""
        return iter(sorted(self._names))

    def __len__(self) -> int:
        return len(self._names)

    def __eq__(self, other: object) -> bool:
        return self._names == other._names if isinstance(other, Identities) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._names)

    def __repr__(self) -> str:
        """How many; who it is belongs in no log."""
        return f"<Identities {len(self._names)}>"

    def search(self) -> Callable[[bytes], object] | None:
        """Make the search for the names as the codecs write them, the length of the string first.

        None if grains cannot be told apart so.
        """
        by_head: dict[bytes, list[bytes]] = {}
        for name in self:
            text = name.encode()
            for head in _heads(len(text)):
                by_head.setdefault(head, []).append(text)
        return re.compile(
            b"|".join(
                re.escape(head) + b"(?:" + b"|".join(map(re.escape, texts)) + b")"
                for head, texts in by_head.items()
            )
        ).search


def _is_name(value: object) -> bool:
    if not isinstance(value, str) or not value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half a character of UTF-16: no grain has that
        return False
    return True


@dataclass(frozen=True, slots=True)
class PersonalGrain:
    """A grain that is about the person.

    Attributes:
        seq: its number.
        address: the address it is stored under.
        fields: where it names the person.
        own: it is theirs; if not, it bears a name that others may have too.
        other: it belongs to another user.
        number: of the key that seals it; None if it stands in the clear.
    """

    seq: int
    address: str
    fields: tuple[str, ...]
    own: bool
    number: bytes | None
    other: bool = False


@dataclass(slots=True)
class Selection:
    """The grains about a person that are there now, in order of arrival; a walk through all.

    Whoever walks may write: each page is a snapshot that is closed before its grains are given.
    A blob that does not hold the bytes of a name is not decoded.

    Attributes:
        unopened: how many grains met so far could not be read, for want of a key or by damage.
            They may be about the person too.
        destroyed: how many met so far nobody can read any more, since their key was destroyed.
    """

    store: Storage = field(repr=False)
    identities: Identities
    unopened: int = 0
    destroyed: int = 0

    def __iter__(self) -> Iterator[PersonalGrain]:
        """Walk from the start."""
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


def select(store: Storage, identities: Identities | Iterable[str]) -> Selection:
    """Select the grains about a person; nothing is read before the walk.

    Spec: OMS §9
    """
    return Selection(store, Identities(identities))


def by_pages(found: Iterable[PersonalGrain], most: int) -> Iterator[list[PersonalGrain]]:
    """Give grains by as many as a transaction should have."""
    rest = iter(found)
    while page := list(islice(rest, most)):
        yield page


def fields_of(grain: Grain, identities: Identities) -> tuple[str, ...]:
    """Return the fields in which a grain names the person. Spec: OMS §9."""
    fields = grain.fields
    return tuple(
        name
        for name in FIELDS
        if name in fields and any(text in identities for text in _texts(fields[name]))
    )


def unopened(reader: Reader) -> bool:
    """Whether there are sealed grains of which a walk by the index would not know."""
    sealed = _core.term("sealed", None)
    if not isinstance(reader, DecryptingReader):
        return next(reader.places(sealed, None, False), None) is not None
    known, after = 0, None
    while (row := next(reader.rows(KEYED, after=after), None)) is not None:
        number = row[0][:NUMBER]
        try:
            reader.ring.by_number(number)
        except ErasedError:
            pass
        except KeyMissingError:
            return True
        known += sum(1 for _ in reader.rows(KEYED, prefix=number))
        after = number + b"\xff" * SEQUENCE.size
    # Each that was sealed here has a row under its key. The cheap count can be too high.
    return known < reader.term_count(sealed) and known < sum(
        1 for _ in reader.places(sealed, None, False)
    )


def _texts(value: Any) -> Iterator[str]:
    """All strings of a value, however deep; the keys of maps too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from value
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _candidates(
    page: list[tuple[int, bytes]], search: Callable[[bytes], object] | None
) -> Iterator[int]:
    """The numbers of blobs that may name the person: those with a name, and those in no clear."""
    if search is None:
        yield from (seq for seq, _ in page)
        return
    opaque = any(blob[1] & _OPAQUE for _, blob in page)
    # Most pages name the person nowhere, and one search over all their bytes tells it.
    if opaque or search(b"".join([blob for _, blob in page])) is not None:
        for seq, blob in page:
            if blob[1] & _OPAQUE or search(blob) is not None:
                yield seq


def _heads(size: int) -> tuple[bytes, bytes]:
    """What stands before a string of so many bytes, in MessagePack and in CBOR."""
    if size < 24:
        return bytes((0xA0 + size,)), bytes((0x60 + size,))
    if size < 32:
        return bytes((0xA0 + size,)), bytes((0x78, size))
    if size < 1 << 8:
        return bytes((0xD9, size)), bytes((0x78, size))
    if size < 1 << 16:
        return b"\xda" + size.to_bytes(2, "big"), b"\x79" + size.to_bytes(2, "big")
    return b"\xdb" + size.to_bytes(4, "big"), b"\x7a" + size.to_bytes(4, "big")
