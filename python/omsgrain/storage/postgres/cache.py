# SPDX-License-Identifier: Apache-2.0
"""Answers that are kept, so that a question is not a round trip each.

A query walks one list, and asks of each grain whether it is in the others, what became of it, and
what it says. The walk has read its places by pages, and when the first of a page is asked about,
the rest of the page is about to be: so the question is put for all of them, and the answers are
kept as long as the page is. This holds in a snapshot, where answers do not change.

A write transaction keeps small tables: it alone writes to the store while it lasts. A work on a
thousand grains asks of each whether it is held, guarded, signed and so on, and most stores have
few such rows, or none. A table that is asked a second time is read whole if it is small, and
answers from then on, with what the transaction itself has changed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from omsgrain.storage.base import Which
from omsgrain.storage.tables import SEQUENCE, Table

_PAGES = 72  # pages kept: a query may walk 64 lists side by side
_GRAINS = 16, 128  # grains read at once, at first and at the most
_PLACES = 16  # places read at first, where not all that are met will be wanted


class _Has(Protocol):
    def __call__(self, key: bytes, places: list[bytes], which: Which, /) -> set[bytes]: ...


class ExpectedPlaces(NamedTuple):
    """What will be asked of the places of the next walk."""

    grains: int  # how many of those that have all terms will be read
    terms: tuple[bytes, ...]  # what each is looked up in
    states: bool  # whether its state is asked

    @property
    def places(self) -> int:
        """How many to read at first: one more tells whether the walk goes on."""
        wanted = min(self.grains + 1, _GRAINS[1])
        return max(4 * wanted, _PLACES) if self.terms or self.states else wanted

    def blobs(self, places: int) -> bool:
        """Whether blobs come with a page of so many places."""
        return 0 < self.grains and places <= 2 * _GRAINS[1]


class _Page:
    """Places that were read together, and what is known of them."""

    __slots__ = "at", "blobs", "came", "grains", "has", "held", "places", "states", "states_from"

    def __init__(self, places: list[bytes]) -> None:
        self.places = places
        self.at = {place[12:]: i for i, place in enumerate(places)}
        self.has: dict[tuple[bytes, Which], tuple[int, set[bytes]]] = {}
        self.states: dict[bytes, bytes] = {}
        self.states_from: int | None = None
        self.came: dict[int, bytes] = {}  # blobs, with the places
        self.blobs: dict[int, bytes] = {}
        self.held = 0, 0  # from which place, and up to which
        self.grains = _GRAINS[0]

    def numbers(self, first: int, last: int | None = None) -> list[int]:
        return [int.from_bytes(place[12:], "big") for place in self.places[first:last]]


class Prefetch:
    """Answers about the grains of the pages that were read last."""

    def __init__(
        self,
        has: _Has,
        states: Callable[[list[bytes]], dict[bytes, bytes]],
        blobs: Callable[[list[int]], dict[int, bytes]],
    ) -> None:
        self._has, self._states, self._blobs = has, states, blobs
        self._pages: deque[_Page] = deque()
        self._page_of: dict[bytes, _Page] = {}  # by the ends of places: their numbers

    def expect(
        self,
        places: list[bytes],
        *,
        has: dict[tuple[bytes, Which], set[bytes]] | None = None,
        states: dict[bytes, bytes] | None = None,
        blobs: dict[int, bytes] | None = None,
    ) -> None:
        """Say that a page was read."""
        page = _Page(places)
        if has is not None:
            page.has = {one: (0, found) for one, found in has.items()}
        if states is not None:
            page.states, page.states_from = states, 0
        if blobs is not None:
            page.came = blobs
        self._pages.append(page)
        self._page_of.update(dict.fromkeys(page.at, page))
        if len(self._pages) > _PAGES:
            old = self._pages.popleft()
            for end in old.at:
                if self._page_of.get(end) is old:
                    del self._page_of[end]

    def has(self, key: bytes, place: bytes, which: Which) -> bool | None:
        """Whether the grain at a place has a term; None if it is of no page."""
        page = self._page_of.get(place[12:])
        if page is None:
            return None
        index = page.at[place[12:]]
        if page.places[index] != place:
            return None
        known = page.has.get((key, which))
        if known is None or index < known[0]:
            found = self._has(key, page.places[index:], which)
            known = page.has[key, which] = index, found
        return place in known[1]

    def state(self, key: bytes) -> tuple[bytes | None] | None:
        """The row of a grain's state, which may be none; None if it is of no page."""
        page = self._page_of.get(key[-4:]) if key[:4] == bytes(4) else None
        if page is None or len(key) != SEQUENCE.size:
            return None
        index = page.at[key[-4:]]
        if page.states_from is None or index < page.states_from:
            page.states = self._states([bytes(4) + place[12:] for place in page.places[index:]])
            page.states_from = index
        return (page.states.get(key),)

    def blob(self, seq: int) -> tuple[bytes | None] | None:
        """The blob of a grain, which may be gone; None if it is of no page.

        Grains are large: they are read few at first, and let go of when the next ones are.
        """
        end = SEQUENCE.pack(seq)[-4:]
        page = self._page_of.get(end) if seq < 1 << 32 else None
        if page is None:
            return None
        if seq in page.came:
            return (page.came[seq],)
        index = page.at[end]
        first, last = page.held
        if index < first:
            return None  # read before, and let go of
        if index >= last:
            page.held = index, index + page.grains
            page.blobs = self._blobs(page.numbers(*page.held))
            page.grains = min(2 * page.grains, _GRAINS[1])
        return (page.blobs.get(seq),)

    def brought(self, numbers: list[int]) -> dict[int, bytes]:
        """The blobs of those of some grains that came along with their places."""
        found = {}
        for seq in numbers:
            page = self._page_of.get(SEQUENCE.pack(seq)[-4:])
            if page is not None and seq in page.came:
                found[seq] = page.came[seq]
        return found


