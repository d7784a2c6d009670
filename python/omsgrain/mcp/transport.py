# SPDX-License-Identifier: Apache-2.0
"""Between stdin, stdout and the server of the SDK, which drops calls that work when stdin ends.

What came is answered first: the server learns of the end when nothing is open any more. A request
that the client has cancelled waits for no answer. A line that was too long is answered here, and a
request that is no JSON, or not one of JSON-RPC, which the server would pass over while its client
waits.
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


class DescriptorLines(io.TextIOWrapper):
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


Item = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Item], MemoryObjectSendStream[SessionMessage]]
"""What a server reads from, and what it writes to."""
_INVALID: Final = -32600  # JSON-RPC: invalid request
_NO_JSON: Final = -32700  # JSON-RPC: parse error
_CANCELLED: Final = "notifications/cancelled"


@asynccontextmanager
async def relayed(incoming: Any, outgoing: Any, most: int, log: Log) -> AsyncIterator[Streams]:
    """Streams for the server, in the place of those of the transport.

    Args:
        incoming: messages from the client; what is none is an exception.
        outgoing: messages to the client.
        most: bytes of a line, for the answer to one that is longer.
        log: where such a line is told.
    """
    relay = _Relay(outgoing, most, log)
    feed, read = anyio.create_memory_object_stream[Item](0)
    write, heard = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(relay.requests, incoming, feed)
        tasks.start_soon(relay.answers, heard)
        yield read, write


class _Relay:
    """Knows which requests are open."""

    def __init__(self, outgoing: Any, most: int, log: Log) -> None:
        self._outgoing, self._most, self._log = outgoing, most, log
        self._open: Counter[str] = Counter()
        self._changed = anyio.Event()

    async def requests(self, incoming: Any, feed: MemoryObjectSendStream[Item]) -> None:
        """Pass on what comes, and its end when all of it was answered."""
        try:
            async with feed:
                async for item in incoming:
                    if not await self._met(item):
                        await feed.send(item)
                while self._open:
                    self._changed = anyio.Event()
                    await self._changed.wait()
        except anyio.BrokenResourceError:
            pass  # the server has ended, and says itself why

    async def answers(self, heard: MemoryObjectReceiveStream[SessionMessage]) -> None:
        """Pass on what the server says."""
        async with self._outgoing:
            async for item in heard:
                await self._outgoing.send(item)
                message = item.message
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._settle(message.id)

    async def _met(self, item: Item) -> bool:
        """Note what came; whether it was answered here."""
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
        """Note that nobody waits for the answer to a request any more."""
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
    """The answer to a request that cannot be read, if its id can be seen."""
    if not isinstance(error, ValidationError):
        return None
    told = error.errors(include_url=False)
    if told[0]["type"] == "json_invalid":
        line = told[0]["input"]
        if not isinstance(line, str) or '"method"' not in line:
            return None
        id = named(line.encode())
        why = ErrorData(code=_NO_JSON, message="not JSON: half a character, say")
    else:
        # Of no kind of message: of each it is told what is missing, and where: in all of it.
        absent = (e["input"] for e in told if e["type"] == "missing" and len(e["loc"]) == 2)
        whole = next((one for one in absent if isinstance(one, dict) and "method" in one), {})
        id = whole.get("id")
        why = ErrorData(code=_INVALID, message="not a request of JSON-RPC 2.0")
    if not isinstance(id, str | int) or isinstance(id, bool):
        return None
    return JSONRPCError(jsonrpc="2.0", id=id, error=why)
