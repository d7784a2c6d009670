# SPDX-License-Identifier: Apache-2.0
"""The matches of a query in the table ``words``, in the order that the index in SQLite gives.

The index of words gives the rows that can match; the words in their order tell which do, and how
often; BM25 is made of that. As in SQLite, words that most grains have are not weighed in a large
table: what they alone would find comes last, the newest first.

A role that row-level security holds back cannot use the index of words by itself: PostgreSQL looks
at nothing of a row before it knows that the row may be seen. So it asks the function ``matching``,
which may see all, and gives the rows of a store to who brings the key of the store.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from omsgrain.search import rank
from omsgrain.search.find import Phrase, Query, Row
from omsgrain.search.postgres.feed import IndexProgress, cut, lexeme
from omsgrain.search.words import COLUMNS, WEIGHTS, pairs
from omsgrain.storage.postgres.schema import SCHEMA, WORDS

if TYPE_CHECKING:
    from omsgrain.storage.postgres.pool import Connection


@dataclass(frozen=True, slots=True)
class PhraseQuery:
    """A phrase, as the tables are asked for it.

    Attributes:
        words: the words that the table has for it.
        prefix: the last one is only the beginning of a word.
        name: of its parameter.
    """

    words: tuple[str, ...]
    prefix: bool
    name: str

    @property
    def pattern(self) -> str:
        """What stands in a column of a grain that has it, and nowhere else."""
        return f" {'  '.join(self.words)}" + ("" if self.prefix else " ")

    @property
    def given(self) -> dict[str, object]:
        """Its parameters."""
        return {self.name: self.pattern, f"{self.name}_size": len(self.pattern.encode())}

    @property
    def told(self) -> bool:
        """Whether the words of a row alone tell that it has the phrase."""
        return len(self.words) == 1

    @property
    def times(self) -> str:
        """How often a row has it, by the weights of the columns."""
        each = (
            f"{weight}::float8 * (octet_length({column}) - octet_length(replace({column}, "
            f"%({self.name})s, ''))) / %({self.name}_size)s"
            for column, weight in zip(COLUMNS, WEIGHTS, strict=True)
        )
        return f"({' + '.join(each)})"

    @property
    def has(self) -> str:
        """Whether a row has it."""
        return f"({' OR '.join(f'strpos({c}, %({self.name})s) > 0' for c in COLUMNS)})"

    def tsquery(self, store_id: int) -> str:
        """What the words of a row must have."""
        *head, last = (lexeme(store_id, word) for word in self.words)
        return f"({' & '.join([*head, f'{last}:*' if self.prefix else last])})"


def asked_of(phrase: Phrase, name: str) -> PhraseQuery:
    """Say how the tables are asked for a phrase."""
    words = pairs(phrase.words) if phrase.joined else phrase.words
    return PhraseQuery(tuple(map(cut, words)), phrase.prefix, name)


def narrowed(store_id: int, query: Query, asked: dict[Phrase, PhraseQuery]) -> str:
    """A tsquery that every match of a query fulfils, and few others do."""
    if query.required:
        return " & ".join(asked[phrase].tsquery(store_id) for phrase in query.required)
    return " | ".join(asked[phrase].tsquery(store_id) for phrase in query.optional)


_REMEMBERED = 4_096  # phrases
_K1, _B = 1.2, 0.75  # of BM25, as SQLite has them
_LEAST = 1e-6  # what a word that most grains have is worth there


@dataclass(frozen=True, slots=True)
class RowSource:
    """Where the rows of a store come from.

    Attributes:
        store_id: the number of the store.
        secured: row-level security holds the role back.
    """

    store_id: int
    secured: bool

    def matching(self, parameter: str, *, among: bool = False) -> str:
        """The rows that a tsquery gives, and those that are wide, as a FROM and a WHERE."""
        if self.secured:
            asked = f"%(store)s::bigint, %(key)s::uuid, %({parameter})s::tsquery"
            return f"FROM {SCHEMA}.matching({asked}) w WHERE true"
        # All words of a store begin with its number. Where nothing is said of the rows' own
        # numbers, the planner shall not think that those of a store are few, and read them all.
        store = "w.store_id" if among else "w.store_id + 0"
        return (
            f"FROM {WORDS} w WHERE {store} = %(store)s::bigint "
            f"AND (w.words @@ %({parameter})s::tsquery OR w.wide)"
        )


class PostgresPhraseCounts:
    """How many grains have a phrase; in a large table counted until it has grown by a tenth."""

    def __init__(self) -> None:
        self._known: dict[Phrase, int] = {}
        self._grains = 0

    def of(
        self,
        connection: Connection,
        source: RowSource,
        come: IndexProgress,
        asked: dict[Phrase, PhraseQuery],
    ) -> dict[Phrase, int]:
        """Count the grains that have each of some phrases; more than half of all is enough."""
        grains = come.state.grains
        if grains <= rank.SMALL:
            return _counted(connection, source, come, asked)
        if not self._grains <= grains <= self._grains * 1.1 or len(self._known) > _REMEMBERED:
            self._known, self._grains = {}, grains
        new = {phrase: one for phrase, one in asked.items() if phrase not in self._known}
        self._known |= _counted(connection, source, come, new)
        return {phrase: self._known[phrase] for phrase in asked}


def _counted(
    connection: Connection,
    source: RowSource,
    come: IndexProgress,
    asked: dict[Phrase, PhraseQuery],
) -> dict[Phrase, int]:
    if not asked:
        return {}
    most = come.state.grains // 2 + 1
    given: dict[str, Any] = {"store": source.store_id, "key": come.key}
    parts = []
    for one in asked.values():
        given |= one.given | {f"{one.name}_asked": one.tsquery(source.store_id)}
        rows = source.matching(f"{one.name}_asked")
        sure = f"(NOT w.wide OR {one.has})" if one.told else one.has
        parts.append(f"(SELECT count(*) FROM (SELECT 1 {rows} AND {sure} LIMIT {most}) c)")
    row = connection.execute(f"SELECT {', '.join(parts)}", given, prepare=False).fetchone()
    assert row is not None, "a SELECT without FROM gives one row"
    return dict(zip(asked, row, strict=True))


class WalkPosition(NamedTuple):
    """How far a walk has come: in which stage, and behind how many of its matches."""

    stage: int = 0
    offset: int = 0


class PostgresMatches:
    """The matches of a query, page by page."""

    def __init__(
        self, source: RowSource, counts: PostgresPhraseCounts, query: Query, seqs: Set[int] | None
    ) -> None:
        self._source = source
        self._counts = counts
        self._query = query
        self._seqs = None if seqs is None else sorted(seqs)
        phrases = dict.fromkeys((*query.required, *query.optional, *query.excluded))
        self._asked = {phrase: asked_of(phrase, f"p{i}") for i, phrase in enumerate(phrases)}
        self._stages: list[rank.Stage] | None = None
        self._worth: dict[Phrase, float] = {}

    def page(
        self, connection: Connection, come: IndexProgress, place: WalkPosition, size: int
    ) -> tuple[list[Row], WalkPosition]:
        """Return the matches behind a place, best first, and the place behind them."""
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
            query, grains = self._query, come.state.grains
            wanted = {p: self._asked[p] for p in (*query.required, *query.optional)}
            counts = self._counts.of(connection, self._source, come, wanted)
            self._worth = {phrase: _worth(grains, count) for phrase, count in counts.items()}
            large = grains > rank.SMALL
            common = {p for p, count in counts.items() if large and 2 * count > grains}
            self._stages = rank.stages(query, common)
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
        if stage.weighed:
            given["asked"] = narrowed(source.store_id, query, self._asked)
            given["average"] = max(come.size, 1) / max(come.state.grains, 1)
            text = self._weighed(query, given, among)
        else:
            has = {phrase: one.has for phrase, one in self._asked.items()}
            text = (
                f"SELECT w.seq, 0.0::float8 FROM {WORDS} w "
                f"WHERE w.store_id = %(store)s::bigint{among} "
                f"AND {_matches(query, has)} ORDER BY w.seq DESC"
            )
        text += f" LIMIT {limit} OFFSET {offset}"
        return connection.execute(text, given, prepare=False).fetchall()

    def _weighed(self, query: Query, given: dict[str, Any], among: str) -> str:
        """The statement of a stage whose matches come by their weight."""
        asked = self._asked
        phrases = dict.fromkeys((*query.required, *query.optional, *query.excluded))
        times = ", ".join(f"{asked[p].times} AS {asked[p].name}" for p in phrases)
        has = {phrase: f"{asked[phrase].name} > 0" for phrase in phrases}
        for phrase in (*query.required, *query.optional):
            given[f"{asked[phrase].name}_worth"] = self._worth[phrase]
        weight = _sum(asked[phrase] for phrase in query.optional)
        if query.required:
            # In SQLite's language what is required is said twice where there is more: a grain
            # that has some of it, too, is weighed by both.
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
    """How much a phrase is worth that so many of all grains have."""
    return max(math.log((grains - count + 0.5) / (count + 0.5)), 0.0) or _LEAST


def _sum(asked: Iterable[PhraseQuery]) -> str:
    """What some phrases weigh in a row together."""
    long = f"{_K1} * ({1 - _B} + {_B} * size / %(average)s::float8)"
    parts = [
        f"%({one.name}_worth)s::float8 * {one.name} * {_K1 + 1} / ({one.name} + {long})"
        for one in asked
    ]
    return f"({' + '.join(parts)})" if parts else "0.0::float8"


def _any(parts: Iterable[str]) -> str:
    return f"({' OR '.join(parts) or 'false'})"


def _matches(query: Query, has: dict[Phrase, str]) -> str:
    """Whether a row matches."""
    parts: Sequence[str] = [has[phrase] for phrase in query.required]
    if not parts:
        parts = [_any(has[phrase] for phrase in query.optional)]
    left_out = [f"NOT ({has[phrase]})" for phrase in query.excluded]
    return " AND ".join([*parts, *left_out])
