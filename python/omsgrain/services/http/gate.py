# SPDX-License-Identifier: Apache-2.0
"""So many requests at once; the next ones wait in line, and those beyond are told to come back."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from omsgrain.services.http.problems import Refusal

__all__ = ["Gate"]


class Gate:
    """A gate that lets in so many at once, in order of arrival. Of one event loop.

    Args:
        inside: how many.
        waiting: how many may wait.
        retry_after: what those beyond are told, in seconds.
    """

    def __init__(self, inside: int, waiting: int, retry_after: int) -> None:
        self._free = inside
        self._most = waiting
        self._retry = {"retry-after": str(retry_after)}
        self._line: deque[asyncio.Future[None]] = deque()
        self._closed = False

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._line)

    @asynccontextmanager
    async def inside(self) -> AsyncIterator[None]:
        """Wait for a place, and keep it for the block.

        Raises:
            Refusal: too many wait, or the gate was closed and there is no place.
        """
        await self._enter()
        try:
            yield
        finally:
            self._leave()

    def close(self) -> None:
        """Send away those that wait, and let nobody wait any more.

        Who is under way already still gets a place that is free: a request has several, one after
        the other.
        """
        self._closed = True
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_exception(self._stopping())

    async def _enter(self) -> None:
        if self._free:
            self._free -= 1
            return
        if self._closed:
            raise self._stopping()
        if len(self._line) >= self._most:
            raise Refusal("too_many_requests", headers=self._retry)
        turn = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave()  # its turn came while it was being cancelled
            elif turn in self._line:
                self._line.remove(turn)
            raise

    def _leave(self) -> None:
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _stopping(self) -> Refusal:
        return Refusal("stopping", headers=self._retry)
