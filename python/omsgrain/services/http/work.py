# SPDX-License-Identifier: Apache-2.0
"""What all requests share: the store, the tokens, threads, and the lines before them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from omsgrain.errors import OmsError
from omsgrain.gateways.aimem.erasing import erasures
from omsgrain.services.http.gate import Gate
from omsgrain.services.http.options import Options
from omsgrain.services.http.peers import Peers
from omsgrain.services.http.problems import Refusal

if TYPE_CHECKING:
    from omsgrain.ops.serving import Stores
    from omsgrain.store.tokens import Tokens

__all__ = ["Flag", "Service", "Stopped"]

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
        """Stop if one must.

        Raises:
            Stopped: one must.
        """
        if self._set:
            raise Stopped


class Service:
    """What all requests share.

    Args:
        stores: the store, a handle for each who acts.
        options: how the server behaves.
    """

    def __init__(self, stores: Stores, options: Options) -> None:
        self.stores = stores
        self.tokens: Tokens = stores.tokens
        self.options = options
        line = options.waiting, options.retry_after
        self.work = Gate(options.at_work, *line)
        self.large = Gate(options.at_large, *line)
        self.uploads = Gate(options.uploads, *line)
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
        """Wait for a place among those that work.

        Args:
            who: asks, by the name of his token.
            large: it takes much memory.

        Raises:
            Refusal: too many wait, or the server is stopping.
        """
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
        """Do what ends with a refusal when ``cut`` is called; what begins later is not concerned.

        Raises:
            Refusal: it was cut.
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
        """Refuse a request while the server stops.

        Raises:
            Refusal: it does.
        """
        if self._stopping:
            raise self._refusal()

    def _refusal(self) -> Refusal:
        headers = {"retry-after": str(self.options.retry_after), "connection": "close"}
        return Refusal("stopping", headers=headers)


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
