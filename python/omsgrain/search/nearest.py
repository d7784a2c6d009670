# SPDX-License-Identifier: Apache-2.0
"""Find the grains whose vectors have the highest cosine similarity to a given one.

Rust compares all vectors of the model, which stay in memory as a matrix (``matrix.py``) if they
fit. For many vectors, with the extra ``[search]``, a graph (``ann.py``) returns candidates
instead. Their scores are computed from the store's vectors too, so they do not depend on the
method.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from heapq import heappush, heapreplace, nlargest
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from omsgrain import _core
from omsgrain.errors import see_range
from omsgrain.search.ann import Candidates, Covered, Neighbours, VectorGraphs
from omsgrain.search.matrix import PlainRows, VectorMatrices, VectorRows
from omsgrain.search.text import Match
from omsgrain.search.vectors import Model, Vector, model_of, pack
from omsgrain.storage.base import Reader, Storage, Transactions
from omsgrain.storage.location import Budget

LARGE = 20_000
"""Vectors of a model that justify a graph: comparing so many takes 30 ms."""

Accept: TypeAlias = Callable[[int], bool]
"""Returns whether the grain with a sequence number may be a result."""

_LIMIT = 10_000
_PAGE = 256 << 10  # bytes of vectors at a time, to stay in the CPU cache
_FIRST, _MOST = 256, 4_096  # candidates from a graph: first, and at most before comparing all
_WIDER = 8  # times the candidates, if too few were accepted
_ROWS = PlainRows()
_ROUNDED = 1e-3


class Nearest:
    """Vector search over one store. Threads may share it."""

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        large: int = LARGE,
        graphs: Neighbours | None = None,
        most_bytes: int = Budget().vectors,
    ) -> None:
        self._graphs: Neighbours = graphs or VectorGraphs(
            None if folder is None else Path(folder), large
        )
        #: Vectors in memory.
        self.matrices = VectorMatrices(most_bytes)

    def search(
        self,
        reader: Reader,
        vector: Vector,
        *,
        model: str | None = None,
        limit: int = 10,
        allowed: Collection[int] | None = None,
        accept: Accept | None = None,
        own: tuple[VectorRows, VectorMatrices] | None = None,
    ) -> list[Match]:
        """Return the nearest grains, with their cosines: -1 to 1, which is the same direction.

        ``own`` are the vectors of one user, and where they are kept, to search these alone.
        """
        query = pack(vector)
        see_range("limit", limit, 1, _LIMIT)
        known = model_of(reader, model, len(query) // 4)
        if known is None:
            return []
        accept = accept and cache(accept)  # a wider search meets the same grains again
        found: _Found | None = None
        if own is None:
            if allowed is not None:
                found = _exact(query, _ROWS.some(reader, known, allowed), limit, accept)
            elif covered := self._graphs.covering(reader, known):
                found = _through(covered, reader, known, query, limit, accept)
        if found is None:
            rows, matrices = own or (_ROWS, self.matrices)
            nearest = partial(matrices.nearest, rows, reader, known, query)
            found = _among(nearest, limit, accept)
            if found is None:
                found = _exact(query, rows.all(reader, known), limit, accept)
        return [Match(seq, score) for score, seq in found]

    def catch_up(self, store: Transactions, *, make: bool = True) -> None:
        """Apply the store's changes to the graphs. It affects only speed and removed grains.

        Call it with ``make=False`` after a removal and before closing, and otherwise when time
        does not matter. When it returns, the files have no removed grain.
        """
        self.drop()
        self._graphs.catch_up(store, make)

    def drop(self) -> None:
        """Forget the vectors in memory."""
        self.matrices.drop()

    def close(self) -> None:
        self.drop()
        self._graphs.close()


_Found: TypeAlias = "list[tuple[float, int]]"
_Rows: TypeAlias = "Iterable[tuple[bytes, bytes]]"


def _exact(query: bytes, rows: _Rows, limit: int, accept: Accept | None) -> _Found:
    """Return the best of some rows; ``accept`` is called only for candidates."""
    rest, size = iter(rows), max(1, _PAGE // len(query))
    best: _Found = []  # a heap with the worst first
    while page := list(islice(rest, size)):
        floor = best[0][0] if len(best) == limit else -1.0
        for score, seq in _core.nearest(query, page, floor):
            full = len(best) == limit
            if full and (score, seq) < best[0]:
                break
            if accept is None or accept(seq):
                (heapreplace if full else heappush)(best, (score, seq))
    return sorted(best, reverse=True)


def _among(
    nearest: Callable[[int], _Found | None], limit: int, accept: Accept | None
) -> _Found | None:
    """Return the best of a matrix; None if there is none."""
    wanted = limit
    while (ranked := nearest(wanted)) is not None:
        asked = ranked if accept is None else (one for one in ranked if accept(one[1]))
        found = list(islice(asked, limit))
        if len(found) == limit or len(ranked) < wanted:
            return found
        wanted *= _WIDER
    return None


def _through(
    covered: Covered[Candidates],
    reader: Reader,
    model: Model,
    query: bytes,
    limit: int,
    accept: Accept | None,
) -> _Found | None:
    graph, tail = covered.graph, covered.tail
    if len(tail) >= len(graph):
        return None
    late = _exact(query, _ROWS.some(reader, model, tail), limit, accept)
    fetch = max(_FIRST, 4 * limit)
    while fetch <= min(_MOST, len(graph)):
        candidates = graph.search(query, fetch)
        seqs = {seq for seq, _ in candidates} - tail
        early = _exact(query, _ROWS.some(reader, model, seqs), limit, accept)
        found = nlargest(limit, early + late)
        # A vector that was not fetched is not nearer than the last one fetched, within rounding.
        if len(found) == limit and candidates and found[-1][0] > candidates[-1][1] - _ROUNDED:
            return found
        fetch *= 8
    return None


def vectors_of(store: Storage, budget: Budget) -> Nearest:
    there, most = store.sidecar, budget.vectors
    if there.database is None:
        return Nearest(there.folder, most_bytes=most)
    from omsgrain.search.postgres.vectors import PostgresGraphs

    graphs = PostgresGraphs(there.database, there.store_id, readonly=store.readonly)
    return Nearest(graphs=graphs, most_bytes=most)
