# SPDX-License-Identifier: Apache-2.0
"""What all requests share: the store, the tokens, threads, and the lines before them."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from omsgrain.errors import OmsError
from omsgrain.interchange.aimem import erasures
from omsgrain.server.errors import HttpRefusal, answer
from omsgrain.server.log import Log
from omsgrain.server.options import ServerOptions

if TYPE_CHECKING:
    from omsgrain.server.serving import Stores
    from omsgrain.storage.tokens import Token, Tokens
    from omsgrain.sync.peer import Peer


class FairSemaphore:
    """A gate that lets in so many at once, in order of arrival. Of one event loop.

    A gate with a single place, or a line for one, gives it to anybody.
    """

    def __init__(self, inside: int, waiting: int, retry_after: int) -> None:
        self._free = inside
        self._most = waiting
        self._share = max(1, inside // 2)
        self._longest = max(1, waiting // 2)
        self._inside: Counter[str] = Counter()
        self._retry = {"retry-after": str(retry_after)}
        self._line: list[tuple[str | None, asyncio.Future[None]]] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    @asynccontextmanager
    async def inside(self, who: str | None = None) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the block."""
        await self._enter(who)
        try:
            yield
        finally:
            self._leave(who)

    def close(self) -> None:
        """Send away those that wait, and let nobody wait any more.

        Who is under way already still gets a place that is free: a request has several, one after
        the other.
        """
        self._closed = True
        line, self._line = self._line, []
        for _, turn in line:
            if not turn.done():
                turn.set_exception(self._stopping())

    async def _enter(self, who: str | None) -> None:
        if self._may(who):
            self._take(who)
            return
        if self._closed:
            raise self._stopping()
        before = sum(1 for other, _ in self._line if other == who)
        if len(self._line) >= self._most or (who is not None and before >= self._longest):
            raise HttpRefusal("too_many_requests", headers=self._retry)
        turn = asyncio.get_running_loop().create_future()
        place = who, turn
        self._line.append(place)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave(who)  # its turn came while it was being cancelled
            elif place in self._line:
                self._line.remove(place)
            raise

    def _may(self, who: str | None) -> bool:
        return self._free > 0 and (who is None or self._inside[who] < self._share)

    def _take(self, who: str | None) -> None:
        self._free -= 1
        if who is not None:
            self._inside[who] += 1

    def _leave(self, who: str | None) -> None:
        self._free += 1
        if who is not None:
            self._inside[who] -= 1
            if not self._inside[who]:
                del self._inside[who]
        self._line = [place for place in self._line if not place[1].done()]
        while (place := next((one for one in self._line if self._may(one[0])), None)) is not None:
            self._line.remove(place)
            self._take(place[0])
            place[1].set_result(None)

    def _stopping(self) -> HttpRefusal:
        return HttpRefusal("stopping", headers=self._retry)


_KEPT = 8
"""Peers that are kept while nobody asks them: each takes some 50 bytes for a grain."""
_WAITING = 8
"""Questions of one token that may be there at once: who syncs asks one after the other."""


class _Kept:
    """A peer, made when it is first needed, in a thread."""

    __slots__ = ("peer", "turn", "users")

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.turn = asyncio.Lock()
        self.users = 0


class Peers:
    """The peers of a server. Of one event loop, but for ``close``."""

    def __init__(self, make: Callable[[Token], Peer], retry_after: int = 1) -> None:
        self._make = make
        self._retry = {"retry-after": str(retry_after)}
        self._kept: dict[Token, _Kept] = {}

    @asynccontextmanager
    async def turn(self, token: Token) -> AsyncIterator[Callable[[], Peer]]:
        """Wait until nobody else asks with this token, and keep it so for the block."""
        kept = self._kept.pop(token, None) or _Kept()
        self._kept[token] = kept  # the latest is the last
        if kept.users >= _WAITING:
            raise HttpRefusal("too_many_requests", headers=self._retry)
        kept.users += 1
        try:
            async with kept.turn:
                yield lambda: self._peer(token, kept)
        finally:
            kept.users -= 1
            self._forget()

    def close(self) -> None:
        """Let go of all; nobody asks any more."""
        while self._kept:
            _, kept = self._kept.popitem()
            if kept.peer is not None:
                kept.peer.close()

    def _peer(self, token: Token, kept: _Kept) -> Peer:
        if kept.peer is None:
            kept.peer = self._make(token)
        return kept.peer

    def _forget(self) -> None:
        """Let go of those that were not asked for longest."""
        idle = [token for token, kept in self._kept.items() if not kept.users]
        for token in idle[: max(0, len(self._kept) - _KEPT)]:
            peer = self._kept.pop(token).peer
            if peer is not None:
                peer.close()


