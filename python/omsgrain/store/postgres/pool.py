# SPDX-License-Identifier: Apache-2.0
"""Connections that are kept for the next transaction.

A connection is made by the thread that needs it: so the thread learns why there is none, tries
again at once when a server is back, and a store has no threads of its own, which a fork would
lose and a service with a hundred tenants would have hundreds of.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

import psycopg

from omsgrain.errors import StoreError
from omsgrain.store.postgres.place import Place
from omsgrain.store.postgres.wire import Connection, Wire

__all__ = ["Connection", "Pool", "opened"]

_PREPARED = 2, 400  # of the driver's own: how often one is run before it is prepared; how many
_IDLE = 300.0  # seconds after which a connection that nobody needs is given up

# The tables are asked in few ways, each by its keys: so a plan that is made once serves every key,
# and it must look keys up one by one. What the planner guesses of lists, and of tables that were
# empty when it looked, would have it read a whole store instead. To compile a plan would take
# longer than to run it.
_SETTINGS = "; ".join(
    f"SET {name}"
    for name in (
        "plan_cache_mode = force_generic_plan",
        "enable_seqscan = off",
        "enable_bitmapscan = off",
        "enable_hashjoin = off",
        "enable_mergejoin = off",
        "jit = off",
    )
)


# Names without a schema mean the server's own. The default path ends with the schema public, where
# up to version 14 every role may make functions: one of exactly our argument types comes before a
# general one of the server, and would run with our rights, and see the rows of other tenants.
_PATH = "SET search_path = pg_catalog, pg_temp"


def opened(place: Place, **options: Any) -> Connection:
    """Make a connection on which nobody else's functions, operators and types are found.

    Raises:
        psycopg.Error: there is no such server, or it refuses.
    """
    connection = psycopg.connect(place.conninfo, autocommit=True, **options)
    try:
        connection.execute(_PATH)
    except BaseException:
        connection.close()
        raise
    return connection


class Pool:
    """At most so many connections at a time.

    Args:
        place: to what.
        size: how many at the most.
        settings: statements that every new connection begins with, beside our own.
        tuned: whether the engine knows PostgreSQL's settings of the planner.
    """

    def __init__(self, place: Place, size: int, settings: str, tuned: bool) -> None:
        self.place = place
        self.size = size
        self._settings = f"{settings}; {_SETTINGS}" if tuned else settings
        self._free = threading.BoundedSemaphore(size)
        self._idle: deque[tuple[float, Wire]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def take(self, until: float) -> Wire:
        """Take a connection that is kept, or make one.

        Args:
            until: when to give up waiting for one, as ``time.monotonic`` tells it.

        Raises:
            StoreError: all are in use.
            psycopg.Error: none can be made.
        """
        if not self._free.acquire(timeout=max(0.0, until - time.monotonic())):
            raise StoreError(
                f"all connections to {self.place.shown!r} are in use",
                expected="snapshots that end, or a larger pool_size",
                found=f"{self.size} open",
            )
        try:
            with self._lock:
                if self._idle:
                    return self._idle.pop()[1]
            return self._made()
        except BaseException:
            self._free.release()
            raise

    def _made(self) -> Wire:
        connection = opened(self.place, prepare_threshold=_PREPARED[0])
        connection.prepared_max = _PREPARED[1]
        try:
            connection.execute(self._settings)
        except BaseException:
            connection.close()
            raise
        return Wire(connection)

    def give(self, wire: Wire) -> None:
        """Give a connection back, after its transaction; a broken one is given up."""
        now = time.monotonic()
        over: list[Wire] = []
        with self._lock:
            if self._closed or not wire.idle:
                over.append(wire)
            else:
                self._idle.append((now, wire))
            while self._idle and self._idle[0][0] < now - _IDLE:
                over.append(self._idle.popleft()[1])
        self._free.release()
        for one in over:
            one.close()

    def drop(self) -> None:
        """Give up all that are kept: where one is found broken, the others mostly are, too."""
        with self._lock:
            idle, self._idle = self._idle, deque()
        for _, wire in idle:
            wire.close()

    def close(self) -> None:
        """Give up all that are kept, and those in use when they come back."""
        self._closed = True
        self.drop()
