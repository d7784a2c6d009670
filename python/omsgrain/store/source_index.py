# SPDX-License-Identifier: Apache-2.0
"""Find the grains of a user by their ids in documents of other formats.

An import looks up thousands of ids, and the store lacks nearly all of them. So one snapshot looks
up many together, and a user without grains costs a single look-up.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from omsgrain import _core
from omsgrain.errors import KeyMissingError, NotFoundError, RangeError, SchemaError
from omsgrain.grain import Grain
from omsgrain.query.walk import Ended, ended
from omsgrain.query.walk import origins as names_of
from omsgrain.search.vectors import pack
from omsgrain.storage.base import Reader, Which
from omsgrain.storage.blind_index import PLACE, seqs_of
from omsgrain.storage.encrypted import DecryptingReader
from omsgrain.storage.records import RESTRICTED, RETRACTED
from omsgrain.storage.tables import BLIND, KEYED, META, SEQUENCE, STATES, pieces
from omsgrain.storage.tombstones import KEY_RECORD
from omsgrain.store import source_tombstones
from omsgrain.store.context import Context
from omsgrain.store.vectors import vectors_at

if TYPE_CHECKING:
    from omsgrain.crypto.seal import UserKeys

_NEVER = re.compile("\\A\ufeff|[\ud800-\udfff]")  # in a name that no string of OMS can be
_ANY = b"x"  # what the keys of all origins begin with
_SEALED = _core.term("sealed", None)
_LONGEST = 2_048  # bytes of the name of a tenant
_BEFORE = 12  # bytes of a place before its sequence number: time and address


class SourcedGrain(NamedTuple):
    """A grain that came from a document."""

    grain: Grain  # opened, if it is sealed
    # whether it was neither superseded nor withdrawn nor restricted, and has not expired
    current: bool
    expired: bool = False  # whether its end of life has come

    @property
    def address(self) -> str:
        """Its address in the store."""
        return self.grain.address

    @property
    def plain(self) -> str:
        """The address of its plain blob; an encrypted grain is stored under another."""
        return _core.address(self.grain.blob)

    def is_at(self, address: str) -> bool:
        """Whether an address is the grain's, or that of its plain blob."""
        return self.address == address or self.plain == address


