# SPDX-License-Identifier: Apache-2.0
"""One connection: several statements in one round trip, each prepared once.

A snapshot is short, and what it costs is its round trips. So a transaction begins in the same
round trip as its first question, and nobody waits for the end of one that only reads: its answer
is read before the next one's.

It stands on psycopg's own layer over libpq, in pipeline mode. psycopg's cursors can do this too,
and take twice as long for it as the server.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from struct import Struct
from typing import Any, TypeAlias

import psycopg
from psycopg import generators
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus, TransactionStatus
from psycopg.pq.abc import PGresult

from omsgrain.store.postgres.arrays import BOOL, BYTEA, INT8, Array

__all__ = ["Connection", "Row", "Statement", "Wire"]

Connection: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Row: TypeAlias = tuple[Any, ...]
Statement: TypeAlias = tuple[str, tuple[Any, ...]]
"""A statement with its parameters: bytes, arrays of them, whole numbers, truth values."""

_INT8 = Struct(">q").pack
_BOOL = b"\0", b"\1"
_BINARY = Format.BINARY
_ROWS, _SYNC = object(), object()  # what an answer is; that to a preparation is told by its text


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
        """Run statements in one round trip; return the rows that each gives.

        Raises:
            psycopg.Error: the first that the server refused; those behind it were not run.
        """
        try:
            self._send(statements)
            self.connection.wait(generators.send(self._pg))
            return self._answers()
        except psycopg.Error:
            raise
        except BaseException:  # an interrupt: nobody knows what has been read
            self.close()
            raise

    def tell(self, text: str) -> None:
        """Send a statement without waiting for its answer.

        What the server refuses of it is told to nobody: it is for the ends of transactions that
        leave nothing behind.
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
                pg.send_prepare(name, _numbered(text), [_oid(param) for param in params])
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


@cache
def _numbered(text: str) -> bytes:
    """A statement with its parameters by number, as the server has them."""
    first, *rest = text.split("%b")
    return (first + "".join(f"${n}{part}" for n, part in enumerate(rest, 1))).encode()


def _oid(param: object) -> int:
    if isinstance(param, Array):
        return param.oid
    return BYTEA if isinstance(param, bytes) else BOOL if isinstance(param, bool) else INT8


def _dumped(param: Any) -> bytes:
    if isinstance(param, bytes):
        return param
    return _BOOL[param] if isinstance(param, bool) else _INT8(param)
