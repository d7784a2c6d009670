# SPDX-License-Identifier: Apache-2.0
"""The text index of a store in PostgreSQL, which all processes feed and search.

    index = PostgresTextIndex(database, store_id)
    found = index.search(store.read, "shelf boxes")

Matches have the same order as in SQLite. The index of words finds rows that can match. The words
in order show which rows do, and how often, for BM25. As in SQLite, words in most grains have no
weight in a large table: matches of these alone come last, newest first.

A role under row-level security cannot use the index of words itself: PostgreSQL reads nothing of a
row before it knows that the role may see it. So the role calls the function ``matching``, which
sees all rows, and returns those of a store to callers with the key of the store.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from omsgrain.errors import StoreError
from omsgrain.search import feed, rank
from omsgrain.search.feed import FeedPage, FeedState, Read
from omsgrain.search.postgres import feed as postgres_feed
from omsgrain.search.postgres.feed import IndexProgress, Sessions, cut, lexeme, row_of
from omsgrain.search.text import TRIES, Phrase, Query, Row, Start, TextIndex, Watch
from omsgrain.search.text_file import SqliteTextIndex
from omsgrain.search.words import COLUMNS, WEIGHTS, pairs
from omsgrain.storage.base import CheckProblem
from omsgrain.storage.postgres.schema import SCHEMA, WORDS

if TYPE_CHECKING:
    from omsgrain.storage.postgres.connection import Database
    from omsgrain.storage.postgres.pool import Connection


@dataclass(frozen=True, slots=True)
class PhraseQuery:
    """A phrase with its SQL for the tables."""

    words: tuple[str, ...]  # its words in the table
    prefix: bool  # the last word is a prefix
    name: str  # the name of its parameter

    @property
    def pattern(self) -> str:
        """The text that the columns of a grain contain exactly if the grain has the phrase."""
        return f" {'  '.join(self.words)}" + ("" if self.prefix else " ")

    @property
    def given(self) -> dict[str, object]:
        return {self.name: self.pattern, f"{self.name}_size": len(self.pattern.encode())}

    @property
    def by_word(self) -> bool:
        """Whether the words of a row alone show that it has the phrase."""
        return len(self.words) == 1

    @property
    def times(self) -> str:
        """SQL for the number of occurrences in a row, by the weights of the columns."""
        each = (
            f"{weight}::float8 * (octet_length({column}) - octet_length(replace({column}, "
            f"%({self.name})s, ''))) / %({self.name}_size)s"
            for column, weight in zip(COLUMNS, WEIGHTS, strict=True)
        )
        return f"({' + '.join(each)})"

    @property
    def has(self) -> str:
        return f"({' OR '.join(f'strpos({c}, %({self.name})s) > 0' for c in COLUMNS)})"

    def tsquery(self, store_id: int) -> str:
        *head, last = (lexeme(store_id, word) for word in self.words)
        return f"({' & '.join([*head, f'{last}:*' if self.prefix else last])})"


def asked_of(phrase: Phrase, name: str) -> PhraseQuery:
    words = pairs(phrase.words) if phrase.joined else phrase.words
    return PhraseQuery(tuple(map(cut, words)), phrase.prefix, name)


def narrowed(store_id: int, query: Query, asked: dict[Phrase, PhraseQuery]) -> str:
    """Return a tsquery that every match of a query fulfils, and few others."""
    if query.required:
        return " & ".join(asked[phrase].tsquery(store_id) for phrase in query.required)
    return " | ".join(asked[phrase].tsquery(store_id) for phrase in query.optional)


_K1, _B = 1.2, 0.75  # of BM25, as in SQLite
_LEAST = 1e-6  # the weight of a word in most grains


@dataclass(frozen=True, slots=True)
class RowSource:
    store_id: int  # the number of the store
    secured: bool  # whether the role is under row-level security

    def matching(self, parameter: str, *, among: bool = False) -> str:
        """Return FROM and WHERE for the rows that a tsquery finds, and for wide rows."""
        if self.secured:
            asked = f"%(store)s::bigint, %(key)s::uuid, %({parameter})s::tsquery"
            return f"FROM {SCHEMA}.matching({asked}) w WHERE true"
        # All words of a store begin with its number. Without a condition on row numbers, the
        # planner must not assume that a store has few rows, and read them all.
        store = "w.store_id" if among else "w.store_id + 0"
        return (
            f"FROM {WORDS} w WHERE {store} = %(store)s::bigint "
            f"AND (w.words @@ %({parameter})s::tsquery OR w.wide)"
        )


def _counted(
    phrases: Iterable[Phrase],
    connection: Connection,
    source: RowSource,
    come: IndexProgress,
    asked: dict[Phrase, PhraseQuery],
) -> dict[Phrase, int]:
    """Count the grains with each phrase, at most to more than half of all."""
    most = come.state.grains // 2 + 1
    given: dict[str, Any] = {"store": source.store_id, "key": come.key}
    parts = {}
    for phrase in phrases:
        one = asked[phrase]
        given |= one.given | {f"{one.name}_asked": one.tsquery(source.store_id)}
        rows = source.matching(f"{one.name}_asked")
        sure = f"(NOT w.wide OR {one.has})" if one.by_word else one.has
        parts[phrase] = f"(SELECT count(*) FROM (SELECT 1 {rows} AND {sure} LIMIT {most}) c)"
    text = f"SELECT {', '.join(parts.values())}"
    row = connection.execute(text, given, prepare=False).fetchone()
    assert row is not None, "a SELECT without FROM returns one row"
    return dict(zip(parts, row, strict=True))


class WalkPosition(NamedTuple):
    stage: int = 0
    offset: int = 0


class PostgresMatches:
    def __init__(
        self, source: RowSource, counts: rank.PhraseCounts, query: Query, seqs: Set[int] | None
    ) -> None:
        self._source = source
        self._counts = counts
        self._query = query
        self._seqs = None if seqs is None else sorted(seqs)
        self._asked: dict[Phrase, PhraseQuery] = {}
        self._stages: list[rank.Stage] | None = None
        self._worth: dict[Phrase, float] = {}

    def page(
        self, connection: Connection, come: IndexProgress, place: WalkPosition, size: int
    ) -> tuple[list[Row], WalkPosition]:
        rows: list[Row] = []
        if self._seqs is not None and not self._seqs:
            return rows, place
        stages = self._planned(connection, come)
        while place.stage < len(stages) and len(rows) < size:
            wanted = size - len(rows)
            found = self._read(connection, come, stages[place.stage], place.offset, wanted)
            rows += found
            place = WalkPosition(place.stage, place.offset + len(found))
            if len(found) < wanted:
                place = WalkPosition(place.stage + 1)
        return rows, place

    def _planned(self, connection: Connection, come: IndexProgress) -> list[rank.Stage]:
        if self._stages is None:
            query, grains = self._query.with_stems(come.state.languages), come.state.grains
            phrases = dict.fromkeys((*query.required, *query.optional, *query.excluded))
            self._asked = {phrase: asked_of(phrase, f"p{i}") for i, phrase in enumerate(phrases)}
            wanted = [p for p in (*query.required, *query.optional) if p not in query.stop]
            count = partial(
                _counted,
                connection=connection,
                source=self._source,
                come=come,
                asked=self._asked,
            )
            large = grains > rank.SMALL
            counts = self._counts.of(grains, wanted, count) if large else count(wanted)
            self._worth = {phrase: _worth(grains, count) for phrase, count in counts.items()}
            self._stages = rank.stages(query, rank.common(grains, counts))
        return self._stages

    def _read(
        self,
        connection: Connection,
        come: IndexProgress,
        stage: rank.Stage,
        offset: int,
        limit: int,
    ) -> list[Row]:
        query, source = stage.query, self._source
        given: dict[str, Any] = {"store": source.store_id, "key": come.key}
        for phrase in (*query.required, *query.optional, *query.excluded):
            given |= self._asked[phrase].given
        among = ""
        if self._seqs is not None:
            among, given["seqs"] = " AND w.seq = ANY (%(seqs)s::bigint[])", self._seqs
        if stage.weight is None:
            given["asked"] = narrowed(source.store_id, query, self._asked)
            given["average"] = max(come.size, 1) / max(come.state.grains, 1)
            text = self._weighed(query, given, among)
        else:
            has = {phrase: one.has for phrase, one in self._asked.items()}
            text = (
                f"SELECT w.seq, {stage.weight}::float8 FROM {WORDS} w "
                f"WHERE w.store_id = %(store)s::bigint{among} "
                f"AND {_matches(query, has)} ORDER BY w.seq DESC"
            )
        text += f" LIMIT {limit} OFFSET {offset}"
        return connection.execute(text, given, prepare=False).fetchall()

    def _weighed(self, query: Query, given: dict[str, Any], among: str) -> str:
        """Return the statement for a stage whose matches are ordered by weight."""
        asked = self._asked
        phrases = dict.fromkeys((*query.required, *query.optional, *query.excluded))
        times = ", ".join(f"{asked[p].times} AS {asked[p].name}" for p in phrases)
        has = {phrase: f"{asked[phrase].name} > 0" for phrase in phrases}
        for phrase in (*query.required, *query.optional):
            given[f"{asked[phrase].name}_worth"] = self._worth[phrase]
        weight = _sum(asked[phrase] for phrase in query.optional)
        if query.required:
            # In SQLite's query, required phrases occur twice if there are optional ones: a grain
            # with some of these gets both weights.
            needed = _sum(asked[phrase] for phrase in query.required)
            some = _any(has[phrase] for phrase in query.optional)
            weight = f"{weight} + {needed} * CASE WHEN {some} THEN 2 ELSE 1 END"
        source = self._source.matching("asked", among=bool(among))
        return (
            f"SELECT seq, {weight} AS weight FROM "
            f"(SELECT w.seq, w.size, {times} {source}{among}) counted "
            f"WHERE {_matches(query, has)} ORDER BY weight DESC, seq DESC"
        )


def _worth(grains: int, count: int) -> float:
    """Return the weight of a phrase by the number of grains that have it."""
    return max(math.log((grains - count + 0.5) / (count + 0.5)), 0.0) or _LEAST


def _sum(asked: Iterable[PhraseQuery]) -> str:
    long = f"{_K1} * ({1 - _B} + {_B} * size / %(average)s::float8)"
    parts = [
        f"%({one.name}_worth)s::float8 * {one.name} * {_K1 + 1} / ({one.name} + {long})"
        for one in asked
    ]
    return f"({' + '.join(parts)})" if parts else "0.0::float8"


def _any(parts: Iterable[str]) -> str:
    return f"({' OR '.join(parts) or 'false'})"


def _matches(query: Query, has: dict[Phrase, str]) -> str:
    parts: Sequence[str] = [has[phrase] for phrase in query.required]
    if not parts:
        parts = [_any(has[phrase] for phrase in query.optional)]
    left_out = [f"NOT ({has[phrase]})" for phrase in query.excluded]
    return " AND ".join([*parts, *left_out])


_SECURED = f"SELECT row_security_active('{WORDS}')"
_STORED = (
    f"SELECT seq, size, says, about, more, words::text, wide FROM {WORDS} "
    "WHERE store_id = %s AND seq > %s AND seq <= %s ORDER BY seq"
)


class PostgresTextIndex(TextIndex):
    def __init__(
        self, database: Database, store_id: int, *, readonly: bool = False, page: int = feed.PAGE
    ) -> None:
        self._sessions = Sessions(database, store_id)
        self._store_id = store_id
        self._readonly = readonly
        self._page = page
        self._feeding = threading.Lock()
        self._sure = False  # the tables belong to the current state of this store
        self._counts = rank.PhraseCounts()
        self._source: RowSource | None = None
        self._instead: SqliteTextIndex | None = None  # an index in memory

    @property
    def exists(self) -> bool:
        return self._progress().key is not None

    def catch_up(self, read: Read, watch: Watch | None = None) -> int:
        try:
            return self._feed(read, watch)
        except _BehindError:  # searches read the index in memory
            return self._elsewhere().catch_up(read, watch)

    def _feed(self, read: Read, watch: Watch | None = None) -> int:
        with self._feeding:
            while True:
                before = self._progress().state
                page = feed.next_page(read, before, sure=self._sure, most=self._page)
                self._sure = True
                if page is None:
                    return before.last
                if self._readonly:
                    raise _BehindError("the text index is behind, and is read-only")
                work = partial(postgres_feed.write, store_id=self._store_id)
                self._sessions.write(partial(work, page=page, before=before))
                if watch is not None and not watch(max(page.last - before.last, 0)):
                    return page.last

    def behind(self, read: Read) -> int:
        return feed.lag(read, self._progress().state)[0]

    def _progress(self) -> IndexProgress:
        return self._sessions.read(partial(postgres_feed.progress, store_id=self._store_id))

    def start(
        self, read: Read, query: Query, seqs: Set[int] | None, size: int, *, wait: bool = True
    ) -> Start:
        for _ in range(TRIES):
            lacks = 0
            try:
                if wait:
                    upto = self._feed(read)
                else:
                    upto = (now := self._progress().state).last
                    lacks, ours = feed.lag(read, now)
                    if not ours:
                        return Start([], lambda size: [], lacks)
            except _BehindError:
                return self._elsewhere().start(read, query, seqs, size)
            walk = PostgresMatches(self._from(), self._counts, query, seqs)
            found = self._sessions.read(
                partial(self._read, walk=walk, at=WalkPosition(), size=size)
            )
            if found[2] >= upto:
                return Start(found[0], _Rest(partial(self._next, walk), found[1]), lacks)
        raise StoreError(
            "another process keeps rebuilding the text index", expected="one rebuild at a time"
        )

    def _read(
        self, connection: Connection, walk: PostgresMatches, at: WalkPosition, size: int
    ) -> tuple[list[Row], WalkPosition, int]:
        """Return matches, the next position, and how far the tables are."""
        come = postgres_feed.progress(connection, self._store_id)
        return (*walk.page(connection, come, at, size), come.state.last)

    def _next(
        self, walk: PostgresMatches, at: WalkPosition, size: int
    ) -> tuple[list[Row], WalkPosition]:
        return self._sessions.read(partial(self._read, walk=walk, at=at, size=size))[:2]

    def _from(self) -> RowSource:
        if self._source is None:
            self._source = RowSource(self._store_id, self._sessions.read(_is_secured))
        return self._source

    def _elsewhere(self) -> SqliteTextIndex:
        if self._instead is None:
            self._instead = SqliteTextIndex(None)
        return self._instead

    def rebuild(self, read: Read) -> None:
        if self.exists:
            self._check_writable()
            self._sessions.write(partial(postgres_feed.empty, store_id=self._store_id))
            self.catch_up(read)
            self._clean()

    def scrub(self, read: Read) -> None:
        if self.exists:
            self._check_writable()
            self.catch_up(read)
            self._clean()

    @contextmanager
    def scrubbing(self, read: Read) -> Iterator[None]:
        """Delete rows before the store's tables are rewritten, which include these.

        Otherwise, they would be written twice, and wait twice for older transactions.
        """
        gone = 0
        if not self._readonly and self.exists:
            self.catch_up(read)
            gone = self._progress().gone
        yield
        if gone:
            self._wiped(gone)
        self.scrub(read)  # for grains removed meanwhile

    def _clean(self) -> None:
        """Rewrite the table, because it and its index keep deleted rows."""
        gone = self._progress().gone
        if gone:
            self._sessions.rewrite(WORDS)
            self._wiped(gone)

    def _wiped(self, gone: int) -> None:
        self._sessions.write(partial(postgres_feed.wiped, store_id=self._store_id, gone=gone))

    def _check_writable(self) -> None:
        if self._readonly:
            raise StoreError("a read-only handle cannot clear the text index")

    def check(self, read: Read) -> tuple[CheckProblem, ...]:
        if not self.exists:
            return ()
        try:
            upto = self._feed(read)
        except _BehindError:
            upto = self._progress().state.last
        state = FeedState(0, 0, b"", 0)
        while state.last < upto:
            page = feed.next_page(read, state, sure=True, most=self._page)
            if page is None:
                break
            last = min(page.last, upto)
            wrong = self._difference(read, page, state.last, last)
            if wrong is not None:
                return (CheckProblem("text", wrong, "the text index differs from the grains"),)
            state = FeedState(last, 0, b"", 0)
        return ()

    def _difference(self, read: Read, page: FeedPage, after: int, last: int) -> int | None:
        """Return the first grain up to a number whose row is wrong, or None."""
        wanted = {
            row.seq: row
            for some in feed.rows_of(page)
            for row in (row_of(self._store_id, one) for one in some.rows)
            if row.seq <= last
        }
        span = (self._store_id, after, last)
        stored = self._sessions.read(lambda one: one.execute(_STORED, span).fetchall())
        found = {row[0]: row for row in stored}
        wrong = (s for s in wanted.keys() | found.keys() if wanted.get(s) != found.get(s))
        return next((seq for seq in sorted(wrong) if self._is_wrong(read, seq)), None)

    def _is_wrong(self, read: Read, seq: int) -> bool:
        """Check again: the grain may have been removed meanwhile, with or without its row."""
        with suppress(_BehindError):
            self._feed(read)
        with read() as reader:
            blob = reader.blob_at(seq)
        if blob is None and self._readonly:
            return False  # a writer removes the row
        page = FeedPage(False, [] if blob is None else [(seq, blob)], [], seq)
        wanted = [row_of(self._store_id, one) for some in feed.rows_of(page) for one in some.rows]
        span = (self._store_id, seq - 1, seq)
        rows = self._sessions.read(lambda one: one.execute(_STORED, span).fetchall())
        return rows != wanted

    def close(self) -> None:
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
