# SPDX-License-Identifier: Apache-2.0
"""An HNSW graph over the vectors of one model, made by usearch, and its file.

It finds candidates among many vectors without comparing all. It can be rebuilt from the store, so
a doubtful file is deleted. usearch trusts the bytes that it reads: a damaged file could crash the
process. The checksum prevents that.

    file   the bytes of usearch ++ stamp ++ BLAKE3 of both, 32
    stamp  "omgv" ++ u32 format ++ u32 model ++ u32 dimension ++ u64 number of removed vectors
           ++ u64 event ++ its row of events-0, 41; all integers big-endian
"""

from __future__ import annotations

import mmap
import os
import struct
import threading
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from blake3 import blake3

from omsgrain.errors import StoreError
from omsgrain.search.vectors import Model, models
from omsgrain.storage import records
from omsgrain.storage.base import VECTOR_FILES, Reader, Transactions, Writer
from omsgrain.storage.tables import DELETED, EMBEDDED, EVENTS, SEQUENCE, VECTORS, event_of

_STAMP = struct.Struct(">4sIIIQQ41s")
_MAGIC, _FORMAT, _CHECKSUM = b"omgv", 0, 32
_NEIGHBOURS, _EFFORT = 16, 128  # links per vector, and candidates to examine when it is added
_NO_GRAIN = 1 << 63  # keys from here on are not sequence numbers


@cache
def library() -> tuple[Any, Any] | None:
    """Return usearch's class and numpy; None if they are not installed."""
    try:
        return import_module("usearch.index").Index, import_module("numpy")
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class Stamp:
    model: int  # id of the model
    dimension: int  # values of each vector
    forgotten: int  # number of vectors removed since the graph was made
    event: int  # number of the last event that it includes
    row: bytes  # the row of that event, which identifies the store


class VectorGraph:
    """Vectors by sequence number. It needs the library."""

    def __init__(self, dimension: int) -> None:
        made = library()
        assert made is not None, "ask library() first"
        kind, self._numpy = made
        # Half floats save memory: the store has the float32 vectors, and compares those.
        self._index = kind(
            ndim=dimension,
            metric="cos",
            dtype="f16",
            connectivity=_NEIGHBOURS,
            expansion_add=_EFFORT,
        )
        self._dimension = dimension
        self._data: Any = None

    @classmethod
    def of(cls, data: bytes | memoryview, dimension: int) -> VectorGraph:
        """Return a read-only graph over some bytes, without copying them."""
        graph = cls(dimension)
        graph._data = data  # usearch does not keep them alive
        graph._index.view(data)
        return graph

    def copy(self) -> VectorGraph:
        graph = VectorGraph(self._dimension)
        graph._index.load(self._data)
        return graph

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, seq: int) -> bool:
        return bool(self._index.contains(seq))

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add stored vectors whose numbers are not in the graph yet."""
        good = [(seq, row) for seq, row in rows if len(row) == 4 * self._dimension]
        if good:
            data = b"".join(row for _, row in good)
            matrix = self._numpy.frombuffer(data, "<f4").reshape(len(good), -1)
            keys = self._numpy.array([seq for seq, _ in good], "u8")
            self._add_units(keys, self._unit(matrix))

    def _add_units(self, keys: Any, matrix: Any) -> None:
        sound = self._numpy.isfinite(matrix).all(axis=1)  # leave out damaged rows
        self._index.add(keys[sound], matrix[sound])

    def _unit(self, matrix: Any) -> Any:
        """Scale rows to length 1, because half floats have a small range."""
        with self._numpy.errstate(all="ignore"):
            matrix = matrix.astype("f8")
            matrix /= self._numpy.linalg.norm(matrix, axis=-1, keepdims=True)
        return matrix.astype("f4")

    def forget(self, seqs: Collection[int], forgotten: int) -> bool:
        """Remove vectors with their bytes; returns whether that worked.

        usearch only marks removed vectors, and overwrites them with the next ones. So this adds
        noise under keys of no grain, which stays: no older place must be free the next time.
        """
        before, count = self._index.serialized_length, len(seqs)
        noise = self._numpy.random.default_rng(forgotten).normal(size=(count, self._dimension))
        first = self._numpy.uint64(_NO_GRAIN + forgotten)
        keys = self._numpy.arange(count, dtype="u8") + first
        self._index.remove(self._numpy.array(list(seqs), "u8"))
        self._add_units(keys, self._unit(noise))
        return bool(self._index.serialized_length == before)

    def search(self, query: bytes, count: int) -> list[tuple[int, float]]:
        """Return approximate neighbours, including noise, with approximate cosines."""
        vector = self._unit(self._numpy.frombuffer(query, "<f4"))
        found = self._index.search(vector, count, threads=1)
        keys, distances = found.keys.tolist(), found.distances.tolist()
        return [(key, 1.0 - distance) for key, distance in zip(keys, distances, strict=True)]

    def dump(self) -> bytes:
        return bytes(self._index.save())

    def save(self, path: Path) -> None:
        self._index.save(str(path))


def write(path: Path, graph: VectorGraph, stamp: Stamp) -> None:
    try:
        graph.save(path)
    except RuntimeError as error:  # raised by usearch
        raise OSError("cannot write the vector graph") from error
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        fields = (stamp.model, stamp.dimension, stamp.forgotten, stamp.event, stamp.row)
        file.write(_STAMP.pack(_MAGIC, _FORMAT, *fields))
        file.flush()
        file.write(blake3().update_mmap(path).digest())
        file.flush()
        os.fsync(file.fileno())


def stamp_of(path: Path) -> Stamp | None:
    """Return the unverified stamp of a file; None if it has none."""
    size = _STAMP.size + _CHECKSUM
    try:
        with path.open("rb") as file:
            file.seek(-size, os.SEEK_END)
            return _stamp(file.read(_STAMP.size))
    except OSError:
        return None


def _stamp(data: bytes) -> Stamp | None:
    if len(data) != _STAMP.size:
        return None
    magic, number, *fields = _STAMP.unpack(data)
    return Stamp(*fields) if (magic, number) == (_MAGIC, _FORMAT) else None


def read(path: Path) -> tuple[Stamp, memoryview] | None:
    """Map a file into memory after verifying every byte; None if it is missing or invalid."""
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # missing or empty
        return None
    body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    stamp = _stamp(bytes(body[-_STAMP.size :]))
    if stamp is None or blake3(body).digest() != checksum:
        return None
    return stamp, body[: -_STAMP.size]


_TOGETHER = 4_096  # vectors to add at a time
_WORN = 5  # rebuild if more than one in so many was removed: the graph then finds less


def knows(reader: Reader, stamp: Stamp) -> bool:
    """Whether a graph belongs to this store and is not newer: its last event is the store's."""
    return reader.row(EVENTS, SEQUENCE.pack(stamp.event)) == stamp.row


