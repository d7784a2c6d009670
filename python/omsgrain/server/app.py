# SPDX-License-Identifier: Apache-2.0
"""The ASGI application: the access log, the routing, errors as problem details."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from secrets import token_hex
from typing import Final

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omsgrain.errors import OmsError
from omsgrain.server import request
from omsgrain.server.errors import HttpRefusal, answer, refusal_of
from omsgrain.server.log import Log
from omsgrain.server.metrics import OTHER, RequestCounts
from omsgrain.server.request import CODE, Body, Gone, RequestContext, answer_early
from omsgrain.server.routes import ROUTES, Route
from omsgrain.server.service import HttpService, Stopped

HEAD: Final = 64 << 10
"""The most bytes of a request line and its headers."""
_REFUSED = 400  # first status that counts as an error
ROUTE = "omsgrain.route"
"""Key in the scope of a request: the template of its path."""
TOKEN = "omsgrain.token"
"""Key in the scope of a request: the name of its token, for the log."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


def application(service: HttpService, log: Log) -> Starlette:
    by_path = groupby(sorted(ROUTES, key=lambda route: route.path), lambda route: route.path)
    paths = [
        Path(path, _Resource(service, path, {route.method: route for route in routes}))
        for path, routes in by_path
    ]
    app = Starlette(
        routes=paths,
        middleware=[
            Middleware(AccessLog, log=log, counts=service.options.counts),
            Middleware(_Framed, timeout=service.options.timeout),
        ],
        exception_handlers={HTTPException: _no_route},
    )
    app.router.redirect_slashes = False
    return app


async def _no_route(request: Request, error: Exception) -> Response:
    return answer(HttpRefusal("not_found", "no such resource"))


class _Framed:
    """Refuses requests with two lengths, and those with too many headers.

    uvicorn accepts both: it reads the chunks even if the body has a length, and limits headers
    only until all of them have arrived.
    """

    def __init__(self, app: ASGIApp, timeout: float) -> None:
        self._app = app
        self._timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, close = Headers(scope=scope), {"connection": "close"}
        if "content-length" in headers and "transfer-encoding" in headers:
            detail = "both Content-Length and Transfer-Encoding are given"
            refusal = HttpRefusal("invalid_request", detail, headers=close)
        elif head_size(scope) > HEAD:
            refusal = HttpRefusal("headers_too_large", f"at most {HEAD} bytes", headers=close)
        else:
            await self._app(scope, receive, send)
            return
        await answer_early(answer(refusal), scope, Body(receive), send, self._timeout)


def head_size(scope: Scope) -> int:
    """Return the bytes of the request line and the headers, without optional spaces."""
    path = scope.get("raw_path") or scope["path"].encode()
    line = len(scope["method"]) + len(path) + len(scope["query_string"]) + len("  HTTP/1.1")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])


class _Resource:
    """All methods of a path, as an ASGI application."""

    def __init__(self, service: HttpService, path: str, routes: Mapping[str, Route]) -> None:
        self._service = service
        self._path = path
        self._routes = routes
        methods = {*routes, "OPTIONS"} | ({"HEAD"} if "GET" in routes else set())
        self._allow = {"allow": ", ".join(sorted(methods))}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = self._path
        service, body = self._service, Body(receive)
        if scope["method"] == "HEAD":
            send = _without_body(send)
        try:
            response = await service.until_cut(self._answer(scope, body))
        except HttpRefusal as refusal:
            response = answer(refusal)
        except OmsError as error:
            response = answer(refusal_of(error, service.options.retry_after))
        except OSError:  # such as a full disk while a body arrives
            retry = {"retry-after": str(service.options.retry_after)}
            response = answer(HttpRefusal("store_unavailable", headers=retry))
        except (Gone, Stopped):
            return  # the client disconnected
        if response.status_code >= _REFUSED:
            await answer_early(response, scope, body, send, service.options.timeout)
            return
        with suppress(HttpRefusal):  # the server stops in the middle of the response
            await service.until_cut(response(scope, body, send))

    async def _answer(self, scope: Scope, body: Body) -> Response:
        head = scope["method"] == "HEAD"
        route = self._routes.get("GET" if head else scope["method"])
        if route is None:
            return self._other(scope["method"])
        return await route.handler(await self._call(route, scope, body, head))

    def _other(self, method: str) -> Response:
        if method == "OPTIONS":
            return Response(status_code=204, headers=self._allow)
        raise HttpRefusal("method_not_allowed", headers=self._allow)

    async def _call(
        self, route: Route, scope: Scope, receive: Receive, head: bool
    ) -> RequestContext:
        """Check the token, the parameters and the media type."""
        service, headers = self._service, Headers(scope=scope)
        service.check_running()
        token = None
        if route.scopes:
            secret = request.secret_of(headers)
            token = await service.quick(
                lambda: request.token_of(service.tokens, secret, route.scopes)
            )
            if service.tokens.is_use_due(token):
                service.note_use(secret)
            if service.options.log_tokens:
                scope[TOKEN] = token.name
        given = request.read(scope["query_string"], route.parameters)
        media = request.media_of(headers, route.bodies) if route.bodies else ""
        return RequestContext(
            service, headers, receive, head, scope["path_params"], given, media, token
        )


def _without_body(send: Send) -> Send:
    async def headers_only(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return headers_only


@dataclass(slots=True)
class _RequestLog:
    status: int | None = None
    size: int = 0
    length: int | None = None
    ended: bool = False

    @property
    def whole(self) -> bool:
        """Whether all of it was sent; a client may disconnect when it has the announced length."""
        return self.ended or self.size == self.length


class AccessLog:
    """The outermost layer: gives each request an id, logs and counts it, catches every error."""

    def __init__(
        self,
        app: ASGIApp,
        log: Log,
        clock: Callable[[], float] = time.monotonic,
        counts: RequestCounts | None = None,
    ) -> None:
        self._app = app
        self._log = log
        self._counts = counts
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request, sent = self._clock(), token_hex(8), _RequestLog()

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent.status = message["status"]
                length = dict(message.get("headers", ())).get(b"content-length")
                sent.length = None if length is None else int(length)
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            elif message["type"] == "http.response.body":
                sent.size += len(message.get("body", b""))
                if not message.get("more_body", False):
                    self._count(scope, sent, sent.status, began)  # before the client has it all
                    sent.ended = True
            await send(message)

        try:
            await self._app(scope, receive, tell)
        except Exception as error:
            self._log.defect(error, request)
            if sent.status is None:
                await answer(HttpRefusal("internal"))(scope, receive, tell)
        finally:
            names = {"token": TOKEN, "code": CODE}
            known = {name: scope[key] for name, key in names.items() if key in scope}
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            if not sent.ended:
                self._count(scope, sent, sent.status if sent.whole else None, began)
            self._log.write(
                "request",
                request=request,
                method=method,
                route=scope.get(ROUTE, "-"),
                status=sent.status if sent.whole else f"{sent.status or '-'} aborted",
                **known,
                bytes=sent.size,
                ms=round((self._clock() - began) * 1000, 1),
            )

    def _count(self, scope: Scope, sent: _RequestLog, status: int | None, began: float) -> None:
        if self._counts is not None:
            seconds = self._clock() - began
            self._counts.add(scope.get(ROUTE, OTHER), status, sent.size, seconds)
