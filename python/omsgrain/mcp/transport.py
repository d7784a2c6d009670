# SPDX-License-Identifier: Apache-2.0
"""The transport between stdin, stdout and the server of the SDK.

The SDK reads lines of any length, cannot stop while it waits for a line, drops running calls when
stdin ends, and does not answer a request that it cannot parse. Here a line has a limit, and a
signal ends the wait. The server sees the end of stdin only when every request is answered or
cancelled. A request that is too long or invalid gets an error.
"""

from __future__ import annotations

import io
import json
import os
import re
import select
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import ErrorData, JSONRPCError, JSONRPCNotification, JSONRPCRequest, JSONRPCResponse
from pydantic import ValidationError

from omsgrain.mcp.service import refuse
from omsgrain.server.log import Log

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


class DescriptorLines(io.TextIOWrapper):
    """Reads the lines of a file descriptor, which stays open."""

    def __init__(self, number: int, most: int) -> None:
        super().__init__(io.BytesIO())  # for its type only: nothing is read through it
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

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]  # as the base class
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


Item = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]
"""A message that the server reads or writes."""
_INVALID: Final = -32600  # JSON-RPC: invalid request
_NO_JSON: Final = -32700  # JSON-RPC: parse error
_CANCELLED: Final = "notifications/cancelled"


@asynccontextmanager
async def relayed(incoming: Any, outgoing: Any, most: int, log: Log) -> AsyncIterator[Streams]:
    """Make streams that replace those of the transport."""
    relay = _Relay(outgoing, most, log)
    feed, read = anyio.create_memory_object_stream[Item](0)
    write, heard = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.requests, incoming, feed)
        tasks.start_soon(relay.answers, heard)
        yield read, write


class _Relay:
    """Passes messages on, and tracks open requests."""

    def __init__(self, outgoing: Any, most: int, log: Log) -> None:
        self._outgoing, self._most, self._log = outgoing, most, log
        self._open: Counter[str] = Counter()
        self._changed = anyio.Event()

    async def requests(self, incoming: Any, feed: MemoryObjectSendStream[Item]) -> None:
        """Pass on requests, and the end of stdin when all are answered."""
        try:
            async with feed:
                async for item in incoming:
                    if not await self._met(item):
                        await feed.send(item)
                while self._open:
                    self._changed = anyio.Event()
                    await self._changed.wait()
        except anyio.BrokenResourceError:
            pass  # the server has ended and reports why

    async def answers(self, heard: MemoryObjectReceiveStream[SessionMessage]) -> None:
        async with self._outgoing:
            async for item in heard:
                await self._outgoing.send(item)
                message = item.message
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._settle(message.id)

    async def _met(self, item: Item) -> bool:
        """Track a message; return whether the relay answered it."""
        if isinstance(item, Exception):
            if (refusal := _unread(item)) is None:
                return False
            await self._outgoing.send(SessionMessage(refusal))
            return True
        message = item.message
        if isinstance(message, JSONRPCRequest):
            self._open[str(message.id)] += 1
        elif isinstance(message, JSONRPCNotification):
            given = message.params or {}
            if message.method == TOO_LONG:
                self._log.write("line_too_long")
                await self._outgoing.send(SessionMessage(self._too_long(given.get("id"))))
                return True
            if message.method == _CANCELLED:
                self._settle(given.get("requestId"))
        return False

    def _settle(self, id: Any) -> None:
        """Track that a request is answered or cancelled."""
        key = str(id)
        self._open[key] -= 1
        if self._open[key] <= 0:
            del self._open[key]
        self._changed.set()

    def _too_long(self, id: Any) -> JSONRPCError:
        error = refuse("line_too_long", expected=f"at most {self._most} bytes")
        known = id if isinstance(id, str | int) else None
        data = ErrorData(code=_INVALID, message=str(error), data=error.to_dict())
        return JSONRPCError(jsonrpc="2.0", id=known, error=data)


def _unread(error: Exception) -> JSONRPCError | None:
    """Return the error for a request that cannot be parsed, if its id can be found."""
    if not isinstance(error, ValidationError):
        return None
    errors = error.errors(include_url=False)
    if errors[0]["type"] == "json_invalid":
        line = errors[0]["input"]
        if not isinstance(line, str) or '"method"' not in line:
            return None
        id = named(line.encode())
        why = ErrorData(code=_NO_JSON, message="not JSON")
    else:
        # The message is of no kind: pydantic lists the errors of each kind, with the whole input.
        absent = (e["input"] for e in errors if e["type"] == "missing" and len(e["loc"]) == 2)
        whole = next((one for one in absent if isinstance(one, dict) and "method" in one), {})
        id = whole.get("id")
        why = ErrorData(code=_INVALID, message="not a JSON-RPC 2.0 request")
    if not isinstance(id, str | int) or isinstance(id, bool):
        return None
    return JSONRPCError(jsonrpc="2.0", id=id, error=why)
