# SPDX-License-Identifier: Apache-2.0
"""A store in PostgreSQL: one database holds the stores of many tenants, for many processes.

    store = PostgresStorage("postgresql://memory@db.example/fleet", tenant="robots")

Tables (``schema.py``). Every key begins with the number of the store. Blobs lie under their
sequence numbers, addresses lead to those, index rows are (key, past, place), and each table of
life STATE or BLIND of ``storage/tables.py`` is one of (key, value). What grows with the grains is
hash-partitioned by what stands behind the store's number, so that extensions and engines that
speak PostgreSQL's language can spread it.

Numbers. Each store has a head row with its last number. A write transaction locks it first and
changes it last, so the writers of one store take turns whatever process they are in, each sees
what the ones before it did, and nobody ever sees number n + 1 without n. The price: the writers of
one store wait for one another's commits. Threads of one process that wait share a commit;
different stores do not wait at all.

Snapshots are REPEATABLE READ transactions, which begin in the round trip of their first question;
nobody waits for their end. What will be asked next is said beforehand (``expect_places``,
``expecting``), and comes along. Index rows are written in the grain's own transaction:
there is nothing beyond a watermark.

Tenants. Row-level security, forced on owners too, shows a connection the rows of the store that it
was made for, and only if the store's row names the connection's role (``migrate.py``). It is not
forced on the owner of the text index (``schema.py``).

A server or a connection that goes away: reads that have begun fail, everything else is tried again
until ``patience`` is over; where a commit's answer was lost, it is found out what became of it.

What is here:

pool         what a URL says, connections, many statements in one round trip
connection   errors of the database as StoreError, what may be tried again; transactions
schema       every table as SQL
migrate      versions of the schema, and how a database gets the newest; tenants and their roles
statements   all other SQL
rows         grains and index rows as columns, on their way in by COPY or INSERT
reader       a snapshot, and what is read of many grains at once
writer       a write transaction, index rows, and how waiting works share a commit
write_cache  what a write transaction need not ask twice
maintenance  check, rebuild, compact, backup
storage      ``PostgresStorage``
"""

from __future__ import annotations

from omsgrain.storage.postgres.driver import check_driver  # isort: skip
from omsgrain.storage.postgres.storage import PostgresStorage

__all__ = [
    "PostgresStorage",
    "check_driver",
]
