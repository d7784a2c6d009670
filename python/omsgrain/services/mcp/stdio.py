# SPDX-License-Identifier: Apache-2.0
"""Lines of stdin, each of a bounded length; told to stop, they end.

A thread that waits for a line cannot be interrupted otherwise, and a line without an end would
fill the memory.
"""

from __future__ import annotations

import io
import os
import select
from collections.abc import Callable
from typing import Final

__all__ = ["Lines"]

_PIECE: Final = 1 << 16


class Lines(io.TextIOWrapper):
    """Gives the lines of a file descriptor, which stays open.

    Args:
        number: the descriptor.
        most: bytes of a line; behind a longer one there are no more.
        told: called when a line was longer.
    """

    def __init__(self, number: int, most: int, told: Callable[[], None]) -> None:
        super().__init__(io.BytesIO())  # it is one for its type: nothing is read through it
        self._number = number
        self._most = most
        self._told = told
        self._found = bytearray()
        self._seen = 0  # of what was found: here is no end of a line
        self._wake, self._waker = os.pipe()
        self._over = False

    def stop(self) -> None:
        """End, from any thread and from a handler of signals."""
        self._over = True
        os.write(self._waker, b"\0")

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # as the base class
        """The next line, with its end; nothing when there are no more."""
        while not self._over:
            end = self._found.find(b"\n", self._seen)
            self._seen = len(self._found) if end < 0 else end
            if self._seen > self._most:
                self._over = True
                self._found.clear()
                self._told()
                break
            if end >= 0:
                return self._take(end + 1)
            piece = self._read()
            if not piece:
                self._over = True
                return self._take(len(self._found))
            self._found += piece
        return ""

    def _take(self, end: int) -> str:
        line = self._found[:end].decode("utf-8", "replace")
        del self._found[:end]
        self._seen = 0
        return line

    def _read(self) -> bytes:
        if hasattr(select, "poll"):
            waiting = select.poll()
            waiting.register(self._number, select.POLLIN)
            waiting.register(self._wake, select.POLLIN)
            if any(number == self._wake for number, _ in waiting.poll()):
                return b""
        try:
            return os.read(self._number, _PIECE)
        except OSError:
            return b""
