# SPDX-License-Identifier: Apache-2.0
"""The process of a server: its socket, connections and workers."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, Final

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from omsgrain.errors import SchemaError, StoreError, UnsupportedError
from omsgrain.server import systemd
from omsgrain.server.app import HEAD, application
from omsgrain.server.errors import HttpRefusal, answer
from omsgrain.server.log import Log
from omsgrain.server.service import HttpService, ServerOptions, Stores
from omsgrain.sync.http import is_loopback

_TOO_LARGE: Final = 431
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_BACKLOG = 2_048
_LAST = 2  # seconds for the responses of cancelled requests
_IDLE = 15  # seconds that a connection may be idle between two requests


@dataclass(frozen=True, slots=True)
class Listening:
    """The address of a server."""

    host: str = "127.0.0.1"  # a name or an address
    port: int = 8080  # 0 chooses a free one
    certificate: Path | None = None  # the file of the TLS certificate and its chain, PEM
    key: Path | None = None  # the file of its private key, PEM
    behind_proxy: bool = False  # a proxy handles TLS
    grace: float = 10.0  # seconds that running requests have when the server stops

    def check(self) -> None:
        """Refuse an address if tokens would cross a network unencrypted."""
        if (self.certificate is None) != (self.key is None):
            raise SchemaError("--tls-cert and --tls-key need each other")
        if self.certificate is None and not self.behind_proxy and not is_loopback(self.host):
            raise UnsupportedError(
                "the server would accept tokens over the network unencrypted",
                expected="--tls-cert and --tls-key, or --behind-proxy if a proxy handles TLS",
            )

    def url(self, port: int) -> str:
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}"


def run(
    opening: Callable[[], Stores],
    options: ServerOptions,
    listening: Listening,
    log: Log,
    ready: Callable[[str], None],
    *,
    workers: int = 1,
) -> None:
    """Serve until SIGTERM or SIGINT, then close the store."""
    with bound_socket(listening) as bound:
        url = listening.url(bound.getsockname()[1])

        def listens() -> None:
            ready(url)
            systemd.notify(systemd.READY)

        tell: Callable[[], None] | None = listens
        if workers > 1:
            forks = Workers(listens, log)
            tell = forks.keep(workers)
            if options.counts is not None:
                options.counts.worker = forks.row
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
    service = HttpService(stores, options, log)
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
        config.load()  # read the certificate before the server reports that it listens
        asyncio.run(server.serve([bound]))
    finally:
        service.close()


class _Server(uvicorn.Server):
    """A server with exit code 0 after a signal; uvicorn's raises the signal again."""

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
        before: dict[signal.Signals, Any] = {}
        try:
            for handled in (signal.SIGTERM, signal.SIGINT):
                before[handled] = signal.signal(handled, self.handle_exit)
            yield
        finally:
            for handled, handler in before.items():
                signal.signal(handled, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop; running requests have the grace, a second SIGINT ends them."""
        systemd.notify(systemd.STOPPING)
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop, self._loop)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._service.stop()
        loop.call_later(self._grace, self._service.cut)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self._ready()


@contextmanager
def bound_socket(listening: Listening) -> Generator[socket.socket, None, None]:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            listening.host, listening.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        # asyncio sets TCP_NODELAY only if the protocol is named; otherwise responses wait 40 ms
        # for an ACK.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError:
        raise StoreError("the address to listen on does not exist") from None
    try:
        # On Windows another program could take over an address that is bound for reuse.
        alone = getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR)
        bound.setsockopt(socket.SOL_SOCKET, alone, 1)
        try:
            bound.bind(address)
            bound.listen(_BACKLOG)
        except OSError as error:
            raise StoreError(
                f"cannot listen on port {listening.port}", found=error.strerror
            ) from None
        yield bound
    finally:
        bound.close()


class WatchedConnection(H11Protocol):
    """A connection that closes if it is idle for a while.

    uvicorn has no limit for slow headers, and none for clients that do not read.
    """

    patience: ClassVar[float]  # seconds between two checks
    _look: asyncio.TimerHandle | None = None
    _seen: tuple[Any, int] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look = self.loop.call_later(self.patience, self.look)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request with problem details, and end the connection.

        An earlier request on the connection still gets its response.
        """
        cycle = self.cycle
        if cycle is not None and not (cycle.more_body or cycle.response_complete):
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        hint = getattr(sys.exc_info()[1], "error_status_hint", None)
        rule = "headers_too_large" if hint == _TOO_LARGE else "invalid_request"
        response = answer(HttpRefusal(rule, headers={"connection": "close"}))
        if self.conn.our_state in (
            h11.IDLE,
            h11.SEND_RESPONSE,
        ):  # else it has its response
            headless = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
            head = h11.Response(status_code=response.status_code, headers=response.raw_headers)
            body = h11.Data(data=b"" if headless else bytes(response.body))
            for event in (head, body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # its response was sent, or cannot be
            cycle.message_event.set()
        self.transport.close()

    def look(self) -> None:
        """Close the connection if nothing arrived or was read since the last check."""
        works = self.cycle is not None and not self.cycle.response_complete
        if works and not self.transport.is_closing():
            self._seen = None
        else:
            seen = self.cycle, self.transport.get_write_buffer_size()
            if seen == self._seen:
                if seen[1] or self.transport.is_closing():
                    self.transport.abort()  # close() would wait until the client reads everything
                    return
                self.transport.close()
            self._seen = seen
        self._look = self.loop.call_later(self.patience, self.look)


def patient(seconds: float) -> type[WatchedConnection]:

    class Patient(WatchedConnection):
        patience = seconds

    return Patient


class Workers:
    """Forks the workers, and replaces those that end.

    uvicorn's own workers survive their parent, are killed if they miss a ping, and hide the error
    that keeps a store from opening. They are spawned, so that a signing key would have to be
    pickled.
    """

    def __init__(self, ready: Callable[[], None], log: Log) -> None:
        if not hasattr(os, "fork"):
            text = "several workers need a system with fork"
            raise UnsupportedError(text, expected="--workers 1")
        self._ready = ready
        self._log = log
        self._workers: dict[int, int] = {}  # process -> row
        self.row = 0
        """In a worker: its number among those that run, from 0."""
        self._ending = False
        self._alive = os.pipe()  # it closes when this process ends

    def keep(self, count: int) -> Callable[[], None] | None:
        """Run workers until a signal; in a worker return the function that reports it ready."""
        before = {handled: signal.signal(handled, self._stop) for handled in _SIGNALS}
        try:
            while not self._ending:
                if len(self._workers) == count:
                    self._wait()
                elif (ready := self._fork()) is not None:
                    return ready
            while self._workers:
                self._wait()
            return None
        finally:
            for handled, handler in before.items():
                signal.signal(handled, handler)
            os.close(self._alive[1])

    def _fork(self) -> Callable[[], None] | None:
        """Fork a worker and wait until it listens; in the worker return the callback for that."""
        reading, writing = os.pipe()
        row = min(set(range(len(self._workers) + 1)) - set(self._workers.values()))
        # A signal between the fork and the next line would not reach the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        worker = os.fork()
        if not worker:
            self._workers, self.row = {}, row
            systemd.forget()
            os.close(reading)
            for handled in _SIGNALS:  # a signal ends it before it listens
                signal.signal(handled, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            return _WorkerReady(writing, self._alive[0])
        self._workers[worker] = row
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        os.close(writing)
        with open(reading, "rb") as pipe:
            listens = bool(pipe.read(1))
        if listens:
            self._log.write("worker", began=worker)
            self._ready()
            self._ready = lambda: None
        elif not self._ending:
            self._stop()
            while self._workers:
                self._wait()
            raise StoreError("a worker ended before it listened")
        return None

    def _wait(self) -> None:
        worker, status = os.wait()
        self._workers.pop(worker, None)
        if not self._ending:
            self._log.write("worker", ended=worker, code=os.waitstatus_to_exitcode(status))

    def _stop(self, number: int = signal.SIGTERM, frame: FrameType | None = None) -> None:
        """End all workers; running requests have the grace."""
        systemd.notify(systemd.STOPPING)
        self._ending = True
        for worker in list(self._workers):
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGTERM)


class _WorkerReady:
    """Reports that a worker listens, and then ends it with its parent."""

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
