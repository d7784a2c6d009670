# SPDX-License-Identifier: Apache-2.0
"""Who changes a key file has a turn: the threads of a process by a lock, processes by the file's.

The lock is on the file itself. When another file took its place meanwhile, the turn was that of
the old one and is taken again; who asks for it says how to follow.
"""

from __future__ import annotations

import threading
import time

from omsgrain.errors import StoreError

try:
    import fcntl
except ImportError:  # not a POSIX system: one process alone may change the file
    fcntl = None  # type: ignore[assignment]

__all__ = ["PATIENCE", "Turn", "lock", "unlock"]

PATIENCE = 30.0
"""Seconds to wait for another thread or process that changes the file."""

_PAUSE = 0.0005, 0.02  # seconds between two tries


def lock(handle: int) -> bool:
    """Lock an open file, unless another descriptor has it locked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(handle: int) -> None:
    """Let others lock the file."""
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)


class Turn:
    """The turn of one process; a thread that has it may take it again inside."""

    __slots__ = ("_thread", "depth", "patience")

    def __init__(self, patience: float = PATIENCE) -> None:
        self._thread = threading.RLock()
        self.depth = 0
        self.patience = patience

    def __enter__(self) -> None:
        """Take it from the other threads; the file is not locked yet.

        Raises:
            StoreError: another had it for ``patience`` seconds.
        """
        if not self._thread.acquire(timeout=self.patience):
            raise _late("thread")
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        """Give it up."""
        self.leave()

    def leave(self) -> None:
        """Give it up, after an `attempt`."""
        self.depth -= 1
        self._thread.release()

    def attempt(self) -> bool:
        """Take it if no thread has it, this one neither."""
        if not self._thread.acquire(blocking=False):
            return False
        if self.depth:
            self._thread.release()
            return False
        self.depth = 1
        return True

    def wait(self, handle: int) -> None:
        """Lock the file.

        Raises:
            StoreError: another process had it for ``patience`` seconds.
        """
        until = time.monotonic() + self.patience
        pause, longest = _PAUSE
        while not lock(handle):
            if time.monotonic() >= until:
                raise _late("process")
            time.sleep(pause)
            pause = min(2 * pause, longest)


def _late(who: str) -> StoreError:
    return StoreError(f"another {who} is changing the key file", expected="its turn to end soon")
