# SPDX-License-Identifier: Apache-2.0
"""A database, and how transactions in it begin and end: also when the server goes away."""

from __future__ import annotations

import math
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, NamedTuple

import psycopg

from omsgrain.errors import AccessDeniedError, DiskFullError, StoreError
from omsgrain.storage.postgres.pool import (
    Connection,
    ConnectionTarget,
    Pool,
    Row,
    Statement,
    Wire,
    opened,
)

_CLASHES = {"40001", "40P01", "CR000"}
"""Transactions that came in each other's way: nothing was written, and it may go better again."""

_AWAY = {"57P01", "57P02", "57P03", "57P05", "08000", "08001", "08003", "08006", "53300"}
"""The server is going, gone or coming, or has no room for one more connection."""

_UNTOLD = {"08007", "40003"}
"""The server does not know itself what became of a commit."""

_OUT_OF_TIME = {"25P03", "25P04"}
"""The server has ended a transaction that did nothing for too long, or took too long."""

# Before there is a connection, the driver has no code for what the server says, only its words:
# in English here. A server that speaks otherwise is waited for only once a store is open.
_COMING = re.compile(
    "the database system is"
    "|too many (clients|connections)|connection slots are reserved|no more connections allowed"
)

_OWN = {"22", "23", "54"}
"""Classes of errors in values, in what rows must be, and in how much one statement may be."""

_KNOWN = {
    "55P03": "another process writes to the store, or rewrites its tables, and does not end,",
    "57014": "one statement took too long, or was ended by somebody,",
    "53100": "the disk of the database is full",
    "42501": "the role may not do that in the database",
    "25006": "the database only lets itself be read",
}
_REASON = re.compile(r"(?:FATAL:|failed:)\s*(.*)", re.DOTALL)
_LONGEST = 200


def is_clash(error: psycopg.Error) -> bool:
    """Whether the transaction was taken back because of others, and may be run again."""
    return error.sqlstate in _CLASHES


def is_own(error: psycopg.Error) -> bool:
    """Whether it lies in what was asked for, and so says nothing about other works."""
    return (error.sqlstate or "")[:2] in _OWN


def is_away(error: psycopg.Error) -> bool:
    """Whether the server is away, and may come back."""
    if error.sqlstate is not None:
        return error.sqlstate in _AWAY | _UNTOLD
    return isinstance(error, psycopg.OperationalError)


def is_broken(error: psycopg.Error, closed: bool) -> bool:
    """Whether a transaction was lost with its connection, and may be run again."""
    return is_away(error) or (closed and error.sqlstate not in _OUT_OF_TIME)


def is_coming(error: psycopg.Error) -> bool:
    """Whether the server says that it is about to come, or that others have to go first."""
    return _COMING.search(str(error)) is not None


class RefusedError(StoreError):
    """The database refused, or could not be reached: that says nothing about what is stored."""


class FullError(RefusedError, DiskFullError):
    """The disk of the database is full."""


class DeniedError(RefusedError, AccessDeniedError):
    """The role may not do that, or the database is read-only."""


_KINDS: dict[str, type[RefusedError]] = {
    "53100": FullError,
    "42501": DeniedError,
    "25006": DeniedError,
}


def failure(place: ConnectionTarget, doing: str, error: psycopg.Error) -> RefusedError:
    """Make the error for something that the database refused."""
    state = error.sqlstate
    message = _KNOWN.get(state or "", f"could not {doing}")
    if state is None:
        match = _REASON.search(str(error))
        text = place.cleaned(match[1] if match else str(error))[:_LONGEST]
        found = text or type(error).__name__
    else:
        try:
            found = f"{psycopg.errors.lookup(state).__name__} ({state})"
        except KeyError:
            found = state
    kind = _KINDS.get(state or "", RefusedError)
    return kind(f"{message} at {place.shown!r}", found=found)


def uncertain(place: ConnectionTarget) -> StoreError:
    """Make the error for a commit whose answer was lost, and whose outcome is unknown."""
    return StoreError(
        f"the connection to {place.shown!r} broke while it committed: "
        "what was written may be stored, or not; look before you write it again",
        expected="an answer to the commit",
    )


