# SPDX-License-Identifier: Apache-2.0
"""The transport: lines of stdin and stdout as messages for the server of the SDK.

The SDK's own reads lines of any length, cannot stop while it waits for a line, drops running calls
when stdin ends, and does not answer what it cannot parse. Here a line has a limit, and a signal
ends the wait. The server sees the end of stdin only when every request is answered or cancelled. A
line that is too long, no JSON or no request gets an error.
"""

from __future__ import annotations

import json
import os
import re
import select
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from io import FileIO
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from anyio.to_thread import run_sync

from omsgrain.mcp import sdk
from omsgrain.mcp.service import Json, refuse
from omsgrain.server.log import Log

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

TOO_LONG: Final = "omsgrain/line_too_long"
"""The method of the message that replaces a long line; ``id`` is that of the request or null."""
_PIECE: Final = 1 << 16
_SHOWN: Final = 4 << 10  # bytes at both ends of a long line that are searched for its id
# As in JSON: no zero before a number, no control character in a text.
_ID: Final = rb'"id"\s*:\s*(-?(?:0|[1-9][0-9]{0,17})|"[^"\\\x00-\x1f]{0,256}")\s*'
_FIRST: Final = re.compile(
    rb'\s*\{\s*(?:"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,256}"\s*,\s*){0,2}' + _ID + rb"[,}]"
)
_LAST: Final = re.compile(rb",\s*" + _ID + rb"\}\s*\Z")


def named(head: bytes, tail: bytes | None = None) -> str | int | None:
    """Find the id of a request that cannot be parsed."""
    found = _FIRST.match(head) or _LAST.search(head if tail is None else tail)
    if found is None:
        return None
    id: str | int = json.loads(found[1].decode("utf-8", "replace"))
    return id


class DescriptorLines:
    """Reads the lines of a file descriptor, which stays open."""

    def __init__(self, number: int, most: int) -> None:
        self._number = number
        self._most = most
        self._found = bytearray()
        self._seen = 0  # the start of a line without its end
        self._wake, self._waker = os.pipe()
        self._over = False

    def stop(self) -> None:
        """Stop reading; any thread and any signal handler may call it."""
        self._over = True
        os.write(self._waker, b"\0")

    def readline(self) -> str:
        """Return the next line with its end; empty at the end."""
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
        """Skip a long line, and return the message that replaces it; below 0 its end is unread."""
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


Streams = tuple[
    "MemoryObjectReceiveStream[SessionMessage | Exception]",
    "MemoryObjectSendStream[SessionMessage]",
]
"""The messages that the server reads, and those that it writes."""
_INVALID: Final = -32600  # JSON-RPC: invalid request
_NO_JSON: Final = -32700  # JSON-RPC: parse error
_CANCELLED: Final = "notifications/cancelled"


@asynccontextmanager
async def messages(
    lines: DescriptorLines, out: FileIO, most: int, log: Log
) -> AsyncIterator[Streams]:
    """Read messages from lines, and write messages as lines."""
    relay = _Relay(lines, out, most, log)
    feed, read = anyio.create_memory_object_stream[Any](0)
    write, heard = anyio.create_memory_object_stream[Any](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.requests, feed)
        tasks.start_soon(relay.answers, heard)
        yield read, write


class _Relay:
    """Passes messages on, and tracks open requests."""

    def __init__(self, lines: DescriptorLines, out: FileIO, most: int, log: Log) -> None:
        self._lines, self._out, self._most, self._log = lines, out, most, log
        self._open: Counter[str] = Counter()
        self._changed = anyio.Event()
        # Threads of their own: calls that work must not keep a message waiting.
        self._reading, self._writing = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)

    async def requests(self, feed: MemoryObjectSendStream[SessionMessage]) -> None:
        """Pass on requests, and the end of stdin when all are answered."""
        try:
            async with feed:
                while line := await run_sync(self._lines.readline, limiter=self._reading):
                    message = await self._taken(line)
                    if message is not None:
                        await feed.send(message)
                while self._open:
                    self._changed = anyio.Event()
                    await self._changed.wait()
        except anyio.BrokenResourceError:
            pass  # the server has ended and reports why

    async def answers(self, heard: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with heard:
            async for message in heard:
                kind, content = sdk.kind_of(message)
                if kind != "response":
                    await self._write(sdk.dump(message))
                elif str(content.id) in self._open:  # 1.x also answers a cancelled request
                    await self._write(sdk.dump(message))
                    self._settle(content.id)

    async def _taken(self, line: str) -> SessionMessage | None:
        """Read and track a message; None if the server has nothing to do."""
        if not line.strip():
            return None
        try:
            message = sdk.parse(line)
        except sdk.NotMessage as error:
            if (refusal := _unread(line, is_json=error.json)) is not None:
                await self._write(json.dumps(refusal))
            return None
        kind, content = sdk.kind_of(message)
        if kind == "request":
            self._open[str(content.id)] += 1
        elif kind == "notification":
            given = content.params or {}
            if content.method == TOO_LONG:
                self._log.write("line_too_long")
                await self._write(json.dumps(self._too_long(given.get("id"))))
                return None
            if content.method == _CANCELLED:
                self._settle(given.get("requestId"))
        return message

    async def _write(self, text: str) -> None:
        await run_sync(partial(self._written, text), limiter=self._writing)

    def _written(self, text: str) -> None:
        left = memoryview(text.encode() + b"\n")
        try:
            while left:
                left = left[self._out.write(left) :]
        except OSError:
            self._lines.stop()  # the client is gone

    def _settle(self, id: Any) -> None:
        """Track that a request is answered or cancelled."""
        key = str(id)
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]
        self._changed.set()

    def _too_long(self, id: Any) -> Json:
        error = refuse("line_too_long", expected=f"at most {self._most} bytes")
        answer = _error(id, _INVALID, str(error))
        answer["error"]["data"] = error.to_dict()
        return answer


def _unread(line: str, *, is_json: bool) -> Json | None:
    """Return the error for a line that is no message; None if it needs no answer."""
    if not is_json:
        return _error(named(line.encode()), _NO_JSON, "not JSON")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return _error(None, _INVALID, "not a JSON-RPC 2.0 message")
    id = None
    if isinstance(found, dict):
        id = found.get("id")
        if "method" not in found and ("result" in found or "error" in found):
            return None  # it would be an answer
        if "method" in found and "id" not in found:
            return None  # a notification
    return _error(id, _INVALID, "not a JSON-RPC 2.0 message")


def _error(id: Any, code: int, message: str) -> Json:
    known = id if isinstance(id, str | int) and not isinstance(id, bool) else None
    return {"jsonrpc": "2.0", "id": known, "error": {"code": code, "message": message}}
