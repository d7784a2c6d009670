# SPDX-License-Identifier: Apache-2.0
"""A graph of neighbours (HNSW) over the vectors of one model, by usearch, and its file.

It finds a few candidates among many vectors without comparing all. Everything in it can be made
again from the store, so a file in doubt is thrown away. What usearch reads it trusts: a damaged
file could crash the process, hence the checksum.

    file   what usearch wrote ++ stamp ++ BLAKE3 of both, 32
    stamp  "omgv" ++ u32 format ++ u32 model ++ u32 dimension ++ u64 how many were forgotten
           ++ u64 event ++ its row of events-0, 41; all integers big-endian
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from blake3 import blake3

__all__ = ["Graph", "Stamp", "library", "read", "stamp_of", "write"]

_STAMP = struct.Struct(">4sIIIQQ41s")
_MAGIC, _FORMAT, _CHECKSUM = b"omgv", 0, 32
_NEIGHBOURS, _EFFORT = 16, 128  # of a vector, and candidates for them when it is added
_NOBODY = 1 << 63  # keys from here on are no sequence numbers


@cache
def library() -> tuple[Any, Any] | None:
    """Return usearch's class and numpy, which it stands on; None where they are not installed."""
    try:
        return import_module("usearch.index").Index, import_module("numpy")
    except ImportError:
        return None


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a graph covers.

    Attributes:
        model: id of the model.
        dimension: values of each vector.
        forgotten: how many were taken out since the graph was made.
        event: number of the last event that it knows.
        row: the row of that event, by which a store knows that it is its own.
    """

    model: int
    dimension: int
    forgotten: int
    event: int
    row: bytes


class Graph:
    """Vectors by sequence number. Needs the library."""

    def __init__(self, dimension: int) -> None:
        made = library()
        assert made is not None, "ask library() first"
        kind, self._numpy = made
        # Halves of float32: the store has the whole, and compares by it.
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
    def of(cls, data: bytes | memoryview, dimension: int) -> Graph:
        """Return the graph in some bytes, which stay where they are; it cannot change."""
        graph = cls(dimension)
        graph._data = data  # usearch does not keep them alive
        graph._index.view(data)
        return graph

    def copy(self) -> Graph:
        """Return one that can change of one that cannot."""
        graph = Graph(self._dimension)
        graph._index.load(self._data)
        return graph

    def __len__(self) -> int:
        return len(self._index)

    def __contains__(self, seq: int) -> bool:
        return bool(self._index.contains(seq))

    def add(self, rows: Sequence[tuple[int, bytes]]) -> None:
        """Add vectors of the store by numbers that are not there yet."""
        good = [(seq, row) for seq, row in rows if len(row) == 4 * self._dimension]
        self._add([seq for seq, _ in good], b"".join(row for _, row in good))

    def _add(self, seqs: list[int], data: bytes) -> None:
        if seqs:
            matrix = self._numpy.frombuffer(data, "<f4").reshape(len(seqs), -1)
            self._add_units(self._numpy.array(seqs, "u8"), self._unit(matrix))

    def _add_units(self, keys: Any, matrix: Any) -> None:
        sound = self._numpy.isfinite(matrix).all(axis=1)  # a damaged row is nobody's neighbour
        self._index.add(keys[sound], matrix[sound])

    def _unit(self, matrix: Any) -> Any:
        """Rows of length 1: a half has no room for more."""
        with self._numpy.errstate(all="ignore"):
            matrix = matrix.astype("f8")
            matrix /= self._numpy.linalg.norm(matrix, axis=-1, keepdims=True)
        return matrix.astype("f4")

    def forget(self, seqs: Collection[int], forgotten: int) -> bool:
        """Take vectors out, and their bytes too.

        usearch only marks what it removes, and puts the next vector into its place. So noise is
        put there, under keys that are nobody's, and stays: then no other place is free next time.

        Args:
            seqs: numbers that are there.
            forgotten: how many were taken out before.

        Returns:
            Whether their bytes are gone; if not, the graph must be made anew.
        """
        before, count = self._index.serialized_length, len(seqs)
        noise = self._numpy.random.default_rng(forgotten).normal(size=(count, self._dimension))
        nobody = self._numpy.arange(count, dtype="u8") + self._numpy.uint64(_NOBODY + forgotten)
        self._index.remove(self._numpy.array(list(seqs), "u8"))
        self._add_units(nobody, self._unit(noise))
        return bool(self._index.serialized_length == before)

    def search(self, query: bytes, count: int) -> list[tuple[int, float]]:
        """Return about the nearest, noise among them, with cosines that are about right."""
        vector = self._unit(self._numpy.frombuffer(query, "<f4"))
        found = self._index.search(vector, count, threads=1)
        keys, distances = found.keys.tolist(), found.distances.tolist()
        return [(key, 1.0 - distance) for key, distance in zip(keys, distances, strict=True)]

    def dump(self) -> bytes:
        """Return its bytes."""
        return bytes(self._index.save())

    def save(self, path: Path) -> None:
        """Write its bytes to a file."""
        self._index.save(str(path))


def write(path: Path, graph: Graph, stamp: Stamp) -> None:
    """Write a graph to a file, which is on the disk then.

    Raises:
        OSError: it cannot be written.
    """
    try:
        graph.save(path)
    except RuntimeError as error:  # usearch's own
        raise OSError("the graph cannot be written") from error
    with path.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        fields = (stamp.model, stamp.dimension, stamp.forgotten, stamp.event, stamp.row)
        file.write(_STAMP.pack(_MAGIC, _FORMAT, *fields))
        file.flush()
        file.write(blake3().update_mmap(path).digest())
        file.flush()
        os.fsync(file.fileno())


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a file, unverified; None if it has none."""
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
    """Map a file into memory after verifying every byte.

    Returns:
        Its stamp and the bytes for ``Graph.of``; None if there is none, or a damaged one.
    """
    try:
        with path.open("rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError):  # not there, or empty
        return None
    body, checksum = data[:-_CHECKSUM], data[-_CHECKSUM:]
    stamp = _stamp(bytes(body[-_STAMP.size :]))
    if stamp is None or blake3(body).digest() != checksum:
        return None
    return stamp, body[: -_STAMP.size]
