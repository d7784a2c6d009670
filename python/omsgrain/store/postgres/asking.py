# SPDX-License-Identifier: Apache-2.0
"""What is asked of a database before a store in it is opened, which might make one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from omsgrain.store.postgres.database import connected
from omsgrain.store.postgres.failures import failure
from omsgrain.store.postgres.migrating import found_version
from omsgrain.store.postgres.place import Place
from omsgrain.store.postgres.pool import Connection
from omsgrain.store.postgres.schema import SCHEMA
from omsgrain.store.postgres.tenants import DEFAULT

__all__ = ["is_store", "is_writable"]

_FIND = f"SELECT 1 FROM {SCHEMA}.stores WHERE tenant = %s"
_MAY = f"SELECT has_table_privilege('{SCHEMA}.blobs', 'INSERT')"


def is_store(url: str, tenant: str | None = None) -> bool:
    """Tell whether there is a store of a tenant that the role of the URL may see.

    Args:
        url: of the database.
        tenant: whose; None: that of a database with only one.

    Raises:
        StoreError: the database cannot be reached, or is none.
    """
    name = DEFAULT if tenant is None else tenant
    with _connected(url) as connection:
        if not found_version(connection):
            return False
        return connection.execute(_FIND, (name,)).fetchone() is not None


def is_writable(url: str) -> bool:
    """Tell whether the database takes writes, and takes them from the role of the URL.

    Raises:
        StoreError: the database cannot be reached, or is none.
    """
    with _connected(url) as connection:
        row = connection.execute("SHOW transaction_read_only").fetchone()
        if row is None or row[0] != "off":
            return False  # a standby, say
        if not found_version(connection):
            return True
        may = connection.execute(_MAY).fetchone()
        return bool(may and may[0])


@contextmanager
def _connected(url: str) -> Iterator[Connection]:
    place = Place.of(url)
    try:
        with connected(place) as connection:
            yield connection
    except psycopg.Error as error:
        raise failure(place, "look for a store", error) from None
