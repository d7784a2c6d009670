# SPDX-License-Identifier: Apache-2.0
"""What a write transaction sends, and what it does to index rows."""

from __future__ import annotations

import os
from hashlib import sha256
from typing import Any

import psycopg

from omsgrain.errors import StoreError
from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.adding import Added, Terms, add, add_terms, terms_of
from omsgrain.store.postgres.arrays import byteas, numbers
from omsgrain.store.postgres.counting import Counts
from omsgrain.store.postgres.database import Database, Head
from omsgrain.store.postgres.reading import PostgresReader
from omsgrain.store.postgres.wire import Row, Statement, Wire
from omsgrain.store.tables import SEQUENCE

__all__ = ["NAME", "NAMES", "IndexWriter"]

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

    counts: Counts

    def __init__(
        self,
        database: Database,
        wire: Wire,
        store_id: int,
        head: Head,
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

    def _adding(self, grains: list[Added], terms: Terms) -> list[Statement]:
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

    def add_terms(self, terms: Terms) -> None:
        """Write index rows of grains that are there already, and count them nowhere."""
        self._send(add_terms(self.wire, self.store_id, terms, copies=self._copies))
