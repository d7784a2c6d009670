# SPDX-License-Identifier: Apache-2.0
"""Combine several rankings by reciprocal rank fusion.

Scores of words and of vectors are not comparable, but their ranks are. A grain at rank r of a list
gets 1 / (K + r), times the weight of the list. Its score is the sum over all lists (Cormack,
Clarke, Büttcher, 2009).
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
from omsgrain.search.text import Match, Phrase, Query, Row
from omsgrain.search.words import WEIGHTS

K = 60
"""The constant of the paper: larger values flatten the first ranks."""

VECTOR_WEIGHT = 0.2
"""The default share of vectors beside words. ``python -m benches.retrieval`` measures it: even
with a weak embedder, recall is no worse than by words alone."""


def fuse(
    lists: Sequence[Iterable[int]],
    *,
    place: Callable[[int], bytes],
    limit: int | None = None,
    weights: Sequence[float] = (),
) -> list[Match]:
    """Return the best matches of several lists; ``place`` is asked only about those that tie."""
    parts: dict[int, list[float]] = {}
    for ranked, weight in zip(lists, weights or [1.0] * len(lists), strict=True):
        for rank, seq in enumerate(dict.fromkeys(ranked), K + 1):
            if seq in parts:
                parts[seq].append(weight / rank)
            else:
                parts[seq] = [weight / rank]
    # fsum is independent of order, so grains that swap ranks between lists tie exactly.
    sums = {seq: math.fsum(terms) for seq, terms in parts.items()}
    best = max(sums.values(), default=1.0) or 1.0
    order: list[Match] = []
    for total, tied in groupby(sorted(sums, key=sums.__getitem__, reverse=True), sums.__getitem__):
        same = list(tied)
        if len(same) > 1:
            same.sort(key=place, reverse=True)
        order += [Match(seq, total / best) for seq in same]
        if limit is not None and len(order) >= limit:
            break
    return order[:limit]


SMALL = 1_000
"""Up to so many grains in an index, every word has a weight."""

_REMEMBERED = 4_096  # phrases to cache

_MATCHING = "FROM words WHERE words MATCH ? AND rowid NOT IN (SELECT seq FROM gone)"
_AMONG = "AND rowid BETWEEN ? AND ? AND allowed(rowid)"
_WEIGHED = (
    f"SELECT rowid, -bm25(words, {', '.join(map(str, WEIGHTS))}) AS weight {_MATCHING} %s"
    " ORDER BY weight DESC, rowid DESC LIMIT ? OFFSET ?"
)
_NEWEST = f"SELECT rowid, {{weight}} {_MATCHING} %s ORDER BY rowid DESC LIMIT ? OFFSET ?"


STOP = -1.0
"""The weight of a match that has only stop words of the query."""


class PhraseCounts:
    """The number of grains for each phrase, cached until the index has grown by a tenth."""

    def __init__(self) -> None:
        self._known: dict[Phrase, int] = {}
        self._grains = 0

    def of(
        self,
        grains: int,
        phrases: Collection[Phrase],
        count: Callable[[list[Phrase]], dict[Phrase, int]],
    ) -> dict[Phrase, int]:
        """Return the number of grains for each phrase; ``count`` counts new phrases."""
        if not self._grains <= grains <= self._grains * 1.1 or len(self._known) > _REMEMBERED:
            self._known, self._grains = {}, grains
        if new := [phrase for phrase in phrases if phrase not in self._known]:
            self._known |= count(new)
        return {phrase: self._known[phrase] for phrase in phrases}


def common(grains: int, counts: Mapping[Phrase, int]) -> set[Phrase]:
    """Return the phrases in more than half of all grains; none for a small index."""
    return {p for p, count in counts.items() if 2 * count > grains} if grains > SMALL else set()


class Stage(NamedTuple):
    """Matches that come after those of earlier stages."""

    weight: float | None  # of each match, newest first; None: by weight, best first
    query: Query  # the query for these matches; only its phrases have weights


def stages(query: Query, common: set[Phrase]) -> list[Stage]:
    """Split a query into stages: matches of weighed phrases, of common ones, of stop words."""
    late = common | query.stop
    some = tuple([phrase for phrase in query.optional if phrase not in late])
    if query.required:
        weighed = bool(some) or not common.issuperset(query.required)
        return [Stage(None if weighed else 0.0, replace(query, optional=some))]
    found = [Stage(None, replace(query, optional=some))] if some else []
    excluded = (*query.excluded, *some)
    later = [(p for p in query.optional if p in common and p not in query.stop), query.stop]
    for weight, phrases in zip((0.0, STOP), later, strict=True):
        if wanted := tuple(phrases):
            found.append(Stage(weight, Query((), wanted, excluded)))
            excluded = (*excluded, *wanted)
    return found


class RankedMatches:
    def __init__(self, counts: PhraseCounts, query: Query, seqs: Set[int] | None) -> None:
        self._counts = counts
        self._query = query
        self._seqs = seqs
        self._stages: list[tuple[str, str]] | None = None  # statement, expression
        self._offset = 0  # in the first stage

    def page(self, db: sqlite3.Connection, size: int) -> list[Row]:
        """Return the next matches, best first; fewer than ``size`` at the end."""
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
        now = state(db)
        query, grains = self._query.with_stems(now.languages), now.grains
        counts: dict[Phrase, int] = {}
        if grains > SMALL:
            phrases = [p for p in (*query.required, *query.optional) if p not in query.stop]
            counts = self._counts.of(grains, phrases, partial(_counted, db))
        return [
            (_WEIGHED if weight is None else _NEWEST.format(weight=weight), part.expression())
            for weight, part in stages(query, common(grains, counts))
        ]


def _counted(db: sqlite3.Connection, phrases: list[Phrase]) -> dict[Phrase, int]:
    sql = "SELECT count(*) FROM words WHERE words MATCH ?"
    return {phrase: db.execute(sql, (str(phrase),)).fetchone()[0] for phrase in phrases}
