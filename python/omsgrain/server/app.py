# SPDX-License-Identifier: Apache-2.0
"""The application: requests to their routes, and whatever goes wrong to problem details."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from itertools import groupby
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as Path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omsgrain.errors import OmsError, StoreError, UnsupportedError
from omsgrain.server import auth, request
from omsgrain.server.bodies import BUNDLE, VERSION, Body, Gone, answer_early, media_of
from omsgrain.server.errors import HttpRefusal, answer, refusal_of
from omsgrain.server.log import Log
from omsgrain.server.options import ServerOptions
from omsgrain.server.request import RequestContext
from omsgrain.server.routes import ROUTES, Route
from omsgrain.server.service import (
    HEAD,
    ROUTE,
    TOKEN,
    AccessLog,
    HttpService,
    Stopped,
    head_size,
    patient,
)
from omsgrain.server.serving import Listening, Stores

_REFUSED = 400  # a status from here on


def application(service: HttpService, log: Log) -> Starlette:
    """Make the ASGI application of a server."""
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
    return answer(HttpRefusal("not_found", "no such resource"))


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
            refusal = HttpRefusal("invalid_request", detail, headers=close)
        elif head_size(scope) > HEAD:
            refusal = HttpRefusal("headers_too_large", f"at most {HEAD} bytes", headers=close)
        else:
            await self._app(scope, receive, send)
            return
        await answer_early(answer(refusal), scope, Body(receive), send, self._timeout)


class _Resource:
    """All methods of a path; an ASGI application."""

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
        except OSError:  # no room for a body, say
            retry = {"retry-after": str(service.options.retry_after)}
            response = answer(HttpRefusal("store_unavailable", headers=retry))
        except (Gone, Stopped):
            return  # nobody is there to be told
        if response.status_code >= _REFUSED:
            await answer_early(response, scope, body, send, service.options.timeout)
            return
        with suppress(HttpRefusal):  # it was cut in its middle
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
        raise HttpRefusal("method_not_allowed", headers=self._allow)

    async def _call(
        self, route: Route, scope: Scope, receive: Receive, head: bool
    ) -> RequestContext:
        """Look at all but the body: who asks, for what, and in which form."""
        service, headers = self._service, Headers(scope=scope)
        service.check_running()
        token = None
        if route.scopes:
            secret = auth.secret_of(headers)
            token = await service.quick(
                lambda: auth.token_of(service.tokens, secret, route.scopes)
            )
            if service.tokens.is_used_anew(token):
                service.note_use(secret)
            if service.options.log_tokens:
                scope[TOKEN] = token.name
        given = request.read(scope["query_string"], route.parameters)
        media = _media(route, headers) if route.bodies else ""
        return RequestContext(
            service, headers, receive, head, scope["path_params"], given, media, token
        )


async def _send(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    await response(scope, receive, send)


def _media(route: Route, headers: Headers) -> str:
    media = media_of(headers)
    if media.name not in route.bodies:
        expected = ", ".join(route.bodies)
        raise HttpRefusal("unsupported_media_type", f"taken are: {expected}")
    version = media.parameters.get("version", VERSION)
    if media.name == BUNDLE and version != VERSION:
        raise HttpRefusal("unsupported_media_version", f'expected version="{VERSION}"')
    return media.name


def _without_body(send: Send) -> Send:
    async def headers_only(message: Message) -> None:
        if message["type"] == "http.response.body":
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return headers_only


_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def of(count: int, ready: Callable[[], None], log: Log) -> Callable[[], None] | None:
    """Make workers, and look after them."""
    if not hasattr(os, "fork"):
        raise UnsupportedError("several workers need a system with fork", expected="--workers 1")
    return _Workers(ready, log).keep(count)


class _Workers:
    """The workers of this process."""

    def __init__(self, ready: Callable[[], None], log: Log) -> None:
        self._ready = ready
        self._log = log
        self._workers: set[int] = set()
        self._ending = False
        self._alive = os.pipe()  # nothing is ever written to it

    def keep(self, count: int) -> Callable[[], None] | None:
        before = {handled: signal.signal(handled, self._stop) for handled in _SIGNALS}
        try:
            while not self._ending:
                if len(self._workers) == count:
                    self._wait()
                elif (told := self._hire()) is not None:
                    return told
            while self._workers:
                self._wait()
            return None
        finally:
            for handled, handler in before.items():
                signal.signal(handled, handler)
            os.close(self._alive[1])

    def _hire(self) -> Callable[[], None] | None:
        """Fork a worker and wait until it listens; in the worker return what says so."""
        reading, writing = os.pipe()
        # A signal between the fork and the note of it would not reach the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        worker = os.fork()
        if not worker:
            self._workers = set()
            os.close(reading)
            for handled in _SIGNALS:  # until it serves, a signal ends it
                signal.signal(handled, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return _Told(writing, self._alive[0])
        self._workers.add(worker)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(writing)
        with open(reading, "rb") as pipe:
            listens = bool(pipe.read(1))
        if listens:
            self._log.write("worker", began=worker)
            self._ready()
            self._ready = _nothing
        elif not self._ending:
            self._stop()
            while self._workers:
                self._wait()
            raise StoreError("a worker ended before it served")
        return None

    def _wait(self) -> None:
        worker, status = os.wait()
        self._workers.discard(worker)
        if not self._ending:
            self._log.write("worker", ended=worker, code=os.waitstatus_to_exitcode(status))

    def _stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """Let all workers end: those at work go on for the grace."""
        self._ending = True
        for worker in self._workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)


class _Told:
    """Says once that the worker listens, and from then on ends it when nobody looks after it."""

    def __init__(self, pipe: int, alive: int) -> None:
        self._pipe = pipe
        self._alive = alive

    def __call__(self) -> None:
        os.write(self._pipe, b"1")
        os.close(self._pipe)
        asyncio.get_running_loop().add_reader(self._alive, self._left)

    def _left(self) -> None:
        asyncio.get_running_loop().remove_reader(self._alive)
        os.kill(os.getpid(), signal.SIGTERM)


def _nothing() -> None:
    """Nobody has to be told a second time."""


_BACKLOG = 2_048
_LAST = 2  # seconds in which those that are cut are told so
_IDLE = 15  # seconds that a connection may be idle between two requests


def run(
    opening: Callable[[], Stores],
    options: ServerOptions,
    listening: Listening,
    log: Log,
    ready: Callable[[str], None],
    *,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM or SIGINT; the store is closed then."""
    with _bound(listening) as bound:
        url = listening.url(bound.getsockname()[1])
        tell: Callable[[], None] | None = partial(ready, url)
        if workers > 1:
            tell = of(workers, partial(ready, url), log)
        if tell is not None:
            _serve(opening(), options, listening, log, tell, bound)


