# SPDX-License-Identifier: Apache-2.0
"""Files of graphs: what is removed is gone from them, and one in doubt is thrown away."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omsgrain.errors import StoreError
from omsgrain.search import ann
from omsgrain.search.ann import write
from omsgrain.search.nearest import Nearest
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import EVENTS
from support.graph_stores import (
    COUNT,
    DIMENSION,
    LARGE,
    WithGraph,
    file,
    halves,
    queries,
    recall,
    rows_of,
    search,
    uses_graph,
    written,
)
from support.vector_stores import add, put, remove


def damage(kind: str, path: Path) -> None:
    data = bytearray(path.read_bytes())
    if kind == "flipped":
        data[len(data) // 3] ^= 1
    elif kind == "stamp":
        data[-40] ^= 1
    elif kind == "checksum":
        data[-1] ^= 1
    elif kind == "short":
        del data[-1000:]
    elif kind == "tail only":
        del data[:-120]
    elif kind == "long":
        data += b"more"
    elif kind == "empty":
        data.clear()
    elif kind == "text":
        data[:] = b"hello" * 100
    path.unlink()
    path.write_bytes(data)


class TestGraphFiles(WithGraph):
    def test_what_is_removed_is_gone_from_the_file(
        self, nearest: Nearest, store: Storage, folder: Path
    ) -> None:
        rows = rows_of(store)  # the same again
        whole = file(folder).read_bytes()
        assert all(halves(vector) in whole for vector in rows.values())
        for gone in ([5], [6, 7, 8], list(range(100, 150))):
            remove(store, gone)
            nearest.catch_up(store, make=False)
            for seq in gone:
                del rows[seq]
        left = file(folder).read_bytes()
        assert len(left) == len(whole)
        kept = sum(halves(vector) in left for vector in rows.values())
        assert kept == len(rows)
        assert not any(
            halves(vector) in left
            for seq, vector in rows_of(MemoryStorage()).items()
            if seq not in rows
        )
        assert recall(nearest, store) > 0.9
        names = {path.name for path in folder.iterdir() if "vectors" in path.name}
        assert names == {"vectors-1.usearch"}

    def test_a_forgotten_model_has_no_file(
        self, nearest: Nearest, store: Storage, folder: Path
    ) -> None:
        (folder / "vectors-99.usearch").write_bytes(b"of a model that is not there")
        remove(store, list(rows_of(store)))
        nearest.catch_up(store, make=False)
        assert not list(folder.glob("vectors-*"))
        (seq,) = put(store, 1, 9_000)
        add(store, {seq: [1.0] * (DIMENSION + 1)})  # a new model that gets the old one's number
        with store.read() as reader:
            (near,) = nearest.search(reader, [1.0] * (DIMENSION + 1))
        assert near.seq == seq

    @pytest.mark.parametrize("make", [True, False])
    def test_too_many_removals_make_it_anew(
        self, nearest: Nearest, store: Storage, folder: Path, make: bool
    ) -> None:
        size = file(folder).stat().st_size
        remove(store, range(1, 200))
        nearest.catch_up(store, make=make)
        if make:
            assert file(folder).stat().st_size < 0.75 * size
        else:
            assert not file(folder).exists()
        assert recall(nearest, store) > 0.95

    def test_a_library_that_does_not_write_over_is_not_trusted(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = ann.library()
        assert made is not None
        monkeypatch.setattr(made[0], "remove", lambda self, keys: None)
        remove(store, [5])
        nearest.catch_up(store, make=False)
        assert not file(folder).exists()

    def test_a_file_newer_than_the_snapshot_is_kept(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        before = written(folder)
        first = iter([True])

        def covering(self: ann.VectorGraphs, *args: Any) -> ann.Covered[ann.VectorGraph] | None:
            return None if next(first, False) else original(self, *args)

        original = ann.VectorGraphs.covering
        monkeypatch.setattr(ann.VectorGraphs, "covering", covering)
        nearest.catch_up(store)
        assert written(folder) == before

    def test_a_removal_while_a_graph_is_written(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = rows_of(store)
        events: list[int] = []

        def slow(path: Path, made: ann.VectorGraph, stamp: ann.Stamp) -> None:
            if len(events) < 2:
                remove(
                    store, [10 + len(events)]
                )  # after the graph was made, before it is in place
            events.append(stamp.event)
            write(path, made, stamp)

        monkeypatch.setattr(ann, "write", slow)
        remove(store, [5])
        nearest.catch_up(store, make=False)
        assert len(events) == 3
        left = file(folder).read_bytes()
        assert [seq for seq in (5, 10, 11, 12) if halves(rows[seq]) in left] == [12]

    def test_removals_faster_than_writing_leave_no_file(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        seqs = iter(range(10, 100))

        def slow(path: Path, made: ann.VectorGraph, stamp: ann.Stamp) -> None:
            remove(store, [next(seqs)])
            write(path, made, stamp)

        monkeypatch.setattr(ann, "write", slow)
        remove(store, [5])
        nearest.catch_up(store)
        assert not list(folder.glob("vectors*"))

    def test_an_older_file_never_replaces_a_newer_one(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two processes catch up; the slower one has seen less."""
        monkeypatch.setattr(ann, "_FEW", 1)
        other = Nearest(folder, large=LARGE)
        newest = []

        def slow(path: Path, made: ann.VectorGraph, stamp: ann.Stamp) -> None:
            monkeypatch.setattr(ann, "write", write)
            write(path, made, stamp)
            add(store, rows_of(store, 50, 6_000))
            other.catch_up(store)
            newest.append(file(folder).read_bytes())
            write(path, made, stamp)  # the other one swept it away

        monkeypatch.setattr(ann, "write", slow)
        add(store, rows_of(store, 50, 5_000))
        nearest.catch_up(store)
        assert newest == [file(folder).read_bytes()]

    @pytest.mark.parametrize(
        "kind", ["flipped", "stamp", "checksum", "short", "tail only", "long", "empty", "text"]
    )
    def test_a_damaged_file_is_made_anew(
        self,
        nearest: Nearest,
        store: Storage,
        folder: Path,
        monkeypatch: pytest.MonkeyPatch,
        kind: str,
    ) -> None:
        damage(kind, file(folder))
        assert not uses_graph(nearest, store, monkeypatch)
        assert recall(nearest, store) == 1
        nearest.catch_up(store)
        assert uses_graph(nearest, store, monkeypatch)
        assert recall(nearest, store) > 0.95

    def test_a_file_of_another_store_or_another_time(
        self,
        nearest: Nearest,
        store: Storage,
        folder: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        others = (LmdbStorage(tmp_path / "ahead"), LmdbStorage(tmp_path / "other"))
        add(others[0], rows_of(others[0], 400))  # the same grains, not all of them: restored
        add(others[1], rows_of(others[1], COUNT, 9_000))
        for other in others:
            there = tmp_path / ("ahead" if other is others[0] else "other")
            shutil.copy(file(folder), file(there))
            own = Nearest(there, large=LARGE)
            assert not uses_graph(own, other, monkeypatch)
            own.catch_up(other)
            assert uses_graph(own, other, monkeypatch)
            assert recall(own, other) > 0.95
            own.close()
            other.close()

    def test_a_file_of_another_model(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        rows = {seq: vector[:8] for seq, vector in rows_of(store).items()}
        add(store, rows, "eight")
        shutil.copy(file(folder), file(folder, 2))
        query = queries()[0][:8]
        truth = search(Nearest(), store, query, model="eight")
        assert search(nearest, store, query, model="eight") == truth
        nearest.catch_up(store)
        assert uses_graph(nearest, store, monkeypatch, query, model="eight")
        assert search(nearest, store, query, model="eight")[0] == truth[0]

    def test_leftovers_are_swept(self, nearest: Nearest, store: Storage, folder: Path) -> None:
        left = folder / "vectors-1.usearch.12345"
        left.write_bytes(b"half of a graph")
        nearest.catch_up(store)
        assert not left.exists()
        assert file(folder).exists()

    def test_a_full_disk(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def full(path: Path, made: ann.VectorGraph, stamp: ann.Stamp) -> None:
            path.write_bytes(b"some of it")
            raise OSError(28, "no space left")

        monkeypatch.setattr(ann, "write", full)
        remove(store, [5])
        nearest.catch_up(store)
        assert not list(folder.glob("vectors*"))
        assert recall(nearest, store) == 1

    def test_a_readonly_store_is_left_as_it_is(
        self, nearest: Nearest, store: Storage, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        remove(store, [5])
        before = written(folder)
        monkeypatch.setattr(store, "readonly", True)
        nearest.catch_up(store)
        assert written(folder) == before
        assert 5 not in [near.seq for near in search(nearest, store, rows_of(MemoryStorage())[5])]

    def test_a_closed_store(self, nearest: Nearest, store: Storage) -> None:
        store.close()
        with pytest.raises(StoreError):
            nearest.catch_up(store)


class TestWithoutTheLibrary(WithGraph):
    @pytest.fixture(autouse=True)
    def no_library(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        ann.library.cache_clear()
        monkeypatch.setattr(ann, "import_module", self.missing)
        yield
        ann.library.cache_clear()

    @staticmethod
    def missing(name: str) -> None:
        raise ImportError(name)

    def test_search_is_exact(self, store: Storage, folder: Path) -> None:
        nearest = Nearest(folder, large=LARGE)
        nearest.catch_up(store)
        assert not file(folder).exists()
        assert recall(nearest, store) == 1

    def test_a_file_is_left_for_those_who_have_it(self, store: Storage, folder: Path) -> None:
        nearest = Nearest(folder, large=LARGE)
        with store.read() as reader:
            last = reader.last_row(EVENTS)
        assert last is not None
        ((number,), row) = struct.unpack(">Q", last[0]), last[1]
        stamp = ann._STAMP.pack(b"omgv", 0, 1, DIMENSION, 0, number, row)
        file(folder).write_bytes(b"a graph" + stamp + bytes(32))
        assert recall(nearest, store) == 1
        nearest.catch_up(store)
        assert file(folder).exists()
        remove(store, [5])
        nearest.catch_up(store)
        assert not file(folder).exists()
