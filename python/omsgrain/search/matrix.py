# SPDX-License-Identifier: Apache-2.0
"""The vectors of a model in memory, side by side, for searches that compare all of them.

A matrix follows the store by its events, so it is right with other processes that write. It gives
the same results as the rows. It wins benchmark row M2-embedder.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from omsgrain import _core
from omsgrain.search.ann import events
from omsgrain.search.vectors import Model
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import EVENTS, VECTORS

_TOGETHER = 1_024  # vectors to read at a time
_BESIDE = 64  # bytes a vector, beside its values
_FLOAT = 4


class VectorRows(Protocol):
    """The vectors of a model in a store: of plain grains, or of one user's grains, opened."""

    def all(self, reader: Reader, model: Model) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over all keys and vectors."""
        ...

    def some(
        self, reader: Reader, model: Model, seqs: Iterable[int]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys and vectors of those grains that have one."""
        ...


class PlainRows:
    """The vectors of plain grains."""

    def all(self, reader: Reader, model: Model) -> Iterator[tuple[bytes, bytes]]:
        return reader.rows(VECTORS, prefix=model.prefix)

    def some(
        self, reader: Reader, model: Model, seqs: Iterable[int]
    ) -> Iterator[tuple[bytes, bytes]]:
        rest = iter(sorted(seqs))  # neighbours share pages
        while keys := [model.key(seq) for seq in islice(rest, _TOGETHER)]:
            found = reader.some_rows(VECTORS, keys)
            yield from ((key, found[key]) for key in keys if key in found)


@dataclass(slots=True)
class _Kept:
    matrix: _core.VectorMatrix
    size: int  # bytes of a vector
    event: tuple[bytes, bytes] | None  # the last event that it includes, with its row
    last: int  # the sequence number up to which it includes all

    @property
    def bytes(self) -> int:
        return len(self.matrix) * self.size

    def follows(self, reader: Reader) -> bool:
        """Whether it is of this store, and not of a later snapshot."""
        if self.event is None or reader.last_seq() < self.last:
            return False
        return reader.row(EVENTS, self.event[0]) == self.event[1]

    def follow(self, rows: VectorRows, reader: Reader, model: Model) -> None:
        """Take in the changes up to a snapshot."""
        last = reader.last_seq()
        if last != self.last:
            changed, deleted, _ = events(reader, self.last)
            self.matrix.remove([*(changed | deleted)])
            self.matrix.set([*rows.some(reader, model, changed - deleted)])
            self.event, self.last = reader.last_row(EVENTS), last


class VectorMatrices:
    """The matrices of the models that were searched last, up to a number of bytes.

    Threads may share it.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._kept: dict[Model, _Kept] = {}  # the model searched last is the last
        self._large: set[Model] = set()  # whose vectors are more than may be kept
        # Taken inside transactions; do not start one while holding it
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return how many vectors are in memory."""
        with self._lock:
            return sum(len(kept.matrix) for kept in self._kept.values())

    def nearest(
        self, rows: VectorRows, reader: Reader, model: Model, query: bytes, most: int
    ) -> list[tuple[float, int]] | None:
        """Return the nearest vectors of a snapshot; None if there are too many to keep them."""
        with self._lock:
            kept = self._current(rows, reader, model)
            return None if kept is None else kept.matrix.nearest(query, most)

    def drop(self) -> None:
        """Forget all vectors."""
        with self._lock:
            self._kept.clear()
            self._large.clear()

    def _current(self, rows: VectorRows, reader: Reader, model: Model) -> _Kept | None:
        if model in self._large:
            return None
        kept = self._kept.pop(model, None)
        if kept is not None and kept.follows(reader):
            kept.follow(rows, reader, model)
        else:
            kept = self._read(rows, reader, model)
        if kept is None or kept.bytes > self._most:
            self._large.add(model)
            return None
        others = sum(other.bytes for other in self._kept.values())
        while others + kept.bytes > self._most:
            others -= self._kept.pop(next(iter(self._kept))).bytes
        self._kept[model] = kept
        return kept

    def _read(self, rows: VectorRows, reader: Reader, model: Model) -> _Kept | None:
        matrix = _core.VectorMatrix(model.dimension)
        size = _FLOAT * model.dimension + _BESIDE
        kept = _Kept(matrix, size, reader.last_row(EVENTS), reader.last_seq())
        rest = iter(rows.all(reader, model))
        while page := list(islice(rest, _TOGETHER)):
            matrix.set(page)
            if kept.bytes > self._most:
                return None
        return kept
