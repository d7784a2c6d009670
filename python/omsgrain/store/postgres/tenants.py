# SPDX-License-Identifier: Apache-2.0
"""Stores by name, and the roles that may see them.

A database's roles are the walls between tenants. Each row of ``stores`` names the roles that may
see the store: the one that made it, and those that were admitted. Whatever a transaction says of
itself, a role gets the rows of no other store. The role of a service makes, and so sees, the
stores of all its tenants, and of these the transaction's own setting picks one: what such a
service asks for by mistake, it does not get.

Superusers and roles with BYPASSRLS see everything: give none of them to a service that should not.
"""

from __future__ import annotations

import psycopg
from psycopg import sql

from omsgrain.errors import StoreError
from omsgrain.store.postgres import statements
from omsgrain.store.postgres.database import Database
from omsgrain.store.postgres.failures import failure
from omsgrain.store.postgres.pool import Connection
from omsgrain.store.postgres.schema import SCHEMA
from omsgrain.store.tables import FORMAT
from omsgrain.store.url import can_be_sent

__all__ = ["DEFAULT", "admit", "store_of"]

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
    """Return the number of a tenant's store; make it if it is not there.

    Raises:
        StoreError: there is none, and none may be made; or it is not for this role; or its rows
            have a newer format.
    """
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
        connection.execute(f"SET LOCAL omsgrain.store = '{int(made[0])}'")
        connection.execute(_HEAD, made)
    connection.execute("COMMIT")


def admit(database: Database, store_id: int, role: str) -> None:
    """Let a role of the database see and change the rows of one store.

    So with tables that the owner of ``stores`` makes later. On those that another role makes, or
    that came since an older version admitted it, it has no rights: admit it again.

    Raises:
        StoreError: there is no such role, or ours may not give it that right.
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
