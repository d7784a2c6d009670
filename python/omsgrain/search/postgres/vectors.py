# SPDX-License-Identifier: Apache-2.0
"""Vectors compared by the server with the extension pgvector, which returns only the nearest.

    near        store_id, model, seq ++ vector
    near_come   store_id ++ the last event in ``near``, and its record in events-0

The store's vectors stay in their table. ``near`` has copies in pgvector's type, and follows the
store by its events, as the graph files do. All vectors of a model are compared, so results are
exact. There is no HNSW index: it would cover all models and stores together, and search among the
others for the neighbours of one.

The tables are created on first use by a role that may do so. Other roles compare vectors here, as
without the extension.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from omsgrain.search.ann import Covered, Stamp, events
from omsgrain.search.postgres.feed import Sessions
from omsgrain.search.vectors import Model, models, unpacked
from omsgrain.storage.base import Reader, Transactions
from omsgrain.storage.postgres.schema import SCHEMA, stored_table
from omsgrain.storage.tables import EVENTS, SEQUENCE, VECTORS

if TYPE_CHECKING:
    from omsgrain.storage.postgres.connection import Database
    from omsgrain.storage.postgres.pool import Connection

LARGE = 2_000
"""Vectors of a model from which the server compares: sending as many takes longer."""

_FEW = 200  # new vectors to compare here before the table is updated
_TOGETHER = 500  # rows to write at a time
_NEAR, _COME = f"{SCHEMA}.near", f"{SCHEMA}.near_come"

# Use only the extension's type and operator: anyone may have created others with these names.
_HAS = (
    "SELECT coalesce((SELECT quote_ident(n.nspname) FROM pg_extension e "
    "JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'vector'), "
    "CASE WHEN to_regtype('pg_catalog.vector') IS NOT NULL THEN 'pg_catalog' END), "
    "to_regclass(%s) IS NOT NULL"
)
_MAY = f"SELECT has_table_privilege('{_NEAR}', %s) AND has_table_privilege('{_COME}', %s)"
_OWNED = (
    "SELECT pg_has_role(relowner, 'USAGE') FROM pg_class "
    f"WHERE oid = to_regclass('{SCHEMA}.versions')"
)
_READ = f"SELECT event, record FROM {_COME} WHERE store_id = %s::bigint"
_BEGIN = (
    f"INSERT INTO {_COME} (store_id, event, record) VALUES (%s, 0, '') "
    "ON CONFLICT (store_id) DO NOTHING"
)
_GO_ON = f"UPDATE {_COME} SET event = %s, record = %s WHERE store_id = %s::bigint"
_CLEAR = f"DELETE FROM {_NEAR} WHERE store_id = %s::bigint"
_DROP = f"{_CLEAR} AND seq = ANY (%s::bigint[])"
_PUT = (
    f"INSERT INTO {_NEAR} (store_id, model, seq, v) "
    "SELECT %s::bigint, m, s, v::real[]::{schema}.vector "
    "FROM unnest(%s::bigint[], %s::bigint[], %s::text[]) AS given (m, s, v)"
)
_COUNT = f"SELECT count(*) FROM {_NEAR} WHERE store_id = %s::bigint AND model = %s::bigint"
_SEARCH = (
    "SELECT seq, 1 - (v OPERATOR({schema}.<=>) %(query)s::real[]::{schema}.vector) "
    f"FROM {_NEAR} WHERE store_id = %(store)s::bigint AND model = %(model)s::bigint "
    "ORDER BY v OPERATOR({schema}.<=>) %(query)s::real[]::{schema}.vector LIMIT %(count)s"
)


class _VectorProgress(NamedTuple):
    """The last event in the table, and its row; 0 before the first."""

    event: int = 0
    record: bytes = b""


class PostgresGraphs:
    """A source of candidates like the graph files, which compares vectors on the server."""

    def __init__(
        self, database: Database, store_id: int, *, readonly: bool, large: int = LARGE
    ) -> None:
        self._sessions = Sessions(database, store_id)
        self._store_id = store_id
        self._readonly = readonly
        self._large = large
        self._able: bool | None = None  # whether the server supports it
        self._schema = ""  # the extension's schema, quoted

    def covering(self, reader: Reader, model: Model) -> Covered[_Compared] | None:
        if not self._is_able():
            return None
        come, count = self._sessions.read(partial(self._seen, model=model))
        changed, deleted, last = events(reader, come.event)
        known = _knows(reader, come)
        if count + len(changed) <= self._large and known:
            return None
        if not known or len(changed) + len(deleted) > _FEW:
            if self._readonly:
                return None
            self._feed(reader)
            come, count = self._sessions.read(partial(self._seen, model=model))
            changed, _, last = events(reader, come.event)
        stamp = Stamp(model.id, model.dimension, 0, come.event, come.record)
        table = _Compared(self._sessions, self._store_id, model, count, self._schema)
        return Covered(stamp, table, frozenset(changed), last)

    def _seen(self, connection: Connection, model: Model) -> tuple[_VectorProgress, int]:
        """Return how far the table is, and its number of vectors for a model."""
        row = connection.execute(_COUNT, (self._store_id, model.id)).fetchone()
        return self._read(connection), int(row[0]) if row else 0

    def catch_up(self, store: Transactions, make: bool) -> None:
        """Update the table to the store, including removals.

        Removed bytes stay until all tables are rewritten, which only ``compact`` does: no client
        can use the table meanwhile, which all stores share.
        """
        if store.readonly or not self._is_able():
            return
        if not self._sessions.read(self._read).event:
            return
        with store.read() as reader:
            self._feed(reader)

    def _is_able(self) -> bool:
        if self._able is None:
            given = (_NEAR,)
            row = self._sessions.read(lambda one: one.execute(_HAS, given).fetchone())
            schema, tables = row or (None, False)
            self._schema = schema or ""
            self._able = schema is not None and (
                self._may() if tables else not self._readonly and self._made()
            )
        return self._able

    def _may(self) -> bool:
        """Whether the role has rights on the tables, which may be newer than its admission."""
        given = ("SELECT" if self._readonly else "DELETE",) * 2
        row = self._sessions.read(lambda one: one.execute(_MAY, given).fetchone())
        return row is not None and bool(row[0])

    def _made(self) -> bool:
        """Create the tables; returns False if the role may not."""
        columns = f"model bigint, seq bigint, v {self._schema}.vector"
        come = "event bigint, record bytea"

        def work(connection: Connection) -> None:
            # If many processes come at once, one creates the tables.
            connection.execute(f"LOCK TABLE {SCHEMA}.versions IN SHARE ROW EXCLUSIVE MODE")
            row = connection.execute(_HAS, (_NEAR,)).fetchone()
            if row is not None and not row[1]:
                for name, rest, key in ((_NEAR, columns, "model, seq"), (_COME, come, "")):
                    for text in stored_table(name, rest, key):
                        connection.execute(text)

        row = self._sessions.read(lambda one: one.execute(_OWNED).fetchone())
        if row is None or not row[0]:
            return False
        self._sessions.write(work)
        return True

    def _read(self, connection: Connection, *, lock: bool = False) -> _VectorProgress:
        given = (self._store_id,)
        if lock:
            connection.execute(_BEGIN, given)
        text = f"{_READ} FOR UPDATE" if lock else _READ
        row = connection.execute(text, given).fetchone()
        return _VectorProgress() if row is None else _VectorProgress(row[0], bytes(row[1]))

    def _feed(self, reader: Reader) -> None:
        found = reader.last_row(EVENTS)
        if found is not None:
            last = _VectorProgress(SEQUENCE.unpack(found[0])[0], found[1])
            self._sessions.write(partial(self._take, reader=reader, last=last))

    def _take(self, connection: Connection, reader: Reader, last: _VectorProgress) -> None:
        come = self._read(connection, lock=True)
        if come.event >= last.event:
            return  # another process has updated it, perhaps further
        known = _knows(reader, come)
        given = (self._store_id,)
        if known:
            changed, deleted, _ = events(reader, come.event)
            touched = sorted(changed | deleted)
            connection.execute(_DROP, (self._store_id, touched))
            rows = _some(reader, sorted(changed - deleted))
        else:
            connection.execute(_CLEAR, given)
            rows = _all(reader)
        while page := list(islice(rows, _TOGETHER)):
            connection.execute(
                _PUT.format(schema=self._schema),
                (self._store_id, *map(list, zip(*page, strict=True))),
            )
        connection.execute(_GO_ON, (last.event, last.record, self._store_id))

    def close(self) -> None:
        self._sessions.close()


class _Compared:
    def __init__(
        self, sessions: Sessions, store_id: int, model: Model, count: int, schema: str
    ) -> None:
        self._sessions = sessions
        self._given = {"store": store_id, "model": model.id}
        self._count = count
        self._text = _SEARCH.format(schema=schema)

    def __len__(self) -> int:
        return self._count

    def search(self, query: bytes, count: int) -> list[tuple[int, float]]:
        given: dict[str, Any] = {**self._given, "query": _text(unpacked(query)), "count": count}
        rows = self._sessions.read(lambda one: one.execute(self._text, given).fetchall())
        return [(int(seq), float(cosine)) for seq, cosine in rows]


def _knows(reader: Reader, come: _VectorProgress) -> bool:
    """Whether the table belongs to this store, also if it is ahead of a snapshot."""
    if not 0 < come.event <= reader.last_seq():
        return True
    return reader.row(EVENTS, SEQUENCE.pack(come.event)) == come.record


def _all(reader: Reader) -> Iterator[tuple[int, int, str]]:
    for model in models(reader):
        for key, row in reader.rows(VECTORS, prefix=model.prefix):
            yield from _row(model, int.from_bytes(key[-8:], "big"), row)


def _some(reader: Reader, seqs: Iterable[int]) -> Iterator[tuple[int, int, str]]:
    known, rest = models(reader), iter(seqs)
    while some := list(islice(rest, _TOGETHER)):
        for model in known:
            found = reader.some_rows(VECTORS, [model.key(seq) for seq in some])
            for seq in some:
                yield from _row(model, seq, found.get(model.key(seq)))


def _row(model: Model, seq: int, row: bytes | None) -> Iterator[tuple[int, int, str]]:
    """Yield a row of the table; none for a missing or damaged vector."""
    if row is not None and len(row) == 4 * model.dimension:
        values = unpacked(row)
        if 0 < math.hypot(*values) < math.inf:
            yield model.id, seq, _text(values)


def _text(values: array[float]) -> str:
    return "{" + ",".join(map(repr, values)) + "}"
