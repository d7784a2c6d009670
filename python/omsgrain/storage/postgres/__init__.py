# SPDX-License-Identifier: Apache-2.0
"""A store in PostgreSQL: one database holds the stores of many tenants, for many processes.

    store = PostgresStorage("postgresql://memory@db.example/fleet", tenant="robots")

Tables (``schema.py``). Every key begins with the number of the store. Blobs lie under their
sequence numbers, addresses lead to those, index rows are (key, past, place), and each table of
life STATE or BLIND of ``storage/tables.py`` is one of (key, value). Tables that grow with the
grains are hash-partitioned by the column behind the store's number, so that extensions and engines
that speak PostgreSQL's language can spread them.

Numbers. Each store has a head row with its last number. A write transaction locks it first and
changes it last, so the writers of one store take turns whatever process they are in, each sees
what the ones before it did, and no reader ever sees number n + 1 without n. The price: the writers
of one store wait for one another's commits. Threads of one process that wait share a commit;
different stores do not wait at all.

Snapshots are REPEATABLE READ transactions, which begin in the round trip of their first question;
no writer waits for their end. Callers say what they will ask next (``expect_places``,
``expecting``), and it comes along. Index rows are written in the grain's own transaction: there is
no watermark.

Tenants. Row-level security, forced on owners too, shows a connection the rows of the store that it
was made for, and only if the store's row names the connection's role. It is not forced on the
owner of the text index.

A server or a connection that goes away: reads that have begun fail, everything else is tried again
until ``patience`` is over; where a commit's answer was lost, the store looks what became of it.

pool         what a URL says, connections, many statements in one round trip
connection   errors of the database as StoreError, what may be tried again; transactions
schema       every table as SQL; versions of the schema; tenants and their roles
statements   all other SQL
rows         grains and index rows as columns, on their way in by COPY or INSERT
cache        answers that are kept: of the pages of a walk, and of small tables
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
        "a store in PostgreSQL needs more packages", expected=packages_of("postgres")
    ) from None

if not psycopg.Pipeline.is_supported():
    raise UnsupportedError(
        "a store in PostgreSQL needs a newer client library",
        expected="libpq 14 or newer",
        found=f"libpq {psycopg.pq.version() // 10_000}",
    )

from omsgrain.storage.postgres.storage import PostgresStorage

__all__ = ["PostgresStorage"]
