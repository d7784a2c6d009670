# SPDX-License-Identifier: Apache-2.0
"""The application: requests to their routes, and whatever goes wrong to problem details."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import Message, Receive, Scope, Send

from omsgrain.errors import OmsError
from omsgrain.services.http import access, parameters
from omsgrain.services.http.body import Gone, drain, media_of
from omsgrain.services.http.call import Call
from omsgrain.services.http.log import ROUTE, AccessLog
from omsgrain.services.http.media import BUNDLE, VERSION
from omsgrain.services.http.problems import Refusal, answer, refusal_of
from omsgrain.services.http.routes import ROUTES, Route
from omsgrain.services.http.work import Service, Stopped
from omsgrain.services.log import Log

__all__ = ["application"]


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
        middleware=[Middleware(AccessLog, log=log)],
        exception_handlers={HTTPException: _no_route},
    )
    app.router.redirect_slashes = False
    return app


async def _no_route(request: Request, error: Exception) -> Response:
    return answer(Refusal("not_found", "no such resource"))


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
        head, body = scope["method"] == "HEAD", _Body(receive)
        try:
            route = self._routes.get("GET" if head else scope["method"])
            if route is None:
                response = self._other(scope["method"])
            else:
                response = await route.handler(await self._call(route, scope, body, head))
        except Refusal as refusal:
            response = answer(refusal)
        except OmsError as error:
            response = answer(refusal_of(error, self._service.options.retry_after))
        except OSError:  # no room for a body, say
            retry = {"retry-after": str(self._service.options.retry_after)}
            response = answer(Refusal("store_unavailable", headers=retry))
        except (Gone, Stopped):
            return  # nobody is there to be told
        if response.status_code >= 400 and not body.over:
            await self._drain(scope, body)
        await response(scope, receive, _without_body(send) if head else send)

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
        given = parameters.read(scope["query_string"], route.parameters)
        media = _media(route, headers) if route.bodies else ""
        return Call(service, headers, receive, head, scope["path_params"], given, media, token)

    async def _drain(self, scope: Scope, receive: Receive) -> None:
        headers = Headers(scope=scope)
        if "content-length" in headers or "transfer-encoding" in headers:
            await drain(receive, self._service.options.timeout)


class _Body:
    """What gives the pieces of a body, and knows when it is over."""

    __slots__ = ("_receive", "over")

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.over = False

    async def __call__(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self.over = True
        return message


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
