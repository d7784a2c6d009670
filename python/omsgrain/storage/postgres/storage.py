# SPDX-License-Identifier: Apache-2.0
"""``PostgresStorage``: a storage in PostgreSQL, whose works share commits within a process."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, cast

import psycopg

from omsgrain.errors import StoreError, see_range
from omsgrain.storage.base import CheckReport, CompactReport, RebuildReport, Sidecar, StoreStats
from omsgrain.storage.lmdb.commit_queue import CommitQueue, PendingWrite, WorkFailedError
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.connection import (
    PATIENCE,
    Database,
    Pause,
    PostgresHead,
    connected,
    failure,
    is_broken,
    is_clash,
    is_own,
    uncertain,
)
from omsgrain.storage.postgres.maintenance import check, compact, copy, rebuild, size_of
from omsgrain.storage.postgres.pool import Connection, ConnectionTarget, byteas
from omsgrain.storage.postgres.reader import PostgresReader
from omsgrain.storage.postgres.schema import (
    DEFAULT,
    SCHEMA,
    admit,
    found_version,
    migrate,
    store_of,
)
from omsgrain.storage.postgres.writer import NAME, NAMES, PostgresWriter, TermCounts
from omsgrain.storage.tables import FORMAT, INDEXED_FORMAT, META, pieces

T = TypeVar("T")
Kind = TypeVar("Kind", bound=PostgresReader)

_TIMEOUT = 60.0
_LONGEST = 2_000_000  # seconds: the maximum of PostgreSQL, and of Python's locks
_PARTS = 1_000  # maximum partitions of a table: every query may read each of these files


Begin = Callable[[list[bytes]], PostgresWriter]


class _NotBegunError(Exception):
    """No transaction could begin, which says nothing about the waiting works."""

    def __init__(self, reason: StoreError) -> None:
        super().__init__()
        self.reason = reason


class Commits:
    """Commits the works of one process for one store."""

    def __init__(
        self, database: Database, begin: Begin, kept: Callable[[PostgresWriter], None]
    ) -> None:
        self._database = database
        self._begin = begin
        self._kept = kept

    def commit(self, members: list[PendingWrite]) -> None:
        """Commit works together; if one fails, commit each by itself."""
        try:
            try:
                self._commit(members)
            except WorkFailedError:
                for member in members:
                    self._alone(member)
        except _NotBegunError as error:
            raise error.reason from None

    def _alone(self, member: PendingWrite) -> None:
        try:
            self._commit([member])
        except _NotBegunError:
            raise
        except Exception as error:
            member.settle(None, error)

    def _commit(self, members: list[PendingWrite]) -> None:
        trouble: Pause | None = None
        expecting = [digest for member in members for digest in member.expecting]
        while True:
            writer: PostgresWriter | None = None
            try:
                try:
                    writer = self._begin(expecting)
                except StoreError as error:
                    raise _NotBegunError(error) from None
                writer.learn()
                results = [self._run(writer, member, len(members)) for member in members]
                writer.finish()
            except psycopg.Error as error:
                closed = writer is not None and writer.wire.closed
                if writer is not None:
                    writer.end("ROLLBACK")
                trouble = trouble or Pause(self._database.patience)
                if is_broken(error, closed):
                    self._database.pool.drop()
                    if writer is not None and writer.committing and self._committed(writer):
                        break
                elif is_own(error) and len(members) > 1:
                    raise WorkFailedError from None
                elif not is_clash(error):
                    raise failure(self._database.place, "write to the store", error) from None
                if not trouble.take():
                    raise failure(self._database.place, "write to the store", error) from None
            except BaseException:
                if writer is not None:
                    writer.end("ROLLBACK")
                raise
            else:
                writer.end(None)
                break
        self._kept(writer)
        for member, result in zip(members, results, strict=True):
            member.settle(result, None)

    def _committed(self, writer: PostgresWriter) -> bool:
        """Return whether a commit without an answer was made."""
        committed = None
        with suppress(StoreError):  # the server is still away
            # Once the lock on the head is free, the commit has ended either way.
            question = sql.LOCKED_HEAD, (writer.store_id,)
            wire, (_, head) = self._database.begin((sql.WRITE, ()), question)
            self._database.end(wire)
            committed = _outcome(writer, head[0][-1]) if head else None
        if committed is None:
            raise uncertain(self._database.place) from None
        return committed

    def _run(self, writer: PostgresWriter, member: PendingWrite, together: int) -> Any:
        """Run one work; an error of the database counts even if the work hides it."""
        try:
            result = member.work(writer)
        except psycopg.Error:
            raise
        except Exception:
            if writer.broken is not None:
                raise writer.broken from None
            if together == 1:
                raise
            raise WorkFailedError from None
        if writer.broken is not None:
            raise writer.broken
        return result


def _outcome(writer: PostgresWriter, commits: bytes) -> bool | None:
    """Find out whether a commit was made by the names of the last ones; None if unknown."""
    names = pieces(commits, NAME)
    if writer.name in names:
        return True
    if len(names) < NAMES or writer.commits[:NAME] in names:
        return False
    return None


class PostgresStorage:
    def __init__(
        self,
        url: str,
        *,
        tenant: str | None = None,
        readonly: bool = False,
        pool_size: int = 16,
        durable: bool = True,
        patience: float = PATIENCE,
        timeout: float = _TIMEOUT,
        partitions: int = 8,
    ) -> None:
        if pool_size < 2:
            raise StoreError(
                "a store needs at least two connections, to read and to write",
                expected="a pool_size of at least 2",
            )
        see_range("patience", patience, 0, _LONGEST)
        see_range("timeout", timeout, 0, _LONGEST)
        see_range("partitions", partitions, 0, _PARTS)
        self.place = ConnectionTarget.of(url)
        self.tenant = DEFAULT if tenant is None else tenant
        self.name = self.place.shown
        self.readonly = readonly
        self._durable = durable
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
        self._written: Callable[[], None] | None = None
        self.sidecar = Sidecar(database=self._database, store_id=self.store_id)
        self._counts = TermCounts()
        self._queue = CommitQueue(Commits(self._database, self._begin, self._kept).commit)
        self._let_go = weakref.finalize(self, self._database.close)

    @contextmanager
    def read(self) -> Iterator[PostgresReader]:
        """Open a snapshot, which uses a connection from its first read on."""
        with self.reading(PostgresReader) as reader:
            yield reader

    @contextmanager
    def reading(self, kind: type[Kind]) -> Iterator[Kind]:
        """Open a snapshot with another class of readers."""
        reader = kind(self._open(), self.store_id)
        try:
            yield reader
        finally:
            reader.end()

    def write(
        self,
        work: Callable[[PostgresWriter], T],
        *,
        expecting: Sequence[bytes] = (),
        alone: bool = False,
    ) -> T:
        self._writable()
        result = cast("T", self._queue.write(work, expecting=expecting, alone=alone))
        if self._written is not None:
            self._written()
        return result

    def _begin(self, expecting: list[bytes]) -> PostgresWriter:
        database, number = self._open(), self.store_id
        wire, (_, found, due, meta, *known) = database.begin(
            (sql.WRITE, ()),
            (sql.LOCKED_HEAD, (number,)),
            (sql.FIRST_DUE, (number,)),
            (sql.all_rows(META), (number,)),
            *[(sql.FIND, (number, byteas(part))) for part in sql.together(expecting)],
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
                due=due[0][0] if due else None,
                meta=dict(meta),
                known=there,
            )
        except BaseException:
            database.end(wire)
            raise

    def _kept(self, writer: PostgresWriter) -> None:
        self._counts = writer.counts

    def on_write(self, call: Callable[[], None]) -> None:
        self._written = call

    def sync(self) -> None:
        self._open()
        if not (self._durable or self.readonly):
            # A synced commit also syncs all commits before it.
            def touch(writer: PostgresWriter) -> None:
                writer.run("SET LOCAL synchronous_commit = on")
                writer.touch()

            self._queue.write(touch, alone=True)
        else:
            with self.read() as reader:
                reader.ask()

    def flush(self) -> None:
        """Do nothing: index rows are committed with their grains."""
        self._writable()

    def rebuild(self) -> RebuildReport:
        """Rebuild the index rows from the blobs in one transaction, while other writers wait."""
        self._writable()
        return cast("RebuildReport", self._queue.write(rebuild, alone=True))

    def check(self) -> CheckReport:
        self._open()
        return check(self)

    def compact(self) -> CompactReport:
        """Rewrite the tables of all stores in the database without removed rows."""
        self._writable()
        return compact(self._database)

    def backup(self, path: str | os.PathLike[str]) -> None:
        self._open()
        copy(self, Path(path))

    def stats(self) -> StoreStats:
        """Return the size of the store; ``file_bytes`` counts the tables of all stores."""
        with self.read() as reader:
            head = reader.head
            size = size_of(reader)
            number = FORMAT if reader.indexed_paths() is None else INDEXED_FORMAT
        return StoreStats(
            grains=head.grains,
            blob_bytes=head.blob_bytes,
            last_seq=head.last_seq,
            watermark=head.last_seq,
            file_bytes=size,
            format=number,
        )

    def admit(self, role: str) -> None:
        """Let a role of the database read and change the rows of this store only."""
        self._writable()
        admit(self._database, self.store_id, role)

    def close(self) -> None:
        """Close the connections; open snapshots keep theirs until they end."""
        if not (self._durable or self.readonly or self._database.closed):
            with suppress(StoreError):
                self.sync()
        self._let_go()

    def _open(self) -> Database:
        self._database.check_open()
        return self._database

    def _writable(self) -> None:
        self._open()
        if self.readonly:
            raise StoreError(f"the store at {self.place.shown!r} is open read-only")


_FIND = f"SELECT 1 FROM {SCHEMA}.stores WHERE tenant = %s"
_MAY = f"SELECT has_table_privilege('{SCHEMA}.blobs', 'INSERT')"


def is_store(url: str, tenant: str | None = None) -> bool:
    """Return whether a tenant has a store that the URL's role may see."""
    name = DEFAULT if tenant is None else tenant
    with _connected(url) as connection:
        if not found_version(connection):
            return False
        return connection.execute(_FIND, (name,)).fetchone() is not None


def is_writable(url: str) -> bool:
    """Return whether the database accepts writes by the URL's role."""
    with _connected(url) as connection:
        row = connection.execute("SHOW transaction_read_only").fetchone()
        if row is None or row[0] != "off":
            return False  # for example a standby
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
