# SPDX-License-Identifier: Apache-2.0
"""Check, rebuild, compact and back up a store in PostgreSQL.

PostgreSQL checks its own pages (``pg_amcheck``, data checksums). A check here tests whether the
rows of a store fit together: it hashes every blob, looks up every index row, and maps every row of
a state to its grain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from omsgrain.errors import StoreError
from omsgrain.storage import mentions
from omsgrain.storage.base import CheckProblem, CheckReport, CompactReport, RebuildReport
from omsgrain.storage.check import Pass, examine
from omsgrain.storage.indexed_paths import index_again
from omsgrain.storage.lmdb.backup import add_grains, add_rows, appearing
from omsgrain.storage.lmdb.maintenance import lead_back
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.connection import Database, Pause, RefusedError, lock_timeout
from omsgrain.storage.postgres.pool import Connection, byteas, numbers
from omsgrain.storage.postgres.reader import PostgresReader, past_of
from omsgrain.storage.postgres.rows import Added, terms_of
from omsgrain.storage.postgres.schema import (
    KEYED_TABLES,
    OWNED,
    SCHEMA,
    SIZE,
    TABLE_NAMES,
    name_of,
)
from omsgrain.storage.postgres.writer import GENERATION, MANY, PostgresWriter
from omsgrain.storage.tables import BLOBS, SEQUENCE, Table

if TYPE_CHECKING:
    from omsgrain.storage.postgres.storage import PostgresStorage

_ROWS = 5_000  # rows to copy at a time

# VACUUM keeps rows that any snapshot of the database may see, even of other tables. A small table
# shows how far back snapshots reach: everything older is frozen.
_NEXT = "SELECT pg_snapshot_xmax(pg_current_snapshot())::xid::text"
_FREEZE = f"VACUUM (FREEZE) {SCHEMA}.versions"
_FROZEN = (
    "SELECT age(relfrozenxid) <= age(%s::xid) FROM pg_class "
    f"WHERE oid = '{SCHEMA}.versions'::regclass"
)


def rebuild(writer: PostgresWriter) -> RebuildReport:
    """Rebuild everything that follows from the blobs and their states.

    These are the terms and their counts, missing or stray addresses, the rows from a grain to
    those that it superseded, and the counts of the head.
    """
    writer.without_timeout()
    for text in sql.EMPTY_INDEX:
        writer.run(text)
    damaged: list[int] = []
    grains = rows = readdressed = after = blob_bytes = 0
    while page := writer.hashed_page(after):
        after = page[-1][0]
        blob_bytes += sum(len(blob) for _, blob, _ in page)
        damaged += [seq for seq, _, digest in page if digest is None]
        good: list[Added] = [(s, d, b) for s, b, d in page if d is not None]
        if not good:
            continue
        past = past_of(writer, [seq for seq, _, _ in good])
        terms = terms_of(good, past, writer.indexed_paths())
        writer.add_terms(terms)
        # Not with ``find``: the writer would cache addresses that are repaired here.
        known = dict[bytes, int](writer.run(sql.FIND, byteas([d for _, d, _ in good])))
        lost = [(d, s) for s, d, _ in good if known.get(d) != s]
        if lost:
            lists = byteas([d for d, _ in lost]), numbers([s for _, s in lost])
            writer.run(sql.SET_ADDRESSES, *lists)
        grains, readdressed = grains + len(good), readdressed + len(lost)
        rows += sum(len(places) for _, places in terms.lists)
    writer.run(sql.DROP_STRAYS)
    lead_back(writer)
    mentions.forget(writer)
    writer.settle()
    ordinal = (writer.head.ordinal // GENERATION + 1) * GENERATION
    writer.run(sql.COUNT_ALL, ordinal, MANY)
    writer.head = writer.head._replace(
        grains=grains + len(damaged),
        blob_bytes=blob_bytes,
        ordinal=writer.one(sql.LAST_ORDINAL, ordinal),
    )
    writer.touch()
    return RebuildReport(grains, rows, readdressed, tuple(damaged))


# --- the tables ----------------------------------------------------------------------------------


def compact(database: Database, tables: Sequence[str] | None = None) -> CompactReport:
    """Rewrite tables without removed rows, one after the other, each locked meanwhile."""
    with database.connection("rewrite the tables") as connection:
        row = connection.execute(OWNED).fetchone()
        if not (row and row[0]):
            raise StoreError("only the role that owns the tables can rewrite them")
        before = _size(connection)
        connection.execute(lock_timeout(database.patience))
        _wait(connection, database.patience)
        if tables is None:
            tables = [table for (table,) in connection.execute(TABLE_NAMES).fetchall()]
        for table in tables:
            connection.execute(f"VACUUM (FULL) {table}")
        return CompactReport(before, _size(connection))


def _wait(connection: Connection, patience: float) -> None:
    """Wait until no snapshot needs removed rows."""
    pause = Pause(patience)
    now = connection.execute(_NEXT).fetchone()
    while True:
        connection.execute(_FREEZE)
        row = connection.execute(_FROZEN, now).fetchone()
        if row and row[0]:
            return
        if not pause.take():
            raise StoreError(
                "an older transaction still needs removed rows",
                expected="no older transaction, also prepared, replication slot or standby; "
                "vacuum_defer_cleanup_age 0",
            )


def size_of(reader: PostgresReader) -> int:
    """Return the bytes of all tables."""
    return int(reader.ask((SIZE, ()))[0][0][0])


def _size(connection: Connection) -> int:
    row = connection.execute(SIZE).fetchone()
    return int(row[0]) if row else 0


# --- a copy --------------------------------------------------------------------------------------


def copy(store: PostgresStorage, path: Path) -> None:
    """Copy the current store to a new directory as a store in LMDB, with the same numbers.

    The directory appears when it is complete.
    """
    with appearing(path) as made, store.read() as reader:
        target = LmdbStorage(made)
        try:
            _copy_rows(reader, target)  # the states first: index rows depend on them
            _copy_grains(reader, target)
            target.write(lambda writer: writer.advance(reader.last_seq()))
            index_again(target)
        finally:
            target.close()


def _copy_grains(reader: PostgresReader, target: LmdbStorage) -> None:
    after = 0
    while page := reader.rows_from(after, 1_000, 4 << 20):
        after = page[-1][0]
        add_grains(target, page)


def _copy_rows(reader: PostgresReader, target: LmdbStorage) -> None:
    for table in KEYED_TABLES:
        rows = reader.rows(table)
        while part := [*islice(rows, _ROWS)]:
            add_rows(target, table, part)


_WINDOW = 4_096  # sequence numbers to look up at once
_WINDOWS = 64


def check(store: PostgresStorage) -> CheckReport:
    with store.reading(_PostgresCheckReader) as reader:
        reader.ask(("SET LOCAL statement_timeout = 0", ()))
        return examine(reader, _BlobCheck(reader), passing=(RefusedError,))


class _PostgresCheckReader(PostgresReader):
    """A reader that looks up many grains where a check asks for one."""

    def __init__(self, database: Database, store_id: int) -> None:
        super().__init__(database, store_id)
        self._window = lru_cache(maxsize=_WINDOWS)(self._window_at)

    def _window_at(self, number: int) -> dict[int, bytes]:
        start = number * _WINDOW
        return dict(self.all(sql.WINDOW, start, start + _WINDOW - 1))

    def _first_of(self, seq: int) -> bytes | None:
        """Return the first bytes of a grain: of its address and its header."""
        return self._window(seq // _WINDOW).get(seq) if seq < sql.BEYOND else None

    def has_blob(self, seq: int) -> bool:
        return self._first_of(seq) is not None

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key; for a blob, its first bytes."""
        if table is not BLOBS:
            return super().row(table, key)
        (seq,) = SEQUENCE.unpack(key)
        return self._first_of(seq)

    def entries(self, table: Table) -> int:
        return int(self.one(sql.entries(name_of(table))))