def events(reader: Reader, after: int) -> tuple[set[int], set[int], int]:
    """Return the grains with new vectors after an event, the removed ones, and the last event."""
    changed: set[int] = set()
    deleted = {
        seq
        for _, ranges in records.removal_batches(reader, after)
        for one in ranges
        for seq in range(one[0], one[1] + 1)
    }
    for key, row in reader.rows(EVENTS, after=SEQUENCE.pack(after)):
        kind, seq, _ = event_of(row)
        (after,) = SEQUENCE.unpack(key)
        if kind == EMBEDDED:
            changed.add(seq)
        elif kind == DELETED:
            deleted.add(seq)
    return changed, deleted, after


def is_clean(reader: Reader, graph: VectorGraph, stamp: Stamp) -> bool:
    return not any(seq in graph for seq in events(reader, stamp.event)[1])


def make_graph(store: Transactions, model: Model) -> tuple[VectorGraph, Stamp]:
    """Make a graph of all vectors, stamped with the last event before the start."""
    with store.read() as reader:
        last = reader.last_row(EVENTS)
    if last is None:
        raise StoreError("the store has vectors, but no events for them")
    stamp = Stamp(model.id, model.dimension, 0, SEQUENCE.unpack(last[0])[0], last[1])
    graph, after = VectorGraph(model.dimension), None
    while True:
        with store.read() as reader:
            page = list(islice(reader.rows(VECTORS, after, model.prefix), _TOGETHER))
        if not page:
            return graph, stamp
        graph.add([(_seq(key), row) for key, row in page])
        after = page[-1][0]


