# SPDX-License-Identifier: Apache-2.0
"""The process: listen, serve, stop when told to, with nothing half done."""

from __future__ import annotations

import asyncio
import math
import signal
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

import uvicorn

from omsgrain.errors import StoreError
from omsgrain.ops.serving import Listening, Stores
from omsgrain.services.http import crew
from omsgrain.services.http.application import application
from omsgrain.services.http.connection import HEAD, patient
from omsgrain.services.http.options import Options
from omsgrain.services.http.work import Service
from omsgrain.services.log import Log

__all__ = ["run"]

_BACKLOG = 2_048
_LAST = 2  # seconds in which those that are cut are told so
_IDLE = 15  # seconds that a connection may be idle between two requests


def run(
    opening: Callable[[], Stores],
    options: Options,
    listening: Listening,
    log: Log,
    ready: Callable[[str], None],
    *,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM or SIGINT; the store is closed then.

    Args:
        opening: opens the store; each worker opens it for itself.
        options: how the server behaves.
        listening: where it listens.
        log: where each request is told.
        ready: called with the address once it listens.
        workers: processes that serve, on one address.

    Raises:
        StoreError: nobody can listen there, the store cannot be opened, or workers do not stay.
        UnsupportedError: several workers on a system without fork.
        OSError: the certificate or its key cannot be read.
    """
    with _bound(listening) as bound:
        url = listening.url(bound.getsockname()[1])
        tell: Callable[[], None] | None = partial(ready, url)
        if workers > 1:
            tell = crew.of(workers, partial(ready, url), log)
        if tell is not None:
            _serve(opening(), options, listening, log, tell, bound)


def _serve(
    stores: Stores,
    options: Options,
    listening: Listening,
    log: Log,
    ready: Callable[[], None],
    bound: socket.socket,
) -> None:
    """Serve in this process."""
    service = Service(stores, options)
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
        service: Service,
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
