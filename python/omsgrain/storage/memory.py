# SPDX-License-Identifier: Apache-2.0
"""A storage in memory, for tests and small temporary stores."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from heapq import merge
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from omsgrain import _core
from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.storage.base import (
    PAGE_BYTES,
    PAGE_GRAINS,
    CheckProblem,
    CheckReport,
    CompactReport,
    Reader,
    RebuildReport,
    Sidecar,
    StoreStats,
    Which,
    Writer,
    dropped,
    next_places,
    pages,
    see_open,
)
from omsgrain.storage.indexed_paths import rows_with
from omsgrain.storage.lmdb.memtable import Memtable
from omsgrain.storage.records import forget
from omsgrain.storage.tables import (
    ADDRESSES,
    BLOBS,
    INDEXED_RECORD,
    LONGEST_KEY,
    META,
    SEQUENCE,
    TABLES,
    Table,
)


class MvccTable:
    """Keys with versions of their values, by commit; None if a key has no value.

    One thread writes at a time while others read: what they may hold is never shortened or
    reordered.
    """

    __slots__ = ("_lock", "_order", "_rows")

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[tuple[int, bytes | None], ...]] = {}
        self._order: list[bytes] | None = []  # the sorted keys; None if they must be sorted again
        self._lock = threading.Lock()

    def get(self, key: bytes, commit: int) -> bytes | None:
        for since, value in reversed(self._rows.get(key, ())):
            if since <= commit:
                return value
        return None

    def set(self, key: bytes, value: bytes | None, commit: int) -> None:
        """Set the value from a commit on, which is not before the last one."""
        before = self._rows.get(key)
        if before is not None:
            self._rows[key] = (*(v for v in before if v[0] != commit), (commit, value))
            return
        with self._lock:
            self._rows[key] = ((commit, value),)
            if self._order and key < self._order[-1]:
                self._order = None
            elif self._order is not None:
                self._order.append(key)  # numbers rise, so most tables are never sorted

    def take_back(self, key: bytes, commit: int) -> None:
        self._keep(key, tuple(v for v in self._rows.get(key, ()) if v[0] != commit))

    def prune(self, key: bytes, oldest: int) -> bool:
        """Drop the values that no snapshot from ``oldest`` on can see."""
        versions = self._rows.get(key, ())
        while len(versions) > 1 and versions[1][0] <= oldest:
            versions = versions[1:]
        if len(versions) == 1 and versions[0][1] is None and versions[0][0] <= oldest:
            versions = ()
        self._keep(key, versions)
        return not versions or (len(versions) == 1 and versions[0][1] is not None)

    def _keep(self, key: bytes, versions: tuple[tuple[int, bytes | None], ...]) -> None:
        if versions:
            self._rows[key] = versions
        else:
            with self._lock:
                if self._rows.pop(key, None) is not None:
                    self._order = None

    def walk(
        self, after: bytes | None, prefix: bytes, commit: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over keys with a prefix after a key, as of a commit, by rising keys."""
        order = self._sorted()
        start = bisect_left(order, prefix)
        if after is not None:
            start = max(start, bisect_right(order, after))
        for i in range(start, len(order)):
            key = order[i]
            if not key.startswith(prefix):
                return
            value = self.get(key, commit)
            if value is not None:
                yield key, value

    def last(self, commit: int) -> tuple[bytes, bytes] | None:
        for key in reversed(self._sorted()):
            value = self.get(key, commit)
            if value is not None:
                return key, value
        return None

    def _sorted(self) -> list[bytes]:
        with self._lock:
            if self._order is None:
                self._order = sorted(self._rows)
            return self._order


T = TypeVar("T")


class _Head(NamedTuple):
    """The committed state: later versions of rows belong to an open transaction."""

    commit: int = 0
    last_seq: int = 0
    blob_bytes: int = 0
    grains: int = 0


_Tables = dict[Table, MvccTable]