class SourceSnapshot:
    """The grains of one user at one moment; ``open_sources`` opens it.

    Attributes:
        seq: the last sequence number given; whatever has a higher one came later.
        reader: the snapshot, in which encrypted grains are looked for under the user's key only.
    """

    def __init__(self, reader: Reader, user_id: str, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._user_id = normalize("NFC", user_id)
        self._user = _core.term("user_id", user_id)
        self.reader = self._plain = reader
        self._keys: UserKeys | None = None
        self.seq = reader.last_seq()
        if isinstance(reader, DecryptingReader):
            self.reader, self._plain = reader.narrowed(user_id, ()), reader.inner
            with suppress(RangeError):  # so long a user id has no keys
                self._keys = reader.ring.of_user(user_id)

    def find(self, ids: Iterable[str], which: Which = "all") -> dict[str, list[SourcedGrain]]:
        """Find the grains with these ids: the current ones first, then the newest."""
        found: dict[str, list[SourcedGrain]] = {}
        for name, seq in self._named(ids, which):
            one = self._own(seq)
            if one is None or (one.expired and which == "current"):
                continue
            # The index has only a hash of long names.
            if normalize("NFC", name) in names_of(one.grain):
                found.setdefault(name, []).append(one)
        for several in found.values():
            several.sort(key=lambda one: (one.current, one.grain.get("created_at", 0)))
            several.reverse()
        return found

    def _named(self, ids: Iterable[str], which: Which) -> Iterator[tuple[str, int]]:
        wanted = [name for name in dict.fromkeys(ids) if not _NEVER.search(name)]
        return chain(self._in_the_clear(wanted, which), self._under_keys(wanted, which))

    def _in_the_clear(self, ids: Sequence[str], which: Which) -> Iterator[tuple[str, int]]:
        plain, user = self._plain, self._user
        if not plain.term_count(user) or next(plain.keys(_ANY), None) is None:
            return
        for name in ids:
            for place in plain.places(_core.term("origin", name), None, True, which):
                if plain.has_term(user, place):
                    yield name, _seq(place)

    def _under_keys(self, ids: Sequence[str], which: Which) -> Iterator[tuple[str, int]]:
        keys = self._keys
        if keys is None:
            return
        if next(self._plain.rows(KEYED, prefix=keys.number), None) is None:
            return
        terms = [_core.term("origin", name) for name in ids]
        lists = [keys.number + token for token in _core.tokens(keys.token, terms)]
        for name, places in zip(ids, self._plain.suffixes(BLIND, lists), strict=True):
            for place in pieces(places, PLACE):
                seq = _seq(place)  # only the time of a place is masked
                if which == "all" or self._plain.is_past(seq) == (which == "past"):
                    yield name, seq

    def numbers(self, which: Which, origin: str | None = None) -> Iterator[int]:
        """Yield the sequence numbers of the user's grains; names that are too long share some.

        With an origin only of the grains with this id, which are looked up.

        Raises:
            KeyMissingError: the store has sealed grains, and was opened without keys.
        """
        check_keys(self.reader)
        if origin is not None:
            yield from (seq for _, seq in self._named([origin], which))
            return
        yield from map(_seq, self._plain.places(self._user, None, False, which))
        if self._keys is not None:
            for seq in seqs_of(self._plain, self._keys.number):
                if which == "all" or self._plain.is_past(seq) == (which == "past"):
                    yield seq

    def current(self) -> array[int]:
        """Return the sequence numbers of all current grains of the user."""
        over = self._ended
        return array("Q", (s for s in self.numbers("current") if over is None or not over(s)))

    def at(self, seqs: Iterable[int]) -> Iterator[SourcedGrain]:
        """Yield the user's grains with these sequence numbers."""
        return (one for one in map(self._own, seqs) if one is not None)

    def get(self, address: str) -> SourcedGrain | None:
        """Return one of the user's grains by its stored or its plain address."""
        (seq,) = self.reader.find([_core.parse_address(address)])
        return None if seq is None else self._own(seq)

    def expired(self, addresses: Iterable[str]) -> set[str]:
        """Return those addresses whose grains have come to the end of their lives."""
        if (over := self._ended) is None:
            return set()
        asked = list(addresses)
        seqs = self.reader.find([bytes.fromhex(address) for address in asked])
        pairs = zip(asked, seqs, strict=True)
        return {address for address, seq in pairs if seq is not None and over(seq)}

    def begins(self, prefix: str, created_at: int) -> SourcedGrain | None:
        """Return one of the user's grains by the beginning of its address in the store."""
        address = bytes(255 - byte for byte in bytes.fromhex(prefix[:12]))
        # A sealed grain does not show its time, and counts as of 1970 where its header tells.
        for term, time in ((self._user, created_at), (_SEALED, 0)):
            start = time.to_bytes(6, "big") + address
            for place in self._plain.places(term, start + bytes(PLACE - _BEFORE), False):
                if not place.startswith(start):
                    break
                one = self._own(_seq(place))
                if one is not None and one.address.startswith(prefix):
                    return one
        return None

    def vector(self, address: str, model: str) -> bytes | None:
        """Return the vector of a grain under a model: float32, little-endian."""
        (seq,) = self.reader.find([_core.parse_address(address)])
        found = None if seq is None else vectors_at(self.reader, seq).get(model)
        return None if found is None else pack(found)

    def part(self, address: str) -> Grain:
        """Return a grain of the user that another one names."""
        found = self.get(address)
        if found is None:
            raise NotFoundError("a part of a record is not in the store", expected=address)
        return found.grain

    def erased(
        self, records: Iterable[tuple[str, str]], *, format: str
    ) -> frozenset[tuple[str, str]]:
        """Return which of the user's records were erased, by kind and id."""
        if self._plain.row(META, KEY_RECORD) is None:
            return frozenset()  # the store has no tombstones
        asked = list(dict.fromkeys(records))
        gone = source_tombstones.erased(self._plain, self._user_id, asked, format=format)
        return frozenset(record for record, erased in zip(asked, gone, strict=True) if erased)

    def is_withdrawn(self, found: SourcedGrain) -> bool:
        """Return whether a past grain was retracted or restricted; if not, it was superseded."""
        (seq,) = self.reader.find([_core.parse_address(found.address)])
        row = None if seq is None else self._plain.row(STATES, SEQUENCE.pack(seq))
        return row is not None and bool(row[0] & (RETRACTED | RESTRICTED))

    def grain(self, seq: int) -> Grain | None:
        """Return one of the user's grains by its sequence number, opened."""
        grain = self.reader.grain(seq)
        if grain is None or grain.sealed or grain.get("user_id") != self._user_id:
            return None  # the index has only a hash of long names
        return grain

    def _own(self, seq: int) -> SourcedGrain | None:
        grain = self.grain(seq)
        if grain is None:
            return None
        expired = self._ended is not None and self._ended(seq)
        return SourcedGrain(grain, not (expired or self._plain.is_past(seq)), expired)

    @cached_property
    def _ended(self) -> Ended | None:
        return ended(self._plain, self._clock)


def check_keys(reader: Reader) -> None:
    """Refuse a store with encrypted grains that was opened without keys.

    Without keys it is not known to whom those grains belong.
    """
    if isinstance(reader, DecryptingReader):
        return
    if next(reader.places(_SEALED, None, False), None) is not None:
        raise KeyMissingError("the store has sealed grains, and was opened without keys")


def check_tenant(tenant: str) -> None:
    """Refuse what cannot be the ``user_id`` of a grain."""
    try:
        good = isinstance(tenant, str) and 0 < len(tenant.encode()) <= _LONGEST
    except UnicodeEncodeError:
        good = False
    if not good:
        raise SchemaError(
            "not whose memory it is",
            field="/tenant",
            expected=f"1 to {_LONGEST} bytes of text",
            rule="invalid_tenant",
        )


def _seq(place: bytes) -> int:
    return int.from_bytes(place[_BEFORE:PLACE], "big")


@contextmanager
def open_sources(context: Context, user_id: str) -> Iterator[SourceSnapshot]:
    """Open a snapshot in which the grains of a user are found by their origins; keep it short."""
    with context.storage.read() as reader:
        yield SourceSnapshot(reader, user_id, context.settings.clock)
