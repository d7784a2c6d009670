# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a store on disk: a reader of all tables in one LMDB transaction."""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterator, Sequence
from hashlib import sha256
from itertools import islice, takewhile
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple

import lmdb

from omsgrain import _core
from omsgrain.grain import Grain, stored_grain, stored_grains
from omsgrain.storage.base import MANY_ROWS, PAGE_BYTES, PAGE_GRAINS, damaged_at, misplaced
from omsgrain.storage.indexed_paths import rows_with
from omsgrain.storage.lmdb import sorted_runs
from omsgrain.storage.lmdb.data_file import failure
from omsgrain.storage.lmdb.memtable import Memtable
from omsgrain.storage.lmdb.term_reader import StoreHead, TermReader
from omsgrain.storage.records import PAST
from omsgrain.storage.tables import (
    ADDRESS,
    ADDRESSES,
    BLOBS,
    DUE,
    HEAD,
    HEAD_RECORD,
    INDEXED_RECORD,
    MARK,
    META,
    OLD_ADDRESSES,
    SEQUENCE,
    STATES,
    Table,
)

if TYPE_CHECKING:
    from lmdb import Cursor, Transaction

    from omsgrain.storage.lmdb.commit_queue import CommitBatch
    from omsgrain.storage.lmdb.data_file import DataFile
    from omsgrain.storage.lmdb.environment import Environment

_MANY = 16  # keys that are looked up together
_HIGH = bytes(4)  # of a sequence number; a place has the other half
_ROWS = 8, 256  # rows of a table read at a time, at first and at the most


def address_key(digest: bytes, seq: int) -> bytes:
    """Return the key of an address and its grain; of the address the first bytes are enough."""
    return digest[:ADDRESS] + SEQUENCE.pack(seq)[-4:]


class SnapshotCache(NamedTuple):
    """Values derived from a commit, valid for every snapshot of that commit."""

    file: DataFile  # the data file: each counts its commits
    commit: int  # the number of the commit
    head: StoreHead  # its head
    memtable: Memtable  # what lies beyond the watermark, loaded up to this commit
    plain: bool  # whether all of that is still there, and nothing is said of any
    whole: bool  # whether all of that is still there
    reader: _core.CommitReader | None  # reads it in one call of the core


