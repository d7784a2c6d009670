# SPDX-License-Identifier: Apache-2.0
"""Counting reads: gathered in memory, written together with the next write or when many came.

A count is no fact about a grain that somebody would wait a disk for. What this process has not
written is lost when it is killed, and other processes do not see it yet.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from omsgrain.store.base import Writer
from omsgrain.store.tables import COUNTER, COUNTERS, SEQUENCE

__all__ = ["MANY", "Access"]

MANY = 4_096
"""Grains whose counts are gathered before they are written."""


class Access:
    """How often, and when last, grains were read since the counts were written.

    Reads are only noted, since a list takes them without a lock; they are counted when somebody
    asks, or when so many were noted that they may have to be written.
    """

    __slots__ = ("_counts", "_lock", "_most", "_notes", "_room", "_writing")

    def __init__(self, most: int = MANY) -> None:
        self._most = min(MANY, most)
        self._notes: list[tuple[Sequence[bytes], int]] = []
        self._room = (
            self._most
        )  # reads that may be noted before they are counted; not exact by threads
        self._counts: dict[bytes, tuple[int, int]] = {}
        self._writing: dict[bytes, tuple[int, int]] = {}
        self._lock = threading.Lock()

    def count(self, digests: Sequence[bytes], time: int) -> bool:
        """Count a read of each; True when enough have gathered to be written."""
        self._notes.append((digests, time))
        self._room -= len(digests)
        if self._room > 0:
            return False
        with self._lock:
            self._gather()
            return self._room <= 0

    def _gather(self) -> None:
        """Count what was noted; with the lock."""
        counts = self._counts
        noted = self._notes[:]  # others may note more meanwhile
        del self._notes[: len(noted)]
        for digests, time in noted:
            for digest in digests:
                counts[digest] = (counts[digest][0] + 1 if digest in counts else 1, time)
        self._room = self._most - len(counts)

    def of(self, digest: bytes) -> tuple[int, int]:
        """How often a grain was read, and when last, as far as it is not written."""
        with self._lock:
            self._gather()
            a, b = self._counts.get(digest, (0, 0)), self._writing.get(digest, (0, 0))
        return a[0] + b[0], max(a[1], b[1])

    def take(self) -> bool:
        """Set apart what is to be written now; False if there is nothing, or it is being done."""
        with self._lock:
            self._gather()
            if self._writing or not self._counts:
                return False
            self._writing, self._counts, self._room = self._counts, {}, self._most
            return True

    def write(self, writer: Writer) -> None:
        """Add what was set apart to the counters; grains that are gone are passed over."""
        found = zip(writer.find(list(self._writing)), self._writing.values(), strict=True)
        # A sealed grain may have been read by two addresses.
        totals: dict[int, tuple[int, int]] = {}
        for seq, (count, time) in found:
            if seq is not None:
                before = totals.get(seq, (0, 0))
                totals[seq] = (before[0] + count, max(before[1], time))
        rows = []
        for seq in sorted(totals):  # neighbours in the table are met together
            key, (count, last) = SEQUENCE.pack(seq), totals[seq]
            row = writer.row(COUNTERS, key)
            if row is not None:
                before = COUNTER.unpack(row)
                count, last = before[0] + count, max(before[1], last)
            rows.append((key, COUNTER.pack(count, last)))
        writer.set_rows(COUNTERS, rows)

    def written(self, done: bool) -> None:
        """Forget what was set apart if it was written; else count it on."""
        with self._lock:
            if not done:
                for digest, (count, time) in self._writing.items():
                    now = self._counts.get(digest, (0, 0))
                    self._counts[digest] = (now[0] + count, max(now[1], time))
            self._writing = {}
