# SPDX-License-Identifier: Apache-2.0
"""The service that requests share: the store, its tokens, limits, threads, and queues."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import omsgrain as og
from omsgrain.errors import DiskFullError, OmsError, SchemaError, StoreError, UnsupportedError
from omsgrain.formats.aimem.fields import is_producer
from omsgrain.formats.json_text import VALUES
from omsgrain.memory.removal import erasures
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.log import Log
from omsgrain.storage.base import Writer
from omsgrain.storage.tokens import Scope, Token, Tokens
from omsgrain.store.context import context_of
from omsgrain.sync.local import LocalPeer, ScopedPeer
from omsgrain.sync.peer import Peer, Right

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Signer
    from omsgrain.crypto.trust import Trust
    from omsgrain.policy.rules import Purpose
    from omsgrain.server.metrics import RequestCounts


T = TypeVar("T")
_QUICK = 16  # threads for short work: lookups of tokens, writes of bodies
_FREE: Final = 1 << 20  # the least bytes of a disk that is not full
_KEPT = 8
"""Idle peers that stay open: each takes some 50 bytes a grain."""
_WAITING = 8
"""Requests of one token that may wait: a syncing client sends one after the other."""
_RIGHTS: Final[Mapping[Scope, tuple[Right, ...]]] = {
    "sync:read": ("give",),
    "sync:write": ("grains", "states"),
    "sync:admin": ("holds", "releases", "restrictions", "erasures"),
}
"""The rights that a scope of a token gives another store."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The settings and limits of a server."""

    # the namespace of the server's own grains, and the producer of its bundles
    producer: str = "omsgrain"
    purpose: Purpose = "transfer"  # the purpose of exports, for the rules of a policy
    signer: Signer | None = None  # signs exports
    trust: Trust | None = None  # trusted signers of imports
    require_signature: bool = False  # refuse imports without a signature of a DID in ``trust``
    document: int = 64 << 20  # the most bytes of a JSON document or a list of grains, decompressed
    lines: int = 8 << 30  # the most bytes of a bundle by lines, decompressed
    signed: int = 64 << 20  # the most bytes of an export to sign: a signature needs the whole text
    values: int = VALUES  # the most values of one JSON document, without keys
    # a body of more bytes counts as large: parsed, it takes ten times as much
    large: int = 4 << 20
    ratio: int = 250  # the most times that decompression may multiply a body
    timeout: float = 30.0  # seconds without a byte until a client is disconnected
    slowest: int = 4 << 10  # the least bytes per second, averaged over a body
    at_work: int = 16  # how many requests run at once
    at_large: int = 2  # how many of them may have a large body
    uploads: int = 256  # how many bodies are received at once
    # how many requests may wait for each of these; further requests are refused
    waiting: int = 1_000
    retry_after: int = 2  # seconds after which they should retry
    scanned: int = 2_000  # the most changes that one request for changes examines
    log_tokens: bool = False  # write the names of tokens to the access log
    counts: RequestCounts | None = None  # serve them at /metrics; None: there is no /metrics
    origins: tuple[str, ...] = ()  # the origins of pages in a browser that may use MCP


def check_producer(producer: str) -> None:
    if not is_producer(producer):
        raise SchemaError(
            "invalid name of a producer", field="/producer", expected="1 to 63 of a-z, 0-9, -"
        )


class Stores:
    """One store, with a handle for each actor of the audit trail."""

    def __init__(self, main: og.GrainStore) -> None:
        self._lock = threading.Lock()
        self._by_actor: dict[str, og.GrainStore] = {}
        self.main = main
        self.tokens = Tokens(context_of(main).inner)

    def of(self, actor: str) -> og.GrainStore:
        """Return the handle of an actor; there is one for each name of a token."""
        with self._lock:
            if actor not in self._by_actor:
                self._by_actor[actor] = self.main.as_actor(actor)
            return self._by_actor[actor]

    def check_writable(self) -> None:
        """Begin a write and end it again; the refusal says why the store cannot be written."""
        storage = context_of(self.main).inner
        folder = storage.sidecar.folder
        try:
            if folder is not None:
                _check_disk(folder)
            storage.write(_nothing)
        except DiskFullError as error:
            raise HttpRefusal("store_unavailable", "the disk is full", code=error.code) from None
        except StoreError as error:
            known = "the database does not answer" if folder is None else None
            reason = known or "the store's directory is gone, or cannot be written"
            raise HttpRefusal("store_unavailable", reason, code=error.code) from None

    def peer(self, token: Token) -> Peer:
        """Return the store as a peer with the rights of a token."""
        rights = [right for scope in token.scopes for right in _RIGHTS.get(scope, ())]
        if not rights:
            raise UnsupportedError("the token has no sync scope")
        store, whole = self.of(f"token:{token.name}"), not token.namespaces
        allowed = [right for right in rights if whole or right != "erasures"]
        shares = whole and "give" in rights
        local = LocalPeer(store, rights=allowed, shares=shares, notes="must")
        return local if whole else ScopedPeer(local, store, token.namespaces)

    def close(self) -> None:
        for store in (self.main, *self._by_actor.values()):
            store.close()


