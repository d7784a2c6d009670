# SPDX-License-Identifier: Apache-2.0
"""A gate that transactions pass side by side, and a change of the memory map passes alone."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from omsgrain.errors import StoreError

if TYPE_CHECKING:
    from omsgrain.store.writer_lock import SharedLock

__all__ = ["Gate", "LockedGate"]

PATIENCE = 30.0
"""Seconds to wait for other threads' transactions; they are short, so longer is a mistake."""


class Gate:
    """Counts who is inside. Moving or closing the map under a transaction would crash LMDB.

    Who goes in leaves a mark and then looks whether the gate is shut; who shuts it does so and
    then looks for marks: one of the two sees the other. A list's append and pop need no lock, and
    a read of one grain would notice what a lock costs.
    """

    __slots__ = ("_changed", "_lock", "_marks", "_shut")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._marks: list[None] = []
        self._shut = False

    @property
    def inside(self) -> int:
        """How many transactions are open."""
        return len(self._marks)

    def enter(self) -> None:
        """Go in; waits while somebody is alone inside."""
        self._marks.append(None)
        while self._shut:
            Gate.leave(self)
            with self._lock:
                while self._shut:
                    self._changed.wait()
            self._marks.append(None)

    def leave(self) -> None:
        """Go out again."""
        if self._marks:  # after a fork the gate is another one, and who was inside left no mark
            self._marks.pop()
        if self._shut:
            with self._lock:
                self._changed.notify_all()

    def shut(self, patience: float) -> bool:
        """Let nobody in and wait until all are out.

        Returns:
            False if somebody stayed inside for ``patience`` seconds; the gate is open again.
        """
        with self._lock:
            while self._shut:
                self._changed.wait()
            self._shut = True
            alone = self._changed.wait_for(lambda: not self._marks, patience)
            if not alone:
                self._reopen()
            return alone

    def open(self) -> None:
        """Let everybody in again."""
        with self._lock:
            self._reopen()

    def _reopen(self) -> None:
        self._shut = False
        self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone inside for the length of a ``with`` block.

        Raises:
            StoreError: another transaction of this process does not end.
        """
        if not self.shut(PATIENCE):
            raise StoreError(
                "a transaction in this process stays open",
                expected="transactions that end before the next write or close",
            )
        try:
            yield
        finally:
            self.open()


class LockedGate(Gate):
    """A gate of a process that nobody sees reading: writers wait until all are out.

    Args:
        lock: keeps writers out.
    """

    __slots__ = ("_writers",)

    def __init__(self, lock: SharedLock) -> None:
        super().__init__()
        self._writers = lock

    def enter(self) -> None:
        """Go in, and keep writers out.

        Raises:
            StoreError: another process writes for too long.
        """
        super().enter()
        try:
            self._writers.acquire()
        except BaseException:
            super().leave()
            raise

    def leave(self) -> None:
        """Go out again."""
        if self._marks:
            self._writers.release()
        super().leave()
