# SPDX-License-Identifier: Apache-2.0
"""A pool of connections, and many statements in one round trip.

The thread that needs a connection makes it. So it gets the error, and retries as soon as a server
is back. The pool has no threads, which a fork would lose, and which would be many for many
tenants.
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
# A connection to a dead peer must not wait for hours. Keepalives detect that while waiting for an
# answer; the user timeout does while a request is not acknowledged.
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
# Otherwise the driver returns bytes for the texts of some databases
_ALWAYS = {"client_encoding": "utf8"}


@dataclass(frozen=True, slots=True)
class ConnectionTarget:
    conninfo: str  # the driver's connection string with its secrets: never shown
    shown: str  # the address without secrets
    secrets: tuple[str, ...]  # the secrets
    timed: bool  # whether the URL sets the user timeout

    def __repr__(self) -> str:
        return f"ConnectionTarget({self.shown!r})"

    @classmethod
    def of(cls, url: str) -> ConnectionTarget:
        try:
            said = conninfo_to_dict(url) if match_url(url) else None
        except (psycopg.Error, UnicodeError):
            said = None  # the driver's message contains the URL with its password
        if said is None:
            raise StoreError(
                "invalid database URL",
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
        """Return the address with a user timeout for statements that take so long.

        A busy server reads nothing, so the operating system may take a long request behind a slow
        one for a dead connection.
        """
        if self.timed:
            return self
        # 0 means the system's default
        longest = max(_LEAST, timeout + 30, patience + 30) if timeout else 0
        given = {_QUESTION: str(math.ceil(longest * 1000))}
        return replace(self, conninfo=make_conninfo(self.conninfo, **given))

    def cleaned(self, text: str) -> str:
        """Return a message of the driver on one line, or nothing if it contains a secret."""
        if any(secret in text for secret in self.secrets):
            return ""
        return " ".join(text.split())


BOOL, BYTEA, INT8 = 16, 17, 20
"""Type numbers, which are the same on every server."""

_HEAD = Struct(">iiIii")
_NONE = Struct(">iiI")
_SIZE = Struct(">i")


class Array(bytes):
    """An array as bytes; ``oid`` is its type on the server."""

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
    size = _SIZE.pack
    parts = [part for item in items for part in (size(len(item)), item)]
    return _Byteas(_head(BYTEA, len(items)) + b"".join(parts))


def alike(items: Sequence[bytes], size: int) -> Array:
    if not items:
        return byteas(())
    start = _SIZE.pack(size)
    return _Byteas(_head(BYTEA, len(items)) + start + start.join(items))


def repeated(items: Iterable[tuple[bytes, int]]) -> Array:
    parts, count = [], 0
    for item, times in items:
        parts.append((_SIZE.pack(len(item)) + item) * times)
        count += times
    return _Byteas(_head(BYTEA, count) + b"".join(parts))


def numbers(items: Sequence[int]) -> Array:
    both = [value for item in items for value in (8, item)]
    return _Int8s(_head(INT8, len(items)) + pack(f">{'iq' * len(items)}", *both))


def flags(items: Sequence[bool]) -> Array:
    values = (b"\0\0\0\1\0", b"\0\0\0\1\1")
    return _Bools(_head(BOOL, len(items)) + b"".join([values[item] for item in items]))


Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Row: TypeAlias = tuple[Any, ...]
Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement with its parameters ($1 ...): bytes, arrays, integers, booleans."""

_INT8 = Struct(">q").pack
_BOOL = b"\0", b"\1"
_BINARY = Format.BINARY
_ROWS, _SYNC = object(), object()  # what an answer belongs to; for a preparation, its text


class Wire:
    """A connection with its unread answers. One thread uses it at a time."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._pg = connection.pgconn
        self._names: dict[str, bytes] = {}  # names of prepared statements
        self._made = 0
        self._due: deque[object] = deque()  # what the unread answers belong to
        self._load = Transformer(connection)

    def ask(self, *statements: Statement) -> list[list[Row]]:
        try:
            self._send(statements)
            self.connection.wait(generators.send(self._pg))
            return self._answers()
        except psycopg.Error:
            raise
        except BaseException:  # an interrupt leaves unread answers
            self.close()
            raise

    def tell(self, text: str) -> None:
        """Send a statement without waiting for its answer.

        Its errors are dropped: it ends transactions that changed nothing.
        """
        self._send([(text, ())])
        self._pg.flush()  # the next statement sends what remains

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
        """Read all answers; return the rows of the last statements that were sent together."""
        found: list[list[Row]] = []
        refused: psycopg.Error | None = None
        due = self._due
        while due:
            try:
                results = self.connection.wait(generators.fetch_many(self._pg))
            except psycopg.Error:
                if refused is None or refused.sqlstate is None:
                    raise
                raise refused from None  # the server's last message
            what = due.popleft()
            if what is _SYNC:
                if due:  # the end of the previous transaction
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
        """Whether it is intact and outside of transactions, once all answers are read."""
        if self.closed:
            return False
        return bool(self._due) or self._pg.transaction_status == TransactionStatus.IDLE

    @property
    def closed(self) -> bool:
        return self.connection.closed

    def plain(self) -> Connection:
        """Return the connection for the driver's own cursors, and for COPY."""
        if self._due:
            self._answers()
        if self._pg.pipeline_status != PipelineStatus.OFF:
            self._pg.exit_pipeline_mode()
        return self.connection

    def close(self) -> None:
        self.connection.close()


def _oid(param: object) -> int:
    if isinstance(param, Array):
        return param.oid
    return BYTEA if isinstance(param, bytes) else BOOL if isinstance(param, bool) else INT8


def _dumped(param: Any) -> bytes:
    if isinstance(param, bytes):
        return param
    return _BOOL[param] if isinstance(param, bool) else _INT8(param)


_PREPARED = 2, 400  # the driver's own: runs before a statement is prepared; maximum number
_IDLE = 300.0  # seconds after which an idle connection is closed

# The store reads tables in few ways, always by keys. So a generic plan serves every key, if it
# looks keys up one by one. With its estimates for lists, and for tables that were empty earlier,
# the planner would read a whole store instead. Compiling a plan would take longer than running it.
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


# Unqualified names must mean the server's own. The default path ends with the schema public, where
# up to version 14 every role may create functions. One with exactly our argument types would be
# chosen before a general one of the server, and would run with our rights on the rows of other
# tenants.
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
    def __init__(self, place: ConnectionTarget, size: int, settings: str) -> None:
        self.place = place
        self.size = size
        self._settings = f"{settings}; {_SETTINGS}"
        self._free = threading.BoundedSemaphore(size)
        self._idle: deque[tuple[float, Wire]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def take(self, until: float) -> Wire:
        """Return an idle connection, or make one."""
        if not self._free.acquire(timeout=max(0.0, until - time.monotonic())):
            raise StoreError(
                f"all connections to {self.place.shown!r} are in use",
                expected="close snapshots sooner, or open the store with a larger pool_size",
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
        """Return a connection after its transaction; a broken one is closed."""
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
        """Close all idle connections: if one is broken, most are."""
        with self._lock:
            idle, self._idle = self._idle, deque()
        for _, wire in idle:
            wire.close()

    def close(self) -> None:
        self._closed = True
        self.drop()
