# SPDX-License-Identifier: Apache-2.0
"""Which grains have a term: the rows of the index tables, and those beyond the watermark.

On disk a grain's rows stand among the current ones or among the past ones. Beyond the watermark
all rows are kept together, and each grain is asked for when it is met: is its blob still there,
and what does its state say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from omsgrain.store.base import Which
from omsgrain.store.recent import Recent
from omsgrain.store.state import PAST
from omsgrain.store.tables import (
    ADDRESSES,
    BLOBS,
    PAST_TERMS,
    SEQUENCE,
    STATES,
    TERMS,
    Table,
)

if TYPE_CHECKING:
    from lmdb import Cursor, Transaction, _Database

__all__ = ["Head", "TermReader"]

_WHERE: dict[Which, tuple[Table, ...]] = {
    "current": (TERMS,),
    "past": (PAST_TERMS,),
    "all": (TERMS, PAST_TERMS),
}

_PLACES = 16, 256  # places read from LMDB at a time, at first and at the most


class Head(NamedTuple):
    """How far a store has come.

    Attributes:
        last_seq: the last sequence number given.
        blob_bytes: bytes of all blobs.
        grains: how many there are.
        watermark: the last sequence number that the index tables cover.
    """

    last_seq: int = 0
    blob_bytes: int = 0
    grains: int = 0
    watermark: int = 0


class TermReader:
    """The index as one transaction sees it."""

    __slots__ = ("_plain", "_tables", "_txn", "_whole", "head", "recent")

    _txn: Transaction[bytes]
    _tables: dict[Table, _Database]
    _plain: bool | None
    _whole: bool | None
    head: Head
    recent: Recent

    def term_count(self, key: bytes, which: Which = "all") -> int:
        """Return how many grains have a term; at least so many as can be seen."""
        found = 0
        for table in _WHERE[which]:
            with self._txn.cursor(self._tables[table]) as cursor:
                found += cursor.count() if cursor.set_key(key) else 0
        if which == "past" and self._is_plain():
            return found
        return found + sum(part.count(key, low, high) for part, low, high in self._parts())

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each of some terms."""
        return [self.term_count(key, which) for key, which in terms]

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        """Tell whether the grain at a place has a term, and is one of ``which``."""
        if int.from_bytes(place[12:], "big") > self.head.watermark:
            has = any(part.tail.has(key, place) for part, _, _ in self._parts())
            return has and any(self._seen(iter((place,)), which))
        for table in _WHERE[which]:
            with self._txn.cursor(self._tables[table]) as cursor:
                if cursor.set_key_dup(key, place):
                    return True
        return False

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        """Walk the grains that have a term, in order, from behind a place."""
        walks: list[Iterator[bytes]] = [
            self._disk_places(table, key, after, newest) for table in _WHERE[which]
        ]
        recent = [one for one in self._parts() if one[0].tail.count(key)]
        if recent:  # where nothing is on disk: to merge costs as much as all the rest
            heads = [(next(walk, None), walk) for walk in walks]
            walks = [chain((first,), walk) for first, walk in heads if first is not None]
        for part, low, high in recent:
            walks.append(self._seen(part.places(key, after, newest, low, high), which))
        return walks[0] if len(walks) == 1 else merge(*walks, reverse=newest)

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        """Walk the terms whose keys begin with a prefix, each once, sorted."""
        walks = [self._disk_keys(table, prefix) for table in _WHERE[which]]
        walks += [self._recent_keys(*part, prefix, which) for part in self._parts()]
        return (key for key, _ in groupby(merge(*walks)))

    def _disk_places(
        self, table: Table, key: bytes, after: bytes | None, newest: bool
    ) -> Iterator[bytes]:
        with self._txn.cursor(self._tables[table]) as cursor:
            if after is None:
                there = cursor.set_key(key) and (not newest or cursor.last_dup())
            elif newest:
                # The first place that is not before `after`, and one back; or the last of all.
                beyond = cursor.set_range_dup(key, after)
                there = cursor.prev_dup() if beyond else cursor.set_key(key) and cursor.last_dup()
            else:
                there = cursor.set_range_dup(key, after)
                if there and cursor.value() == after:
                    there = cursor.next_dup()
            if not there:
                return
            walk = cursor.iterprev_dup() if newest else cursor.iternext_dup()
            most, longest = _PLACES
            while page := list(islice(walk, most)):
                yield from page
                most = min(4 * most, longest)

    def _disk_keys(self, table: Table, prefix: bytes) -> Iterator[bytes]:
        with self._txn.cursor(self._tables[table]) as cursor:
            there = cursor.set_range(prefix)
            while there:
                key = cursor.key()
                if not key.startswith(prefix):
                    return
                yield key
                # Sought anew, since a writer may have moved the rows of this one.
                there = cursor.set_range(key) and (cursor.key() != key or cursor.next_nodup())

    def _recent_keys(
        self, part: Recent, low: int, high: int, prefix: bytes, which: Which
    ) -> Iterator[bytes]:
        for key in part.keys(prefix):
            if any(self._seen(part.places(key, None, True, low, high), which)):
                yield key

    def _parts(self) -> list[tuple[Recent, int, int]]:
        """The recent grains with their index rows, and between which numbers this may see them."""
        raise NotImplementedError

    def _seen(self, places: Iterator[bytes], which: Which) -> Iterator[bytes]:
        """Of places beyond the watermark, those whose grains are there and one of ``which``."""
        if self._is_plain():
            return iter(()) if which == "past" else places
        return (place for place in places if self._is_seen(place, which))

    def _is_seen(self, place: bytes, which: Which) -> bool:
        seq = int.from_bytes(place[12:], "big")
        if not self.has_blob(seq):
            return False
        return which == "all" or self.is_past(seq) == (which == "past")

    def _is_plain(self) -> bool:
        """Whether all grains known beyond the watermark are there, and nothing is said of any."""
        if self._plain is None:
            with self._txn.cursor(self._tables[STATES]) as cursor:
                stated = cursor.last() and cursor.key() > SEQUENCE.pack(self.head.watermark)
            self._plain = not stated and self._is_whole()
        return self._plain

    def _is_whole(self) -> bool:
        """Whether all grains known beyond the watermark are there, and so none was removed."""
        if self._whole is None:
            there = self.head.grains - self.entries(ADDRESSES)
            self._whole = self.recent.known(self.head.last_seq) == there
        return self._whole

    def is_past(self, seq: int) -> bool:
        """Tell whether a grain was superseded, retracted or restricted."""
        row = self._txn.get(SEQUENCE.pack(seq), None, self._tables[STATES])
        return bool(row and row[0] & PAST)

    def has_blob(self, seq: int) -> bool:
        """Tell whether there is a grain with a sequence number, without reading it."""
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            return cursor.set_key(SEQUENCE.pack(seq))

    def getter(self, table: Table) -> Callable[[bytes], bytes | None]:
        """Return a function that gives the value of a key, for passes over a whole table."""
        get, handle = self._txn.get, self._tables[table]
        return lambda key: get(key, None, handle)

    def cursor(self, table: Table) -> Cursor[bytes]:
        """Return a cursor on a table, for passes that would open thousands; close it."""
        return self._txn.cursor(self._tables[table])

    def entries(self, table: Table) -> int:
        """Return the number of rows of a table."""
        return int(self._txn.stat(self._tables[table])["entries"])
