# SPDX-License-Identifier: Apache-2.0
"""Counting reads: gathered in memory, written together with the next write or when many came.

A count is no fact about a grain that somebody would wait a disk for. What this process has not
written is lost when it is killed, and other processes do not see it yet.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

from omsgrain.store.base import Writer
from omsgrain.store.tables import COUNTER, COUNTERS, SEQUENCE

__all__ = ["MANY", "Access"]

MANY = 4_096
"""Grains whose counts are gathered before they are written."""


class Access:
    """How often, and when last, grains were read since the counts were written."""

    __slots__ = ("_counts", "_lock", "_most", "_writing")

    def __init__(self, most: int = MANY) -> None:
        self._most = most
        self._counts: dict[bytes, tuple[int, int]] = {}
        self._writing: dict[bytes, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def count(self, digests: Iterable[bytes], time: int) -> bool:
        """Count a read of each; True when enough have gathered to be written."""
        with self._lock:
            counts = self._counts
            for digest in digests:
                counts[digest] = (counts.get(digest, (0, 0))[0] + 1, time)
            return len(counts) >= min(MANY, self._most)

    def of(self, digest: bytes) -> tuple[int, int]:
        """How often a grain was read, and when last, as far as it is not written."""
        with self._lock:
            a, b = self._counts.get(digest, (0, 0)), self._writing.get(digest, (0, 0))
        return a[0] + b[0], max(a[1], b[1])

    def take(self) -> bool:
        """Set apart what is to be written now; False if there is nothing, or it is being done."""
        with self._lock:
            if self._writing or not self._counts:
                return False
            self._writing, self._counts = self._counts, {}
            return True

    def write(self, writer: Writer) -> None:
        """Add what was set apart to the counters; grains that are gone are passed over."""
        digests = list(self._writing)
        for digest, seq in zip(digests, writer.find(digests), strict=True):
            if seq is None:
                continue
            key = SEQUENCE.pack(seq)
            row = writer.row(COUNTERS, key)
            count, last = (0, 0) if row is None else COUNTER.unpack(row)
            more, time = self._writing[digest]
            writer.set_row(COUNTERS, key, COUNTER.pack(count + more, max(last, time)))

    def written(self, done: bool) -> None:
        """Forget what was set apart if it was written; else count it on."""
        with self._lock:
            if not done:
                for digest, (count, time) in self._writing.items():
                    now = self._counts.get(digest, (0, 0))
                    self._counts[digest] = (now[0] + count, max(now[1], time))
            self._writing = {}
