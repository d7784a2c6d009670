# SPDX-License-Identifier: Apache-2.0
"""Two locks around the files of a store: one on the memory map, one on the directory.

The lock of the writers is in ``commit_queue.py``.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from omsgrain.errors import StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system: no compaction there, and so nothing to wait for
    fcntl = None  # type: ignore[assignment]

MAP_PATIENCE = 30.0
"""Seconds to wait for other threads' transactions; they are short, so longer is a mistake."""

_PAUSE = 0.002  # seconds between two tries; openings are short


class MapResizeLock:
    """Counts open transactions. Moving or closing the map under one would crash LMDB.

    A transaction leaves a mark and then looks whether the lock is taken; a thread that takes the
    lock does so and then looks for marks: one of the two sees the other. A list's append and pop
    need no lock, and a read of one grain would notice what a lock costs.
    """

    __slots__ = ("_changed", "_lock", "marks", "taken")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.marks: list[None] = []  # one for each open transaction
        self.taken = False  # a thread is alone inside, or waits to be

    def enter(self) -> None:
        """Go in; waits while a thread is alone inside."""
        self.marks.append(None)
        if self.taken:
            self.wait()

    def wait(self) -> None:
        """Take a mark back that was left too late, and leave another when the lock is free."""
        while self.taken:
            self.leave()
            with self._lock:
                while self.taken:
                    self._changed.wait()
            self.marks.append(None)

    def leave(self) -> None:
        if self.marks:  # after a fork the lock is another one, and has no mark of its parent's
            self.marks.pop()
        if self.taken:
            self.wake()

    def wake(self) -> None:
        """Let the thread look again that waits to be alone."""
        with self._lock:
            self._changed.notify_all()

    def shut(self, patience: float) -> bool:
        """Let no thread in, and wait until all are out."""
        with self._lock:
            while self.taken:
                self._changed.wait()
            self.taken = True
            alone = self._changed.wait_for(lambda: not self.marks, patience)
            if not alone:
                self._reopen()
            return alone

    def open(self) -> None:
        with self._lock:
            self._reopen()

    def _reopen(self) -> None:
        self.taken = False
        self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone inside for the length of a ``with`` block."""
        if not self.shut(MAP_PATIENCE):
            raise StoreError(
                "a transaction in this process stays open",
                expected="transactions that end before the next write or close",
            )
        try:
            yield
        finally:
            self.open()


opening = threading.RLock()
"""One thread of a process opens or replaces files at a time. A fork waits for it, lest the child
inherit a descriptor that holds the directory's lock."""


@contextmanager
def file_swap(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock on a store's directory: no other process opens its files, or replaces them."""
    with opening:
        if fcntl is None:
            yield
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            until = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise StoreError(
                            f"the files of the store {str(path)!r} are being opened or replaced",
                            expected=f"that to end within {patience:g} s",
                        ) from None
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(fd)
