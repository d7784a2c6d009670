# SPDX-License-Identifier: Apache-2.0
"""Connections that are kept for the next transaction.

A connection is made by the thread that needs it: so the thread learns why there is none, tries
again at once when a server is back, and a store has no threads of its own, which a fork would
lose and a service with a hundred tenants would have hundreds of.
"""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from struct import Struct, pack
from typing import Any, TypeAlias

import psycopg
from psycopg import generators
from psycopg.adapt import Transformer
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from omsgrain.errors import StoreError
from omsgrain.storage.location import match_url

_SECRETS = "password", "sslpassword", "passfile", "oauth_client_secret"
# Connections whose other end is gone must not wait for hours. Keepalives are for those that wait
# for an answer; where a question has not arrived, none are sent: the user timeout is for these.
_QUESTION = "tcp_user_timeout"
_LEAST = 90  # seconds
_DEFAULTS = {
    "connect_timeout": "10",
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    _QUESTION: str(_LEAST * 1000),
    "application_name": "omsgrain",
}
_ALWAYS = {"client_encoding": "utf8"}  # or the driver gives bytes for the texts of some databases


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    """A database."""

    conninfo: str  # what the driver needs to connect, with its secrets: never shown
    shown: str  # the same for people, without them
    secrets: tuple[str, ...]  # what must not be shown
    timed: bool  # the URL says itself how long a question may be on its way

    def __repr__(self) -> str:
        return f"ConnectionTarget({self.shown!r})"

    @classmethod
    def of(cls, url: str) -> ConnectionTarget:
        """Read a URL."""
        try:
            said = conninfo_to_dict(url) if match_url(url) else None
        except (psycopg.Error, UnicodeError):
            said = None  # the driver's own words repeat the URL, with its password
        if said is None:
            raise StoreError(
                "not the URL of a database that can be read",
                expected="postgresql://USER:PASSWORD@HOST:PORT/NAME?OPTION=VALUE",
            )
        secrets = tuple(str(said[name]) for name in _SECRETS if said.get(name))
        who = f"{said['user']}@" if said.get("user") else ""
        hosts = str(said.get("host") or said.get("hostaddr") or "").split(",")
        ports = str(said.get("port") or "").split(",")
        ports = ports if len(ports) == len(hosts) else ports[:1] * len(hosts)
        where = ",".join(f"{h}:{p}" if p else h for h, p in zip(hosts, ports, strict=True))
        shown = f"postgresql://{who}{where}/{said.get('dbname') or ''}"
        conninfo = make_conninfo("", **{**_DEFAULTS, **said, **_ALWAYS})
        return cls(conninfo, shown, secrets, timed=_QUESTION in said)

    def waiting(self, timeout: float, patience: float) -> ConnectionTarget:
        """Return the same for statements that may take so long.

        A server reads nothing while it is at work, or waits for a lock: to the operating system a
        long question behind a slow one is as one that does not arrive.
        """
        if self.timed:
            return self
        longest = max(_LEAST, timeout + 30, patience + 30) if timeout else 0  # 0: the system's own
        given = {_QUESTION: str(math.ceil(longest * 1000))}
        return replace(self, conninfo=make_conninfo(self.conninfo, **given))

    def cleaned(self, text: str) -> str:
        """Return a text of the driver on one line, or nothing if a secret is in it."""
        if any(secret in text for secret in self.secrets):
            return ""
        return " ".join(text.split())


BOOL, BYTEA, INT8 = 16, 17, 20
"""Types, as every server numbers them."""

_HEAD = Struct(">iiIii")
_NONE = Struct(">iiI")
_SIZE = Struct(">i")


class Array(bytes):
    """An array as its bytes; the server's type of each kind is ``oid``."""

    oid = 0


class _Bools(Array):
    oid = 1000


class _Byteas(Array):
    oid = 1001


class _Int8s(Array):
    oid = 1016


def _head(item: int, count: int) -> bytes:
    return _HEAD.pack(1, 0, item, count, 1) if count else _NONE.pack(0, 0, item)


def byteas(items: Sequence[bytes]) -> Array:
    """Make an array of bytes of any sizes."""
    size = _SIZE.pack
    parts = [part for item in items for part in (size(len(item)), item)]
    return _Byteas(_head(BYTEA, len(items)) + b"".join(parts))


def alike(items: Sequence[bytes], size: int) -> Array:
    """Make an array of bytes, all of one size."""
    if not items:
        return byteas(())
    start = _SIZE.pack(size)
    return _Byteas(_head(BYTEA, len(items)) + start + start.join(items))


def repeated(items: Iterable[tuple[bytes, int]]) -> Array:
    """Make an array of bytes that come several times each, one after the other."""
    parts, count = [], 0
    for item, times in items:
        parts.append((_SIZE.pack(len(item)) + item) * times)
        count += times
    return _Byteas(_head(BYTEA, count) + b"".join(parts))


def numbers(items: Sequence[int]) -> Array:
    """Make an array of numbers of 64 bits."""
    both = [value for item in items for value in (8, item)]
    return _Int8s(_head(INT8, len(items)) + pack(f">{'iq' * len(items)}", *both))