class _BlobCheck(Pass):
    reader: _PostgresCheckReader

    def problems(self) -> Iterator[CheckProblem]:
        after, reader = 0, self.reader
        while page := reader.hashed_page(after):
            after = page[-1][0]
            yield from self.of_blobs(page)
            good: list[Added] = [(s, d, b) for s, b, d in page if d is not None]
            if good:
                found = reader.find([digest for _, digest, _ in good])
                for (seq, _, _), known in zip(good, found, strict=True):
                    if known != seq:
                        yield CheckProblem("address", seq, "the address does not map to the grain")
                yield from self._terms(good)
        head = reader.head
        addresses, terms = [
            int(reader.one(sql.entries(f"{SCHEMA}.{name}"))) for name in ("addresses", "terms")
        ]
        counts = head.grains, head.blob_bytes, head.last_seq
        yield from self.of_head(after, counts, (addresses, self.grains), terms)
        if reader.all(sql.WRONG_COUNTS):
            yield CheckProblem("term", None, "the count of a term differs from its grains")

    def _terms(self, good: list[Added]) -> Iterator[CheckProblem]:
        past = past_of(self.reader, [seq for seq, _, _ in good])
        terms = terms_of(good, past, self.reader.indexed_paths())
        self.rows += sum(len(places) for _, places in terms.lists)
        missing = self.reader.all(sql.MISSING_TERMS, *terms.arrays())
        for seq in sorted({int.from_bytes(place[12:], "big") for (place,) in missing}):
            yield CheckProblem("term", seq, "an index row is missing, or in the wrong state")