class MemoryStorage:
    readonly = False
    name = ":memory:"
    sidecar = Sidecar()

    def __init__(self) -> None:
        self._written: Callable[[], None] | None = None
        self._tables = _tables()
        self._memtable = Memtable(0, buckets=False)  # the whole index
        self._head = _Head()
        self._snapshots: Counter[int] = Counter()  # open snapshots by commit
        self._changed: set[tuple[Table, bytes]] = set()  # rows with versions to prune
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._writer: int | None = None
        self._closed = False
        self._process = os.getpid()

    @contextmanager
    def read(self) -> Iterator[Reader]:
        self._check_open()
        with self._lock:
            head = self._head
            reader = _MemoryReader(self._tables, head, self._memtable)
            self._snapshots[head.commit] += 1
        try:
            yield reader
        finally:
            with self._lock:
                self._snapshots[head.commit] -= 1

    def write(
        self,
        work: Callable[[Writer], T],
        *,
        expecting: Sequence[bytes] = (),
        alone: bool = False,
    ) -> T:
        if self._writer == threading.get_ident():
            raise StoreError("this thread has a write transaction already")
        with self._exclusive():
            self._writer = threading.get_ident()
            writer = _MemoryWriter(self._tables, self._head, self._memtable)
            try:
                result = work(writer)
                paths = writer.indexed_paths()
            except BaseException:
                writer.take_back()
                raise
            finally:
                self._writer = None
            with self._lock:
                self._head = writer.head
                if (META, INDEXED_RECORD) in writer.changed:
                    self._memtable = Memtable(0, buckets=False, paths=paths)
                self._prune(writer.changed)
        if self._written is not None:
            self._written()
        return result

    def on_write(self, call: Callable[[], None]) -> None:
        self._written = call

    @contextmanager
    def _exclusive(self) -> Iterator[None]:
        self._check_open()
        with self._writing:
            self._check_open()  # the store may have been closed while waiting
            yield

    def _prune(self, changed: set[tuple[Table, bytes]]) -> None:
        """Drop the versions that no snapshot sees: removed data must not stay in memory."""
        self._snapshots = +self._snapshots
        oldest = min(self._snapshots, default=self._head.commit)
        changed |= self._changed
        self._changed = {(t, key) for t, key in changed if not self._tables[t].prune(key, oldest)}

    def flush(self) -> None:
        """Do nothing: the index is in memory."""
        self._check_open()

    def rebuild(self) -> RebuildReport:
        with self._exclusive():
            self._memtable = Memtable(0, buckets=False, paths=self._memtable.paths)
            with self.read() as reader:
                reader.term_count(b"")
                return RebuildReport(reader.count(), self._memtable.tail.rows(), 0, ())

    def check(self) -> CheckReport:
        bad = [e for page in pages(self) for e in page if not e.sound]
        problems = tuple(CheckProblem("blob", e.seq, "the stored bytes are damaged") for e in bad)
        return CheckReport(not bad, problems, self.stats().grains, self._memtable.tail.rows())

    def compact(self) -> CompactReport:
        """Drop the index rows of removed grains; all else of them is gone already."""
        with self._exclusive():
            self._memtable = Memtable(0, buckets=False, paths=self._memtable.paths)
        return CompactReport(0, 0)

    def backup(self, path: str | os.PathLike[str]) -> None:
        raise UnsupportedError("a store in memory has no files to copy")

    def sync(self) -> None:
        """Do nothing: memory cannot be synced."""
        self._check_open()

    def stats(self) -> StoreStats:
        self._check_open()
        _, last_seq, blob_bytes, grains = self._head
        return StoreStats(grains=grains, blob_bytes=blob_bytes, last_seq=last_seq)

    def close(self) -> None:
        self._closed = True
        self._tables, self._memtable = _tables(), Memtable(0, buckets=False)

    def _check_open(self) -> None:
        """Refuse use before taking a lock, which a forked child could wait for forever."""
        see_open(self._closed, self._process)


def _tables() -> _Tables:
    return {table: MvccTable() for table in TABLES}


class _MemoryReader(Reader):
    """Rows as of the last commit before the snapshot."""

    def __init__(self, tables: _Tables, head: _Head, memtable: Memtable) -> None:
        self._tables = tables
        self._commit = head.commit
        self._memtable = memtable
        self.head = head

    def count(self) -> int:
        return self.head.grains

    def last_seq(self) -> int:
        return self.head.last_seq

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        rows = [self.row(ADDRESSES, digest) for digest in digests]
        return [None if row is None else SEQUENCE.unpack(row)[0] for row in rows]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for key, blob in self.rows(BLOBS, SEQUENCE.pack(after)):
            size -= len(blob)
            found.append((SEQUENCE.unpack(key)[0], blob))
            if len(found) >= grains or size <= 0:
                break
        return found

    def blob_at(self, seq: int) -> bytes | None:
        return self.row(BLOBS, SEQUENCE.pack(seq))

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        return [(seq, blob, sha256(blob).digest()) for seq, blob in self.page(after)]

    def hashed_blobs(self, seqs: Sequence[int]) -> list[tuple[int, bytes, bytes | None]]:
        blobs = ((seq, self.blob_at(seq)) for seq in seqs)
        return [(seq, blob, sha256(blob).digest()) for seq, blob in blobs if blob is not None]

    def term_count(self, key: bytes, which: Which = "all") -> int:
        return sum(part.count(key, low, high) for part, low, high in self._parts())

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        return self._is_seen(place, which) and any(
            part.tail.has(key, place) for part, _, _ in self._parts()
        )

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        walks = [p.places(key, after, newest, low, high) for p, low, high in self._parts()]
        for place in merge(*walks, reverse=newest):
            if self._is_seen(place, which):
                yield place

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        last = prefix + b"\xff" * LONGEST_KEY
        parts = [part.keys(prefix, last) for part, _, _ in self._parts()]
        for key, _ in groupby(merge(*parts)):
            if next(self.places(key, None, True, which), None) is not None:
                yield key

    def places_between(
        self, first: bytes, last: bytes, after: bytes | None, newest: bool, which: Which, most: int
    ) -> list[bytes]:
        return next_places(self._between(first, last, which), after, newest, most)

    def count_between(self, first: bytes, last: bytes, which: Which, most: int) -> int:
        return sum(1 for _ in islice(self._between(first, last, which), most))

    def _between(self, first: bytes, last: bytes, which: Which) -> Iterator[bytes]:
        for part, low, high in self._parts():
            for place in part.between(first, last, low, high):
                if self._is_seen(place, which):
                    yield place

    def indexed_paths(self) -> _core.IndexedPaths | None:
        row = self.row(META, INDEXED_RECORD)
        return None if row is None else rows_with(row)

    def _is_seen(self, place: bytes, which: Which) -> bool:
        seq = int.from_bytes(place[12:], "big")
        if self.blob_at(seq) is None:
            return False
        return which == "all" or self.is_past(seq) == (which == "past")

    def _parts(self) -> list[tuple[Memtable, int, int]]:
        """Return index rows with the numbers between which they are visible."""
        self._memtable.load_rows(self, self.head.last_seq)
        return [(self._memtable, 0, self.head.last_seq)]

    def row(self, table: Table, key: bytes) -> bytes | None:
        return self._tables[table].get(key, self._commit)

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._tables[table].walk(after, prefix, self._commit)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        return self._tables[table].last(self._commit)


