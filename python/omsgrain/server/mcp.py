# SPDX-License-Identifier: Apache-2.0
"""``/mcp``: the memory of a token's tenant for agents, over the Streamable HTTP of MCP.

There are no sessions, so that any worker answers any request, and a client leaves nothing behind.
The answer is JSON, never a stream of events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from starlette.responses import Response

from omsgrain.server.errors import HttpRefusal
from omsgrain.server.request import RequestContext, size_of, until_gone
from omsgrain.server.service import Flag, HttpService, Stopped

if TYPE_CHECKING:
    from starlette.types import Message

    from omsgrain.mcp.service import McpService

T = TypeVar("T")
_HEADERS: Final = (b"accept", b"content-type")
_PREFIX: Final = b"mcp-"
"""The headers of a request that the SDK sees; never the token."""


async def message(call: RequestContext) -> Response:
    service = call.service
    if not set(call.headers.getlist("origin")) <= set(service.options.origins):
        raise HttpRefusal("other_origin")
    with await call.body(service.options.document) as file:
        async with AsyncExitStack() as stack:
            large = size_of(file) > service.options.large
            if large:
                await stack.enter_async_context(service.large.inside(call.name))
            work = _Work(call, is_large=large)
            server = await service.quick(partial(_loaded, service))
            scope = await service.quick(partial(_scope, call, work))
            return await until_gone(call.receive, _answered(server, scope, file.read()))


async def _answered(server: Any, scope: dict[str, Any], body: bytes) -> Response:
    """Let the SDK answer, with a manager that ends with the request."""
    from omsgrain.mcp import sdk

    exchange = _Exchange(body)
    manager = sdk.http_manager(server, max(len(body), 1))
    async with manager.run():
        await manager.handle_request(scope, exchange.receive, exchange.send)
    return exchange.response()


def _loaded(service: HttpService) -> Any:
    try:
        return service.mcp_server
    except ImportError:
        raise HttpRefusal("not_found", "the server lacks the extra 'mcp'") from None


def _scope(call: RequestContext, work: _Work) -> dict[str, Any]:
    """Make the scope of the request for the SDK: what it needs, and the service that answers."""
    from omsgrain.mcp.methods import SERVICE

    headers = [
        (name, value)
        for name, value in call.headers.raw
        if name in _HEADERS or name.startswith(_PREFIX)
    ]
    return {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": "/mcp",
        "query_string": b"",
        "headers": headers,
        SERVICE: _service(call, work),
    }


def _service(call: RequestContext, work: _Work) -> McpService:
    from omsgrain.mcp.service import McpOptions, McpService

    assert call.token is not None, "the route requires a token"
    options = call.service.options
    mine = McpOptions(
        user=call.tenant,
        scopes=frozenset(call.token.scopes),
        purpose=options.purpose,
        signed_only=options.require_signature,
        document=options.document,
        answer=options.document,
    )
    return McpService(call.service.stores.of(call.actor), mine, work)


class _Work:
    """The work of one request, in the threads and places of the HTTP service."""

    def __init__(self, call: RequestContext, *, is_large: bool) -> None:
        self._call = call
        self._is_large = is_large  # whether the request has its extra place already
        self._flag = Flag()

    async def run(self, function: Callable[[], T], *, large: bool) -> T:
        async with self._call.working(large=large and not self._is_large) as flag:
            self._flag = flag
            return await self._call.service.step(flag, function)

    def alive(self) -> None:
        from omsgrain.mcp.service import Cancelled

        try:
            self._flag.check()
        except Stopped:
            raise Cancelled from None


class _Exchange:
    """A request whose body is known, and its response, gathered."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._status = 500
        self._media: str | None = None
        self._pieces: list[bytes] = []

    async def receive(self) -> Message:
        if self._body is None:
            await asyncio.Event().wait()  # the request is cancelled if the client disconnects
        body, self._body = self._body or b"", None
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = dict(message.get("headers", ()))
            self._media = headers.get(b"content-type", b"").decode("latin-1") or None
        elif message["type"] == "http.response.body":
            self._pieces.append(message.get("body", b""))

    def response(self) -> Response:
        return Response(b"".join(self._pieces), self._status, media_type=self._media)
