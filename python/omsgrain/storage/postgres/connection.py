# SPDX-License-Identifier: Apache-2.0
"""A database, its transactions and retries, including a server that goes away."""

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
from omsgrain.storage.base import see_open
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
"""Conflicts between transactions: nothing was written, and a retry may succeed."""

_AWAY = {"57P01", "57P02", "57P03", "57P05", "08000", "08001", "08003", "08006", "53300"}
"""The server is stopping, stopped or starting, or has no free connection."""

_UNKNOWN_COMMIT = {"08007", "40003"}
"""The server does not know the outcome of a commit."""

_OUT_OF_TIME = {"25P03", "25P04"}
"""The server ended a transaction that was idle or ran for too long."""

# Before a connection exists, the driver has only the server's message, without a code: this is
# the English one. A server with another language is retried only once a store is open.
_COMING = re.compile(
    "the database system is"
    "|too many (clients|connections)|connection slots are reserved|no more connections allowed"
)

_OWN = {"22", "23", "54"}
"""Classes of errors in values, in rows, and in the limits of one statement."""

_KNOWN = {
    "55P03": "another process holds the write lock of the store for too long",
    "57014": "a statement took too long or was cancelled",
    "53100": "the disk of the database is full",
    "42501": "the role lacks the permission",
    "25006": "the database is read-only",
}
_REASON = re.compile(r"(?:FATAL:|failed:)\s*(.*)", re.DOTALL)
_LONGEST = 200


def is_clash(error: psycopg.Error) -> bool:
    """Whether the transaction was rolled back because of others, and may be retried."""
    return error.sqlstate in _CLASHES


def is_own(error: psycopg.Error) -> bool:
    """Whether the request itself caused the error, so that other works are not affected."""
    return (error.sqlstate or "")[:2] in _OWN


def is_away(error: psycopg.Error) -> bool:
    """Whether the server is away and may come back."""
    if error.sqlstate is not None:
        return error.sqlstate in _AWAY | _UNKNOWN_COMMIT
    return isinstance(error, psycopg.OperationalError)


def is_broken(error: psycopg.Error, closed: bool) -> bool:
    """Whether a transaction was lost with its connection, and may be retried."""
    return is_away(error) or (closed and error.sqlstate not in _OUT_OF_TIME)


def is_coming(error: psycopg.Error) -> bool:
    """Whether the server says that it is starting or has no free connection."""
    return _COMING.search(str(error)) is not None


class RefusedError(StoreError):
    """The database refused or was unreachable, which says nothing about the stored data."""


class FullError(RefusedError, DiskFullError):
    """The disk of the database is full."""


class DeniedError(RefusedError, AccessDeniedError):
    """The role lacks a permission, or the database is read-only."""


_KINDS: dict[str, type[RefusedError]] = {
    "53100": FullError,
    "42501": DeniedError,
    "25006": DeniedError,
}


def failure(place: ConnectionTarget, doing: str, error: psycopg.Error) -> RefusedError:
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
    return StoreError(
        f"the connection to {place.shown!r} broke during the commit: "
        "it is unknown whether the data was stored; read it before you write it again",
        expected="an answer to the commit",
    )


PATIENCE = 30.0
"""Seconds to wait for a server, by default."""

_PAUSE = 0.02, 1.0  # seconds between two attempts, at first and at most
# A returned write must not be lost, whatever the server's default. Stricter settings stay.
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
_STUCK = 300  # seconds before the server ends an idle write transaction


class PostgresHead(NamedTuple):
    last_seq: int  # the last sequence number
    blob_bytes: int  # total bytes of blobs
    grains: int  # number of grains
    ordinal: int  # ordinal of the last term with a count of its own


class Pause:
    """The pauses between attempts, up to a deadline."""

    def __init__(self, patience: float) -> None:
        self.until = time.monotonic() + patience
        self._next = _PAUSE[0]

    def take(self) -> bool:
        """Wait; returns False if the deadline would pass."""
        # With jitter, so that conflicting transactions do not collide again.
        pause = self._next * random.uniform(0.5, 1.0)
        if time.monotonic() + pause >= self.until:
            return False
        time.sleep(pause)
        self._next = min(2 * self._next, _PAUSE[1])
        return True


def connected(place: ConnectionTarget, patience: float = PATIENCE) -> Connection:
    """Make the first connection, or one beside the pool.

    Only a starting or full server is retried: an address or a password may be wrong.
    """
    pause = Pause(patience)
    while True:
        try:
            return opened(place)
        except psycopg.Error as error:
            if not is_coming(error) or not pause.take():
                raise failure(place, "connect to the database", error) from None


def lock_timeout(patience: float) -> str:
    """Return the statement that limits waiting for a lock to so many seconds."""
    return f"SET lock_timeout = {max(1, math.ceil(patience * 1000))}"  # 0 would mean no limit


class Database:
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
        self.closed = False  # whether the connections are closed
        settings = (
            f"SET statement_timeout = {math.ceil(timeout * 1000)}; "
            f"{lock_timeout(patience)}; "
            f"SET idle_in_transaction_session_timeout = {_STUCK * 1000}; "
            f"{_DURABLE if durable else 'SET synchronous_commit = off'}"
        )
        self._settings = settings
        self.pool = Pool(self.place, pool_size, settings)  # its connections

    def enter(self, store_id: int) -> None:
        """Set the store whose rows the pool's connections may see."""
        self._settings += f"; SET omsgrain.storage = '{store_id}'"
        self.pool = Pool(self.place, self.pool.size, self._settings)

    def twin(self, pool_size: int) -> Database:
        """Return the same database with a pool of its own."""
        made = copy(self)
        made.pool = Pool(self.place, pool_size, self._settings)
        return made

    def asked(self, text: str) -> Any:
        """Read one value on a connection beside the pool."""
        with self.connection("open the store") as connection:
            row = connection.execute(text).fetchone()
        return row[0] if row else None

    @contextmanager
    def connection(self, doing: str) -> Iterator[Connection]:
        """Make a connection beside the pool, for work without a time limit."""
        connection = connected(self.place, self.patience)
        try:
            yield connection
        except psycopg.Error as error:
            raise failure(self.place, doing, error) from None
        finally:
            connection.close()

    def check_open(self) -> None:
        see_open(self.closed, self._owner)

    def begin(self, *statements: Statement) -> tuple[Wire, list[list[Row]]]:
        """Begin a transaction with some statements, which may be repeated safely."""
        pause = Pause(self.patience)
        while True:
            self.check_open()
            wire: Wire | None = None
            try:
                wire = self.pool.take(pause.until)
                return wire, wire.ask(*statements)
            except psycopg.Error as error:
                # A kept connection reports its end only on the next use.
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
        return StoreError(f"the store at {self.place.shown!r} is gone, or hidden from this role")

    def end(self, wire: Wire, how: str | None = "ROLLBACK") -> None:
        """End a transaction without waiting for it, and return its connection to the pool."""
        try:
            if how is not None and not wire.closed:
                wire.tell(how)
        except psycopg.Error:
            wire.close()
        finally:
            self.pool.give(wire)

    def close(self) -> None:
        """Close the connections; in a forked child they belong to the parent."""
        self.closed = True
        if os.getpid() == self._owner:
            self.pool.close()
