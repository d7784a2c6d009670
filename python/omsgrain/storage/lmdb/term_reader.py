# SPDX-License-Identifier: Apache-2.0
"""The term lists of a snapshot: the index tables, and the memtable beyond the watermark.

A store in memory has memtables only.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from heapq import merge
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.storage.base import Reader, Which, next_places
from omsgrain.storage.lmdb.memtable import Memtable
from omsgrain.storage.tables import FINGERPRINTS, LONGEST_KEY, PAST_TERMS, TERMS, Table

if TYPE_CHECKING:
    from lmdb import Transaction, _Database


_WHERE: dict[Which, tuple[Table, ...]] = {
    "current": (TERMS,),
    "past": (PAST_TERMS,),
    "all": (TERMS, PAST_TERMS),
}

_ENDS = b"\xff" * LONGEST_KEY  # behind a prefix, above all keys that begin so
_PRINT, _PLACE = 17, 16  # bytes of the key of a fingerprint, and of a place
_PLACES = 16, 256  # places read from LMDB at a time, at first and at the most


class StoreHead(NamedTuple):
    """How far a store has come."""

    last_seq: int = 0  # the last sequence number given
    blob_bytes: int = 0  # bytes of all blobs
    grains: int = 0  # how many there are
    watermark: int = 0  # the last sequence number that the index tables cover


class TermReader(Reader):
    """The index as one transaction sees it."""

    __slots__ = ("_last_bucket", "_plain", "_tables", "_txn", "_whole", "head", "memtable")

    _where: ClassVar[Mapping[Which, tuple[Table, ...]]] = _WHERE  # a store in memory has none
    _txn: Transaction[bytes]
    _tables: dict[Table, _Database]
    _plain: bool | None
    _whole: bool | None
    # the bucket of fingerprints that was read last: its key, of which grains, its places
    _last_bucket: tuple[bytes, Which, dict[bytes, list[bytes]]] | None
    head: StoreHead
    memtable: Memtable

    def term_count(self, key: bytes, which: Which = "all") -> int:
        if len(key) == _PRINT and _core.bucket(key) is not None:
            return sum(1 for _ in self._prints(key, which))
        found = 0
        for table in self._where[which]:
            with self._txn.cursor(self._tables[table]) as cursor:
                found += cursor.count() if cursor.set_key(key) else 0
        if which == "past" and self._is_plain():
            return found
        return found + sum(part.count(key, low, high) for part, low, high in self._parts())

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        if int.from_bytes(place[12:], "big") > self.head.watermark:
            has = any(part.tail.has(key, place) for part, _, _ in self._parts())
            return has and any(self._seen(iter((place,)), which))
        for table in self._where[which]:
            with self._txn.cursor(self._tables[table]) as cursor:
                if cursor.set_key_dup(key, place):
                    return True
        return False

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        if len(key) == _PRINT and _core.bucket(key) is not None:
            return self._prints(key, which, after, newest)
        walks: list[Iterator[bytes]] = [
            self._disk_places(table, key, after, newest) for table in self._where[which]
        ]
        memtable = [one for one in self._parts() if one[0].tail.count(key)]
        if memtable:  # where nothing is on disk: to merge costs as much as all the rest
            heads = [(next(walk, None), walk) for walk in walks]
            walks = [chain((first,), walk) for first, walk in heads if first is not None]
        for part, low, high in memtable:
            walks.append(self._seen(part.places(key, after, newest, low, high), which))
        return walks[0] if len(walks) == 1 else merge(*walks, reverse=newest)

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        walks = [self._disk_keys(table, prefix) for table in self._where[which]]
        walks += [self._recent_keys(*part, prefix, which) for part in self._parts()]
        found = (key for key, _ in groupby(merge(*walks)))
        return self._print_keys(found, which) if prefix == FINGERPRINTS else found

    def _prints(
        self, key: bytes, which: Which, after: bytes | None = None, newest: bool = False
    ) -> Iterator[bytes]:
        """Walk the places of a fingerprint, which shares its bucket with others."""
        found = _core.bucket(key)
        assert found is not None, "the caller looked"
        bucket, part = found
        last = self._last_bucket
        walked = last is not None and last[:2] == (bucket, which)
        if last is not None and walked:
            places = last[2].get(key[1:], [])
        else:
            places = sorted(self._places_with(bucket, part, which))
        for place in reversed(places) if newest else places:
            if after is None or (place < after if newest else place > after):
                # Others may have the same first bytes.
                if walked or self._print_of(int.from_bytes(place[12:], "big")) == key[1:]:
                    yield place

    def _places_with(self, bucket: bytes, part: bytes, which: Which) -> Iterator[bytes]:
        """Walk the places of a bucket that have these bytes of a fingerprint."""
        size = len(bucket) + _PLACE
        for table in self._where[which]:
            with self._txn.cursor(self._tables[table]) as cursor:
                rows = bytes(
                    cursor.getmulti([bucket], dupdata=True, dupfixed_bytes=_PLACE, keyfixed=True)
                )
            at = rows.find(part)
            while at >= 0:
                row, offset = divmod(at, size)
                if offset == len(bucket) + 6:
                    yield rows[row * size + len(bucket) : (row + 1) * size]
                at = rows.find(part, at + 1)
        for memtable, low, high in self._parts():
            if memtable.tail.count(bucket):
                recent = memtable.places(bucket, None, False, low, high)
                yield from self._seen((p for p in recent if p[6:12] == part), which)

    def _print_keys(self, buckets: Iterator[bytes], which: Which) -> Iterator[bytes]:
        """Iterate over the fingerprints of some buckets, in order."""
        for bucket in buckets:
            prints = self._bucket(bucket, which)
            yield from (FINGERPRINTS + found for found in sorted(prints))

    def _bucket(self, bucket: bytes, which: Which) -> dict[bytes, list[bytes]]:
        """Return the places of a bucket by fingerprint, for a walk over all."""
        prints: dict[bytes, list[bytes]] = {}
        for place in self.places(bucket, None, False, which):
            found = self._print_of(int.from_bytes(place[12:], "big"))
            if found is not None:
                prints.setdefault(found, []).append(place)
        self._last_bucket = bucket, which, prints
        return prints

    def _print_of(self, seq: int) -> bytes | None:
        blob = self.blob_at(seq)
        if blob is None:
            return None
        try:
            return _core.fingerprint(blob)
        except OmsError:  # damaged; a check of the store reports it
            return None

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
                # Looked up again, since a writer may have moved the rows of this one.
                there = cursor.set_range(key) and (cursor.key() != key or cursor.next_nodup())

    def _recent_keys(
        self, part: Memtable, low: int, high: int, prefix: bytes, which: Which
    ) -> Iterator[bytes]:
        for key in part.keys(prefix, prefix + _ENDS):
            if any(self._seen(part.places(key, None, True, low, high), which)):
                yield key

    def places_between(
        self, first: bytes, last: bytes, after: bytes | None, newest: bool, which: Which, most: int
    ) -> list[bytes]:
        return next_places(self._between(first, last, which), after, newest, most)

    def count_between(self, first: bytes, last: bytes, which: Which, most: int) -> int:
        return sum(1 for _ in islice(self._between(first, last, which), most))

    def _between(self, first: bytes, last: bytes, which: Which) -> Iterator[bytes]:
        """Walk the places under all terms from one to another, in any order."""
        for table in self._where[which]:
            with self._txn.cursor(self._tables[table]) as cursor:
                if cursor.set_range(first):
                    for key, place in cursor:
                        if key > last:
                            break
                        yield place
        for part, low, high in self._parts():
            yield from self._seen(part.between(first, last, low, high), which)

    @abstractmethod
    def _parts(self) -> list[tuple[Memtable, int, int]]:
        """The memtables with index rows, each with the range of numbers that this may see."""

    @abstractmethod
    def _is_plain(self) -> bool:
        """Whether all grains known beyond the watermark are there, and nothing is said of any."""

    @abstractmethod
    def has_blob(self, seq: int) -> bool: ...

    @abstractmethod
    def is_past(self, seq: int) -> bool: ...

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
