# SPDX-License-Identifier: Apache-2.0
"""A store in dicts: the same contract, nothing kept. For tests and for small passing things."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from hashlib import sha256
from typing import NamedTuple, TypeVar

from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.store.base import (
    PAGE_BYTES,
    PAGE_GRAINS,
    CheckReport,
    Problem,
    Reader,
    RebuildReport,
    StoreStats,
    Writer,
    pages,
)
from omsgrain.store.recent import Recent

__all__ = ["MemoryStore"]

T = TypeVar("T")


class _Head(NamedTuple):
    """What is committed: rows after it are a writer's own until it commits."""

    seq: int = 0
    blob_bytes: int = 0


class MemoryStore:
    """A ``Store`` in memory."""

    readonly = False

    def __init__(self) -> None:
        self._blobs: list[bytes] = []  # blob of sequence number n at n - 1
        self._seqs: dict[bytes, int] = {}
        self._recent = Recent(0)  # all of it
        self._head = _Head()
        self._writing = threading.Lock()
        self._writer: int | None = None
        self._closed = False

    def read(self) -> AbstractContextManager[Reader]:
        """Open a snapshot."""
        self._check_open()
        return nullcontext(_MemoryReader(self._blobs, self._seqs, self._head, self._recent))

    def write(self, work: Callable[[Writer], T]) -> T:
        """Run ``work`` in a write transaction; an exception takes back what it wrote."""
        if self._writer == threading.get_ident():
            raise StoreError("a write transaction inside another one of the same thread")
        with self._writing:
            self._check_open()
            self._writer = threading.get_ident()
            writer = _MemoryWriter(self._blobs, self._seqs, self._head, self._recent)
            try:
                result = work(writer)
            except BaseException:
                writer.take_back(self._head.seq)
                raise
            finally:
                self._writer = None
            self._head = writer.head
            return result

    def flush(self) -> None:
        """Nothing to do: the index is in memory anyway."""
        self._check_open()

    def rebuild(self) -> RebuildReport:
        """Make the index anew."""
        self._check_open()
        self._recent = Recent(0)
        with self.read() as reader:
            reader.term_count(b"")
            return RebuildReport(reader.count(), self._recent.tail.rows(), 0, ())

    def check(self) -> CheckReport:
        """Look at every blob."""
        bad = [e for page in pages(self) for e in page if not e.sound]
        problems = tuple(Problem("blob", e.seq, "not what was put") for e in bad)
        return CheckReport(not bad, problems, self.stats().grains, self._recent.tail.rows())

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Refuse: there are no files to copy."""
        raise UnsupportedError("a store in memory has no files to copy")

    def sync(self) -> None:
        """Nothing to do: memory is as durable as it gets."""
        self._check_open()

    def stats(self) -> StoreStats:
        """Return how much the store holds."""
        self._check_open()
        head = self._head
        return StoreStats(grains=head.seq, blob_bytes=head.blob_bytes, last_seq=head.seq)

    def close(self) -> None:
        """Forget everything."""
        self._closed = True
        self._blobs, self._seqs = [], {}

    def _check_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")


class _MemoryReader:
    """Rows up to the head that was committed when the snapshot was taken."""

    def __init__(
        self, blobs: list[bytes], seqs: dict[bytes, int], head: _Head, recent: Recent
    ) -> None:
        self._blobs = blobs
        self._seqs = seqs
        self._recent = recent
        self.head = head

    def count(self) -> int:
        return self.head.seq

    def last_seq(self) -> int:
        return self.head.seq

    def get(self, digest: bytes) -> bytes | None:
        seq = self.find([digest])[0]
        return None if seq is None else self._blobs[seq - 1]

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        found = [self._seqs.get(digest) for digest in digests]
        return [seq if seq is not None and seq <= self.head.seq else None for seq in found]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = []
        for seq in range(after + 1, min(after + grains, self.head.seq) + 1):
            if size <= 0:
                break
            blob = self._blobs[seq - 1]
            size -= len(blob)
            rows.append((seq, blob))
        return rows

    def blob_at(self, seq: int) -> bytes | None:
        return self._blobs[seq - 1] if 0 < seq <= self.head.seq else None

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        return [(seq, blob, sha256(blob).digest()) for seq, blob in self.page(after)]

    def term_count(self, key: bytes) -> int:
        return self._rows().count(key, 0, self.head.seq)

    def has_term(self, key: bytes, place: bytes) -> bool:
        return self._rows().tail.has(key, place)

    def places(self, key: bytes, after: bytes | None, newest: bool) -> Iterator[bytes]:
        return self._rows().places(key, after, newest, 0, self.head.seq)

    def _rows(self) -> Recent:
        self._recent.load_rows(self, self.head.seq)
        return self._recent


class _MemoryWriter(_MemoryReader):
    """Appends to the live rows; readers do not look beyond their head."""

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        seq, blob_bytes = self.head
        flags = []
        for digest, blob in items:
            new = digest not in self._seqs
            flags.append(new)
            if new:
                seq, blob_bytes = seq + 1, blob_bytes + len(blob)
                self._blobs.append(bytes(blob))
                self._seqs[digest] = seq
        self.head = _Head(seq, blob_bytes)
        return flags

    def take_back(self, seq: int) -> None:
        del self._blobs[seq:]
        for digest in [d for d, s in self._seqs.items() if s > seq]:
            del self._seqs[digest]
