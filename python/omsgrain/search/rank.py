# SPDX-License-Identifier: Apache-2.0
"""One ranking made of several: reciprocal rank fusion.

The scores of words and of vectors cannot be compared; their ranks can. A grain at rank r of a list
gets 1 / (K + r), and its score is the sum over all lists (Cormack, Clarke, Büttcher, 2009).
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import NamedTuple

from omsgrain.search.feed import state
from omsgrain.search.text import Phrase, Query, Row
from omsgrain.search.words import WEIGHTS

K = 60
"""How little the first ranks stand out; the value of the paper, which others keep too."""


class Ranked(NamedTuple):
    """One result.

    Attributes:
        seq: the sequence number of a grain.
        score: above 0, and 1 for the best of the result.
    """

    seq: int
    score: float


def fuse(
    lists: Sequence[Iterable[int]],
    *,
    place: Callable[[int], bytes],
) -> list[Ranked]:
    """Rank the grains of several lists together."""
    parts: dict[int, list[float]] = {}
    for ranked in lists:
        for rank, seq in enumerate(dict.fromkeys(ranked), 1):
            parts.setdefault(seq, []).append(1 / (K + rank))
    # fsum rounds once, whatever the order: grains that swap ranks between lists tie exactly.
    sums = {seq: math.fsum(terms) for seq, terms in parts.items()}
    best = max(sums.values(), default=1.0)
    order: list[Ranked] = []
    for total, tied in groupby(sorted(sums, key=sums.__getitem__, reverse=True), sums.__getitem__):
        same = list(tied)
        if len(same) > 1:
            same.sort(key=place, reverse=True)
        order += [Ranked(seq, total / best) for seq in same]
    return order


SMALL = 10_000
"""In an index of so many grains every word is weighed."""

_REMEMBERED = 4_096  # phrases

_MATCHING = "FROM words WHERE words MATCH ? AND rowid NOT IN (SELECT seq FROM gone)"
_AMONG = "AND rowid BETWEEN ? AND ? AND allowed(rowid)"
_WEIGHED = (
    f"SELECT rowid, -bm25(words, {', '.join(map(str, WEIGHTS))}) AS weight {_MATCHING} %s"
    " ORDER BY weight DESC, rowid DESC LIMIT ? OFFSET ?"
)
_NEWEST = f"SELECT rowid, 0.0 {_MATCHING} %s ORDER BY rowid DESC LIMIT ? OFFSET ?"


class PhraseCounts:
    """How many grains have a phrase; counted once, until the index has grown by a tenth."""

    def __init__(self) -> None:
        self._known: dict[Phrase, int] = {}
        self._grains = 0

    def of(
        self,
        grains: int,
        phrases: Collection[Phrase],
        count: Callable[[list[Phrase]], dict[Phrase, int]],
    ) -> dict[Phrase, int]:
        """Return how many of so many grains have each phrase; ``count`` counts new phrases."""
        if not self._grains <= grains <= self._grains * 1.1 or len(self._known) > _REMEMBERED:
            self._known, self._grains = {}, grains
        if new := [phrase for phrase in phrases if phrase not in self._known]:
            self._known |= count(new)
        return {phrase: self._known[phrase] for phrase in phrases}


def common(grains: int, counts: Mapping[Phrase, int]) -> set[Phrase]:
    """Return the phrases that more than half of all grains have, if it matters."""
    return {p for p, count in counts.items() if 2 * count > grains} if grains > SMALL else set()


class Stage(NamedTuple):
    """Matches that come after those of the stages before."""

    weighed: bool  # by their weight, best first; else the newest come first
    query: Query  # what they match; only its phrases are weighed


def stages(query: Query, common: set[Phrase]) -> list[Stage]:
    """Cut a query where its order is not by weight any more."""
    some = tuple(phrase for phrase in query.optional if phrase not in common)
    if query.required:
        weighed = bool(some) or not common.issuperset(query.required)
        return [Stage(weighed, replace(query, optional=some))]
    found = [Stage(True, replace(query, optional=some))] if some else []
    if common:
        wanted = tuple(phrase for phrase in query.optional if phrase in common)
        found.append(Stage(False, Query((), wanted, (*query.excluded, *some))))
    return found


class RankedMatches:
    """The matches of a query, page by page."""

    def __init__(self, counts: PhraseCounts, query: Query, seqs: Set[int] | None) -> None:
        self._counts = counts
        self._query = query
        self._seqs = seqs
        self._stages: list[tuple[str, str]] | None = None  # statement, expression
        self._offset = 0  # in the first of them

    def page(self, db: sqlite3.Connection, size: int) -> list[Row]:
        """Return the next ones, best first; fewer than ``size`` are the last."""
        if self._stages is None:
            self._stages = self._plan(db)
        among: tuple[int, ...] = ()
        if self._seqs is not None:
            if not self._seqs:
                return []
            among = (min(self._seqs), max(self._seqs))
            db.create_function("allowed", 1, self._seqs.__contains__)
        rows: list[Row] = []
        while self._stages and len(rows) < size:
            statement, expression = self._stages[0]
            asked = size - len(rows)
            values = (expression, *among, asked, self._offset)
            found = db.execute(statement % (_AMONG if among else ""), values).fetchall()
            rows += found
            self._offset += len(found)
            if len(found) < asked:
                del self._stages[0]
                self._offset = 0
        return rows

    def _plan(self, db: sqlite3.Connection) -> list[tuple[str, str]]:
        query, grains = self._query, state(db).grains
        counts: dict[Phrase, int] = {}
        if grains > SMALL:
            phrases = (*query.required, *query.optional)
            counts = self._counts.of(grains, phrases, partial(_counted, db))
        return [
            (_WEIGHED if weighed else _NEWEST, part.expression())
            for weighed, part in stages(query, common(grains, counts))
        ]


def _counted(db: sqlite3.Connection, phrases: list[Phrase]) -> dict[Phrase, int]:
    sql = "SELECT count(*) FROM words WHERE words MATCH ?"
    return {phrase: db.execute(sql, (str(phrase),)).fetchone()[0] for phrase in phrases}