class _MemoryWriter(_MemoryReader, Writer):
    """Writes versions for the next commit, which readers see only after it."""

    def __init__(self, tables: _Tables, head: _Head, memtable: Memtable) -> None:
        super().__init__(tables, head, memtable)
        self._base = _MemoryReader(tables, head, memtable)
        # index rows that may be rolled back
        self._own = Memtable(head.last_seq, buckets=False, paths=memtable.paths)
        self._commit += 1
        self.head = head._replace(commit=self._commit)
        self.changed: set[tuple[Table, bytes]] = set()

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        flags = []
        for digest, blob in items:
            new = self.row(ADDRESSES, digest) is None
            flags.append(new)
            if new:
                key = self._next()
                self._count(len(blob), 1)
                self._set(BLOBS, key, bytes(blob))
                self._set(ADDRESSES, digest, key)
        return flags

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        return dropped(self, table, prefix, most)

    def next_number(self) -> int:
        self._next()
        return self.head.last_seq

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        if not 0 < len(key) <= LONGEST_KEY:
            raise StoreError("invalid length of a key", found=f"{len(key)} bytes")
        self._set(table, key, value)

    def set_paths(self, record: bytes | None, *, later: bool = True) -> None:
        self.set_row(META, INDEXED_RECORD, record)

    def change_values(self, path: _core.IndexedPaths, first: int, last: int, *, add: bool) -> None:
        """Do nothing: after this commit all rows are made again."""

    def set_past(self, seq: int, past: bool) -> None:
        """Do nothing: the states say which grains are past."""

    def remove_many(self, seqs: Sequence[int]) -> None:
        blobs = {seq: blob for seq in seqs if (blob := self.blob_at(seq)) is not None}
        if blobs:
            self._base._parts()  # older snapshots need the index rows, which need the blobs
            forget(self, list(blobs))
        for seq, blob in blobs.items():
            self._remove(SEQUENCE.pack(seq), blob)

    def _remove(self, key: bytes, blob: bytes) -> None:
        digest = sha256(blob).digest()
        if self.row(ADDRESSES, digest) != key:  # it was put under another digest
            digest = next(d for d, row in self.rows(ADDRESSES) if row == key)
        self._set(ADDRESSES, digest, None)
        self._set(BLOBS, key, None)
        self._count(-len(blob), -1)
        last = max(self.head.last_seq, self._own.watermark + 1)
        self.head = self.head._replace(last_seq=last)

    def take_back(self) -> None:
        for table, key in self.changed:
            self._tables[table].take_back(key, self._commit)

    def _parts(self) -> list[tuple[Memtable, int, int]]:
        base, last = self._own.watermark, self.head.last_seq
        self._own.load_rows(self, last)
        return [*self._base._parts(), (self._own, base, last)]

    def _next(self) -> bytes:
        self.head = self.head._replace(last_seq=self.head.last_seq + 1)
        return SEQUENCE.pack(self.head.last_seq)

    def _count(self, size: int, grains: int) -> None:
        _, _, blob_bytes, before = self.head
        self.head = self.head._replace(blob_bytes=blob_bytes + size, grains=before + grains)

    def _set(self, table: Table, key: bytes, value: bytes | None) -> None:
        self._tables[table].set(key, value, self._commit)
        self.changed.add((table, key))