class LmdbReader(TermReader):
    """Reads in one transaction.

    ``memtable`` may know less or more than this snapshot: what it lacks is loaded from here, and
    what lies outside ``(watermark, last_seq]``, or is not in this snapshot, is passed over.
    """

    __slots__ = ()

    def __init__(
        self,
        env: Environment,
        txn: Transaction[bytes],
        memtable: Memtable,
        session: CommitBatch | None = None,
    ) -> None:
        self._txn = txn
        self._tables = env.tables
        self._plain = self._whole = self._last_bucket = None
        record = txn.get(HEAD_RECORD, None, self._tables[META])
        self.head = StoreHead() if record is None else StoreHead(*HEAD.unpack(record))
        if memtable.watermark < self.head.watermark:
            # A run was written since: the tables have what the memtable had.
            memtable = Memtable(self.head.watermark, paths=self.indexed_paths())
            env.memtable = memtable
        self.memtable = memtable
        committed = self.head.last_seq
        if session is not None:
            # Earlier works' rows are not committed yet, so they must not be loaded.
            if session.base is None:
                session.base = committed
            committed = session.base
        memtable.load(self, committed)
        if memtable.filled > committed and not self._all_known():
            # A later snapshot has filled it, without what was removed by then.
            self.memtable = Memtable(self.head.watermark, paths=self.memtable.paths)
            self.memtable.load(self, committed)

    def _all_known(self) -> bool:
        """Whether ``memtable`` knows every grain of this snapshot beyond the watermark."""
        last = self.head.last_seq
        missing = set(self._numbers(self.head.watermark, last))
        missing.difference_update(self.memtable.numbers[: self.memtable.known(last)])
        return not missing

    def _numbers(self, after: int, last: int) -> Iterator[int]:
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            if cursor.set_range(SEQUENCE.pack(after + 1)):
                for key in cursor.iternext(keys=True, values=False):
                    (seq,) = SEQUENCE.unpack(key)
                    if seq > last:
                        return
                    yield seq

    def count(self) -> int:
        return self.head.grains

    def commit(self) -> tuple[int, int]:
        """Return the size of the file's pages, and the number of the commit that is read."""
        return int(self._txn.stat(self._tables[META])["psize"]), self._txn.id()

    @property
    def raw(self) -> LmdbReader:
        return self

    def last_seq(self) -> int:
        return self.head.last_seq

    def get(self, digest: bytes) -> bytes | None:
        seq = self.seq_of(digest)
        return None if seq is None else self.blob_at(seq)

    def seq_of(self, digest: bytes) -> int | None:
        seq = self.memtable.digests.get(digest)
        if seq is not None:
            if seq <= self.head.last_seq and self._is_whole():
                return seq
            for seq in self.memtable.numbers_of(digest):
                if seq <= self.head.last_seq and self.has_blob(seq):
                    return seq
        return self.row_of(digest)

    def row_of(self, digest: bytes) -> int | None:
        """Return the sequence number that the tables of addresses have."""
        for _, seq in self._listed([digest]):
            if self._is_of(seq, digest):
                return seq
        return None

    def has_address(self, digest: bytes, seq: int) -> bool:
        """Whether the tables of addresses have a row for a grain."""
        key = address_key(digest, seq)
        return self.row(ADDRESSES, key) is not None or self.row(OLD_ADDRESSES, key) is not None

    def _listed(self, digests: Sequence[bytes]) -> list[tuple[int, int]]:
        """Return the grains in the rows of some addresses: the index of each, and the number.

        A row has the beginning of an address only, so compare the whole one.
        """
        found: list[tuple[int, int]] = []
        for table in (ADDRESSES, OLD_ADDRESSES):
            with self._txn.cursor(self._tables[table]) as cursor:
                found += _core.listed(cursor, digests)
        return found

    def _is_of(self, seq: int, digest: bytes) -> bool:
        """Whether a grain has an address; a damaged one has that which its mark begins."""
        row = self._txn.get(SEQUENCE.pack(seq), None, self._tables[BLOBS])
        if row is None:
            return False
        found = sha256(row[MARK:]).digest()
        return found == digest or (found[:MARK] != row[:MARK] == digest[:MARK])

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        if len(digests) < _MANY:
            return [self.seq_of(digest) for digest in digests]
        found: list[int | None] = [None] * len(digests)
        for i, seq in self._listed(digests):
            if found[i] is None and self._is_of(seq, digests[i]):
                found[i] = seq
        for known in self._unsettled():
            for i, digest in enumerate(digests):
                if digest in known:
                    found[i] = self.seq_of(digest)
        return found

    def _unsettled(self) -> tuple[Container[bytes], ...]:
        """Addresses of which the tables alone do not tell."""
        return (self.memtable.digests,) if self.memtable.digests else ()

    def blob_at(self, seq: int) -> bytes | None:
        row = self._txn.get(SEQUENCE.pack(seq), None, self._tables[BLOBS])
        return None if row is None else row[MARK:]

    def grain(self, seq: int) -> Grain | None:
        row = self._txn.get(SEQUENCE.pack(seq), None, self._tables[BLOBS])
        if row is None:
            return None
        blob = row[MARK:]
        return stored_grain(blob, _core.address(blob))  # as `stored`, but for its call

    def named(self, digest: bytes) -> Grain | None:
        address = digest.hex()
        if not self.memtable.digests:
            for _, number in self._listed([digest]):  # of which one hash is enough
                grain = self.grain(number)
                if grain is not None and grain.address == address:
                    return grain
        seq = self.seq_of(digest)
        grain = None if seq is None else self.grain(seq)
        if grain is not None and grain.address != address:
            raise damaged_at(digest, grain.address)
        return grain

    def named_many(self, digests: Sequence[bytes]) -> list[Grain | None]:
        numbers = dict(reversed(self._listed(digests)))  # not compared yet: hashing is below
        numbers |= {i: seq for i, d in enumerate(digests) if (seq := self.memtable.digests.get(d))}
        if len(numbers) == len(digests):
            get, pack, table = self._txn.get, SEQUENCE.pack, self._tables[BLOBS]
            rows = [get(pack(numbers[i]), None, table) for i in range(len(digests))]
            if None not in rows:
                found = _core.blobs_at([row for row in rows if row is not None], digests, MARK)
                if found is not None:
                    return [*stored_grains(found)]
        return super().named_many(digests)  # which says what is wrong, and of which

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        get, table = self._txn.get, self._tables[BLOBS]
        rows = [get(_HIGH + place[12:], None, table) for place in places]
        if None in rows:
            places = [place for place, row in zip(places, rows, strict=True) if row is not None]
        found = _core.blobs_at([row for row in rows if row is not None], places, MARK)
        if found is None:
            raise misplaced()
        return list(zip(places, stored_grains(found), strict=True))

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        return [(seq, row[MARK:]) for seq, row in self._rows_from(after, grains, size)]

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; no address for a damaged blob."""
        return hashed(list(self._rows_from(after, PAGE_GRAINS, PAGE_BYTES)))

    def hashed_blobs(self, seqs: Sequence[int]) -> list[tuple[int, bytes, bytes | None]]:
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            rows = cursor.getmulti([SEQUENCE.pack(seq) for seq in seqs])
        return hashed([(SEQUENCE.unpack(key)[0], row) for key, row in rows])

    def marked_rows(self, after: int, size: int) -> tuple[list[bytes], int]:
        # To make the number of each row would cost as much again.
        rows: list[bytes] = []
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            if not cursor.set_range(SEQUENCE.pack(after + 1)):
                return rows, after
            walk = cursor.iternext(keys=False)
            while size > 0:
                part = list(islice(walk, _ROWS[1]))
                rows += part
                size -= sum(map(len, part))
                if len(part) < _ROWS[1]:
                    cursor.last()
                    break
            (last,) = SEQUENCE.unpack(cursor.key())
        if last - after < len(rows):  # damaged, as below
            raise lmdb.CorruptedError("the blobs are not in order")
        return rows, last

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

    def _parts(self) -> list[tuple[Memtable, int, int]]:
        if self.head.last_seq == self.head.watermark:
            return []
        self.memtable.load_rows(self, self.head.last_seq)
        return [(self.memtable, self.head.watermark, self.head.last_seq)]

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
            there = self.head.grains - self.addresses()
            self._whole = self.memtable.known(self.head.last_seq) == there
        return self._whole

    def is_past(self, seq: int) -> bool:
        row = self._txn.get(SEQUENCE.pack(seq), None, self._tables[STATES])
        return bool(row and row[0] & PAST)

    def has_blob(self, seq: int) -> bool:
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            return cursor.set_key(SEQUENCE.pack(seq))

    def indexed_paths(self) -> _core.IndexedPaths | None:
        row = self._txn.get(INDEXED_RECORD, None, self._tables[META])
        return None if row is None else rows_with(row)

    def getter(self, table: Table) -> Callable[[bytes], bytes | None]:
        """Return a function that gives the value of a key, for passes over a whole table."""
        get, handle = self._txn.get, self._tables[table]
        return lambda key: get(key, None, handle)

    def cursor(self, table: Table) -> Cursor[bytes]:
        """Return a cursor on a table, for passes that would open thousands; close it."""
        return self._txn.cursor(self._tables[table])

    def addresses(self) -> int:
        """Return the number of rows in the tables of addresses."""
        return self.entries(ADDRESSES) + self.entries(OLD_ADDRESSES)

    def entries(self, table: Table) -> int:
        return int(self._txn.stat(self._tables[table])["entries"])

    def row(self, table: Table, key: bytes) -> bytes | None:
        if table.runs:
            with self._txn.cursor(self._tables[table]) as cursor:
                return b"" if sorted_runs.has(cursor, key) else None
        if table.split:
            with self._txn.cursor(self._tables[table]) as cursor:
                there = cursor.set_key_dup(key[: table.split], key[table.split :])
                return b"" if there else None
        return self._txn.get(key, None, self._tables[table])

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if len(keys) >= _MANY and not table.runs and not table.split:
            with self._txn.cursor(self._tables[table]) as cursor:
                return dict(cursor.getmulti(keys))
        return {key: value for key in keys if (value := self.row(table, key)) is not None}

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        limit, most = _ROWS
        while True:
            page = self._row_page(table, after, prefix, limit)
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1][0], min(2 * limit, most)

    def _row_page(
        self, table: Table, after: bytes | None, prefix: bytes, limit: int
    ) -> list[tuple[bytes, bytes]]:
        with self._txn.cursor(self._tables[table]) as cursor:
            if table.runs:
                return sorted_runs.page(cursor, after, prefix, limit)
            if table.split:
                return _split_page(cursor, table.split, after, prefix, limit)
            if after is None or after < prefix:
                there = cursor.set_range(prefix)
            else:
                there = cursor.set_range(after)
                if there and cursor.key() == after:
                    there = cursor.next()
            if not there or not cursor.key().startswith(prefix):
                return []
            page = list(islice(cursor, limit))
        if not page[-1][0].startswith(prefix):
            page = list(takewhile(lambda row: row[0].startswith(prefix), page))
        return page

    def suffixes(
        self, table: Table, prefixes: Sequence[bytes], most: int = MANY_ROWS
    ) -> list[bytes]:
        if not table.runs:
            return super().suffixes(table, prefixes, most)
        with self._txn.cursor(self._tables[table]) as cursor:
            return sorted_runs.suffixes(cursor, prefixes, most)

    def past_between(self, first: int, last: int) -> set[bytes]:
        """Return the ends of the places of the past grains among some."""
        end = SEQUENCE.pack(last)
        found: set[bytes] = set()
        for key, row in self.rows(STATES, after=SEQUENCE.pack(max(first, 1) - 1)):
            if key > end:
                break
            if row and row[0] & PAST and len(key) == len(end):
                found.add(key[-4:])
        return found

    def first_due(self) -> int | None:
        with self._txn.cursor(self._tables[DUE]) as cursor:
            there = cursor.first()
            return int.from_bytes(cursor.key()[: SEQUENCE.size], "big") if there else None

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        with self._txn.cursor(self._tables[table]) as cursor:
            return cursor.item() if cursor.last() else None


def _split_page(
    cursor: Cursor[bytes], split: int, after: bytes | None, prefix: bytes, limit: int
) -> list[tuple[bytes, bytes]]:
    """Return the next rows of a table whose keys are split on disk."""
    start = prefix if after is None or after < prefix else after
    key, value = start[:split], start[split:]
    there = bool(value) and cursor.set_range_dup(key, value)
    if not there:
        there = cursor.set_range(key)
        if there and value and cursor.key() == key:
            there = cursor.next_nodup()
    if there and b"".join(cursor.item()) == after:
        there = cursor.next()
    if not there:
        return []
    rows = (key + value for key, value in islice(cursor, limit))
    return [(whole, b"") for whole in takewhile(lambda row: row.startswith(prefix), rows)]


class LmdbSnapshot(LmdbReader):
    """A reader that opens its transaction, and ends it."""

    __slots__ = ("_env",)

    def __init__(self, env: Environment) -> None:
        self._env = env

    def __enter__(self) -> LmdbReader:
        env = self._env
        # Taken before the transaction begins: a run that is written in between is in the tables of
        # this snapshot, and still in this object.
        memtable = env.memtable
        txn = self._txn = env.begin()
        seen = env.seen
        if seen is not None:
            file, commit, head, known, plain, whole, _ = seen
            if known is memtable and commit == txn.id() and file is env.file:
                self._tables, self._plain, self._whole = file.tables, plain, whole
                self.head, self.memtable = head, memtable
                self._last_bucket = None
                return self
        try:
            super().__init__(env, txn, memtable)
            if self.memtable is env.memtable:
                plain, whole = self._is_plain(), self._is_whole()
                commit, head = txn.id(), self.head
                reader = env.commit_reader(
                    (commit, head.watermark, head.last_seq, whole, plain), self.memtable
                )
                env.seen = SnapshotCache(
                    env.file, commit, head, self.memtable, plain, whole, reader
                )
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._txn.abort()
        self._env.done()
        if error is not None and isinstance(
            error, (lmdb.Error, struct.error)
        ):  # a damaged row may be of another size
            raise failure(self._env.path, "read the store", error) from error


def hashed(rows: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes, bytes | None]]:
    """Return the numbers, blobs and addresses of rows; no address for a damaged blob."""
    found = _core.stored_blobs([row for _, row in rows], MARK)
    digests = [bytes.fromhex(address) for _, address in found]
    return [
        (seq, blob, digest if row.startswith(digest[:MARK]) else None)
        for (seq, row), (blob, _), digest in zip(rows, found, digests, strict=True)
    ]
