# SPDX-License-Identifier: Apache-2.0
"""A database, and how transactions in it begin and end: also when the server goes away."""

from __future__ import annotations

import math
import os
import random
import time
from copy import copy
from typing import Any, NamedTuple

import psycopg

from omsgrain.errors import StoreError
from omsgrain.store.postgres.failures import failure, is_away, is_clash, is_coming
from omsgrain.store.postgres.place import Place
from omsgrain.store.postgres.pool import Connection, Pool, opened
from omsgrain.store.postgres.wire import Row, Statement, Wire

__all__ = ["PATIENCE", "Database", "Engine", "Head", "Pause", "connected", "lock_timeout"]

PATIENCE = 30.0
"""Seconds to wait for a server, if nobody says otherwise."""

_PAUSE = 0.02, 1.0  # seconds between two tries, at first and at the most
# Whatever the server's own setting: what has returned must not be lost. Stricter ones stay.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
_STUCK = 300  # seconds that a writer may do nothing, before the server takes back its turn


class Engine(NamedTuple):
    """What a server is, and so what may be asked of it.

    Attributes:
        name: as it calls itself.
        parts: it spreads no tables by itself, so growing ones are cut into parts.
        tuned: it knows PostgreSQL's settings of the planner.
        policies: it has row-level security.
    """

    name: str
    parts: bool = True
    tuned: bool = True
    policies: bool = True

    @classmethod
    def of(cls, version: str) -> Engine:
        """Tell an engine by what it answers to ``SELECT version()``."""
        if "CockroachDB" in version:
            return cls("CockroachDB", parts=False, tuned=False)
        if "-YB-" in version:
            return cls("YugabyteDB", parts=False)
        return cls("PostgreSQL")


class Head(NamedTuple):
    """How far a store has come.

    Attributes:
        last_seq: the last sequence number given.
        blob_bytes: bytes of all blobs.
        grains: how many there are.
        ordinal: of the last term that got a count of its own.
    """

    last_seq: int
    blob_bytes: int
    grains: int
    ordinal: int


class Pause:
    """How long to wait before the next try, up to an end."""

    def __init__(self, patience: float) -> None:
        self.until = time.monotonic() + patience
        self._next = _PAUSE[0]

    def take(self) -> bool:
        """Wait; False if the end has come instead."""
        # Not all at once, or those who came in each other's way would do so again.
        pause = self._next * random.uniform(0.5, 1.0)
        if time.monotonic() + pause >= self.until:
            return False
        time.sleep(pause)
        self._next = min(2 * self._next, _PAUSE[1])
        return True


def connected(place: Place, patience: float = PATIENCE) -> Connection:
    """Make a connection for the first time, or beside a pool.

    Only a server that says that it is coming, or full, is waited for: an address or a password may
    be wrong.

    Raises:
        StoreError: there is no such server, it refuses, or stays as it is for too long.
    """
    pause = Pause(patience)
    while True:
        try:
            return opened(place)
        except psycopg.Error as error:
            if not is_coming(error) or not pause.take():
                raise failure(place, "connect to the database", error) from None


def lock_timeout(patience: float) -> str:
    """Make the statement that has a connection wait so many seconds for a lock."""
    return f"SET lock_timeout = {max(1, math.ceil(patience * 1000))}"  # 0 would be for ever


class Database:
    """Connections to one database.

    Args:
        place: which.
        pool_size: snapshots and writers at a time, at the most.
        patience: seconds to wait for a server that is away, or for a turn.
        timeout: seconds that one statement may take; 0: as many as it likes.
        durable: whether a commit waits for the disk.

    Attributes:
        engine: what the server is.
        pool: its connections.
        closed: they were let go of.
    """

    def __init__(
        self, place: Place, *, pool_size: int, patience: float, timeout: float, durable: bool
    ) -> None:
        self.place = place.waiting(timeout, patience)
        self.patience = patience
        self._owner = os.getpid()
        self.closed = False
        self.engine = Engine.of(str(self.asked("SELECT version()")))
        settings = (
            f"SET statement_timeout = {math.ceil(timeout * 1000)}; "
            f"{lock_timeout(patience)}; "
            f"SET idle_in_transaction_session_timeout = {_STUCK * 1000}"
        )
        if self.engine.tuned:
            settings += "; " + (_DURABLE if durable else "SET synchronous_commit = off")
        self._settings = settings
        self.pool = Pool(self.place, pool_size, settings, self.engine.tuned)

    def enter(self, store_id: int) -> None:
        """Say of which store all rows are that the connections of the pool will be asked for."""
        self._settings += f"; SET omsgrain.store = '{store_id}'"
        self.pool = Pool(self.place, self.pool.size, self._settings, self.engine.tuned)

    def twin(self, pool_size: int) -> Database:
        """Return the same database with connections of their own, so many at the most."""
        made = copy(self)
        made.pool = Pool(self.place, pool_size, self._settings, self.engine.tuned)
        return made

    def asked(self, text: str) -> Any:
        """Ask for one value, on a connection beside the pool."""
        connection = self.connect()
        try:
            row = connection.execute(text).fetchone()
        except psycopg.Error as error:
            raise failure(self.place, "open the store", error) from None
        finally:
            connection.close()
        return row[0] if row else None

    def connect(self) -> Connection:
        """Make a connection beside the pool, for work that no time-out shall end."""
        return connected(self.place, self.patience)

    def check_open(self) -> None:
        """Refuse after ``close``, and in a forked child.

        Raises:
            StoreError: the one or the other.
        """
        if self.closed:
            raise StoreError("the store is closed")
        if os.getpid() != self._owner:
            raise StoreError("the store was opened by another process: open it again in this one")

    def begin(self, *statements: Statement) -> tuple[Wire, list[list[Row]]]:
        """Begin a transaction with some statements; nothing is lost by doing it again.

        Returns:
            A connection, to be handed to ``end``, and the rows that each statement gave.
        """
        pause = Pause(self.patience)
        while True:
            self.check_open()
            wire: Wire | None = None
            try:
                wire = self.pool.take(pause.until)
                return wire, wire.ask(*statements)
            except psycopg.Error as error:
                # Whatever ended a kept connection, it says so to who takes it next.
                away = is_away(error) or (wire is not None and wire.closed)
                if wire is not None:
                    self.end(wire)
                if away:
                    self.pool.drop()
                elif not is_clash(error):
                    raise failure(self.place, "use the store", error) from None
                if not pause.take():
                    raise failure(self.place, "reach the database", error) from None
            except BaseException:
                if wire is not None:
                    self.end(wire)
                raise

    def gone(self) -> StoreError:
        """Make the error for a store that was there when it was opened."""
        return StoreError(f"the store at {self.place.shown!r} is no longer there for this role")

    def end(self, wire: Wire, how: str | None = "ROLLBACK") -> None:
        """End a transaction without waiting for it, and give back its connection.

        Args:
            wire: the connection.
            how: the statement that ends it; None: it has ended.
        """
        try:
            if how is not None and not wire.closed:
                wire.tell(how)
        except psycopg.Error:
            wire.close()
        finally:
            self.pool.give(wire)

    def close(self) -> None:
        """Let go of the connections; in a forked child they are the parent's."""
        self.closed = True
        if os.getpid() == self._owner:
            self.pool.close()