def _serve(
    stores: Stores,
    options: ServerOptions,
    listening: Listening,
    log: Log,
    ready: Callable[[], None],
    bound: socket.socket,
) -> None:
    """Serve in this process."""
    service = HttpService(stores, options)
    try:
        config = uvicorn.Config(
            application(service, log),
            http=patient(options.timeout),
            ws="none",
            lifespan="off",
            log_config=None,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            backlog=_BACKLOG,
            h11_max_incomplete_event_size=HEAD,
            timeout_keep_alive=_IDLE,
            timeout_graceful_shutdown=math.ceil(listening.grace) + _LAST,
            ssl_certfile=listening.certificate,
            ssl_keyfile=listening.key,
        )
        server = _Server(config, service, listening.grace, ready)
        config.load()  # the certificate, before anybody is told that we listen
        asyncio.run(server.serve([bound]))
    finally:
        service.close()


class _Server(uvicorn.Server):
    """A server that ends with 0 when it is told to stop; uvicorn's raises the signal again."""

    def __init__(
        self,
        config: uvicorn.Config,
        service: HttpService,
        grace: float,
        ready: Callable[[], None],
    ) -> None:
        super().__init__(config)
        self._service = service
        self._grace = grace
        self._ready = ready
        self._loop: asyncio.AbstractEventLoop | None = None

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Handle SIGTERM and SIGINT while it serves."""
        before: dict[signal.Signals, Any] = {}
        try:
            for handled in (signal.SIGTERM, signal.SIGINT):
                before[handled] = signal.signal(handled, self.handle_exit)
            yield
        finally:
            for handled, handler in before.items():
                signal.signal(handled, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop: those at work go on for the grace, a second SIGINT ends it now."""
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop, self._loop)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._service.stop()
        loop.call_later(self._grace, self._service.cut)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so: from here on a signal is handled, and a request answered."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()


@contextmanager
def _bound(listening: Listening) -> Generator[socket.socket, None, None]:
    """A socket that listens; port 0 takes any that is free."""
    try:
        family, _, _, _, address = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # With the protocol named asyncio sends at once; else each answer waits 40 ms for an ACK.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError:
        raise StoreError("no such address to listen at") from None
    try:
        # On Windows another program could take an address away that is bound for reuse.
        alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        bound.setsockopt(socket.SOL_SOCKET, alone, 1)
        try:
            bound.bind(address)
            bound.listen(_BACKLOG)
        except OSError as error:
            raise StoreError("the port cannot be listened at", found=error.strerror) from None
        yield bound
    finally:
        bound.close()
