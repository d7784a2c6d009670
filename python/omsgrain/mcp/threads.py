# SPDX-License-Identifier: Apache-2.0
"""The threads of a server over stdin and stdout."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio.from_thread import check_cancelled
from anyio.to_thread import run_sync

T = TypeVar("T")


class Threads:
    """Runs a few calls at once, and of those that take much memory one. For one event loop."""

    def __init__(self, at_work: int) -> None:
        self._work = anyio.CapacityLimiter(at_work)
        self._large = anyio.CapacityLimiter(1)  # a document takes ten times its size

    async def run(self, function: Callable[[], T], *, large: bool) -> T:
        """Run something in a thread. Cancellation waits for its end, or for `alive`."""
        return await run_sync(function, limiter=self._large if large else self._work)

    def alive(self) -> None:
        check_cancelled()
