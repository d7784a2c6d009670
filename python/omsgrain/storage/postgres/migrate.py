# SPDX-License-Identifier: Apache-2.0
"""Versions of the schema: how a database gets from the one that it has to the newest.

Each version is a list of statements that is never changed once it was released. They are applied
in one transaction, under a lock on a row of ``versions``, so that of many processes that come at
once one does it, and the others wait and find it done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
from psycopg import sql

from omsgrain.errors import StoreError
from omsgrain.storage.postgres import schema, statements
from omsgrain.storage.postgres.connection import (
    Database,
    Dialect,
    Pause,
    failure,
    is_away,
    is_clash,
    lock_timeout,
)
from omsgrain.storage.postgres.pool import Connection
from omsgrain.storage.postgres.schema import SCHEMA, first_tables, keyed_table, text_tables
from omsgrain.storage.postgres.statements import unsampled, unsampled_tables
from omsgrain.storage.tables import FORMAT
from omsgrain.storage.url import can_be_sent

Step = Callable[[Dialect, int], Iterator[str]]


def _first(engine: Dialect, partitions: int) -> Iterator[str]:
    return first_tables(partitions if engine.parts else 0, engine.policies)


def _texts(engine: Dialect, partitions: int) -> Iterator[str]:
    return text_tables(engine.parts, engine.policies)


def _unsampled(engine: Dialect, partitions: int) -> Iterator[str]:
    return unsampled_tables() if engine.parts else iter(())


def _named(engine: Dialect, partitions: int) -> Iterator[str]:
    parts = partitions if engine.parts else 0
    yield from keyed_table(schema.NAMED, parts, engine.policies)
    if engine.parts:
        yield unsampled(f"{SCHEMA}.named_0", "key value")


_STEPS: tuple[Step, ...] = (_first, _texts, _unsampled, _named)
"""What makes version 1, 2 and so on."""

VERSION = len(_STEPS)
"""The version of the schema that this code reads and writes."""

_ENCODINGS = {"UTF8", "SQL_ASCII"}
"""Those of databases that take every letter; the second takes bytes as they are."""

_ABSENT = {"42P01", "3F000"}  # no such table, no such schema
_THERE = {"23505", "42P06", "42P07", "42710"}  # somebody else made it at the same moment

_NOT_OURS = "42501"  # what only the owner of a table may do

_VERSIONS = (
    f"CREATE SCHEMA IF NOT EXISTS {SCHEMA}",
    f"CREATE TABLE IF NOT EXISTS {SCHEMA}.versions "
    "(version integer PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())",
    f"INSERT INTO {SCHEMA}.versions (version) VALUES (0) ON CONFLICT DO NOTHING",
)


def migrate(database: Database, *, readonly: bool, partitions: int) -> None:
    """See that a database has the newest schema."""
    pause = Pause(database.patience)
    connection = database.connect()
    try:
        encoding = connection.info.parameter_status("server_encoding")
        if not readonly and encoding is not None and encoding not in _ENCODINGS:
            raise StoreError(
                f"{database.place.shown!r} has not all letters: make a database that has",
                expected="the encoding UTF8",
                found=encoding,
            )
        found = found_version(connection)
        if found > VERSION:
            raise StoreError(
                f"{database.place.shown!r} was written by a newer version of omsgrain",
                expected=f"schema version {VERSION} or older",
                found=f"schema version {found}",
            )
        if found == VERSION:
            return
        if readonly:
            raise _older(database, found)
        # A step alters tables that others may be vacuuming, and who comes meanwhile waits for us.
        connection.execute(lock_timeout(database.patience))
        while True:
            try:
                if not found:  # the right to make a schema is asked for also where there is one
                    _prepare(connection)
                _apply(connection, database.engine, partitions)
                return
            except psycopg.Error as error:
                if found and error.sqlstate == _NOT_OURS:
                    raise _older(database, found) from None
                if connection.closed or is_away(error) or not is_clash(error) or not pause.take():
                    raise
                connection.execute("ROLLBACK")
    except psycopg.Error as error:
        raise failure(database.place, "make the tables of the store", error) from None
    finally:
        connection.close()


def _older(database: Database, found: int) -> StoreError:
    """Make the error for who may not bring a database up."""
    what = "is not a store yet: open it once for writing"
    if found:
        what = (
            "was written by an older version: "
            "have the role that owns its tables open it once for writing"
        )
    return StoreError(
        f"{database.place.shown!r} {what}",
        expected=f"schema version {VERSION}",
        found=f"schema version {found}",
    )


def found_version(connection: Connection) -> int:
    """Return the version of a database's schema; 0 if it has none."""
    try:
        row = connection.execute(f"SELECT max(version) FROM {SCHEMA}.versions").fetchone()
    except psycopg.Error as error:
        if error.sqlstate in _ABSENT:
            return 0
        raise
    return int(row[0] or 0) if row else 0


