# SPDX-License-Identifier: Apache-2.0
"""Graphs of neighbours for large sets of vectors: what they find."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from omsgrain.search import ann
from omsgrain.search.nearest import Nearest
from omsgrain.storage.base import Storage
from omsgrain.storage.memory import MemoryStorage
from support.graph_stores import (
    COUNT,
    LARGE,
    WithGraph,
    file,
    queries,
    recall,
    rows_of,
    search,
    uses_graph,
    written,
)
from support.vector_stores import Floats, add, put, remove


def _add_and_catch_up(nearest: Nearest, store: Storage, query: Floats) -> None:
    add(store, dict.fromkeys(put(store, 60, 8_000), query))
    nearest.catch_up(store)


class TestGraph(WithGraph):
    def test_a_graph_finds_what_exact_search_finds(
        self, nearest: Nearest, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert uses_graph(nearest, store, monkeypatch)
        assert recall(nearest, store) > 0.95

    def test_small_sets_have_none(self, store: Storage, folder: Path) -> None:
        Nearest(folder, large=COUNT).catch_up(store)
        assert not file(folder).exists()

    def test_a_graph_is_made_only_where_that_is_allowed(
        self, store: Storage, folder: Path
    ) -> None:
        Nearest(folder, large=LARGE).catch_up(store, make=False)
        assert not file(folder).exists()

    def test_a_graph_in_memory(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store, nearest = MemoryStorage(), Nearest(large=LARGE)
        rows = rows_of(store)
        add(store, rows)
        nearest.catch_up(store)
        assert uses_graph(nearest, store, monkeypatch)
        assert recall(nearest, store) > 0.95
        gone = list(rows)[:50]
        remove(store, gone)
        nearest.catch_up(store)
        assert recall(nearest, store) > 0.9
        nearest.close()

    def test_filters(
        self, nearest: Nearest, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        exact = Nearest()

        def rare(seq: int) -> bool:
            return seq % 50 == 0

        for query in queries(5):
            for accept in (rare, lambda seq: False):  # too few in the graph: all are compared
                truth = search(exact, store, query, accept=accept)
                assert search(nearest, store, query, accept=accept) == truth
            even = [
                {near.seq for near in search(one, store, query, accept=lambda seq: seq % 2 == 0)}
                for one in (exact, nearest)
            ]
            assert len(even[0] & even[1]) >= 0.8 * len(even[0])
            allowed = set(range(1, COUNT, 7))
            truth = search(exact, store, query, allowed=allowed)
            assert search(nearest, store, query, allowed=allowed) == truth
        assert not uses_graph(nearest, store, monkeypatch, allowed={1, 2})

    def test_what_came_later_does_not_hide_what_is_nearer(
        self, nearest: Nearest, store: Storage
    ) -> None:
        query = queries()[0]
        order = [near.seq for near in search(nearest, store, query, limit=COUNT)]
        late = put(store, 10, 5_000)
        add(store, {seq: [-x for x in query] for seq in late})
        accepted = {*late, *order[300:320]}
        found = search(nearest, store, query, accept=accepted.__contains__)
        assert [near.seq for near in found] == order[300:310]

    def test_what_came_later_is_found(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = written(folder)
        query = queries()[0]
        (late,) = put(store, 1, 5_000)
        first = search(nearest, store, query)[-1].seq
        add(store, {late: query, first: [2 * x for x in query]})
        found = search(nearest, store, query)
        assert {near.seq for near in found[:2]} == {late, first}
        assert len({near.seq for near in found}) == 10
        assert uses_graph(nearest, store, monkeypatch)
        nearest.catch_up(store)  # too few to write the file again
        assert written(folder) == before
        monkeypatch.setattr(ann, "_FEW", 1)
        monkeypatch.setattr(
            nearest._graphs, "_large", COUNT + 10_000
        )  # it is there, so it is kept
        add(store, rows_of(store, 40, 6_000))
        nearest.catch_up(store)
        assert written(folder) != before
        assert [near.seq for near in search(nearest, store, query)[:2]] == [
            n.seq for n in found[:2]
        ]
        assert recall(nearest, store) > 0.95

    def test_more_later_than_before_is_compared_as_a_whole(
        self, nearest: Nearest, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add(store, rows_of(store, COUNT, 7_000))
        assert not uses_graph(nearest, store, monkeypatch)
        assert recall(nearest, store) == 1

    def test_an_older_snapshot_does_not_see_a_newer_graph(
        self, nearest: Nearest, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ann, "_FEW", 1)
        query = queries()[0]
        with store.read() as reader:
            nearest.search(reader, query)  # by the graph, which may miss one
            exact = Nearest().search(reader, query)
            thread = threading.Thread(target=_add_and_catch_up, args=(nearest, store, query))
            thread.start()
            thread.join()
            assert nearest.search(reader, query) == exact
        assert search(nearest, store, query)[0].score == pytest.approx(1)

    def test_searching_while_graphs_are_written(
        self, nearest: Nearest, store: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ann, "_FEW", 1)
        failed: list[BaseException] = []
        done = threading.Event()
        query = queries()[0]

        def look() -> None:
            try:
                while not done.is_set():
                    assert len(search(nearest, store, query)) == 10
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=look) for _ in range(2)]
        for thread in threads:
            thread.start()
        for start in range(3):
            add(store, rows_of(store, 60, 10_000 + 100 * start))
            remove(store, [20 + start])
            nearest.catch_up(store)
        done.set()
        for thread in threads:
            thread.join()
        assert not failed