class AddressPrefetch:
    """The grains at some addresses, which are asked for in their order: read few at first."""

    def __init__(self, read: Callable[[list[bytes]], dict[bytes, tuple[int, bytes]]]) -> None:
        self._read = read
        self._order: list[bytes] = []
        self._at: dict[bytes, int] = {}
        self._held = 0, 0
        self._grains = _GRAINS[0]
        self._known: dict[bytes, tuple[int, bytes]] = {}
        self._blobs: dict[int, bytes] = {}

    def expect(self, digests: Sequence[bytes]) -> None:
        """Say which will be asked for."""
        self._order = [*digests]
        self._at = {digest: i for i, digest in enumerate(digests)}
        self._held, self._grains = (0, 0), _GRAINS[0]

    def find(self, digest: bytes) -> tuple[int | None] | None:
        """The number of a grain, which may not be there; None if it is not expected."""
        index = self._at.get(digest)
        if index is None:
            return None
        first, last = self._held
        if not first <= index < last:
            self._held = index, index + self._grains
            self._known = self._read(self._order[index : index + self._grains])
            self._blobs = dict(self._known.values())
            self._grains = min(2 * self._grains, _GRAINS[1])
        found = self._known.get(digest)
        return (None if found is None else found[0],)

    def blob(self, seq: int) -> bytes | None:
        """The blob of a grain that was read together with the last one that was found."""
        return self._blobs.get(seq)


_FEW = 2_048  # rows of a table that is read whole
_BLOBS = 16 << 20  # bytes of blobs kept


class WriteCache:
    """Small tables, and blobs that were read."""

    def __init__(self, tables: dict[Table, dict[bytes, bytes]]) -> None:
        self._tables = tables
        self._met: set[Table] = set()
        self._large: set[Table] = set()
        self._blobs: dict[int, bytes] = {}
        self._size = 0

    def table(
        self, table: Table, read: Callable[[int], Iterable[tuple[bytes, bytes]]]
    ) -> dict[bytes, bytes] | None:
        """All rows of a table, where they are few and not asked for the first time."""
        found = self._tables.get(table)
        if found is None and table not in self._large:
            if table not in self._met:
                self._met.add(table)
                return None
            rows = dict(read(_FEW + 1))
            if len(rows) <= _FEW:
                found = self._tables[table] = rows
            else:
                self._large.add(table)
        return found

    def set(self, table: Table, key: bytes, value: bytes | None) -> bool:
        """Note a change; tell whether it is one, as far as that is known."""
        rows = self._tables.get(table)
        if rows is None:
            return True
        if value is None:
            return rows.pop(key, None) is not None
        rows[key] = value
        return True

    def forget(self, tables: Iterable[Table]) -> None:
        """Hold some tables no longer: they were changed by a statement."""
        for table in tables:
            self._tables.pop(table, None)

    def blob(self, seq: int) -> bytes | None:
        """A blob that was read, and is there."""
        return self._blobs.get(seq)

    def keep(self, seq: int, blob: bytes) -> None:
        """Keep a blob that was read."""
        self._size += len(blob)
        if self._size > _BLOBS:
            self._blobs, self._size = {}, len(blob)
        self._blobs[seq] = blob

    def drop(self, seq: int) -> None:
        """Forget a blob that is removed."""
        self._blobs.pop(seq, None)


def walked(
    rows: dict[bytes, bytes], after: bytes | None, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Walk rows that are held by rising keys; those that go meanwhile are not met."""
    for key in sorted(key for key in rows if key.startswith(prefix)):
        if (after is None or key > after) and (value := rows.get(key)) is not None:
            yield key, value