def _seq(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big")


def follow(
    store: Transactions, model: Model, graph: VectorGraph, stamp: Stamp
) -> tuple[VectorGraph, Stamp] | None:
    """Apply the store's changes to a graph; None if it must be rebuilt."""
    with store.read() as reader:
        changed, deleted, _ = events(reader, stamp.event)
        last = reader.last_row(EVENTS)
    if last is None or last[0] == SEQUENCE.pack(stamp.event):
        return graph, stamp
    old = [seq for seq in changed | deleted if seq in graph]
    forgotten = stamp.forgotten + len(old)
    if forgotten > len(graph) // _WORN or (old and not graph.forget(old, stamp.forgotten)):
        return None
    rest = iter(sorted(changed - deleted))
    while seqs := list(islice(rest, _TOGETHER)):
        with store.read() as reader:
            rows = [(seq, reader.row(VECTORS, model.key(seq))) for seq in seqs]
        graph.add([(seq, row) for seq, row in rows if row is not None])
    number = SEQUENCE.unpack(last[0])[0]
    return graph, Stamp(model.id, model.dimension, forgotten, number, last[1])


_FEW = 1_000  # vectors outside a graph before it is written again
_TRIES = 5

_File: TypeAlias = tuple[int, int, int]  # identifies a file: inode, size, modification time


class Candidates(Protocol):
    def __len__(self) -> int: ...

    def search(self, query: bytes, count: int) -> list[tuple[int, float]]: ...


C = TypeVar("C", bound=Candidates)


@dataclass(slots=True)
class Covered(Generic[C]):
    stamp: Stamp  # the state that they cover
    graph: C  # the candidates: an open graph, or a server
    tail: frozenset[int]  # numbers of grains with newer vectors
    tail_to: int  # the last event that ``tail`` includes

    def follow(self, reader: Reader, model: Model) -> None:
        """Update ``tail`` to a snapshot."""
        changed, _, last = events(reader, self.tail_to)
        self.tail |= {seq for seq in changed if reader.row(VECTORS, model.key(seq)) is not None}
        self.tail_to = last


class Neighbours(Protocol):
    """A source of candidates for vector searches in a store."""

    def covering(self, reader: Reader, model: Model) -> Covered[Any] | None:
        """Return candidates for a snapshot; None if comparing all vectors is as fast."""
        ...

    def catch_up(self, store: Transactions, make: bool) -> None:
        """Apply the store's changes to the candidates."""
        ...

    def close(self) -> None: ...


class VectorGraphs:
    """The graphs of a store by model, in files or in memory."""

    def __init__(self, folder: Path | None, large: int) -> None:
        self._folder = folder
        self._large = large
        # Taken inside transactions; do not start one while holding it
        self._lock = threading.Lock()
        self._catching_up = threading.Lock()
        self._open: dict[Model, tuple[_File | None, Covered[VectorGraph] | None]] = {}

    def covering(self, reader: Reader, model: Model) -> Covered[VectorGraph] | None:
        with self._lock:
            covered = self._opened(model)
            if covered is None or not knows(reader, covered.stamp):
                return None
            covered.follow(reader, model)
            return covered

    def _opened(self, model: Model) -> Covered[VectorGraph] | None:
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

    def _read(self, model: Model) -> Covered[VectorGraph] | None:
        found = read(self._path(model)) if library() else None
        if found is None:
            return None
        stamp, data = found
        if (stamp.model, stamp.dimension) != (model.id, model.dimension):
            return None
        try:
            graph = VectorGraph.of(data, model.dimension)
        except RuntimeError:  # written by another version of usearch
            return None
        return Covered(stamp, graph, frozenset(), stamp.event)

    def catch_up(self, store: Transactions, make: bool) -> None:
        """Update the graphs; without removals, only if there is much to add."""
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
        """Drop graphs of removed models, and files of killed processes."""
        with self._lock:
            for model in self._open.keys() - set(known):
                del self._open[model]
        if self._folder is not None:
            names = {self._path(model).name for model in known}
            for path in self._folder.glob(VECTOR_FILES):
                if path.name not in names:
                    _unlink(path)

    def _catch_up(self, store: Transactions, model: Model, make: bool) -> None:
        made: tuple[VectorGraph, Stamp] | None = None
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
        self._drop(model)  # removals are faster than writing the graph

    def _current(self, store: Transactions, model: Model) -> Covered[VectorGraph] | None:
        for _ in range(2):  # the file may be newer than the first snapshot
            with store.read() as reader:
                covered = self.covering(reader, model)
            if covered is not None:
                return covered
        return None

    def _is_large(self, store: Transactions, model: Model) -> bool:
        with store.read() as reader:
            rows = islice(reader.rows(VECTORS, prefix=model.prefix), self._large + 1)
            return sum(1 for _ in rows) > self._large

    def _publish(
        self, store: Transactions, model: Model, graph: VectorGraph, stamp: Stamp
    ) -> bool:
        """Replace the file by a graph, unless it misses a removal."""
        if self._folder is None:
            kept = VectorGraph.of(graph.dump(), model.dimension)
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
                except FileNotFoundError:  # already replaced: a transaction function may run again
                    pass
                except OSError:
                    _unlink(path)
            return True

        try:
            write(new, graph, stamp)
            placed = store.write(work)
            self._forget(model)
            return placed
        except OSError:  # the disk is full; searches work without a graph
            self._drop(model)
            return True
        finally:
            _unlink(new)

    def _drop_unless_sound(self, store: Transactions, model: Model) -> None:
        """Without the library a file cannot be updated, so delete one with a removed grain."""
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
        """Close a file. Its bytes stay on disk while it is mapped."""
        with self._lock:
            self._open.pop(model, None)

    def _path(self, model: Model) -> Path:
        assert self._folder is not None
        return self._folder / f"vectors-{model.id}.usearch"

    def close(self) -> None:
        with self._lock:
            self._open.clear()


def _unlink(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
