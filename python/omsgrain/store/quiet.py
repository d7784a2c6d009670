# SPDX-License-Identifier: Apache-2.0
"""A quiet moment: when nothing was written for a while, the index is written.

Else a store that is open for days and takes a few thousand grains would keep them all in the tail,
and each process that opens it would read them anew. A daemon thread waits for such a moment; it
begins with the first write, so a process that only reads, or ends soon, hardly pays for it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from omsgrain.errors import OmsError

__all__ = ["LEAST", "PAUSE", "Quiet"]

PAUSE = 2.0
"""Seconds without a write that make a quiet moment."""

LEAST = 256
"""Fewer grains than this are not worth a commit."""


class Quiet:
    """Calls ``flush`` once after each spell of writing.

    Args:
        flush: told how many grains are worth it. What it refuses is left for the next time.

    Attributes:
        wait: waits so many seconds, or until this ends, and tells whether it has ended. A test may
            put its own in the place.
    """

    def __init__(self, flush: Callable[[int], None]) -> None:
        self._flush = flush
        self._flushed = 0  # so many writes were followed by a quiet moment
        self._writes = 0  # two threads may count as one; only that it has changed matters
        self._resting = False
        self._woken = threading.Condition()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.wait: Callable[[float], bool] = self._ended.wait

    def written(self) -> None:
        """Say that something was written just now."""
        self._writes += 1
        if self._resting or self._thread is None:
            with self._woken:
                self._woken.notify()
                if self._thread is None and not self._ended.is_set():
                    self._thread = threading.Thread(
                        target=self._run, name="omsgrain-quiet", daemon=True
                    )
                    with suppress(RuntimeError):  # the interpreter is ending
                        self._thread.start()

    def end(self) -> None:
        """Let the thread end; waits for nothing."""
        self._ended.set()
        with self._woken:
            self._woken.notify()

    def _run(self) -> None:
        while True:
            with self._woken:
                self._resting = True
                self._woken.wait_for(self._has_work)
                self._resting = False
            seen = self._writes
            if self.wait(PAUSE):
                return
            if seen == self._writes:
                # The grains are safe without it; a full disk is told by the next put.
                with suppress(OmsError):
                    self._flush(LEAST)
                self._flushed = seen

    def _has_work(self) -> bool:
        return self._writes != self._flushed or self._ended.is_set()