T = TypeVar("T")
_QUICK = 16  # threads for what takes no place in line: looking up tokens, writing bodies


class Stopped(Exception):
    """The work was told to stop: its client went away, or the server must end."""


class Flag:
    """Tells a thread to stop at the next step."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Say so."""
        self._set = True

    def check(self) -> None:
        """Stop if one must."""
        if self._set:
            raise Stopped


class HttpService:
    """What all requests share."""

    def __init__(self, stores: Stores, options: ServerOptions) -> None:
        self.stores = stores
        self.tokens: Tokens = stores.tokens
        self.options = options
        line = options.waiting, options.retry_after
        self.work = FairSemaphore(options.at_work, *line)
        self.large = FairSemaphore(options.at_large, *line)
        self.uploads = FairSemaphore(options.uploads, *line)
        self.peers = Peers(stores.peer, options.retry_after)
        self._threads = ThreadPoolExecutor(options.at_work, "work")
        self._quick = ThreadPoolExecutor(_QUICK, "quick")
        self._flags: set[Flag] = set()
        self._answers: set[asyncio.Task[Any]] = set()
        self._stopping = self._cut = False

    @property
    def stopping(self) -> bool:
        """Whether the server is about to end."""
        return self._stopping

    async def quick(self, function: Callable[[], T]) -> T:
        """Run in a thread what takes no longer than a look at the store or a write to a file."""
        return await _run(self._quick, None, function)

    def note_use(self, secret: str) -> None:
        """Note in a thread that a token was used; no request waits for it, or fails by it."""

        def work() -> None:
            with suppress(OmsError, OSError):
                self.tokens.note_use(secret)

        self._quick.submit(work)

    async def step(self, flag: Flag, function: Callable[[], T]) -> T:
        """Run a piece of work in a thread; whoever calls stands in ``working``."""
        return await _run(self._threads, flag, function)

    @asynccontextmanager
    async def working(self, who: str | None, *, large: bool = False) -> AsyncIterator[Flag]:
        """Wait for a place among those that work."""
        flag = Flag()
        if large:
            async with self.large.inside(who), self.working(who) as flag:
                yield flag
            return
        async with self.work.inside(who):
            self._flags.add(flag)
            try:
                yield flag
            finally:
                self._flags.discard(flag)

    def stop(self) -> None:
        """Take no new requests, and send those away that wait; those at work go on."""
        self._stopping = True
        for gate in (self.work, self.large, self.uploads):
            gate.close()

    async def until_cut(self, work: Coroutine[Any, Any, T]) -> T:
        """Do what ends with a refusal when ``cut`` is called.

        What begins later is not concerned.
        """
        if self._cut:
            return await work
        task = asyncio.ensure_future(work)
        self._answers.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if self._cut:
                raise self._refusal() from None
            raise
        finally:
            self._answers.discard(task)

    def cut(self) -> None:
        """End what is still at work, each at its next step."""
        self._cut = True
        for task in list(self._answers):
            task.cancel()

    def close(self) -> None:
        """End what is still at work, at its next step, and let go of the store."""
        for flag in list(self._flags):
            flag.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._quick.shutdown(wait=True, cancel_futures=True)
        self.peers.close()
        self.stores.close()

    async def erasures(self, tenant: str) -> int:
        """How often a tenant was erased; the store says it, since others serve it too."""
        return await self.quick(partial(erasures, self.stores.main, tenant))

    def check_running(self) -> None:
        """Refuse a request while the server stops."""
        if self._stopping:
            raise self._refusal()

    def _refusal(self) -> HttpRefusal:
        headers = {"retry-after": str(self.options.retry_after), "connection": "close"}
        return HttpRefusal("stopping", headers=headers)


async def _run(threads: Executor, flag: Flag | None, function: Callable[[], T]) -> T:
    """Run in a thread. Who is cancelled meanwhile waits for its end: it may hold a file."""
    task = asyncio.get_running_loop().run_in_executor(threads, function)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if flag is not None:
            flag.set()
        with suppress(BaseException):
            await asyncio.wait([task])
            task.exception()
        raise


HEAD: Final = 64 << 10
"""Bytes that the request line and the headers of a request may have."""
_TOO_LARGE: Final = 431


