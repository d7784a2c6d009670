# SPDX-License-Identifier: Apache-2.0
"""The application: requests to their routes, and whatever goes wrong to problem details."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omsgrain.errors import OmsError
from omsgrain.services.http import access, parameters
from omsgrain.services.http.body import Body, Gone, answer_early, media_of
from omsgrain.services.http.call import Call
from omsgrain.services.http.connection import HEAD, head_size
from omsgrain.services.http.log import ROUTE, TOKEN, AccessLog
from omsgrain.services.http.media import BUNDLE, VERSION
from omsgrain.services.http.problems import Refusal, answer, refusal_of
from omsgrain.services.http.routes import ROUTES, Route
from omsgrain.services.http.work import Service, Stopped
from omsgrain.services.log import Log

__all__ = ["application"]

_REFUSED = 400  # a status from here on


def application(service: Service, log: Log) -> Starlette:
    """Make the ASGI application of a server.

    Args:
        service: what all requests share.
        log: where each request is told.
    """
    by_path = groupby(sorted(ROUTES, key=lambda route: route.path), lambda route: route.path)
    paths = [
        Path(path, _Resource(service, path, {route.method: route for route in routes}))
        for path, routes in by_path
    ]
    app = Starlette(
        routes=paths,
        middleware=[
            Middleware(AccessLog, log=log),
            Middleware(_Framed, timeout=service.options.timeout),
        ],
        exception_handlers={HTTPException: _no_route},
    )
    app.router.redirect_slashes = False
    return app


async def _no_route(request: Request, error: Exception) -> Response:
    return answer(Refusal("not_found", "no such resource"))


class _Framed:
    """Refuses requests whose end is not certain, and those with more headers than are taken.

    uvicorn takes both: it goes by the chunks of a body that has a length too, and counts headers
    only while some of them are missing.
    """

    def __init__(self, app: ASGIApp, timeout: float) -> None:
        self._app = app
        self._timeout = timeout

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers, close = Headers(scope=scope), {"connection": "close"}
        if "content-length" in headers and "transfer-encoding" in headers:
            detail = "a Content-Length and a Transfer-Encoding"
            refusal = Refusal("invalid_request", detail, headers=close)
        elif head_size(scope) > HEAD:
            refusal = Refusal("headers_too_large", f"at most {HEAD} bytes", headers=close)
        else:
            await self._app(scope, receive, send)
            return
        await answer_early(answer(refusal), scope, Body(receive), send, self._timeout)


class _Resource:
    """All methods of a path; an ASGI application."""

    def __init__(self, service: Service, path: str, routes: Mapping[str, Route]) -> None:
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
        except Refusal as refusal:
            response = answer(refusal)
        except OmsError as error:
            response = answer(refusal_of(error, service.options.retry_after))
        except OSError:  # no room for a body, say
            retry = {"retry-after": str(service.options.retry_after)}
            response = answer(Refusal("store_unavailable", headers=retry))
        except (Gone, Stopped):
            return  # nobody is there to be told
        if response.status_code >= _REFUSED:
            await answer_early(response, scope, body, send, service.options.timeout)
            return
        with suppress(Refusal):  # it was cut in its middle
            await service.until_cut(_send(response, scope, body, send))

    async def _answer(self, scope: Scope, body: Body) -> Response:
        head = scope["method"] == "HEAD"
        route = self._routes.get("GET" if head else scope["method"])
        if route is None:
            return self._other(scope["method"])
        return await route.handler(await self._call(route, scope, body, head))

    def _other(self, method: str) -> Response:
        if method == "OPTIONS":
            return Response(status_code=204, headers=self._allow)
        raise Refusal("method_not_allowed", headers=self._allow)

    async def _call(self, route: Route, scope: Scope, receive: Receive, head: bool) -> Call:
        """Look at all but the body: who asks, for what, and in which form."""
        service, headers = self._service, Headers(scope=scope)
        service.check_running()
        token = None
        if route.scopes:
            secret = access.secret_of(headers)
            token = await service.quick(
                lambda: access.token_of(service.tokens, secret, route.scopes)
            )
            if service.tokens.is_used_anew(token):
                service.note_use(secret)
            if service.options.log_tokens:
                scope[TOKEN] = token.name
        given = parameters.read(scope["query_string"], route.parameters)
        media = _media(route, headers) if route.bodies else ""
        return Call(service, headers, receive, head, scope["path_params"], given, media, token)


async def _send(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    await response(scope, receive, send)


def _media(route: Route, headers: Headers) -> str:
    media = media_of(headers)
    if media.name not in route.bodies:
        expected = ", ".join(route.bodies)
        raise Refusal("unsupported_media_type", f"taken are: {expected}")
    version = media.parameters.get("version", VERSION)
    if media.name == BUNDLE and version != VERSION:
        raise Refusal("unsupported_media_version", f'expected version="{VERSION}"')
    return media.name


def _without_body(send: Send) -> Send:
    async def headers_only(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return headers_only
