# SPDX-License-Identifier: Apache-2.0
"""So many requests at once; the next ones wait in line, and those beyond are told to come back.

Nobody who asks has more than half of the places, or of those in line: the others get through.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from omsgrain.services.http.problems import Refusal

__all__ = ["Gate"]


class Gate:
    """A gate that lets in so many at once, in order of arrival. Of one event loop.

    A gate with a single place, or a line for one, gives it to anybody.

    Args:
        inside: how many.
        waiting: how many may wait.
        retry_after: what those beyond are told, in seconds.
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
        """Wait for a place, and keep it for the block.

        Args:
            who: asks; None has no share.

        Raises:
            Refusal: too many wait, or the gate was closed and there is no place.
        """
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
            raise Refusal("too_many_requests", headers=self._retry)
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

    def _stopping(self) -> Refusal:
        return Refusal("stopping", headers=self._retry)