def _check_disk(folder: Path) -> None:
    """Refuse a full disk, which an empty write does not notice, and a directory that is gone."""
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        raise StoreError("the store's directory is gone") from None
    if free < _FREE:
        raise DiskFullError("the disk is full", expected=f"at least {_FREE} bytes free")


def _nothing(_: Writer) -> None:
    """Write nothing."""


class FairSemaphore:
    """Admits some requests at once, in order of arrival; one token gets half of the places.

    For one event loop. With a single place, or a queue of one, a token can have all of it.
    """

    def __init__(self, inside: int, waiting: int, retry_after: int) -> None:
        self._free = inside
        self._most = waiting
        self._share = max(1, inside // 2)
        self._longest = max(1, waiting // 2)
        self._inside: Counter[str] = Counter()
        self._retry = {"retry-after": str(retry_after)}
        self._queue: list[tuple[str | None, asyncio.Future[None]]] = []
        self._closed = False

    @property
    def waiting(self) -> int:
        return len(self._queue)

    @asynccontextmanager
    async def inside(self, who: str | None = None) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the block."""
        await self._enter(who)
        try:
            yield
        finally:
            self._leave(who)

    def close(self) -> None:
        """Refuse the waiting requests, and let no more wait.

        A running request still gets a free place: it takes several, one after the other.
        """
        self._closed = True
        queue, self._queue = self._queue, []
        for _, place in queue:
            if not place.done():
                place.set_exception(self._stopping())

    async def _enter(self, who: str | None) -> None:
        if self._may(who):
            self._take(who)
            return
        if self._closed:
            raise self._stopping()
        before = sum(1 for other, _ in self._queue if other == who)
        if len(self._queue) >= self._most or (who is not None and before >= self._longest):
            raise HttpRefusal("too_many_requests", headers=self._retry)
        admitted = asyncio.get_running_loop().create_future()
        place = who, admitted
        self._queue.append(place)
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.done() and not admitted.cancelled() and admitted.exception() is None:
                self._leave(who)  # it was admitted during its cancellation
            elif place in self._queue:
                self._queue.remove(place)
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
        self._queue = [place for place in self._queue if not place[1].done()]
        while (place := next((one for one in self._queue if self._may(one[0])), None)) is not None:
            self._queue.remove(place)
            self._take(place[0])
            place[1].set_result(None)

    def _stopping(self) -> HttpRefusal:
        return HttpRefusal("stopping", headers=self._retry)


class _KeptPeer:
    """A peer, opened in a thread at first use."""

    __slots__ = ("lock", "peer", "users")

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.lock = asyncio.Lock()
        self.users = 0


class Peers:
    """The peers of a server, one per token. For one event loop, except ``close``."""

    def __init__(self, make: Callable[[Token], Peer], retry_after: int = 1) -> None:
        self._make = make
        self._retry = {"retry-after": str(retry_after)}
        self._kept: dict[Token, _KeptPeer] = {}

    @asynccontextmanager
    async def exclusive(self, token: Token) -> AsyncIterator[Callable[[], Peer]]:
        """Wait until no other request uses the token's peer, and keep it for the block."""
        kept = self._kept.pop(token, None) or _KeptPeer()
        self._kept[token] = kept  # the latest is the last
        if kept.users >= _WAITING:
            raise HttpRefusal("too_many_requests", headers=self._retry)
        kept.users += 1
        try:
            async with kept.lock:
                yield lambda: self._peer(token, kept)
        finally:
            kept.users -= 1
            self._forget()

    def close(self) -> None:
        """Close all peers; no request uses one any more."""
        while self._kept:
            _, kept = self._kept.popitem()
            if kept.peer is not None:
                kept.peer.close()

    def _peer(self, token: Token, kept: _KeptPeer) -> Peer:
        if kept.peer is None:
            kept.peer = self._make(token)
        return kept.peer

    def _forget(self) -> None:
        """Close the peers that were idle for longest."""
        idle = [token for token, kept in self._kept.items() if not kept.users]
        for token in idle[: max(0, len(self._kept) - _KEPT)]:
            peer = self._kept.pop(token).peer
            if peer is not None:
                peer.close()


class Stopped(Exception):
    """The work must stop: its client disconnected, or the server stops."""


class Flag:
    """Stops the work of a thread at its next step."""

    __slots__ = ("_set",)

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        self._set = True

    def check(self) -> None:
        if self._set:
            raise Stopped

    def watched(self, pieces: Iterable[bytes]) -> Generator[bytes, None, None]:
        """Yield the same pieces, until the work must stop."""
        for piece in pieces:
            self.check()
            yield piece


class HttpService:
    def __init__(self, stores: Stores, options: ServerOptions, log: Log | None = None) -> None:
        self.stores = stores
        self.tokens: Tokens = stores.tokens
        self.options = options
        queue = options.waiting, options.retry_after
        self.work = FairSemaphore(options.at_work, *queue)
        self.large = FairSemaphore(options.at_large, *queue)
        self.uploads = FairSemaphore(options.uploads, *queue)
        self.peers = Peers(stores.peer, options.retry_after)
        self.log = log or Log()
        self._threads = ThreadPoolExecutor(options.at_work, "work")
        self._quick = ThreadPoolExecutor(_QUICK, "quick")
        self._flags: set[Flag] = set()
        self._answers: set[asyncio.Task[Any]] = set()
        self._stopping = self._cut = False

    @cached_property
    def mcp_server(self) -> Any:
        """The server of the SDK of MCP, which is loaded at the first use."""
        from omsgrain.mcp import methods, sdk

        sdk.mute_logs()
        return methods.application(self.log)

    async def quick(self, function: Callable[[], T]) -> T:
        """Run short work in a thread, such as a lookup or a write to a file."""
        return await _run(self._quick, None, function)

    def note_use(self, secret: str) -> None:
        """Write in a thread that a token was used; no request waits for it."""

        def work() -> None:
            with suppress(OmsError, OSError):
                self.tokens.note_use(secret)

        self._quick.submit(work)

    async def step(self, flag: Flag, function: Callable[[], T]) -> T:
        """Run a piece of work in a thread, within ``working``."""
        return await _run(self._threads, flag, function)

    @asynccontextmanager
    async def working(self, who: str | None, *, large: bool = False) -> AsyncIterator[Flag]:
        """Wait for a place to work, and keep it for the block."""
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
        """Refuse new and waiting requests; running ones continue."""
        self._stopping = True
        for semaphore in (self.work, self.large, self.uploads):
            semaphore.close()

    async def until_cut(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something that ``cut`` ends with a refusal, if it began before."""
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
        """End the running requests, each at its next step."""
        self._cut = True
        for task in list(self._answers):
            task.cancel()

    def close(self) -> None:
        """End the work at its next step, and close the store."""
        for flag in list(self._flags):
            flag.set()
        self._threads.shutdown(wait=True, cancel_futures=True)
        self._quick.shutdown(wait=True, cancel_futures=True)
        self.peers.close()
        self.stores.close()

    async def erasures(self, tenant: str) -> int:
        """Return how often a tenant was erased, also by other processes."""
        return await self.quick(partial(erasures, self.stores.main, tenant))

    def check_running(self) -> None:
        if self._stopping:
            raise self._refusal()

    def _refusal(self) -> HttpRefusal:
        headers = {"retry-after": str(self.options.retry_after), "connection": "close"}
        return HttpRefusal("stopping", headers=headers)


async def _run(threads: Executor, flag: Flag | None, function: Callable[[], T]) -> T:
    """Run in a thread. Cancellation waits for the thread, which may hold a file."""
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