def flags(items: Sequence[bool]) -> Array:
    """Make an array of truth values."""
    values = (b"\0\0\0\1\0", b"\0\0\0\1\1")
    return _Bools(_head(BOOL, len(items)) + b"".join([values[item] for item in items]))


Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Row: TypeAlias = tuple[Any, ...]
Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement with its parameters ($1 ...): bytes, arrays, whole numbers, truth values."""

_INT8 = Struct(">q").pack
_BOOL = b"\0", b"\1"
_BINARY = Format.BINARY
_ROWS, _SYNC = object(), object()  # what an answer is of; of a preparation it is the text


class Wire:
    """A connection, and what is still to be read from it.

    One thread uses it at a time.
    """

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pg = connection.pgconn
        self._names: dict[str, bytes] = {}  # of what is prepared
        self._made = 0
        self._due: deque[object] = deque()  # whose answers are to come
        self._load = Transformer(connection)

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Run statements in one round trip; return the rows that each gives."""
        try:
            self._send(statements)
            self.connection.wait(generators.send(self._pg))
            return self._answers()
        except psycopg.Error:
            raise
        except BaseException:  # an interrupt: what has been read is unknown
            self.close()
            raise

    def tell(self, text: str) -> None:
        """Send a statement without waiting for its answer.

        Errors of it are dropped: it is for the ends of transactions that leave nothing behind.
        """
        self._send([(text, ())])
        self._pg.flush()  # it may not have left whole; the next one sends the rest

    def _send(self, statements: Sequence[Statement]) -> None:
        pg, due = self._pg, self._due
        if pg.pipeline_status == PipelineStatus.OFF:
            pg.enter_pipeline_mode()
        for text, params in statements:
            name = self._names.get(text)
            if name is None:
                self._made += 1
                name = self._names[text] = b"q%d" % self._made
                pg.send_prepare(name, text.encode(), [_oid(param) for param in params])
                due.append(text)
            values = [_dumped(param) for param in params]
            pg.send_query_prepared(name, values, [_BINARY] * len(values), _BINARY)
            due.append(_ROWS)
        pg.pipeline_sync()
        due.append(_SYNC)

    def _answers(self) -> list[list[Row]]:
        """Read all that is to come; return the rows of the last statements sent together."""
        found: list[list[Row]] = []
        refused: psycopg.Error | None = None
        due = self._due
        while due:
            try:
                results = self.connection.wait(generators.fetch_many(self._pg))
            except psycopg.Error:
                if refused is None or refused.sqlstate is None:
                    raise
                raise refused from None  # what the server said before it went
            what = due.popleft()
            if what is _SYNC:
                if due:  # that was the end of a transaction before this one
                    found, refused = [], None
                continue
            (result,) = results
            if result.status == ExecStatus.FATAL_ERROR:
                refused = refused or error_from_result(result)
            elif what is _ROWS and result.status != ExecStatus.PIPELINE_ABORTED:
                found.append(self._rows(result))
            if refused is not None and isinstance(what, str):
                del self._names[what]
        if refused is not None:
            raise refused
        return found

    def _rows(self, result: PGresult) -> list[Row]:
        if not result.ntuples:
            return []
        self._load.set_pgresult(result)
        return self._load.load_rows(0, result.ntuples, tuple)

    @property
    def idle(self) -> bool:
        """Whether it is whole and in no transaction, once all answers are read."""
        if self.closed:
            return False
        return bool(self._due) or self._pg.transaction_status == TransactionStatus.IDLE

    @property
    def closed(self) -> bool:
        """Whether it is no connection any more."""
        return self.connection.closed

    def plain(self) -> Connection:
        """Return the connection for the driver's own cursors, and for COPY."""
        if self._due:
            self._answers()
        if self._pg.pipeline_status != PipelineStatus.OFF:
            self._pg.exit_pipeline_mode()
        return self.connection

    def close(self) -> None:
        """Let go of it."""
        self.connection.close()


def _oid(param: object) -> int:
    if isinstance(param, Array):
        return param.oid
    return BYTEA if isinstance(param, bytes) else BOOL if isinstance(param, bool) else INT8


def _dumped(param: Any) -> bytes:
    if isinstance(param, bytes):
        return param
    return _BOOL[param] if isinstance(param, bool) else _INT8(param)


_PREPARED = 2, 400  # of the driver's own: how often one is run before it is prepared; how many
_IDLE = 300.0  # seconds after which an idle connection is closed

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


def opened(place: ConnectionTarget, **options: Any) -> Connection:
    """Make a connection that finds only the server's own functions, operators and types."""
    connection = psycopg.connect(place.conninfo, autocommit=True, **options)
    try:
        connection.execute(_PATH)
    except BaseException:
        connection.close()
        raise
    return connection


class Pool:
    """At most so many connections at a time."""

    def __init__(self, place: ConnectionTarget, size: int, settings: str, tuned: bool) -> None:
        self.place = place
        self.size = size
        self._settings = f"{settings}; {_SETTINGS}" if tuned else settings
        self._free = threading.BoundedSemaphore(size)
        self._idle: deque[tuple[float, Wire]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def take(self, until: float) -> Wire:
        """Take a connection that is kept, or make one."""
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
