# SPDX-License-Identifier: Apache-2.0
"""One request on its way through a route: who asks, for what, with which body."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, TypeVar

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive

from omsgrain.services.http.body import Gone, check_length, receive_body
from omsgrain.services.http.work import Flag, Service
from omsgrain.store.tokens import Token

__all__ = ["Call", "Handler", "as_json", "is_gone"]

T = TypeVar("T")


@dataclass(slots=True)
class Call:
    """One request.

    Attributes:
        service: what all requests share.
        headers: of the request.
        receive: gives its body.
        head: only the headers of the answer are wanted.
        path: the parts of the path that have names.
        given: the parameters, each known and of its kind.
        media: the media type of the body, one that the route takes; empty without a body.
        token: who asks; None where everybody may.
    """

    service: Service
    headers: Headers
    receive: Receive
    head: bool
    path: Mapping[str, str]
    given: Mapping[str, Any]
    media: str = ""
    token: Token | None = None

    @property
    def tenant(self) -> str:
        """Whose memory this is about."""
        assert self.token is not None and self.token.tenant is not None, "the route asks for one"
        return self.token.tenant

    @property
    def actor(self) -> str:
        """Who acts, as the audit trail names it."""
        return f"token:{self._who}"

    @property
    def _who(self) -> str:
        assert self.token is not None, "the route asks for a token"
        return self.token.name

    async def body(self, limit: int) -> IO[bytes]:
        """Receive the body; errors are those of ``receive_body``."""
        service = self.service
        check_length(self.headers, limit)  # at once, and not when it is its turn
        async with service.uploads.inside(self._who):
            return await receive_body(
                self.receive, self.headers, limit, service.options, service.quick
            )

    async def do(self, function: Callable[[Flag], Response], *, size: int = 0) -> Response:
        """Do all of the work in a thread, when it is this request's turn.

        It ends at its next step when the client goes away, for which all of the body must be here.

        Args:
            function: the work; it checks the flag from step to step, if it has steps.
            size: of the body.

        Raises:
            Gone: the client went away before it was done.
        """
        return await self._while_there(self._in_turn(function, size))

    async def _in_turn(self, function: Callable[[Flag], Response], size: int) -> Response:
        async with self.working(large=size > self.service.options.large) as flag:
            return await self.service.step(flag, partial(function, flag))

    async def _while_there(self, work: Coroutine[Any, Any, T]) -> T:
        working = asyncio.ensure_future(work)
        watching = asyncio.ensure_future(is_gone(self.receive))
        try:
            await asyncio.wait({working, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise Gone
            return working.result()
        finally:
            for task in (working, watching):
                task.cancel()
                with suppress(asyncio.CancelledError, Exception):
                    await task

    def working(self, *, large: bool = False) -> AbstractAsyncContextManager[Flag]:
        """Wait for a turn, and keep it for the block."""
        return self.service.working(self._who, large=large)


async def is_gone(receive: Receive) -> None:
    """Return when the client has gone away."""
    while (await receive())["type"] != "http.disconnect":
        pass


Handler = Callable[[Call], Awaitable[Response]]


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    return Response(data, status, headers, media_type="application/json")
