# SPDX-License-Identifier: Apache-2.0
"""The graphs of a store: which one covers a snapshot, and how they follow the store.

A graph is written as a whole and never changed: a search maps it, and compares exactly what events
say came later (its *tail*). ``catch_up`` writes the next one in its place.

A removed grain must be gone from the file too. Only files written in a writer's turn, with no
removal left unseen, are put in place, so that no slow process brings back what another took out.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from omsgrain.search.graph import Graph, Stamp, library, read, stamp_of, write
from omsgrain.search.growing import events, follow, is_clean, knows, make_graph
from omsgrain.search.vectors import Model, models
from omsgrain.store.base import Reader, Store, Writer
from omsgrain.store.tables import VECTORS

__all__ = ["Candidates", "Covered", "Graphs", "Neighbours"]

_FEW = 1_000  # vectors that a search compares one by one before a graph is written again
_TRIES = 5

_File: TypeAlias = tuple[int, int, int]  # which file it is: inode, size, time of change


class Candidates(Protocol):
    """Vectors by sequence number, among which somebody else looks for the nearest."""

    def __len__(self) -> int: ...

    def search(self, query: bytes, count: int) -> list[tuple[int, float]]:
        """Return about the nearest, with cosines that are about right."""
        ...


C = TypeVar("C", bound=Candidates)


@dataclass(slots=True)
class Covered(Generic[C]):
    """Candidates for a snapshot.

    Attributes:
        stamp: what they cover.
        graph: the candidates: a graph that is open, or what a server compares.
        tail: numbers of grains that got a vector later.
        tail_to: the last event that ``tail`` knows.
    """

    stamp: Stamp
    graph: C
    tail: frozenset[int]
    tail_to: int

    def follow(self, reader: Reader, model: Model) -> None:
        """Bring ``tail`` up to a snapshot."""
        changed, _, last = events(reader, self.tail_to)
        self.tail |= {seq for seq in changed if reader.row(VECTORS, model.key(seq)) is not None}
        self.tail_to = last


class Neighbours(Protocol):
    """What gives candidates for the neighbours in a store."""

    def covering(self, reader: Reader, model: Model) -> Covered[Any] | None:
        """Return candidates that a snapshot agrees with; None where comparing all is as good."""
        ...

    def catch_up(self, store: Store, make: bool) -> None:
        """Bring the candidates up to the store."""
        ...

    def close(self) -> None:
        """Let go of them."""
        ...


class Graphs:
    """The graphs of a store by model, in files beside it or in memory.

    Args:
        folder: the store's directory; None for memory.
        large: models with more vectors than this get a graph.
    """

    def __init__(self, folder: Path | None, large: int) -> None:
        self._folder = folder
        self._large = large
        self._lock = threading.Lock()  # taken inside transactions, so none is begun under it
        self._catching_up = threading.Lock()
        self._open: dict[Model, tuple[_File | None, Covered[Graph] | None]] = {}

    def covering(self, reader: Reader, model: Model) -> Covered[Graph] | None:
        """Return the graph of a model that a snapshot agrees with, its tail up to date."""
        with self._lock:
            covered = self._opened(model)
            if covered is None or not knows(reader, covered.stamp):
                return None
            covered.follow(reader, model)
            return covered

    def _opened(self, model: Model) -> Covered[Graph] | None:
        file, covered = self._open.get(model, (None, None))
        if self._folder is None:
            return covered
        try:
            stat = self._path(model).stat()
        except OSError:
            self._open.pop(model, None)
            return None
        now = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if file != now:
            covered = self._read(model)
            self._open[model] = (now, covered)
        return covered

    def _read(self, model: Model) -> Covered[Graph] | None:
        found = read(self._path(model)) if library() else None
        if found is None:
            return None
        stamp, data = found
        if (stamp.model, stamp.dimension) != (model.id, model.dimension):
            return None
        try:
            graph = Graph.of(data, model.dimension)
        except RuntimeError:  # of another usearch
            return None
        return Covered(stamp, graph, frozenset(), stamp.event)

    def catch_up(self, store: Store, make: bool) -> None:
        """Bring the graphs up to the store; of those without removals, where it is worth it.

        Args:
            store: the store; one that is read-only is left as it is.
            make: also make graphs that are missing or have to be made anew, which takes time.

        Raises:
            StoreError: the store is closed, or it is another writer's turn for too long.
        """
        if store.readonly:
            return
        with self._catching_up:
            with store.read() as reader:
                known = models(reader)
            self._drop_unknown(known)
            for model in known:
                if library() is None:
                    self._drop_unless_sound(store, model)
                else:
                    self._catch_up(store, model, make)

    def _drop_unknown(self, known: Sequence[Model]) -> None:
        """Drop graphs of models that are forgotten, and files that killed processes left."""
        with self._lock:
            for model in self._open.keys() - set(known):
                del self._open[model]
        if self._folder is not None:
            names = {self._path(model).name for model in known}
            for path in self._folder.glob("vectors-*.usearch*"):
                if path.name not in names:
                    _unlink(path)

    def _catch_up(self, store: Store, model: Model, make: bool) -> None:
        made: tuple[Graph, Stamp] | None = None
        covered = self._current(store, model)
        if covered is not None:
            with store.read() as reader:
                clean = is_clean(reader, covered.graph, covered.stamp)
            if clean and len(covered.tail) < max(_FEW, len(covered.graph) // 20):
                return
            made = covered.graph.copy(), covered.stamp
        for _ in range(_TRIES):
            if made is not None:
                made = follow(store, model, *made)
            if made is None:
                self._drop(model)
                if not make or not self._is_large(store, model):
                    return
                made = make_graph(store, model)
                made = follow(store, model, *made) or made
            if self._publish(store, model, *made):
                return
        self._drop(model)  # grains are removed faster than graphs are written

    def _current(self, store: Store, model: Model) -> Covered[Graph] | None:
        for _ in range(2):  # the file may be newer than the first snapshot
            with store.read() as reader:
                covered = self.covering(reader, model)
            if covered is not None:
                return covered
        return None

    def _is_large(self, store: Store, model: Model) -> bool:
        with store.read() as reader:
            rows = islice(reader.rows(VECTORS, prefix=model.prefix), self._large + 1)
            return sum(1 for _ in rows) > self._large

    def _publish(self, store: Store, model: Model, graph: Graph, stamp: Stamp) -> bool:
        """Put a graph in place, unless removals came meanwhile that it has not seen."""
        if self._folder is None:
            kept = Graph.of(graph.dump(), model.dimension)
            with self._lock:
                self._open[model] = (None, Covered(stamp, kept, frozenset(), stamp.event))
            return True
        path = self._path(model)
        new = path.with_name(f"{path.name}.{os.getpid()}")

        def work(writer: Writer) -> bool:
            if not is_clean(writer, graph, stamp):
                return False
            there = stamp_of(path)
            if there is None or there.event < stamp.event or not knows(writer, there):
                try:
                    os.replace(new, path)
                except FileNotFoundError:  # put in place before: a work may run twice
                    pass
                except OSError:
                    _unlink(path)
            return True

        try:
            write(new, graph, stamp)
            placed = store.write(work)
            self._forget(model)
            return placed
        except OSError:  # no room for it; searches go without
            self._drop(model)
            return True
        finally:
            _unlink(new)

    def _drop_unless_sound(self, store: Store, model: Model) -> None:
        """Without the library a file cannot change, so one with a removed grain has to go."""
        stamp = None if self._folder is None else stamp_of(self._path(model))
        if stamp is not None:
            with store.read() as reader:
                sound = knows(reader, stamp) and not events(reader, stamp.event)[1]
            if sound:
                return
        self._drop(model)

    def _drop(self, model: Model) -> None:
        self._forget(model)
        if self._folder is not None:
            _unlink(self._path(model))

    def _forget(self, model: Model) -> None:
        """Let go of a file, whose bytes stay on the disk while it is mapped."""
        with self._lock:
            self._open.pop(model, None)

    def _path(self, model: Model) -> Path:
        assert self._folder is not None
        return self._folder / f"vectors-{model.id}.usearch"

    def close(self) -> None:
        """Let go of the files."""
        with self._lock:
            self._open.clear()


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
