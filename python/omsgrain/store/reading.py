# SPDX-License-Identifier: Apache-2.0
"""Reading a store on disk: a snapshot of its tables, and what lies beyond the watermark."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from hashlib import sha256
from heapq import merge
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import lmdb

from omsgrain.store.base import PAGE_BYTES, PAGE_GRAINS
from omsgrain.store.environment import Environment
from omsgrain.store.opening import failure
from omsgrain.store.recent import Recent
from omsgrain.store.tables import (
    ADDRESSES,
    BLOBS,
    HEAD,
    HEAD_RECORD,
    MARK,
    META,
    SEQUENCE,
    TERMS,
    Table,
)
from omsgrain.store.turns import Session

if TYPE_CHECKING:
    from lmdb import Transaction

__all__ = ["Head", "LmdbReader", "Snapshot"]


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


class LmdbReader:
    """Reads in one transaction.

    ``recent`` may know less or more than this snapshot: what it lacks is loaded from here, and
    what lies outside ``(watermark, last_seq]`` is passed over.
    """

    __slots__ = ("_tables", "_txn", "head", "recent")

    def __init__(
        self,
        env: Environment,
        txn: Transaction[bytes],
        recent: Recent,
        session: Session | None = None,
    ) -> None:
        self._txn = txn
        self._tables = env.tables
        record = txn.get(HEAD_RECORD, None, self._tables[META])
        self.head = Head() if record is None else Head(*HEAD.unpack(record))
        if recent.watermark < self.head.watermark:
            # A run was written since: what was recent is in the tables now.
            recent = env.recent = Recent(self.head.watermark)
        self.recent = recent
        committed = self.head.last_seq
        if session is not None:
            # What the works before this one wrote is not committed, and not to be loaded.
            if session.base is None:
                session.base = committed
            committed = session.base
        recent.load(self, committed)

    def count(self) -> int:
        """Return the number of grains."""
        return self.head.grains

    def entries(self, table: Table) -> int:
        """Return the number of rows of a table."""
        return int(self._txn.stat(self._tables[table])["entries"])

    def commit(self) -> tuple[int, int]:
        """Return the size of the file's pages, and the number of the commit that is read."""
        return int(self._txn.stat(self._tables[META])["psize"]), self._txn.id()

    def last_seq(self) -> int:
        """Return the last sequence number given."""
        return self.head.last_seq

    def get(self, digest: bytes) -> bytes | None:
        """Return the blob put under the digest, or None."""
        seq = self.seq_of(digest)
        return None if seq is None else self.blob_at(seq)

    def seq_of(self, digest: bytes) -> int | None:
        """Return the sequence number of an address; None if it is not there."""
        seq = self.recent.digests.get(digest)
        if seq is not None:
            return seq if seq <= self.head.last_seq else None
        return self.row_of(digest)

    def row_of(self, digest: bytes) -> int | None:
        """Return the sequence number that the table of addresses has."""
        row = self._txn.get(digest, None, self._tables[ADDRESSES])
        return None if row is None else int(SEQUENCE.unpack(row)[0])

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number of each; None where there is no such grain."""
        return [self.seq_of(digest) for digest in digests]

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number."""
        row = self._txn.get(SEQUENCE.pack(seq), None, self._tables[BLOBS])
        return None if row is None else row[MARK:]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        """Return the next blobs with their sequence numbers, in order."""
        return [(seq, row[MARK:]) for seq, row in self._rows_from(after, grains, size)]

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; no address for a damaged blob."""
        page = []
        for seq, row in self._rows_from(after, PAGE_GRAINS, PAGE_BYTES):
            blob = row[MARK:]
            digest = sha256(blob).digest()
            page.append((seq, blob, digest if row[:MARK] == digest[:MARK] else None))
        return page

    def _rows_from(self, after: int, grains: int, size: int) -> Iterator[tuple[int, bytes]]:
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            if not cursor.set_range(SEQUENCE.pack(after + 1)):
                return  # iterating now would start from the first row
            for key, row in cursor:
                (seq,) = SEQUENCE.unpack(key)
                if seq <= after:  # damaged; a walk from page to page would go round for ever
                    raise lmdb.CorruptedError("the blobs are not in order")
                yield seq, row
                after, grains, size = seq, grains - 1, size - len(row)
                if grains <= 0 or size <= 0:
                    return

    def term_count(self, key: bytes) -> int:
        """Return how many grains have a term."""
        with self._txn.cursor(self._tables[TERMS]) as cursor:
            on_disk = cursor.count() if cursor.set_key(key) else 0
        return on_disk + sum(part.count(key, low, high) for part, low, high in self._parts())

    def has_term(self, key: bytes, place: bytes) -> bool:
        """Tell whether the grain at a place has a term."""
        if int.from_bytes(place[12:], "big") > self.head.watermark:
            return any(part.tail.has(key, place) for part, _, _ in self._parts())
        with self._txn.cursor(self._tables[TERMS]) as cursor:
            return cursor.set_key_dup(key, place)

    def places(self, key: bytes, after: bytes | None, newest: bool) -> Iterator[bytes]:
        """Walk the grains that have a term, in order, from behind a place."""
        recent = [p.places(key, after, newest, low, high) for p, low, high in self._parts()]
        return merge(self._disk_places(key, after, newest), *recent, reverse=newest)

    def _disk_places(self, key: bytes, after: bytes | None, newest: bool) -> Iterator[bytes]:
        with self._txn.cursor(self._tables[TERMS]) as cursor:
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
            while there:
                yield cursor.value()
                there = cursor.prev_dup() if newest else cursor.next_dup()

    def _parts(self) -> list[tuple[Recent, int, int]]:
        """The recent grains with their index rows, and between which numbers this may see them."""
        self.recent.load_rows(self, self.head.last_seq)
        return [(self.recent, self.head.watermark, self.head.last_seq)]


class Snapshot:
    """Opens a reader, and ends its transaction."""

    __slots__ = ("_env", "_txn")

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __enter__(self) -> LmdbReader:
        # Taken before the transaction begins: a run that is written in between is in the tables of
        # this snapshot, and still in this object.
        recent = self._env.recent
        self._txn = self._env.begin()
        try:
            return LmdbReader(self._env, self._txn, recent)
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._txn.abort()
        self._env.done()
        if isinstance(error, (lmdb.Error, struct.error)):  # a damaged row may be of another size
            raise failure(self._env.path, "read the store", error) from error
