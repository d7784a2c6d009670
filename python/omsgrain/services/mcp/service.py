# SPDX-License-Identifier: Apache-2.0
"""What all calls share: the store, open once, whose memory it is, and threads to work in."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
from anyio.from_thread import check_cancelled
from anyio.to_thread import run_sync

import omsgrain as og
from omsgrain.services.mcp.options import Options
from omsgrain.services.mcp.root import Root

__all__ = ["Service"]

T = TypeVar("T")


class Service:
    """What all calls share. Of one event loop.

    Args:
        store: whose actor is whoever the audit trail shall name.
        options: how the server behaves.

    Attributes:
        user: whose memory it is.
        root: where documents are read and written.
    """

    def __init__(self, store: og.GrainStore, options: Options) -> None:
        self.store = store
        self.options = options
        self.user = options.user
        self.root = Root(options.root)
        self._work = anyio.CapacityLimiter(options.at_work)
        self._large = anyio.CapacityLimiter(1)  # a document takes ten times its size

    @staticmethod
    def alive() -> None:
        """End what a call does, in its thread, if the client has cancelled it."""
        check_cancelled()

    async def work(self, function: Callable[[], T], *, large: bool = False) -> T:
        """Do something in a thread. Who is cancelled meanwhile waits for its end, or for `alive`.

        Args:
            function: what is to be done.
            large: it may take much memory, so it is the only one of its kind.
        """
        return await run_sync(function, limiter=self._large if large else self._work)
