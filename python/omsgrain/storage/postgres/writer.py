# SPDX-License-Identifier: Apache-2.0
"""A write transaction: its buffered changes, and the counts of frequent terms."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

import psycopg

from omsgrain import _core
from omsgrain.errors import StoreError
from omsgrain.storage.base import MANY_ROWS, Reader, Which, Writer
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.cache import WriteCache, walked
from omsgrain.storage.postgres.connection import Database, PostgresHead
from omsgrain.storage.postgres.pool import Row, Statement, Wire, byteas, numbers
from omsgrain.storage.postgres.reader import PostgresReader, beyond, past_of
from omsgrain.storage.postgres.rows import Added, IndexRows, add, add_terms, terms_of
from omsgrain.storage.records import forget
from omsgrain.storage.tables import (
    DUE,
    FORMAT,
    INDEXED_FORMAT,
    INDEXED_RECORD,
    LONGEST_KEY,
    META,
    SEQUENCE,
    VALUES,
    Table,
)

MANY = 1_024
"""Minimum number of grains for a term to get a row in ``counts``."""

GENERATION = 1 << 32
"""Ordinals per generation: a rebuild starts the next one, so that all are loaded again."""

_SEEN = 1_023  # a mask: the terms of one grain in 1,024 are examined


class TermCounts:
    """The terms with a row in ``counts``, as far as this process knows."""

    def __init__(self, ordinal: int = 0, keys: frozenset[bytes] = frozenset()) -> None:
        self.ordinal = ordinal  # the ordinal of the last term
        self.keys = keys  # all terms with a row

    def loaded(self, writer: PostgresWriter) -> TermCounts:
        """Return the terms, including those that other processes have added."""
        if writer.head.ordinal == self.ordinal:
            return self
        # A rebuild or a restored database begins a new generation.
        same = writer.head.ordinal >> 32 == self.ordinal >> 32
        more = same and writer.head.ordinal > self.ordinal
        rows = writer.all(sql.COUNTED, self.ordinal if more else 0)
        known = self.keys if more else frozenset()
        return TermCounts(writer.head.ordinal, known.union(key for key, _ in rows))

    def changed(self, changes: Mapping[bytes, tuple[int, int]]) -> dict[bytes, tuple[int, int]]:
        return {key: changes[key] for key in self.keys & changes.keys() if any(changes[key])}

    def chosen(self, grains: list[Added]) -> list[Added]:
        return [g for g in grains if int.from_bytes(g[1][:2], "big") & _SEEN == 0]

    def noticed(self, writer: PostgresWriter, chosen: list[Added]) -> TermCounts:
        """Give rows to frequent terms of some grains."""
        paths = writer.indexed_paths()
        keys = sorted({key for key, _ in terms_of(chosen, paths=paths).lists} - self.keys)
        if not keys:
            return self
        many = [key for (key,) in writer.run(sql.MANY, byteas(keys), MANY)]
        return self.counted(writer, many) if many else self

    def counted(self, writer: PostgresWriter, keys: list[bytes]) -> TermCounts:
        last = writer.head.ordinal
        writer.run(sql.COUNT, byteas(keys), last)
        writer.head = writer.head._replace(ordinal=last + len(keys))
        return TermCounts(writer.head.ordinal, self.keys.union(keys))


NAME = 8
"""Bytes of the name of a commit."""
NAMES = 64
"""Number of commit names in a head."""


_GATHERED = 16 << 20  # maximum bytes to buffer
_ROW = 64  # assumed bytes of a row in addition to its content


class PostgresWriter(PostgresReader, Writer):
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
        due: bytes | None,
        meta: dict[bytes, bytes],
        known: dict[bytes, int | None],
    ) -> None:
        super().__init__(database, store_id)
        self._wire = self.wire = wire
        self._ahead = None  # answers can change
        self._due = due
        self.head = self._base = head
        # the names of the store's last commits before this one, newest first
        self.commits = commits
        self.name = os.urandom(NAME)  # the name of this commit
        self._sent = False
        # the first error of the database; the transaction is lost after it
        self.broken: psycopg.Error | None = None
        self.committing = False  # whether the commit was sent
        self.counts = counts  # the terms with a count
        self._grains: dict[int, Added] = {}
        self._numbers: dict[bytes, int] = {}  # numbers of these grains, by address
        self._known = known  # numbers of looked-up addresses
        self._rows: dict[Table, dict[bytes, bytes | None]] = {}
        self._moves: dict[int, bool] = {}  # grains that became past or current
        self._gone: dict[int, Added] = {}  # removed grains whose index rows remain
        self._held = WriteCache({META: meta})
        self._size = 0

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Run statements without converting the driver's errors: the caller decides on retries."""
        if self._ended:
            raise StoreError("the transaction is closed")
        try:
            return self.wire.ask(*statements)
        except psycopg.Error as error:
            self.broken = self.broken or error
            raise

    def _send(self, statements: Sequence[Statement]) -> None:
        self._sent = True
        self.ask(*statements)

    def touch(self) -> None:
        """Make this a commit with something to write."""
        self._send([self._head_row()])

    def _head_row(self) -> Statement:
        """Return the statement that sets the head after this commit, with its name first."""
        commits = (self.name + self.commits)[: NAME * NAMES]
        return sql.SET_HEAD, (self.store_id, *self.head, commits)

    def without_timeout(self) -> None:
        self.ask(("SET LOCAL statement_timeout = 0", ()))

    def learn(self) -> None:
        self.counts = self.counts.loaded(self)

    # --- index rows -----------------------------------------------------------------------------

    def _recounted(self, changes: Mapping[bytes, tuple[int, int]]) -> list[Statement]:
        """Return the statements for changed counts of current and past grains per term."""
        changed = self.counts.changed(changes)
        if not changed:
            return []
        current = numbers([change for change, _ in changed.values()])
        past = numbers([change for _, change in changed.values()])
        return [(sql.ADD_COUNTS, (self.store_id, byteas([*changed]), current, past))]

    def _recount(self, changes: Mapping[bytes, tuple[int, int]]) -> None:
        for statement in self._recounted(changes):
            self.ask(statement)

    def _rows_of(self, grains: list[Added]) -> list[tuple[bytes, bytes]]:
        """Return the keys and places of index rows; for damaged grains, it reads all tables."""
        sound = [g for g in grains if sha256(g[2]).digest() == g[1]]
        terms = terms_of(sound, paths=self.indexed_paths())
        rows = [(key, place) for key, places in terms.lists for place in places]
        if len(sound) < len(grains):
            self.without_timeout()  # a large store has many rows
            whole = {seq for seq, _, _ in sound}
            for seq, _, _ in grains:
                if seq not in whole:
                    rows += self.run(sql.TERMS_BY_NUMBER, SEQUENCE.pack(seq)[-4:])
        return rows

    def _drop_terms(self, rows: list[tuple[bytes, bytes]]) -> None:
        """Delete index rows in either state: most are current."""
        found: list[Row] = []
        for past in (False, True):
            found += self._each(sql.DROP_TERM, [(key, past, place) for key, place in rows])
            met = {(key, place) for key, _, place in found}
            rows = [row for row in rows if row not in met]
        changes: dict[bytes, tuple[int, int]] = {}
        for key, past, _ in found:
            current, before = changes.get(key, (0, 0))
            changes[key] = (current, before - 1) if past else (current - 1, before)
        self._recount(changes)

    def _move_terms(self, rows: list[tuple[bytes, bool, bytes]]) -> None:
        """Move index rows between current and past: key, whether past now, place."""
        params = [(key, not past, place) for key, past, place in rows]
        changes: dict[bytes, tuple[int, int]] = {}
        for key, past in self._each(sql.MOVE_TERM, params):
            current, before = changes.get(key, (0, 0))
            step = 1 if past else -1
            changes[key] = current - step, before + step
        self._recount(changes)

    def _each(self, text: str, params: list[tuple[Any, ...]]) -> list[Row]:
        """Run a statement for each row, many per round trip; return all rows."""
        self._sent = True
        found: list[Row] = []
        for part in sql.together(params):
            for rows in self.ask(*[(text, (self.store_id, *one)) for one in part]):
                found += rows
        return found

    def add_terms(self, terms: IndexRows) -> None:
        """Write index rows of existing grains without counting them."""
        self._send(add_terms(self.store_id, terms))

    # --- buffered changes -----------------------------------------------------------------------

    def all(self, text: str, *params: Any) -> list[Row]:
        """Read rows of the store after sending all buffered changes."""
        self.settle()
        return self.run(text, *params)

    def of(self, table: Table, text: str, *params: Any) -> list[Row]:
        """Read rows of one table after sending its buffered changes."""
        if table in self._rows:
            self.settle()
        return self.run(text, *params)

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        self.settle()
        return super().term_counts(terms)

    def suffixes(
        self, table: Table, prefixes: Sequence[bytes], most: int = MANY_ROWS
    ) -> list[bytes]:
        self.settle()
        return super().suffixes(table, prefixes, most)

    def settle(self) -> None:
        if self._grains or self._rows or self._moves or self._gone:
            self._send(self._statements())

    def finish(self) -> None:
        """Send all buffered changes and commit; roll back if nothing was written."""
        statements = self._statements()
        if not (statements or self._sent or self.head != self._base):
            # The lock alone would make the commit wait for the disk; see also ``Database.end``.
            self._send([("SET LOCAL synchronous_commit = off", ()), ("COMMIT", ())])
            return
        self.committing = True
        self._send([*statements, self._head_row(), ("COMMIT", ())])

    def _statements(self) -> list[Statement]:
        """Return the buffered changes as statements in the required order."""
        statements: list[Statement] = []
        if self._gone:
            again = any(digest in self._numbers for _, digest, _ in self._gone.values())
            statements += self._removed()
            if again:  # adding grains may send earlier than these
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
        terms = terms_of(grains, past, self.indexed_paths())
        self._sent = True
        statements = add(self.store_id, grains, terms)
        statements += self._recounted(terms.changes())
        chosen = self.counts.chosen(grains)
        if chosen:
            self._send(statements)
            statements = []
            self.counts = self.counts.noticed(self, chosen)
        return statements

    def _wait(self, size: int) -> None:
        """Count a buffered change; send all if there are many."""
        self._size += size + _ROW
        if self._size >= _GATHERED:
            self.settle()

    # --- grains ---------------------------------------------------------------------------------

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        ours, before = self._numbers, self._known
        known = {d: ours.get(d, before.get(d)) for d in digests if d in ours or d in before}
        if asked := [digest for digest in digests if digest not in known]:
            found = dict(zip(asked, super().find(asked), strict=True))
            before.update(found)
            known.update(found)
        return [known[digest] for digest in digests]

    def blob_at(self, seq: int) -> bytes | None:
        if (waiting := self._grains.get(seq)) is not None:
            return waiting[2]
        if seq in self._gone or seq >= sql.BEYOND:
            return None
        if (blob := self._held.blob(seq)) is not None:
            return blob
        rows = self.run(sql.BLOB, seq)  # buffered changes concern other grains
        if not rows:
            return None
        self._held.keep(seq, rows[0][0])
        return bytes(rows[0][0])

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
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
        """Count buffered grains in the head, before they may be sent."""
        last, blob_bytes, grains, ordinal = self.head
        self.head = PostgresHead(last + count, blob_bytes + size, grains + count, ordinal)
        self._wait(size + count * _ROW)

    def first_due(self) -> int | None:
        own = self._sent or DUE in self._rows
        return Reader.first_due(self) if own else super().first_due()

    def next_number(self) -> int:
        number = self.head.last_seq + 1
        self.head = self.head._replace(last_seq=number)
        return number

    def remove_many(self, seqs: Sequence[int]) -> None:
        grains = [grain for seq in seqs if (grain := self._stored(seq)) is not None]
        forget(self, [seq for seq, _, _ in grains])
        for grain in grains:
            self._remove(grain)

    def _remove(self, grain: Added) -> None:
        seq, digest, blob = grain
        self._gone[seq] = grain
        self._moves.pop(seq, None)
        self._known[digest] = None
        self._held.drop(seq)
        self._wait(len(blob))
        last, blob_bytes, count, ordinal = self.head
        # Consumers distinguish snapshots by their last numbers.
        last = max(last, self._base.last_seq + 1)
        self.head = PostgresHead(last, blob_bytes - len(blob), count - 1, ordinal)

    def _stored(self, seq: int) -> Added | None:
        """Return a stored grain with its address in the tables."""
        if seq in self._grains:
            self.settle()
        blob = self.blob_at(seq)
        if blob is None:
            return None
        digest = sha256(blob).digest()
        if self.find([digest]) == [seq]:
            return seq, digest, blob
        found = self.all(sql.GRAINS, numbers([seq]))  # damaged
        return (seq, *found[0][1:]) if found else None

    def _removed(self) -> list[Statement]:
        """Remove the index rows of removed grains; return the remaining statements."""
        gone, self._gone = [*self._gone.values()], {}
        self._drop_terms(self._rows_of(gone))
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
        self._moves[seq] = past
        self._wait(0)

    def _move(self) -> None:
        """Move the index rows of grains that are not buffered."""
        moves = {seq: past for seq, past in self._moves.items() if seq not in self._grains}
        if not moves:
            return
        self._moves = {seq: past for seq, past in self._moves.items() if seq in self._grains}
        for part in sql.together([*moves]):
            grains: list[Added] = self.run(sql.GRAINS, numbers(part))
            rows = self._rows_of(grains)
            self._move_terms(
                [(key, moves[int.from_bytes(place[12:], "big")], place) for key, place in rows]
            )

    def set_paths(self, record: bytes | None, *, later: bool = True) -> None:
        self.settle()  # the rows of all grains so far
        if later:
            self.next_number()  # as on disk, where a backup may become a store
        self.set_row(META, INDEXED_RECORD, record)
        number = FORMAT if record is None else INDEXED_FORMAT
        self._send([(sql.SET_FORMAT, (self.store_id, number))])

    def change_values(self, path: _core.IndexedPaths, first: int, last: int, *, add: bool) -> None:
        while page := [row for row in self.hashed_page(first) if row[0] <= last]:
            first = page[-1][0]
            good: list[Added] = [(s, d, b) for s, b, d in page if d is not None]
            terms = terms_of(good, past_of(self, [one[0] for one in good]), path, after=VALUES)
            if add:
                self.add_terms(terms)
                self._recount(terms.changes())
            else:
                self._drop_terms([(key, p) for key, places in terms.lists for p in places])

    # --- rows -----------------------------------------------------------------------------------

    def row(self, table: Table, key: bytes) -> bytes | None:
        waiting = self._rows.get(table)
        if waiting is not None and key in waiting:
            return waiting[key]
        if (held := self._whole(table)) is not None:
            return held.get(key)
        rows = self.run(sql.row(table), key)
        return rows[0][0] if rows else None

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if (held := self._whole(table)) is not None:
            return {key: held[key] for key in keys if key in held}
        waiting = self._rows.get(table, {})
        asked = [key for key in keys if key not in waiting]
        found = {key: value for key in keys if (value := waiting.get(key)) is not None}
        for part in sql.together(asked):
            found.update(self.run(sql.some_rows(table), byteas(part)))
        return found

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        held = self._whole(table)
        return super().rows(table, after, prefix) if held is None else walked(held, after, prefix)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        if (held := self._whole(table)) is None:
            return super().last_row(table)
        return max(held.items(), default=None)

    def _whole(self, table: Table) -> dict[bytes, bytes] | None:
        """Return all rows of a small table that is read repeatedly."""

        def read(most: int) -> list[Row]:
            return self.of(table, sql.rows(table, True), b"", sql.ABOVE, most)

        return self._held.table(table, read)

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        self.settle()
        self._held.forget((table,))
        self._sent = True
        return int(self.run(sql.drop_rows(table), prefix, beyond(prefix), most)[0][0])

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        if not 0 < len(key) <= LONGEST_KEY:
            raise StoreError("invalid length of a key", found=f"{len(key)} bytes")
        if not self._held.set(table, key, value) and key not in self._rows.get(table, {}):
            return  # the key does not exist
        self._rows.setdefault(table, {})[key] = value
        self._wait(len(key) + len(value or b""))
