# SPDX-License-Identifier: Apache-2.0
"""An event loop in a thread of its own, for a library that works in one."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

__all__ = ["Looping"]

T = TypeVar("T")


class Looping:
    """Runs coroutines for threads that are not in the loop.

    Args:
        name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._started: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Let something run until ``close``."""

        async def begin() -> None:
            self._started = asyncio.get_running_loop().create_task(work)

        self.do(begin())

    def do(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run something to its end, and return what it returns.

        Raises:
            concurrent.futures.TimeoutError: it takes more seconds than it may.
        """
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def close(self, last: Coroutine[Any, Any, None], timeout: float) -> None:
        """Cancel what was started, run something last, and end the thread."""

        async def end() -> None:
            if self._started is not None:
                self._started.cancel()
                with suppress(asyncio.CancelledError):
                    await self._started
            await last

        with suppress(Exception):  # it ends whatever the other side makes of it
            self.do(end(), timeout)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
