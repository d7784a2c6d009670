# SPDX-License-Identifier: Apache-2.0
"""What a write transaction sends, and what it does to index rows."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from typing import Any

import psycopg

from omsgrain.errors import StoreError
from omsgrain.storage.base import Which
from omsgrain.storage.lmdb.commit_queue import PendingWrite, WorkFailedError
from omsgrain.storage.postgres import pool
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.connection import (
    Database,
    Pause,
    PostgresHead,
    failure,
    is_broken,
    is_clash,
    is_own,
    uncertain,
)
from omsgrain.storage.postgres.pool import Array, Row, Statement, Wire, byteas, numbers
from omsgrain.storage.postgres.reader import PostgresReader, TermCounts, beyond
from omsgrain.storage.postgres.rows import Added, IndexRows, add, add_terms, terms_of
from omsgrain.storage.postgres.write_cache import WriteCache, walked
from omsgrain.storage.records import forget
from omsgrain.storage.tables import EVENT, EVENTS, LONGEST_KEY, META, SEQUENCE, Kind, Table

NAME = 8
"""Bytes of the name of a commit."""
NAMES = 64
"""Names of commits that a head has."""


class IndexWriter(PostgresReader):
    """A transaction that has locked the head of the store.

    Attributes:
        broken: what the database refused first; the transaction is lost from then on.
        committing: the commit was sent.
        commits: the names of the store's last commits, before this one, the newest first.
        name: of this commit.
        counts: the terms that have a count.
    """

    counts: TermCounts

    def __init__(
        self,
        database: Database,
        wire: Wire,
        store_id: int,
        head: PostgresHead,
        *,
        commits: bytes,
        copies: bool,
    ) -> None:
        super().__init__(database, store_id)
        self._wire = self.wire = wire
        self._ahead = self._named = None  # answers change
        self.head = self._base = head
        self._copies = copies
        self.commits = commits
        self.name = os.urandom(NAME)
        self._sent = False
        self.broken: psycopg.Error | None = None
        self.committing = False

    def run(self, text: str, *params: Any) -> list[Row]:
        """Run a statement; return its rows, if it gives any."""
        return self._run(text, *params)

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """The driver's errors pass as they are: what can be tried again is decided above."""
        if self._ended:
            raise StoreError("the transaction is over")
        try:
            return self.wire.ask(*statements)
        except psycopg.Error as error:
            self.broken = self.broken or error
            raise

    def _send(self, statements: list[Statement]) -> None:
        self._sent = True
        self.ask(*statements)

    def touch(self) -> None:
        """Make this a commit that has something to write."""
        self._send([self._head_row()])

    def _head_row(self) -> Statement:
        """What the head is after this commit, with its name in front of the others."""
        commits = (self.name + self.commits)[: NAME * NAMES]
        return sql.SET_HEAD, (*self.head, commits, self.store_id)

    # --- index rows -----------------------------------------------------------------------------

    def _adding(self, grains: list[Added], terms: IndexRows) -> list[Statement]:
        """Copy grains and their index rows, or return the statements that add them."""
        self._sent = True
        try:
            return add(self.wire, self.store_id, grains, terms, copies=self._copies)
        except psycopg.Error as error:
            self.broken = self.broken or error
            raise

    def _recounted(self, changes: dict[bytes, tuple[int, int]]) -> list[Statement]:
        changed = self.counts.changed(changes)
        if not changed:
            return []
        current = numbers([change for change, _ in changed.values()])
        past = numbers([change for _, change in changed.values()])
        return [(sql.ADD_COUNTS, (self.store_id, byteas([*changed]), current, past))]

    def _rows_of(self, grains: list[Added]) -> list[tuple[bytes, bytes]]:
        """The keys and places of index rows; of damaged grains, all tables are read for theirs."""
        sound = [g for g in grains if sha256(g[2]).digest() == g[1]]
        rows = [(key, place) for key, places in terms_of(sound).lists for place in places]
        if len(sound) < len(grains):
            self.run("SET LOCAL statement_timeout = 0")  # a large store has many rows
            whole = {seq for seq, _, _ in sound}
            for seq, _, _ in grains:
                if seq not in whole:
                    end = SEQUENCE.pack(seq)[-4:]
                    rows += self.run(sql.TERMS_BY_NUMBER, self.store_id, end)
        return rows

    def drop_terms(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Delete index rows, in whichever state they are: most are current."""
        found: list[Row] = []
        for past in (False, True):
            found += self._each(
                sql.DROP_TERM, [(self.store_id, key, past, place) for key, place in rows]
            )
            met = {(key, place) for key, _, place in found}
            rows = [row for row in rows if row not in met]
        changes: dict[bytes, tuple[int, int]] = {}
        for key, past, _ in found:
            current, before = changes.get(key, (0, 0))
            changes[key] = (current, before - 1) if past else (current - 1, before)
        for statement, given in self._recounted(changes):
            self.run(statement, *given)

    def move_terms(self, rows: list[tuple[bytes, bool, bytes]]) -> None:
        """Make index rows past, or current again: each a key, whether it is past now, a place."""
        number = self.store_id
        params = [(past, number, key, not past, place) for key, past, place in rows]
        changes: dict[bytes, tuple[int, int]] = {}
        for key, past in self._each(sql.MOVE_TERM, params):
            current, before = changes.get(key, (0, 0))
            step = 1 if past else -1
            changes[key] = current - step, before + step
        for statement, given in self._recounted(changes):
            self.run(statement, *given)

    def _each(self, text: str, params: list[tuple[Any, ...]]) -> list[Row]:
        """Run a statement for each row, many on the way at a time; return what they gave."""
        self._sent = True
        found: list[Row] = []
        for part in sql.together(params):
            for rows in self.ask(*[(text, one) for one in part]):
                found += rows
        return found

    def add_terms(self, terms: IndexRows) -> None:
        """Write index rows of grains that are there already, and count them nowhere."""
        self._send(add_terms(self.wire, self.store_id, terms, copies=self._copies))


_GATHERED = 16 << 20  # bytes that wait at the most
_ROW = 64  # what a row is taken for, beside its bytes


class PostgresWriter(IndexWriter):
    """Writes in one transaction, which has locked the head of the store."""

    def __init__(
        self,
        database: Database,
        wire: Wire,
        store_id: int,
        head: PostgresHead,
        counts: TermCounts,
        *,
        commits: bytes,
        copies: bool,
        meta: dict[bytes, bytes],
        known: dict[bytes, int | None],
    ) -> None:
        super().__init__(database, wire, store_id, head, commits=commits, copies=copies)
        self._grains: dict[int, Added] = {}
        self._numbers: dict[bytes, int] = {}  # of those, by address
        self._known = known  # of addresses that were looked for
        self._rows: dict[Table, dict[bytes, bytes | None]] = {}
        self._moves: dict[int, bool] = {}  # grains that became past, or current again
        self._gone: dict[int, Added] = {}  # removed; their index rows are still there
        self._held = WriteCache({META: meta})
        self._size = 0
        self.counts = counts

    def learn(self) -> None:
        """Learn which terms have got a count since; before any work."""
        self.counts = self.counts.loaded(self)

    # --- what waits -----------------------------------------------------------------------------

    def all(self, text: str, *params: Any) -> list[Row]:
        """Ask for rows of the store; all that waits is sent before."""
        self.settle()
        return self.run(text, self.store_id, *params)

    def among(self, text: str, asked: Array, *params: Any) -> list[Row]:
        """Ask for those of a list that are there; all that waits is sent before."""
        self.settle()
        return super().among(text, asked, *params)

    def of(self, table: Table, text: str, *params: Any) -> list[Row]:
        """Ask for rows of one table; what waits for others goes on waiting."""
        if table in self._rows:
            self.settle()
        return self.run(text, self.store_id, *params)

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each of some terms; all that waits is sent before."""
        self.settle()
        return super().term_counts(terms)

    def settle(self) -> None:
        """Send all that waits."""
        if self._grains or self._rows or self._moves or self._gone:
            self._send(self._statements())

    def finish(self) -> None:
        """Send all that waits, and commit; take back if nothing was written."""
        statements = self._statements()
        if not (statements or self._sent or self.head != self._base):
            # The lock alone would make the commit wait for the disk; see also ``Database.end``.
            self._send([("SET LOCAL synchronous_commit = off", ()), ("COMMIT", ())])
            return
        self.committing = True
        self._send([*statements, self._head_row(), ("COMMIT", ())])

    def _statements(self) -> list[Statement]:
        """What waits, as statements in the order in which they must run."""
        statements: list[Statement] = []
        if self._gone:
            again = any(digest in self._numbers for _, digest, _ in self._gone.values())
            statements += self._removed()
            if again:  # what adds grains may send before all of this is
                self._send(statements)
                statements = []
        if self._moves:
            self._move()
        if self._grains:
            statements += self._added()
        for table, rows in self._rows.items():
            dropped = [key for key, value in rows.items() if value is None]
            kept = sorted((key, value) for key, value in rows.items() if value is not None)
            statements += [(sql.drop_row(table), (self.store_id, key)) for key in dropped]
            if kept:
                keys, values = byteas([k for k, _ in kept]), byteas([v for _, v in kept])
                statements.append((sql.set_rows(table), (self.store_id, keys, values)))
        self._rows, self._size = {}, 0
        return statements

    def _added(self) -> list[Statement]:
        grains, self._grains, self._numbers = [*self._grains.values()], {}, {}
        past = {SEQUENCE.pack(seq)[-4:] for seq, is_past in self._moves.items() if is_past}
        self._moves = {}
        terms = terms_of(grains, past)
        statements = self._adding(grains, terms)
        statements += self._recounted(terms.changes())
        chosen = self.counts.chosen(grains)
        if chosen:
            self._send(statements)
            statements = []
            self.counts = self.counts.noticed(self, chosen)
        return statements

    def _wait(self, size: int) -> None:
        """Note that something more waits; send it all if that has become much."""
        self._size += size + _ROW
        if self._size >= _GATHERED:
            self.settle()

    # --- grains ---------------------------------------------------------------------------------

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number of each; what waits is known here."""
        ours, before = self._numbers, self._known
        known = {d: ours.get(d, before.get(d)) for d in digests if d in ours or d in before}
        if asked := [digest for digest in digests if digest not in known]:
            found = dict(zip(asked, self._found(asked), strict=True))
            before.update(found)
            known.update(found)
        return [known[digest] for digest in digests]

    def _found(self, digests: Sequence[bytes]) -> list[int | None]:
        """Look in the table of addresses, as it is; what waits stays waiting."""
        known: dict[bytes, int] = {}
        for part in sql.together(digests):
            known.update(self.run(sql.FIND, byteas(part), self.store_id))
        return [known.get(digest) for digest in digests]

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number."""
        if (waiting := self._grains.get(seq)) is not None:
            return waiting[2]
        if seq in self._gone or seq >= sql.BEYOND:
            return None
        if (blob := self._held.blob(seq)) is not None:
            return blob
        rows = self.run(sql.BLOB, self.store_id, seq)  # what waits is about others
        if not rows:
            return None
        self._held.keep(seq, rows[0][0])
        return bytes(rows[0][0])

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append the blobs that are new; tell which those were."""
        known = self.find([digest for digest, _ in items])
        flags = []
        last, size, count = self.head.last_seq, 0, 0
        added = set[bytes]()
        for (digest, blob), seq in zip(items, known, strict=True):
            new = seq is None and digest not in added
            flags.append(new)
            if new:
                last += 1
                added.add(digest)
                self._grains[last] = last, digest, bytes(blob)
                self._numbers[digest] = last
                self._known.pop(digest, None)
                size, count = size + len(blob), count + 1
                if size + count * _ROW >= _GATHERED:
                    self._arrived(size, count)
                    size = count = 0
        if count:
            self._arrived(size, count)
        return flags

    def _arrived(self, size: int, count: int) -> None:
        """Note in the head that so many grains wait more, before they may be sent."""
        last, blob_bytes, grains, ordinal = self.head
        self.head = PostgresHead(last + count, blob_bytes + size, grains + count, ordinal)
        self._wait(size + count * _ROW)

    def event(self, kind: Kind, seq: int, digest: bytes) -> int:
        """Note that something happened to a grain; return the event's own number."""
        number = self.head.last_seq + 1
        self.head = self.head._replace(last_seq=number)
        self.set_row(EVENTS, SEQUENCE.pack(number), EVENT.pack(kind, seq, digest))
        return number

    def remove(self, seq: int) -> None:
        """Take out a grain and every row about it."""
        grain = self._stored(seq)
        if grain is None:
            return
        forget(self, seq)
        _, digest, blob = grain
        self._gone[seq] = grain
        self._moves.pop(seq, None)
        self._known[digest] = None
        self._held.drop(seq)
        self._wait(len(blob))
        last, blob_bytes, count, ordinal = self.head
        # Whoever follows the store tells snapshots apart by their last numbers.
        last = max(last, self._base.last_seq + 1)
        self.head = PostgresHead(last, blob_bytes - len(blob), count - 1, ordinal)

    def _stored(self, seq: int) -> Added | None:
        """A grain of the tables, with the address that it stands under there."""
        if seq in self._grains:
            self.settle()
        blob = self.blob_at(seq)
        if blob is None:
            return None
        digest = sha256(blob).digest()
        if self.find([digest]) == [seq]:
            return seq, digest, blob
        found = self.among(sql.GRAINS, pool.numbers([seq]))  # damaged
        return (seq, *found[0][1:]) if found else None

    def _removed(self) -> list[Statement]:
        """Take out the index rows of what was removed; return what is left to be done."""
        gone, self._gone = [*self._gone.values()], {}
        self.drop_terms(self._rows_of(gone))
        number = self.store_id
        return [
            statement
            for seq, digest, _ in gone
            for statement in (
                (sql.DROP_ADDRESS, (number, digest, seq)),
                (sql.DROP_BLOB, (number, seq)),
            )
        ]

    # --- the index ------------------------------------------------------------------------------

    def set_past(self, seq: int, past: bool) -> None:
        """Move a grain's index rows to the past ones, or back."""
        self._moves[seq] = past
        self._wait(0)

    def _move(self) -> None:
        """Move the index rows of grains that do not wait themselves."""
        moves = {seq: past for seq, past in self._moves.items() if seq not in self._grains}
        if not moves:
            return
        self._moves = {seq: past for seq, past in self._moves.items() if seq in self._grains}
        numbers = [*moves]
        for start in range(0, len(numbers), sql.TOGETHER):
            part = pool.numbers(numbers[start : start + sql.TOGETHER])
            grains: list[Added] = self.run(sql.GRAINS, part, self.store_id)
            rows = self._rows_of(grains)
            self.move_terms(
                [(key, moves[int.from_bytes(place[12:], "big")], place) for key, place in rows]
            )

    # --- rows -----------------------------------------------------------------------------------

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key; of what waits, that."""
        waiting = self._rows.get(table)
        if waiting is not None and key in waiting:
            return waiting[key]
        if (held := self._whole(table)) is not None:
            return held.get(key)
        rows = self.run(sql.row(table), self.store_id, key)
        return rows[0][0] if rows else None

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those of some keys that are there; of what waits, those."""
        if (held := self._whole(table)) is not None:
            return {key: held[key] for key in keys if key in held}
        waiting = self._rows.get(table, {})
        asked = [key for key in keys if key not in waiting]
        found = {key: value for key in keys if (value := waiting.get(key)) is not None}
        for part in sql.together(asked):
            found.update(self.run(sql.some_rows(table), byteas(part), self.store_id))
        return found

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Walk keys and values by rising keys."""
        held = self._whole(table)
        return super().rows(table, after, prefix) if held is None else walked(held, after, prefix)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        """Return the highest key and its value; None if the table is empty."""
        if (held := self._whole(table)) is None:
            return super().last_row(table)
        return max(held.items(), default=None)

    def _whole(self, table: Table) -> dict[bytes, bytes] | None:
        """All rows of a small table that is asked again and again."""

        def read(most: int) -> list[Row]:
            return self.of(table, sql.rows_from(table), b"", sql.ABOVE, most)

        return self._held.table(table, read)

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        """Delete rows whose keys begin with a prefix, so many at the most; returns how many."""
        self.settle()
        self._held.forget((table,))
        end, number = beyond(prefix), self.store_id
        self._sent = True
        params = number, prefix, number, prefix, end, most, end
        return int(self._run(sql.drop_rows(table), *params)[0][0])

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None deletes it."""
        if not 0 < len(key) <= LONGEST_KEY:
            raise StoreError("a key of that length cannot be stored", found=f"{len(key)} bytes")
        if not self._held.set(table, key, value) and key not in self._rows.get(table, {}):
            return  # it is not there
        self._rows.setdefault(table, {})[key] = value
        self._wait(len(key) + len(value or b""))

    def set_rows(self, table: Table, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Set many keys; of a table whose keys are cut, the two parts of each."""
        for key, value in rows:
            if table.split:
                key, value = key + value, b""
            self.set_row(table, key, value)


Begin = Callable[[list[bytes]], PostgresWriter]


class _NotBegunError(Exception):
    """No transaction could begin, which says nothing about the works that wait for one."""

    def __init__(self, reason: StoreError) -> None:
        super().__init__()
        self.reason = reason


class Commits:
    """How the works of one process for one store are committed."""

    def __init__(
        self, database: Database, begin: Begin, kept: Callable[[PostgresWriter], None]
    ) -> None:
        self._database = database
        self._begin = begin
        self._kept = kept

    def commit(self, members: list[PendingWrite]) -> None:
        """Commit works together, or where one of them fails, each by itself."""
        try:
            self._together(members)
        except _NotBegunError as error:
            raise error.reason from None

    def _together(self, members: list[PendingWrite]) -> None:
        try:
            self._commit(members)
        except WorkFailedError:
            for member in members:
                self._alone(member)

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
        """Tell what became of a commit that was not answered."""
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

    def _run(self, writer: PostgresWriter, member: PendingWrite, together: int) -> Any:
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