PATIENCE = 30.0
"""Seconds to wait for a server, by default."""

_PAUSE = 0.02, 1.0  # seconds between two tries, at first and at the most
# Whatever the server's own setting: what has returned must not be lost. Stricter ones stay.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
_STUCK = 300  # seconds that a writer may do nothing, before the server takes back its turn


class Dialect(NamedTuple):
    """What a server is, and so what may be asked of it."""

    name: str  # as it calls itself
    parts: bool = True  # it spreads no tables by itself, so growing ones are cut into parts
    tuned: bool = True  # it knows PostgreSQL's settings of the planner
    policies: bool = True  # it has row-level security

    @classmethod
    def of(cls, version: str) -> Dialect:
        """Tell an engine by what it answers to ``SELECT version()``."""
        if "CockroachDB" in version:
            return cls("CockroachDB", parts=False, tuned=False)
        if "-YB-" in version:
            return cls("YugabyteDB", parts=False)
        return cls("PostgreSQL")


class PostgresHead(NamedTuple):
    """How far a store has come."""

    last_seq: int  # the last sequence number given
    blob_bytes: int  # bytes of all blobs
    grains: int  # how many there are
    ordinal: int  # of the last term that got a count of its own


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


def connected(place: ConnectionTarget, patience: float = PATIENCE) -> Connection:
    """Make a connection for the first time, or beside a pool.

    Only a server that says that it is coming, or full, is waited for: an address or a password may
    be wrong.
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
    """Connections to one database."""

    def __init__(
        self,
        place: ConnectionTarget,
        *,
        pool_size: int,
        patience: float,
        timeout: float,
        durable: bool,
    ) -> None:
        self.place = place.waiting(timeout, patience)
        self.patience = patience
        self._owner = os.getpid()
        self.closed = False  # they were let go of
        self.engine = Dialect.of(str(self.asked("SELECT version()")))  # what the server is
        settings = (
            f"SET statement_timeout = {math.ceil(timeout * 1000)}; "
            f"{lock_timeout(patience)}; "
            f"SET idle_in_transaction_session_timeout = {_STUCK * 1000}"
        )
        if self.engine.tuned:
            settings += "; " + (_DURABLE if durable else "SET synchronous_commit = off")
        self._settings = settings
        self.pool = Pool(self.place, pool_size, settings, self.engine.tuned)  # its connections

    def enter(self, store_id: int) -> None:
        """Say of which store all rows are that the connections of the pool will be asked for."""
        self._settings += f"; SET omsgrain.storage = '{store_id}'"
        self.pool = Pool(self.place, self.pool.size, self._settings, self.engine.tuned)

    def twin(self, pool_size: int) -> Database:
        """Return the same database with connections of their own, so many at the most."""
        made = copy(self)
        made.pool = Pool(self.place, pool_size, self._settings, self.engine.tuned)
        return made

    def asked(self, text: str) -> Any:
        """Ask for one value, on a connection beside the pool."""
        with self.connection("open the store") as connection:
            row = connection.execute(text).fetchone()
        return row[0] if row else None

    @contextmanager
    def connection(self, doing: str) -> Iterator[Connection]:
        """Make a connection beside the pool, for work that no time-out shall end."""
        connection = connected(self.place, self.patience)
        try:
            yield connection
        except psycopg.Error as error:
            raise failure(self.place, doing, error) from None
        finally:
            connection.close()

    def check_open(self) -> None:
        """Refuse after ``close``, and in a forked child."""
        if self.closed:
            raise StoreError("the store is closed")
        if os.getpid() != self._owner:
            raise StoreError("the store was opened by another process: open it again in this one")

    def begin(self, *statements: Statement) -> tuple[Wire, list[list[Row]]]:
        """Begin a transaction with some statements; nothing is lost by doing it again."""
        pause = Pause(self.patience)
        while True:
            self.check_open()
            wire: Wire | None = None
            try:
                wire = self.pool.take(pause.until)
                return wire, wire.ask(*statements)
            except psycopg.Error as error:
                # A kept connection that was ended says so when it is used next.
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
        """End a transaction without waiting for it, and give back its connection."""
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
