# SPDX-License-Identifier: Apache-2.0
"""Works that share a commit, and those that are run again.

A commit costs a wait for the disk whatever it holds, and the writers of a store take turns. So
threads of a process that wait for one another share a transaction; if the work of one fails, all
is taken back, and each is run in a transaction of its own.

A work is run again where others came in its way, and where the server went away before the commit
was sent. If it went away after that, the head of the store tells: it has the names of the last
commits. (A transaction's own number would not do: one that was lost with the server's memory is
given again.) If the name is there, it was committed. If the newest name of before is there, or
there is room for more, it was not. Else too many others have committed since, and nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from omsgrain.errors import StoreError
from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.database import Database, Pause
from omsgrain.store.postgres.failures import failure, is_broken, is_clash, is_own, uncertain
from omsgrain.store.postgres.indexing import NAME, NAMES
from omsgrain.store.postgres.writing import PostgresWriter
from omsgrain.store.turns import Member, WorkFailedError

__all__ = ["Commits"]

Begin = Callable[[list[bytes]], PostgresWriter]


class _NotBegunError(Exception):
    """No transaction could begin, which says nothing about the works that wait for one."""

    def __init__(self, reason: StoreError) -> None:
        super().__init__()
        self.reason = reason


class Commits:
    """How the works of one process for one store are committed.

    Args:
        database: where.
        begin: begins a write transaction, and looks for some addresses at once.
        kept: called with the writer of every commit, in their order.
    """

    def __init__(
        self, database: Database, begin: Begin, kept: Callable[[PostgresWriter], None]
    ) -> None:
        self._database = database
        self._begin = begin
        self._kept = kept

    def commit(self, members: list[Member]) -> None:
        """Commit works together, or where one of them fails, each by itself.

        Raises:
            StoreError: no transaction could begin: the end of all that are left, together. Each
                by itself would wait as long as this one did.
        """
        try:
            self._together(members)
        except _NotBegunError as error:
            raise error.reason from None

    def _together(self, members: list[Member]) -> None:
        try:
            self._commit(members)
        except WorkFailedError:
            for member in members:
                self._alone(member)

    def _alone(self, member: Member) -> None:
        try:
            self._commit([member])
        except _NotBegunError:
            raise
        except Exception as error:
            member.settle(None, error)

    def _commit(self, members: list[Member]) -> None:
        trouble: Pause | None = None
        expecting = [digest for member in members for digest in member.expecting]
        while True:
            writer: PostgresWriter | None = None
            try:
                writer = self._begun(expecting)
                writer.learn()
                results = [self._run(writer, member, len(members)) for member in members]
                writer.finish()
            except psycopg.Error as error:
                closed = writer is not None and writer.wire.closed
                self._over(writer)
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
                self._over(writer)
                raise
            else:
                writer.end(None)
                break
        self._kept(writer)
        for member, result in zip(members, results, strict=True):
            member.settle(result, None)

    def _begun(self, expecting: list[bytes]) -> PostgresWriter:
        try:
            return self._begin(expecting)
        except StoreError as error:
            raise _NotBegunError(error) from None

    def _committed(self, writer: PostgresWriter) -> bool:
        """Tell what became of a commit that was not answered.

        Raises:
            StoreError: nobody can tell.
        """
        committed = None
        with suppress(StoreError):  # the server stays away
            # Once the head is free: it has ended, whichever way.
            question = sql.LOCKED_HEAD, (writer.store_id,)
            wire, (_, head) = self._database.begin((sql.WRITE, ()), question)
            self._database.end(wire)
            committed = _outcome(writer, head[0][-1]) if head else None
        if committed is None:
            raise uncertain(self._database.place) from None
        return committed

    def _run(self, writer: PostgresWriter, member: Member, together: int) -> Any:
        """Run one work; what the database refused counts, whatever the work made of it."""
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

    def _over(self, writer: PostgresWriter | None) -> None:
        if writer is not None:
            writer.end("ROLLBACK")


def _outcome(writer: PostgresWriter, commits: bytes) -> bool | None:
    """Tell whether a commit was made, by the names of the last ones; None: nobody can tell."""
    names = [commits[at : at + NAME] for at in range(0, len(commits), NAME)]
    if writer.name in names:
        return True
    if len(names) < NAMES or writer.commits[:NAME] in names:
        return False
    return None
