# SPDX-License-Identifier: Apache-2.0
"""Stores with so many vectors that they get a graph, for tests of the graph."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from omsgrain.search import ann
from omsgrain.search.nearest import Nearest
from omsgrain.search.text import Match
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from support.vector_stores import Floats, add, noise, put

DIMENSION, COUNT, LARGE = 16, 600, 300


def rows_of(store: Storage, count: int = COUNT, start: int = 0) -> dict[int, list[float]]:
    random = Random(start)
    return {seq: noise(random, DIMENSION) for seq in put(store, count, start)}


def file(folder: Path, model: int = 1) -> Path:
    return folder / f"vectors-{model}.usearch"


def written(folder: Path) -> tuple[int, int]:
    """Which file it is, and when it was written."""
    stat = file(folder).stat()
    return stat.st_ino, stat.st_mtime_ns


def search(nearest: Nearest, store: Storage, query: Floats, **options: object) -> list[Match]:
    with store.read() as reader:
        return nearest.search(reader, query, **options)  # type: ignore[arg-type]


def queries(count: int = 20) -> list[list[float]]:
    random = Random(99)
    return [noise(random, DIMENSION) for _ in range(count)]


def recall(nearest: Nearest, store: Storage) -> float:
    """How many of the ten nearest are found, after looking that no score is wrong."""
    exact, found = Nearest(), 0
    for query in queries():
        truth = search(exact, store, query)
        result = search(nearest, store, query)
        scores = dict(search(exact, store, query, allowed=[near.seq for near in result]))
        assert [near.score for near in result] == [scores[near.seq] for near in result]
        found += len(set(truth) & set(result))
    return found / (10 * len(queries()))


def uses_graph(
    nearest: Nearest,
    store: Storage,
    monkeypatch: pytest.MonkeyPatch,
    query: Floats | None = None,
    **options: object,
) -> bool:
    """Whether the candidates of a search come from a graph."""
    asked = []
    original = ann.VectorGraph.search

    def spy(self: ann.VectorGraph, query: bytes, count: int) -> list[tuple[int, float]]:
        asked.append(count)
        return original(self, query, count)

    with monkeypatch.context() as patch:
        patch.setattr(ann.VectorGraph, "search", spy)
        search(nearest, store, query or queries()[0], **options)
    return bool(asked)


def halves(vector: Floats) -> bytes:
    """A vector as a graph keeps it."""
    length = sum(x * x for x in array("f", vector)) ** 0.5
    units = array("f", [x / length for x in array("f", vector)])
    return struct.pack(f"<{len(units)}e", *units)


class WithGraph:
    """Fixtures: a store of ``COUNT`` vectors, and a search over it that has a graph."""

    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        return tmp_path / "m.omsg"

    @pytest.fixture
    def store(self, folder: Path) -> Iterator[Storage]:
        with_vectors = LmdbStorage(folder)
        add(with_vectors, rows_of(with_vectors))
        yield with_vectors
        with_vectors.close()

    @pytest.fixture
    def nearest(self, store: Storage, folder: Path) -> Iterator[Nearest]:
        made = Nearest(folder, large=LARGE)
        made.catch_up(store)
        assert file(folder).exists()
        yield made
        made.close()
