# SPDX-License-Identifier: Apache-2.0
"""The grains beyond the watermark: on disk as blobs, and not yet in the index tables.

Blobs are committed one by one; addresses and index rows are written in sorted runs, because rows
in random places of a tree cost several times as much. What lies between, a process keeps here,
made from the blobs themselves, and merges into every answer: a grain is found the moment its put
returns, and losing this loses nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Protocol

from omsgrain import _core

__all__ = ["RUN", "Recent"]

RUN = 65_536
"""Grains in a sorted run: the index is written when so many have gathered."""

_PAGE = 256  # places taken from the tail at a time


class Blobs(Protocol):
    """A snapshot that blobs can be read from."""

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; None for a damaged blob."""
        ...


class Recent:
    """What this process knows of the grains in ``(watermark, last]``.

    It only grows; after a run was written a new one takes its place, and snapshots that were
    opened before keep the old one.

    Attributes:
        watermark: the last sequence number that the index tables cover.
        last: the last sequence number known here.
        digests: sequence number by address.
        tail: the index rows up to ``rows_to``; made when a query or a flush needs them.
    """

    __slots__ = ("_lock", "digests", "last", "rows_to", "tail", "watermark")

    def __init__(self, watermark: int) -> None:
        self.watermark = watermark
        self.last = watermark
        self.rows_to = watermark
        self.digests: dict[bytes, int] = {}
        self.tail = _core.Tail()
        self._lock = threading.Lock()

    def extend(self, fresh: dict[bytes, int]) -> None:
        """Take over what this process has committed: sequence numbers by address, rising."""
        with self._lock:
            for digest, seq in fresh.items():
                if seq > self.last:
                    self.digests[digest] = seq
                    self.last = seq

    def load(self, blobs: Blobs, last: int) -> None:
        """Read what others have committed, up to ``last``."""
        while self.last < last:
            with self._lock:
                page = [row for row in blobs.hashed_page(self.last) if row[0] <= last]
                if not page:
                    return
                self.digests.update((digest, seq) for seq, _, digest in page if digest)
                self.last = page[-1][0]

    def load_rows(self, blobs: Blobs, last: int) -> None:
        """Make the index rows up to ``last``."""
        while self.rows_to < last:
            with self._lock:
                page = [row for row in blobs.hashed_page(self.rows_to) if row[0] <= last]
                if not page:
                    return
                self.add_rows([(seq, blob, digest) for seq, blob, digest in page if digest])
                self.rows_to = page[-1][0]

    def add_rows(self, grains: list[tuple[int, bytes, bytes]]) -> None:
        """Add the index rows of sequence numbers, blobs and addresses."""
        self.tail.add([g[0] for g in grains], [g[1] for g in grains], [g[2] for g in grains])

    def places(
        self, key: bytes, after: bytes | None, newest: bool, low: int, high: int
    ) -> Iterator[bytes]:
        """Walk the places of a term whose sequence numbers are in ``(low, high]``."""
        while True:
            page = self.tail.page(key, after, newest, _PAGE)
            for place in page:
                if low < int.from_bytes(place[12:], "big") <= high:
                    yield place
            if len(page) < _PAGE:
                return
            after = page[-1]

    def count(self, key: bytes, low: int, high: int) -> int:
        """How many of them there are."""
        if low == self.watermark and high == self.rows_to:
            return self.tail.count(key)
        return sum(1 for _ in self.places(key, None, True, low, high))
