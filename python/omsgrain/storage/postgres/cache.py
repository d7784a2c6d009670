# SPDX-License-Identifier: Apache-2.0
"""Caches of answers, to save round trips.

A query iterates over one list, and then looks up each grain in the others, its state and its
content. Places are read in pages. The first look-up for a page reads the answers for the rest of
the page too, and they are cached as long as the page. This is safe in a snapshot.

A write transaction caches small tables, because no other transaction writes to the store
meanwhile. A work on a thousand grains asks for each whether it is held, guarded, signed and so on,
and most stores have few such rows. A small table is read completely on its second use. Then the
cache answers, including the changes of the transaction itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from omsgrain.storage.base import Which
from omsgrain.storage.tables import SEQUENCE, Table

_PAGES = 72  # pages to cache: a query may read 64 lists in parallel
_GRAINS = 16, 128  # grains to read at once, at first and at most
_PLACES = 16  # places to read first, if only some will match


class _Has(Protocol):
    def __call__(self, key: bytes, places: list[bytes], which: Which, /) -> set[bytes]: ...


class ExpectedPlaces(NamedTuple):
    """The announced reads for the places of the next iteration."""

    grains: int  # number of grains with all terms that will be read
    terms: tuple[bytes, ...]  # the terms to look up for each
    states: bool  # whether states will be read

    @property
    def places(self) -> int:
        """The number of places to read first; one more shows whether the iteration continues."""
        wanted = min(self.grains + 1, _GRAINS[1])
        return max(4 * wanted, _PLACES) if self.terms or self.states else wanted

    def blobs(self, places: int) -> bool:
        """Whether to fetch blobs with a page of so many places."""
        return 0 < self.grains and places <= 2 * _GRAINS[1]


class _Page:
    __slots__ = "at", "blobs", "came", "grains", "has", "held", "places", "states", "states_from"

    def __init__(self, places: list[bytes]) -> None:
        self.places = places
        self.at = {place[12:]: i for i, place in enumerate(places)}
        self.has: dict[tuple[bytes, Which], tuple[int, set[bytes]]] = {}
        self.states: dict[bytes, bytes] = {}
        self.states_from: int | None = None
        self.came: dict[int, bytes] = {}  # blobs fetched with the places
        self.blobs: dict[int, bytes] = {}
        self.held = 0, 0  # the first and last cached place
        self.grains = _GRAINS[0]

    def numbers(self, first: int, last: int | None = None) -> list[int]:
        return [int.from_bytes(place[12:], "big") for place in self.places[first:last]]


class Prefetch:
    """Cached answers about the grains of the latest pages."""

    def __init__(
        self,
        has: _Has,
        states: Callable[[list[bytes]], dict[bytes, bytes]],
        blobs: Callable[[list[int]], dict[int, bytes]],
    ) -> None:
        self._has, self._states, self._blobs = has, states, blobs
        self._pages: deque[_Page] = deque()
        self._page_of: dict[bytes, _Page] = {}  # by the ends of places, which are numbers

    def expect(
        self,
        places: list[bytes],
        *,
        has: dict[tuple[bytes, Which], set[bytes]] | None = None,
        states: dict[bytes, bytes] | None = None,
        blobs: dict[int, bytes] | None = None,
    ) -> None:
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
        """Whether the grain at a place has a term; None if no page has it."""
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
        """Return the row of a grain's state, or None inside; None if no page has it."""
        page = self._page_of.get(key[-4:]) if key[:4] == bytes(4) else None
        if page is None or len(key) != SEQUENCE.size:
            return None
        index = page.at[key[-4:]]
        if page.states_from is None or index < page.states_from:
            page.states = self._states([bytes(4) + place[12:] for place in page.places[index:]])
            page.states_from = index
        return (page.states.get(key),)

    def blob(self, seq: int) -> tuple[bytes | None] | None:
        """Return the blob of a grain, or None inside; None if no page has it.

        Blobs are large, so few are read at first, and only the latest are cached.
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
            return None  # read before, and dropped
        if index >= last:
            page.held = index, index + page.grains
            page.blobs = self._blobs(page.numbers(*page.held))
            page.grains = min(2 * page.grains, _GRAINS[1])
        return (page.blobs.get(seq),)

    def brought(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Return the blobs that were fetched with their places."""
        found = {}
        for seq in numbers:
            page = self._page_of.get(SEQUENCE.pack(seq)[-4:])
            if page is not None and seq in page.came:
                found[seq] = page.came[seq]
        return found


_FEW = 2_048  # maximum rows of a cached table
_BLOBS = 16 << 20  # bytes of blobs to cache


class WriteCache:
    """Cached small tables and blobs of a write transaction."""

    def __init__(self, tables: dict[Table, dict[bytes, bytes]]) -> None:
        self._tables = tables
        self._met: set[Table] = set()
        self._large: set[Table] = set()
        self._blobs: dict[int, bytes] = {}
        self._size = 0

    def table(
        self, table: Table, read: Callable[[int], Iterable[tuple[bytes, bytes]]]
    ) -> dict[bytes, bytes] | None:
        """Return all rows of a small table from its second use on, or else None."""
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
        """Cache a change; returns whether it changes anything, as far as known."""
        rows = self._tables.get(table)
        if rows is None:
            return True
        if value is None:
            return rows.pop(key, None) is not None
        rows[key] = value
        return True

    def forget(self, tables: Iterable[Table]) -> None:
        """Drop tables that a statement has changed."""
        for table in tables:
            self._tables.pop(table, None)

    def blob(self, seq: int) -> bytes | None:
        return self._blobs.get(seq)

    def keep(self, seq: int, blob: bytes) -> None:
        self._size += len(blob)
        if self._size > _BLOBS:
            self._blobs, self._size = {}, len(blob)
        self._blobs[seq] = blob

    def drop(self, seq: int) -> None:
        self._blobs.pop(seq, None)


def walked(
    rows: dict[bytes, bytes], after: bytes | None, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Iterate over cached rows by rising keys; rows removed meanwhile are left out."""
    for key in sorted(key for key in rows if key.startswith(prefix)):
        if (after is None or key > after) and (value := rows.get(key)) is not None:
            yield key, value