def _prepare(connection: Connection) -> None:
    for text in _VERSIONS:
        try:
            connection.execute(text)
        except psycopg.Error as error:
            if error.sqlstate not in _THERE:
                raise


def _apply(connection: Connection, engine: Dialect, partitions: int) -> None:
    connection.execute("BEGIN")
    connection.execute(f"SELECT version FROM {SCHEMA}.versions WHERE version = 0 FOR UPDATE")
    found = found_version(connection)
    for version, step in enumerate(_STEPS[found:], start=found + 1):
        for text in step(engine, partitions):
            connection.execute(text)
        insert = f"INSERT INTO {SCHEMA}.versions (version) VALUES (%s)"
        connection.execute(insert, (version,))
    connection.execute("COMMIT")


DEFAULT = "default"
"""The tenant of a database that has but one."""

_LONGEST = 200

_COMMON = f"{SCHEMA}.versions", f"{SCHEMA}.stores"
"""Tables that are not of one store.

Admitted roles may change whatever table their owner makes later (``_LATER``): a version of the
schema that adds one to these has to take INSERT, UPDATE and DELETE from them by name.
"""

_EVERY = "SELECT, INSERT, UPDATE, DELETE ON"
_LATER = f"ALTER DEFAULT PRIVILEGES FOR ROLE {{}} IN SCHEMA {SCHEMA} GRANT {_EVERY} TABLES TO {{}}"
_OWNER = (
    "SELECT tableowner::text FROM pg_tables "
    f"WHERE schemaname = '{SCHEMA}' AND tablename = 'stores'"
)
_FIND = f"SELECT store_id, format FROM {SCHEMA}.stores WHERE tenant = %s"
_MAKE = (
    f"WITH made AS (INSERT INTO {SCHEMA}.stores (tenant, roles, format) "
    "VALUES (%s, ARRAY[current_user::text], %s) ON CONFLICT (tenant) DO NOTHING "
    "RETURNING store_id) "
    "SELECT store_id FROM made"
)
_HEAD = (
    f"INSERT INTO {SCHEMA}.heads (store_id, last_seq, blob_bytes, grains, ordinal, commits) "
    "VALUES (%s, 0, 0, 0, 0, '')"
)


def store_of(database: Database, tenant: str, *, readonly: bool) -> int:
    """Return the number of a tenant's store; make it if it is not there."""
    if not (can_be_sent(tenant) and 0 < len(tenant.encode()) <= _LONGEST):
        raise StoreError("not the name of a tenant", expected=f"1 to {_LONGEST} bytes")
    connection = database.connect()
    try:
        found = connection.execute(_FIND, (tenant,)).fetchone()
        if found is None and not readonly:
            _make(connection, tenant)
            found = connection.execute(_FIND, (tenant,)).fetchone()
            if found is None:
                raise StoreError("the role may not see the store of that tenant")
    except psycopg.Error as error:
        raise failure(database.place, "open the store", error) from None
    finally:
        connection.close()
    if found is None:
        raise StoreError(f"there is no store of that tenant at {database.place.shown!r}")
    store_id, rows = found
    if rows > FORMAT:
        raise StoreError(
            f"the store at {database.place.shown!r} was written by a newer version of omsgrain",
            expected=f"store format {FORMAT} or older",
            found=f"store format {rows}",
        )
    return int(store_id)


def _make(connection: Connection, tenant: str) -> None:
    connection.execute("BEGIN")
    made = connection.execute(_MAKE, (tenant, FORMAT)).fetchone()
    if made is not None:  # else another process was faster
        connection.execute(f"SET LOCAL omsgrain.storage = '{int(made[0])}'")
        connection.execute(_HEAD, made)
    connection.execute("COMMIT")


def admit(database: Database, store_id: int, role: str) -> None:
    """Let a role of the database see and change the rows of one store.

    So with tables that the owner of ``stores`` makes later. On those that another role makes, or
    that came since an older version admitted it, it has no rights: admit it again.
    """
    name = sql.Identifier(role)
    rights = [("USAGE ON SCHEMA", SCHEMA), *(("SELECT ON", table) for table in _COMMON)]
    connection = database.connect()
    try:
        connection.execute("BEGIN")
        tables = [table for (table,) in connection.execute(statements.TABLES).fetchall()]
        rights += [(_EVERY, table) for table in tables if table not in _COMMON]
        for right, thing in rights:
            connection.execute(
                sql.SQL("GRANT {} {} TO {}").format(sql.SQL(right), sql.SQL(thing), name)
            )
        for (owner,) in connection.execute(_OWNER).fetchall():
            connection.execute(sql.SQL(_LATER).format(sql.Identifier(owner), name))
        connection.execute(
            f"UPDATE {SCHEMA}.stores SET roles = pg_catalog.array_append(roles, %s) "
            "WHERE store_id = %s AND NOT %s = ANY (roles)",
            (role, store_id, role),
        )
        connection.execute("COMMIT")
    except psycopg.Error as error:
        raise failure(database.place, "admit the role", error) from None
    finally:
        connection.close()
