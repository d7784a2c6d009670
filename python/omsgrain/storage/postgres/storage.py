# SPDX-License-Identifier: Apache-2.0
"""What is asked of a database before a store in it is opened, which might make one."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Literal, TypeVar, cast

import psycopg

from omsgrain.errors import StoreError
from omsgrain.storage.base import (
    CheckReport,
    CompactReport,
    RebuildReport,
    Sidecar,
    StoreStats,
    is_durable,
    see_range,
)
from omsgrain.storage.lmdb.commit_queue import CommitQueue
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.connection import (
    PATIENCE,
    Database,
    PostgresHead,
    connected,
    failure,
)
from omsgrain.storage.postgres.maintenance import check, compact, copy, rebuild, size_of
from omsgrain.storage.postgres.migrate import DEFAULT, admit, found_version, migrate, store_of
from omsgrain.storage.postgres.pool import Connection, ConnectionTarget, byteas
from omsgrain.storage.postgres.reader import PostgresReader, TermCounts
from omsgrain.storage.postgres.schema import SCHEMA
from omsgrain.storage.postgres.writer import Commits, PostgresWriter
from omsgrain.storage.tables import FORMAT, META

_FIND = f"SELECT 1 FROM {SCHEMA}.stores WHERE tenant = %s"
_MAY = f"SELECT has_table_privilege('{SCHEMA}.blobs', 'INSERT')"


def is_store(url: str, tenant: str | None = None) -> bool:
    """Tell whether there is a store of a tenant that the role of the URL may see."""
    name = DEFAULT if tenant is None else tenant
    with _connected(url) as connection:
        if not found_version(connection):
            return False
        return connection.execute(_FIND, (name,)).fetchone() is not None


def is_writable(url: str) -> bool:
    """Tell whether the database takes writes, and takes them from the role of the URL."""
    with _connected(url) as connection:
        row = connection.execute("SHOW transaction_read_only").fetchone()
        if row is None or row[0] != "off":
            return False  # a standby, say
        if not found_version(connection):
            return True
        may = connection.execute(_MAY).fetchone()
        return bool(may and may[0])


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    place = ConnectionTarget.of(url)
    try:
        with connected(place) as connection:
            yield connection
    except psycopg.Error as error:
        raise failure(place, "look for a store", error) from None


T = TypeVar("T")
Kind = TypeVar("Kind", bound=PostgresReader)

_TIMEOUT = 60.0
_PARTS = 1_000  # of a table, at the most: each is a file that every query may look into


class PostgresStorage:
    """A ``Store`` in PostgreSQL."""

    def __init__(
        self,
        url: str,
        *,
        tenant: str | None = None,
        readonly: bool = False,
        pool_size: int = 16,
        durability: Literal["commit", "relaxed"] = "commit",
        patience: float = PATIENCE,
        timeout: float = _TIMEOUT,
        partitions: int = 8,
    ) -> None:
        if pool_size < 2:
            raise StoreError("a store needs two connections: to read, and to write", expected="2")
        see_range("patience", patience)
        see_range("timeout", timeout)
        see_range("partitions", partitions, most=_PARTS)
        self.place = ConnectionTarget.of(url)
        self.tenant = DEFAULT if tenant is None else tenant
        self._readonly = readonly
        self._durable = is_durable(durability)
        self._database = Database(
            self.place,
            pool_size=pool_size,
            patience=patience,
            timeout=timeout,
            durable=self._durable,
        )
        migrate(self._database, readonly=readonly, partitions=partitions)
        self.store_id = store_of(self._database, self.tenant, readonly=readonly)
        self._database.enter(self.store_id)
        self._counts = TermCounts()
        watched = self._database.engine.policies and self._database.asked(sql.WATCHED)
        self._copies = not watched
        self._queue = CommitQueue(Commits(self._database, self._begin, self._kept).commit)
        self._let_go = weakref.finalize(self, self._database.close)

    @property
    def name(self) -> str:
        """The database, without secrets."""
        return self.place.shown

    @property
    def readonly(self) -> bool:
        """Whether ``write`` is refused."""
        return self._readonly

    @property
    def sidecar(self) -> Sidecar:
        """Where the text index and the graphs of vectors are."""
        return Sidecar(database=self._database, store_id=self.store_id)

    @contextmanager
    def read(self) -> Iterator[PostgresReader]:
        """Open a snapshot: from its first question on it has a connection for itself."""
        with self.reading(PostgresReader) as reader:
            yield reader

    @contextmanager
    def reading(self, kind: type[Kind]) -> Iterator[Kind]:
        """Open a snapshot of a kind of its own."""
        reader = kind(self._open(), self.store_id)
        try:
            yield reader
        finally:
            reader.end()

    def write(self, work: Callable[[PostgresWriter], T], *, expecting: Sequence[bytes] = ()) -> T:
        """Run ``work`` in a write transaction, perhaps more than once."""
        self._writable()
        return cast("T", self._queue.write(work, expecting=expecting))

    def _begin(self, expecting: list[bytes]) -> PostgresWriter:
        database, number = self._open(), self.store_id
        wire, (_, found, meta, *known) = database.begin(
            (sql.WRITE, ()),
            (sql.LOCKED_HEAD, (number,)),
            (sql.all_rows(META), (number,)),
            *[(sql.FIND, (byteas(part), number)) for part in sql.together(expecting)],
        )
        try:
            if not found:
                raise database.gone()
            *head, commits = found[0]
            there = dict.fromkeys(expecting) | dict(chain.from_iterable(known))
            return PostgresWriter(
                database,
                wire,
                number,
                PostgresHead(*head),
                self._counts,
                commits=commits,
                copies=self._copies,
                meta=dict(meta),
                known=there,
            )
        except BaseException:
            database.end(wire)
            raise

    def _kept(self, writer: PostgresWriter) -> None:
        self._counts = writer.counts

    def sync(self) -> None:
        """Make durable what was written with ``durability="relaxed"``."""
        self._open()
        if not (self._durable or self._readonly):
            # A commit that waits for the disk has all before it on the disk, too.
            def touch(writer: PostgresWriter) -> None:
                writer.run("SET LOCAL synchronous_commit = on")
                writer.touch()

            self._queue.write(touch, alone=True)
        else:
            with self.read() as reader:
                reader.ask()

    def flush(self) -> None:
        """Nothing to do: index rows are committed with their grains."""
        self._writable()

    def rebuild(self) -> RebuildReport:
        """Make the index rows anew from the blobs, in one transaction; other writers wait."""
        self._writable()
        return cast("RebuildReport", self._queue.write(rebuild, alone=True))

    def check(self) -> CheckReport:
        """Look at every blob, address and index row of this store."""
        self._open()
        return check(self)

    def compact(self) -> CompactReport:
        """Write the tables anew, without what was removed, of all stores in the database."""
        self._writable()
        return compact(self._database)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a store on disk (LMDB) at a new path.

        Writers may go on.
        """
        self._open()
        copy(self, Path(path))

    def stats(self) -> StoreStats:
        """Return how much the store holds; the bytes of tables are those of all stores."""
        with self.read() as reader:
            head = reader.head
            size = size_of(reader, self._database)
        return StoreStats(
            grains=head.grains,
            blob_bytes=head.blob_bytes,
            last_seq=head.last_seq,
            watermark=head.last_seq,
            file_bytes=size,
            format=FORMAT,
        )

    def admit(self, role: str) -> None:
        """Let a role of the database see and change the rows of this store, and of no other."""
        self._writable()
        admit(self._database, self.store_id, role)

    def close(self) -> None:
        """Let go of the connections; snapshots that are open keep theirs until they end."""
        if not (self._durable or self._readonly or self._database.closed):
            with suppress(StoreError):
                self.sync()
        self._let_go()

    def _open(self) -> Database:
        self._database.check_open()
        return self._database

    def _writable(self) -> None:
        self._open()
        if self._readonly:
            raise StoreError(f"the store at {self.place.shown!r} is open for reading only")