def head_size(scope: Scope) -> int:
    """How many bytes the request line and the headers had, but for spaces that mean nothing."""
    path = scope.get("raw_path") or scope["path"].encode()
    line = len(scope["method"]) + len(path) + len(scope["query_string"]) + len("  HTTP/1.1")
    return line + sum(len(name) + len(value) + len(": \r\n") for name, value in scope["headers"])


class WatchedConnection(H11Protocol):
    """A connection that is looked at now and then; one that is as it was is closed.

    Attributes:
        patience: seconds between two looks.
    """

    patience: ClassVar[float]
    _look: asyncio.TimerHandle | None = None
    _seen: tuple[Any, int] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to look."""
        super().connection_made(transport)
        self._look = self.loop.call_later(self.patience, self.look)

    def connection_lost(self, exc: Exception | None) -> None:
        """Look no more."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP as everything else is refused, and end the connection.

        Bytes that follow the last request of a connection do not cost it its answer.
        """
        cycle = self.cycle
        if cycle is not None and not (cycle.more_body or cycle.response_complete):
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        hint = getattr(sys.exc_info()[1], "error_status_hint", None)
        rule = "headers_too_large" if hint == _TOO_LARGE else "invalid_request"
        told = answer(HttpRefusal(rule, headers={"connection": "close"}))
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):  # else it is answered already
            headless = self.conn.our_state is h11.SEND_RESPONSE and self.scope["method"] == "HEAD"
            head = h11.Response(status_code=told.status_code, headers=told.raw_headers)
            body = h11.Data(data=b"" if headless else bytes(told.body))
            for event in (head, body, h11.EndOfMessage()):
                self.transport.write(self.conn.send(event) or b"")
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True  # its answer has been given, or cannot be
            cycle.message_event.set()
        self.transport.close()

    def look(self) -> None:
        """Close it if no request came since the last look, and nothing of the answer was taken."""
        works = self.cycle is not None and not self.cycle.response_complete
        if works and not self.transport.is_closing():
            self._seen = None
        else:
            seen = self.cycle, self.transport.get_write_buffer_size()
            if seen == self._seen:
                if seen[1] or self.transport.is_closing():
                    self.transport.abort()  # to close it is to wait until all is taken
                    return
                self.transport.close()
            self._seen = seen
        self._look = self.loop.call_later(self.patience, self.look)


def patient(seconds: float) -> type[WatchedConnection]:
    """Connections that are looked at each so many seconds."""

    class Patient(WatchedConnection):
        patience = seconds

    return Patient


ROUTE = "omsgrain.route"
"""Where in the scope of a request the template of its path stands."""
TOKEN = "omsgrain.token"
"""Where the name of the token stands, if it is to be told."""
CODE = "omsgrain.code"
"""Where the code of the error stands that ended an answer in its middle."""
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
_ABORTED = "aborted"


@dataclass(slots=True)
class _RequestLog:
    """What is known of an answer when it is over."""

    status: int | None = None
    size: int = 0
    length: int | None = None
    ended: bool = False

    @property
    def whole(self) -> bool:
        """Whether all of it went out; who has all that was announced may leave before the end."""
        return self.ended or self.size == self.length


class AccessLog:
    """The outermost layer: gives each request an id, logs it, and lets nothing out."""

    def __init__(
        self, app: ASGIApp, log: Log, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._app = app
        self._log = log
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, request, told = self._clock(), token_hex(8), _RequestLog()

        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                told.status = message["status"]
                length = dict(message.get("headers", ())).get(b"content-length")
                told.length = None if length is None else int(length)
                message["headers"] = [
                    *message.get("headers", ()),
                    (b"x-request-id", request.encode()),
                    (b"x-content-type-options", b"nosniff"),
                    (b"cache-control", b"no-store"),
                ]
            elif message["type"] == "http.response.body":
                told.size += len(message.get("body", b""))
                told.ended = not message.get("more_body", False)
            await send(message)

        try:
            await self._app(scope, receive, tell)
        except Exception as error:
            self._log.defect(error, request)
            if told.status is None:
                await answer(HttpRefusal("internal"))(scope, receive, tell)
        finally:
            names = {"token": TOKEN, "code": CODE}
            known = {name: scope[key] for name, key in names.items() if key in scope}
            method = scope["method"] if scope["method"] in _METHODS else "OTHER"
            self._log.write(
                "request",
                request=request,
                method=method,
                route=scope.get(ROUTE, "-"),
                status=told.status if told.whole else f"{told.status or '-'} {_ABORTED}",
                **known,
                bytes=told.size,
                ms=round((self._clock() - began) * 1000, 1),
            )
