# SPDX-License-Identifier: Apache-2.0
"""The store on disk: a directory with one LMDB file, ``memory.omsg/data.mdb``, and its lock."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

import lmdb

from omsgrain.errors import StoreError
from omsgrain.store.base import PAGE_BYTES, PAGE_GRAINS, Reader, StoreStats, Writer
from omsgrain.store.environment import Environment, acquire
from omsgrain.store.opening import failure
from omsgrain.store.tables import (
    ADDRESSES,
    BLOBS,
    FORMAT,
    HEAD,
    HEAD_RECORD,
    META,
    SEQUENCE,
    Table,
)

if TYPE_CHECKING:
    from lmdb import Transaction, _Database

__all__ = ["LmdbStore"]

T = TypeVar("T")


class LmdbStore:
    """A ``Store`` in LMDB.

    Args:
        path: the store's directory; made if it is not there, its parent not.
        readonly: refuse to write, and make nothing.
        durability: ``commit``: when ``write`` returns, the disk has it. ``relaxed``: the operating
            system has it; a killed process loses nothing, but a power cut can cost what was
            written since the last ``sync`` or ``close``, and in the worst case the whole store.

    Raises:
        StoreError: not a store, of a newer format, missing, or no permission.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        readonly: bool = False,
        durability: Literal["commit", "relaxed"] = "commit",
    ) -> None:
        self.path = Path(path)
        self._readonly = readonly
        self._env = acquire(self.path, readonly=readonly, durable=durability == "commit")
        self._closed = False
        self._let_go = weakref.finalize(self, self._env.release)

    @property
    def readonly(self) -> bool:
        """Whether ``write`` is refused."""
        return self._readonly

    def read(self) -> AbstractContextManager[Reader]:
        """Open a snapshot. Never write while you hold one: a growing file would wait for it."""
        return _Snapshot(self._open_env())

    def write(self, work: Callable[[Writer], T]) -> T:
        """Run ``work`` in a write transaction, perhaps more than once."""
        env = self._open_env()
        if self._readonly:
            raise StoreError(f"the store {str(self.path)!r} is open for reading only")
        return env.write(lambda txn: work(_LmdbWriter(env.tables, txn)))

    def sync(self) -> None:
        """Make durable what was written with ``durability="relaxed"``."""
        self._open_env().sync()

    def stats(self) -> StoreStats:
        """Return how much the store holds."""
        env = self._open_env()
        with _Snapshot(env) as reader:
            grains, (last_seq, blob_bytes) = reader.count(), reader.head()
            file_bytes, map_bytes = env.file_size(), env.map_size()
        return StoreStats(
            grains=grains,
            blob_bytes=blob_bytes,
            last_seq=last_seq,
            file_bytes=file_bytes,
            map_bytes=map_bytes,
            format=FORMAT,
        )

    def close(self) -> None:
        """Let go of the file; the last handle of the process closes it."""
        self._closed = True
        self._let_go()

    def _open_env(self) -> Environment:
        if self._closed:
            raise StoreError("the store is closed")
        return self._env


class _LmdbReader:
    """Reads in one transaction."""

    __slots__ = ("_tables", "_txn")

    def __init__(self, tables: dict[Table, _Database], txn: Transaction[bytes]) -> None:
        self._tables = tables
        self._txn = txn

    def head(self) -> tuple[int, int]:
        """Return the last sequence number given and the bytes of all blobs."""
        record = self._txn.get(HEAD_RECORD, db=self._tables[META])
        if record is None:
            return (0, 0)
        last_seq, blob_bytes = HEAD.unpack(record)
        return (last_seq, blob_bytes)

    def count(self) -> int:
        return self._txn.stat(self._tables[ADDRESSES])["entries"]

    def last_seq(self) -> int:
        return self.head()[0]

    def get(self, digest: bytes) -> bytes | None:
        seq = self._txn.get(digest, None, self._tables[ADDRESSES])
        return None if seq is None else self._txn.get(seq, None, self._tables[BLOBS])

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        get, table = self._txn.get, self._tables[ADDRESSES]
        found = [get(digest, None, table) for digest in digests]
        return [None if seq is None else SEQUENCE.unpack(seq)[0] for seq in found]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        rows: list[tuple[int, bytes]] = []
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            if not cursor.set_range(SEQUENCE.pack(after + 1)):
                return rows  # iterating now would start from the first row
            for seq, blob in cursor:
                size -= len(blob)
                rows.append((SEQUENCE.unpack(seq)[0], blob))
                if len(rows) >= grains or size <= 0:
                    break
        return rows


class _Snapshot(_LmdbReader):
    """A reader that opens and ends its own transaction."""

    __slots__ = ("_env",)

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __enter__(self) -> _Snapshot:
        self._txn = self._env.begin()
        self._tables = self._env.tables
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._txn.abort()
        self._env.done()
        if isinstance(error, lmdb.Error):
            raise failure(self._env.path, "read the store", error) from error


class _LmdbWriter(_LmdbReader):
    """Appends in one write transaction."""

    __slots__ = ()

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        seq, blob_bytes = self.head()
        get, table = self._txn.get, self._tables[ADDRESSES]
        met: set[bytes] = set()
        flags, blobs, addresses = [], [], []
        for digest, blob in items:
            new = digest not in met and get(digest, None, table) is None
            flags.append(new)
            if new:
                met.add(digest)
                seq, blob_bytes = seq + 1, blob_bytes + len(blob)
                key = SEQUENCE.pack(seq)
                blobs.append((key, blob))
                addresses.append((digest, key))
        if blobs:
            addresses.sort()  # neighbours share pages
            self._insert(ADDRESSES, addresses)
            self._insert(BLOBS, blobs, append=True)
            head = HEAD.pack(seq, blob_bytes)
            self._txn.put(HEAD_RECORD, head, db=self._tables[META])
        return flags

    def _insert(self, table: Table, rows: list[tuple[bytes, bytes]], append: bool = False) -> None:
        if len(rows) == 1:  # the single put of a robot's loop: without a cursor it is cheaper
            self._txn.put(*rows[0], append=append, db=self._tables[table])
        else:
            with self._txn.cursor(self._tables[table]) as cursor:
                cursor.putmulti(rows, append=append)
