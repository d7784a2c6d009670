# SPDX-License-Identifier: Apache-2.0
"""Answers of any length: made piece by piece in threads, as fast as the client takes them.

A client that goes away, or takes nothing for too long, ends it; so does whatever goes wrong in the
middle, and the client then sees an answer that was cut short, since its last chunk is missing. Why
it was, the access log tells by the code of the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, suppress

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omsgrain.errors import OmsError
from omsgrain.server.request import is_gone
from omsgrain.server.service import CODE, Stopped

PIECE = 256 << 10
"""Bytes that one step of a thread makes."""


def gathered(parts: Iterator[bytes], size: int = PIECE) -> bytes:
    """The next parts together, about so many bytes; empty at the end."""
    taken, total = [], 0
    for part in parts:
        taken.append(part)
        total += len(part)
        if total >= size:
            break
    return b"".join(taken)


class Stream(Response):
    """An answer that comes in pieces."""

    def __init__(
        self,
        pieces: AsyncIterator[bytes],
        held: AsyncExitStack,
        *,
        timeout: float,
        headers: Mapping[str, str],
        media_type: str,
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers(headers)
        self._pieces = pieces
        self._held = held
        self._timeout = timeout
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        async with self._held:
            watching = asyncio.ensure_future(is_gone(receive))
            sending = asyncio.ensure_future(self._send(send))
            try:
                await asyncio.wait({watching, sending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (watching, sending):
                    task.cancel()
                    try:
                        with suppress(asyncio.CancelledError, Stopped, TimeoutError):
                            with suppress(asyncio.TimeoutError):
                                await task
                    except OmsError as error:
                        scope[CODE] = error.code

    async def _send(self, send: Send) -> None:
        start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
        await send(start)
        async for piece in self._pieces:
            await self._check()
            message = {"type": "http.response.body", "body": piece, "more_body": True}
            await asyncio.wait_for(send(message), self._timeout)
        await self._check()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
