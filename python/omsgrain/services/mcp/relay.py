# SPDX-License-Identifier: Apache-2.0
"""Between stdin, stdout and the server of the SDK, which drops calls that work when stdin ends.

What came is answered first: the server learns of the end when nothing is open any more. A request
that the client has cancelled waits for no answer. A line that was too long is answered here, and a
request that is no JSON, or not one of JSON-RPC, which the server would pass over while its client
waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp.types import (
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)
from pydantic import ValidationError

from omsgrain.services.log import Log
from omsgrain.services.mcp.problems import refuse
from omsgrain.services.mcp.stdio import TOO_LONG, named

__all__ = ["Streams", "relayed"]

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
