# SPDX-License-Identifier: Apache-2.0
"""A storage in PostgreSQL: one database has the stores of many tenants, for many processes.

    store = PostgresStorage("postgresql://memory@db.example/fleet", tenant="robots")

Tables (``schema.py``). Every key begins with the number of the store. Blobs are stored by sequence
number, addresses map to sequence numbers, and index rows are (key, past, place). Each table of
life STATE or BLIND of ``storage/tables.py`` becomes a table of (key, value). Tables that grow with
the grains are hash-partitioned by the column after the store's number, so that extensions and
compatible engines can distribute them.

Numbers. Each store has a head row with its last number. A write transaction locks it first and
changes it last. So the writers of one store take turns across processes, each sees the work of the
earlier ones, and no reader sees number n + 1 without n. The cost: writers of one store wait for
each other's commits. Waiting threads of one process share a commit. Different stores do not wait.

Snapshots are REPEATABLE READ transactions that begin in the round trip of the first read. No
writer waits for them. Callers announce their next reads (``expect_places``, ``expecting``), which
are then fetched along. Index rows are written in the grain's own transaction: there is no
watermark.

Tenants. Row-level security, also forced on owners, restricts a connection to the rows of its
store, and only if the store's row names the connection's role. It is not forced on the owner of
the text index.

Lost connections. A snapshot in progress fails. Everything else is retried for ``patience``
seconds. If the answer to a commit is lost, the store finds out whether it was made.

    pool         URLs, connections, many statements in one round trip
    connection   database errors as StoreError, retries, transactions
    schema       all tables as SQL; versions of the schema; tenants and their roles
    statements   all other SQL
    rows         grains and index rows as statements
    cache        cached answers for the pages of an iteration, and for small tables
    reader       a snapshot
    writer       a write transaction
    storage      ``PostgresStorage``, and how works share a commit
    maintenance  check, rebuild, compact, backup
"""

from __future__ import annotations

from omsgrain.errors import UnsupportedError, packages_of

try:
    import psycopg
except ImportError:
    raise UnsupportedError(
        "a store in PostgreSQL needs psycopg", expected=packages_of("postgres")
    ) from None

if not psycopg.Pipeline.is_supported():
    raise UnsupportedError(
        "a store in PostgreSQL needs a newer client library",
        expected="libpq 14 or newer",
        found=f"libpq {psycopg.pq.version() // 10_000}",
    )

from omsgrain.storage.postgres.storage import PostgresStorage

__all__ = ["PostgresStorage"]
