# SPDX-License-Identifier: Apache-2.0
"""A storage in memory, for tests and small temporary stores."""

from __future__ import annotations

import os
import threading
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import ClassVar, TypeVar

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
    pages,
    see_open,
)
from omsgrain.storage.indexed_paths import rows_with
from omsgrain.storage.lmdb.memtable import Memtable
from omsgrain.storage.lmdb.term_reader import StoreHead, TermReader
from omsgrain.storage.records import PAST, forget
from omsgrain.storage.tables import (
    ADDRESSES,
    BLOBS,
    INDEXED_RECORD,
    LONGEST_KEY,
    META,
    SEQUENCE,
    STATES,
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


_Tables = dict[Table, MvccTable]


class MemoryStorage:
    readonly = False
    name = ":memory:"
    sidecar = Sidecar()

    def __init__(self) -> None:
        self._written: Callable[[], None] | None = None
        self._tables = _tables()
        self._memtable = Memtable(0)  # the whole index
        # the committed state: later versions of rows belong to an open transaction
        self._commit, self._head = 0, StoreHead()
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
            commit = self._commit
            reader = _MemoryReader(self._tables, commit, self._head, self._memtable)
            self._snapshots[commit] += 1
        try:
            yield reader
        finally:
            with self._lock:
                self._snapshots[commit] -= 1

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
            writer = _MemoryWriter(self._tables, self._commit, self._head, self._memtable)
            try:
                result = work(writer)
                paths = writer.indexed_paths()
            except BaseException:
                writer.take_back()
                raise
            finally:
                self._writer = None
            with self._lock:
                self._commit, self._head = self._commit + 1, writer.head
                if (META, INDEXED_RECORD) in writer.changed:
                    self._memtable = Memtable(0, paths=paths)
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
        oldest = min(self._snapshots, default=self._commit)
        changed |= self._changed
        self._changed = {(t, key) for t, key in changed if not self._tables[t].prune(key, oldest)}

    def flush(self) -> None:
        """Do nothing: the index is in memory."""
        self._check_open()

    def rebuild(self) -> RebuildReport:
        with self._exclusive():
            self._memtable = Memtable(0, paths=self._memtable.paths)
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
            self._memtable = Memtable(0, paths=self._memtable.paths)
        return CompactReport(0, 0)

    def backup(self, path: str | os.PathLike[str]) -> None:
        raise UnsupportedError("a store in memory has no files to copy")

    def sync(self) -> None:
        """Do nothing: memory cannot be synced."""
        self._check_open()

    def stats(self) -> StoreStats:
        self._check_open()
        last_seq, blob_bytes, grains, _ = self._head
        return StoreStats(grains=grains, blob_bytes=blob_bytes, last_seq=last_seq)

    def close(self) -> None:
        self._closed = True
        self._tables, self._memtable = _tables(), Memtable(0)

    def _check_open(self) -> None:
        """Refuse use before taking a lock, which a forked child could wait for forever."""
        see_open(self._closed, self._process)


def _tables() -> _Tables:
    return {table: MvccTable() for table in TABLES}


class _MemoryReader(TermReader):
    """Rows as of the last commit before the snapshot."""

    _where: ClassVar[Mapping[Which, tuple[Table, ...]]] = {"current": (), "past": (), "all": ()}

    def __init__(self, tables: _Tables, commit: int, head: StoreHead, memtable: Memtable) -> None:
        self._rows = tables
        self._commit = commit
        self._last_bucket = None
        self.head, self.memtable = head, memtable

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

    def indexed_paths(self) -> _core.IndexedPaths | None:
        row = self.row(META, INDEXED_RECORD)
        return None if row is None else rows_with(row)

    def has_blob(self, seq: int) -> bool:
        return self.blob_at(seq) is not None

    def is_past(self, seq: int) -> bool:
        row = self.row(STATES, SEQUENCE.pack(seq))
        return bool(row and row[0] & PAST)

    def _is_plain(self) -> bool:
        return False

    def _parts(self) -> list[tuple[Memtable, int, int]]:
        self.memtable.load_rows(self, self.head.last_seq)
        return [(self.memtable, 0, self.head.last_seq)]

    def row(self, table: Table, key: bytes) -> bytes | None:
        return self._rows[table].get(key, self._commit)

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        return self._rows[table].walk(after, prefix, self._commit)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        return self._rows[table].last(self._commit)


class _MemoryWriter(_MemoryReader, Writer):
    """Writes versions for the next commit, which readers see only after it."""

    def __init__(self, tables: _Tables, commit: int, head: StoreHead, memtable: Memtable) -> None:
        super().__init__(tables, commit + 1, head, memtable)
        self._base = _MemoryReader(tables, commit, head, memtable)
        # index rows that may be rolled back
        self._own = Memtable(head.last_seq, paths=memtable.paths)
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
            self._rows[table].take_back(key, self._commit)

    def _parts(self) -> list[tuple[Memtable, int, int]]:
        base, last = self._own.watermark, self.head.last_seq
        self._own.load_rows(self, last)
        return [*self._base._parts(), (self._own, base, last)]

    def _bucket(self, bucket: bytes, which: Which) -> dict[bytes, list[bytes]]:
        found = super()._bucket(bucket, which)
        self._last_bucket = None  # rows may change
        return found

    def _next(self) -> bytes:
        self.head = self.head._replace(last_seq=self.head.last_seq + 1)
        return SEQUENCE.pack(self.head.last_seq)

    def _count(self, size: int, grains: int) -> None:
        _, blob_bytes, before, _ = self.head
        self.head = self.head._replace(blob_bytes=blob_bytes + size, grains=before + grains)

    def _set(self, table: Table, key: bytes, value: bytes | None) -> None:
        self._rows[table].set(key, value, self._commit)
        self.changed.add((table, key))
