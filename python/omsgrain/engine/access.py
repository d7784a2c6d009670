# SPDX-License-Identifier: Apache-2.0
"""Counting reads: gathered in memory, written when many came and when the store is closed.

A count is no fact about a grain that somebody would wait a disk for. What this process has not
written is lost when it is killed, and other processes do not see it yet.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from itertools import chain

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

    __slots__ = ("_counts", "_last", "_lock", "_most", "_notes", "_room", "_writing")

    def __init__(self, most: int = MANY) -> None:
        self._most = min(MANY, most)
        self._notes: list[tuple[Sequence[bytes], int]] = []
        # Reads that may be noted before they are counted; not exact by threads.
        self._room = self._most
        self._counts: Counter[bytes] = Counter()
        self._last: dict[bytes, int] = {}
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
        noted = self._notes[:]  # others may note more meanwhile
        del self._notes[: len(noted)]
        self._counts.update(chain.from_iterable([digests for digests, _ in noted]))
        last = self._last
        for digests, time in noted:
            for digest in digests:
                last[digest] = time
        self._room = self._most - len(last)

    def of(self, digest: bytes) -> tuple[int, int]:
        """How often a grain was read, and when last, as far as it is not written."""
        with self._lock:
            self._gather()
            count, last = self._writing.get(digest, (0, 0))
            return self._counts[digest] + count, max(self._last.get(digest, 0), last)

    def take(self) -> bool:
        """Set apart what is to be written now; False if there is nothing, or it is being done."""
        with self._lock:
            self._gather()
            if self._writing or not self._counts:
                return False
            last = self._last
            self._writing = {d: (count, last[d]) for d, count in self._counts.items()}
            self._counts, self._last, self._room = Counter(), {}, self._most
            return True

    def write(self, writer: Writer) -> None:
        """Add what was set apart to the counters; grains that are gone are passed over."""
        found = zip(writer.find(list(self._writing)), self._writing.values(), strict=True)
        # A sealed grain may have been read by two addresses.
        totals: dict[int, tuple[int, int]] = {}
        for seq, (count, time) in found:
            if seq is not None:
                if seq in totals:
                    before = totals[seq]
                    count, time = before[0] + count, max(before[1], time)
                totals[seq] = count, time
        rows = []
        pack, size = COUNTER.pack, COUNTER.size
        keys = {SEQUENCE.pack(seq): totals[seq] for seq in sorted(totals)}  # neighbours together
        there = writer.some_rows(COUNTERS, list(keys))
        for key, (count, last) in keys.items():
            if (value := there.get(key)) is not None:
                if len(value) != size:  # damaged: `check` tells it, and nobody waits for a count
                    continue
                before = COUNTER.unpack(value)
                count, last = before[0] + count, max(before[1], last)
            rows.append((key, pack(count, last)))
        writer.set_rows(COUNTERS, rows)

    def written(self, done: bool) -> None:
        """Forget what was set apart if it was written; else count it on."""
        with self._lock:
            if not done:
                for digest, (count, time) in self._writing.items():
                    self._counts[digest] += count
                    self._last[digest] = max(self._last.get(digest, 0), time)
            self._writing = {}
