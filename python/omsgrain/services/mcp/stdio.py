# SPDX-License-Identifier: Apache-2.0
"""Lines of stdin, each of a bounded length; told to stop, they end.

A thread that waits for a line cannot be interrupted otherwise, and a line without an end would
fill the memory. A line that is too long is passed over; in its place stands a notification of our
own, which names the request if that could be seen, so that it is answered.
"""

from __future__ import annotations

import io
import json
import os
import re
import select
from typing import Final

__all__ = ["TOO_LONG", "Lines", "named"]

TOO_LONG: Final = "omsgrain/line_too_long"
"""The method of what stands in the place of a line; ``id`` is that of the request, or null."""
_PIECE: Final = 1 << 16
_SHOWN: Final = 4 << 10  # bytes at both ends of a long line in which its id is looked for
# As JSON has them: no zero before a number, no control character in a text.
_ID: Final = rb'"id"\s*:\s*(-?(?:0|[1-9][0-9]{0,17})|"[^"\\\x00-\x1f]{0,256}")\s*'
_FIRST: Final = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,256}"\s*,\s*){0,2}' + _ID + rb"[,}]"
)
_LAST: Final = re.compile(rb",\s*" + _ID + rb"\}\s*\Z")


def named(head: bytes, tail: bytes | None = None) -> str | int | None:
    """The id of a request that cannot be read, if it can be seen.

    Args:
        head: the beginning of its line.
        tail: its end; None if the beginning is all of it.
    """
    found = _FIRST.match(head) or _LAST.search(head if tail is None else tail)
    if found is None:
        return None
    id: str | int = json.loads(found[1].decode("utf-8", "replace"))
    return id


class Lines(io.TextIOWrapper):
    """Gives the lines of a file descriptor, which stays open.

    Args:
        number: the descriptor.
        most: bytes of a line.
    """

    def __init__(self, number: int, most: int) -> None:
        super().__init__(io.BytesIO())  # it is one for its type: nothing is read through it
        self._number = number
        self._most = most
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
                return self._pass_over(end)
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

    def _pass_over(self, end: int) -> str:
        """What stands for a line that is too long; its end is there, or is not yet below zero."""
        head = bytes(self._found[:_SHOWN])
        while end < 0:
            del self._found[:-_SHOWN]
            at = len(self._found)
            self._found += self._read()
            self._over = self._over or len(self._found) == at
            end = at if self._over else self._found.find(b"\n", at)
        tail = bytes(self._found[max(0, end - _SHOWN) : end])
        del self._found[: end + 1]
        self._seen = 0
        said = {"jsonrpc": "2.0", "method": TOO_LONG, "params": {"id": named(head, tail)}}
        return json.dumps(said) + "\n"

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
