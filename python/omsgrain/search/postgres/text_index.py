# SPDX-License-Identifier: Apache-2.0
"""The text index of a store in PostgreSQL: tables that all processes feed and search.

index = PostgresTextIndex(database, store_id)
found = index.search(store.read, "shelf boxes")
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Set
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from omsgrain.errors import StoreError
from omsgrain.search import feed
from omsgrain.search.feed import FeedPage, FeedState, Read
from omsgrain.search.find import TRIES, Query, Row, Start, TextIndex
from omsgrain.search.postgres import feed as postgres_feed
from omsgrain.search.postgres.feed import Sessions, row_of
from omsgrain.search.postgres.find import (
    PostgresMatches,
    PostgresPhraseCounts,
    RowSource,
    WalkPosition,
)
from omsgrain.search.text_index import SqliteTextIndex
from omsgrain.storage.base import CheckProblem
from omsgrain.storage.postgres.schema import WORDS

if TYPE_CHECKING:
    from omsgrain.storage.postgres.connection import Database
    from omsgrain.storage.postgres.pool import Connection

_SECURED = f"SELECT row_security_active('{WORDS}')"
_STORED = (
    f"SELECT seq, size, says, about, more, words::text, wide FROM {WORDS} "
    "WHERE store_id = %s AND seq > %s AND seq <= %s ORDER BY seq"
)


class PostgresTextIndex(TextIndex):
    """A text index in tables."""

    def __init__(
        self, database: Database, store_id: int, *, readonly: bool = False, page: int = feed.PAGE
    ) -> None:
        self._sessions = Sessions(database, store_id)
        self._store_id = store_id
        self._readonly = readonly
        self._page = page
        self._feeding = threading.Lock()
        self._sure = False  # the tables are of this store, as it is now
        self._counts = PostgresPhraseCounts()
        self._source: RowSource | None = None
        self._instead: SqliteTextIndex | None = None  # in memory

    @property
    def exists(self) -> bool:
        """Whether there is an index already, so that it is of use to keep it up to date."""
        return self._sessions.read(partial(postgres_feed.exists, store_id=self._store_id))

    def catch_up(self, read: Read) -> int:
        """Take in what the store has and the index has not."""
        with self._feeding:
            while True:
                before = self._come()
                page = feed.next_page(read, before, sure=self._sure, most=self._page)
                self._sure = True
                if page is None:
                    return before.last
                if self._readonly:
                    raise _BehindError("the text index is behind, and may not be written")
                self._sessions.write(partial(self._write, page=page, before=before))

    def _come(self) -> FeedState:
        return self._sessions.read(lambda one: postgres_feed.progress(one, self._store_id).state)

    def _write(self, connection: Connection, page: FeedPage, before: FeedState) -> None:
        postgres_feed.write(connection, self._store_id, page, before)

    def start(self, read: Read, query: Query, seqs: Set[int] | None, size: int) -> Start:
        """Catch up, and begin to read the matches of a query."""
        for _ in range(TRIES):
            try:
                upto = self.catch_up(read)
            except _BehindError:
                return self._elsewhere().start(read, query, seqs, size)
            walk = PostgresMatches(self._from(), self._counts, query, seqs)
            found = self._sessions.read(
                partial(self._read, walk=walk, at=WalkPosition(), size=size)
            )
            if found[2] >= upto:
                return Start(found[0], _Rest(partial(self._next, walk), found[1]))
        raise StoreError("the text index is made anew again and again", expected="one at a time")

    def _read(
        self, connection: Connection, walk: PostgresMatches, at: WalkPosition, size: int
    ) -> tuple[list[Row], WalkPosition, int]:
        """Matches, the place behind them, and how far the tables have come."""
        come = postgres_feed.progress(connection, self._store_id)
        return (*walk.page(connection, come, at, size), come.state.last)

    def _next(
        self, walk: PostgresMatches, at: WalkPosition, size: int
    ) -> tuple[list[Row], WalkPosition]:
        return self._sessions.read(partial(self._read, walk=walk, at=at, size=size))[:2]

    def _from(self) -> RowSource:
        if self._source is None:
            secured = self._sessions.policies and self._sessions.read(_is_secured)
            self._source = RowSource(self._store_id, secured)
        return self._source

    def _elsewhere(self) -> SqliteTextIndex:
        if self._instead is None:
            self._instead = SqliteTextIndex(None)
        return self._instead

    def rebuild(self, read: Read) -> None:
        """Make an index that exists anew from the blobs."""
        if self.exists:
            self._check_writable()
            self._sessions.write(partial(postgres_feed.empty, store_id=self._store_id))
            self.catch_up(read)
            self._clean()

    def scrub(self, read: Read) -> None:
        """See that no word of removed grains stays in rows that are dead."""
        if self.exists:
            self._check_writable()
            self.catch_up(read)
            self._clean()

    @contextmanager
    def scrubbing(self, read: Read) -> Iterator[None]:
        """Take out rows before the store's tables are written anew: these are among them.

        Else they would be written twice, and wait twice for older transactions, the second time
        when all others are written already.
        """
        gone = 0
        if not self._readonly and self.exists:
            self.catch_up(read)
            gone = self._gone()
        yield
        if gone:
            self._wiped(gone)
        self.scrub(read)  # of what was removed meanwhile

    def _clean(self) -> None:
        """Have the table written anew: what was deleted stays in it, and in its index, else."""
        gone = self._gone()
        if gone:
            self._sessions.rewrite(WORDS)
            self._wiped(gone)

    def _gone(self) -> int:
        return self._sessions.read(lambda one: postgres_feed.progress(one, self._store_id).gone)

    def _wiped(self, gone: int) -> None:
        self._sessions.write(partial(postgres_feed.wiped, store_id=self._store_id, gone=gone))

    def _check_writable(self) -> None:
        if self._readonly:
            raise StoreError("a handle that only reads cannot clear the text index")

    def check(self, read: Read) -> tuple[CheckProblem, ...]:
        """Compare an index that exists, word by word, with what the grains give."""
        if not self.exists:
            return ()
        try:
            upto = self.catch_up(read)
        except _BehindError:
            upto = self._come().last
        state = FeedState(0, 0, b"", 0)
        while state.last < upto:
            page = feed.next_page(read, state, sure=True, most=self._page)
            if page is None:
                break
            last = min(page.last, upto)
            wrong = self._difference(read, page, state.last, last)
            if wrong is not None:
                return (CheckProblem("text", wrong, "the text index is not what the grains give"),)
            state = FeedState(last, 0, b"", 0)
        return ()

    def _difference(self, read: Read, page: FeedPage, after: int, last: int) -> int | None:
        """A grain whose row is not what it should be, of those with numbers up to the last."""
        wanted = {
            row.seq: row
            for some in feed.rows_of(page)
            for row in (row_of(self._store_id, one) for one in some)
            if row.seq <= last
        }
        span = (self._store_id, after, last)
        stored = self._sessions.read(lambda one: one.execute(_STORED, span).fetchall())
        found = {row[0]: row for row in stored}
        wrong = (s for s in wanted.keys() | found.keys() if wanted.get(s) != found.get(s))
        return next((seq for seq in sorted(wrong) if self._is_wrong(read, seq)), None)

    def _is_wrong(self, read: Read, seq: int) -> bool:
        """Look again: the grain may have been removed since, and its row with it or not yet."""
        with suppress(_BehindError):
            self.catch_up(read)
        with read() as reader:
            blob = reader.blob_at(seq)
        if blob is None and self._readonly:
            return False  # who writes takes the row out
        page = FeedPage(False, [] if blob is None else [(seq, blob)], [], seq)
        wanted = [row_of(self._store_id, one) for some in feed.rows_of(page) for one in some]
        span = (self._store_id, seq - 1, seq)
        rows = self._sessions.read(lambda one: one.execute(_STORED, span).fetchall())
        return rows != wanted

    def close(self) -> None:
        """Let go of the index; a second call does nothing."""
        self._sessions.close()
        if self._instead is not None:
            self._instead.close()


class _BehindError(StoreError):
    """The tables are behind the store, and this handle may not feed them."""


class _Rest:
    """The matches behind a place; asked for more, it moves on."""

    def __init__(self, read: partial[tuple[list[Row], WalkPosition]], at: WalkPosition) -> None:
        self._read = read
        self._at = at

    def __call__(self, size: int) -> list[Row]:
        rows, self._at = self._read(self._at, size)
        return rows


def _is_secured(connection: Connection) -> bool:
    row = connection.execute(_SECURED).fetchone()
    return bool(row and row[0])
