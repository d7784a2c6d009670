# SPDX-License-Identifier: Apache-2.0
"""SQLite as rows S use it: blobs with five columns to search by, or documents as JSON.

Its input is ready before the clock starts: it computes no blob and no address.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benches import data
from omsgrain.batch import GrainBatch

DURABLE = "WAL, synchronous=FULL"
COLUMNS = ("subject", "relation", "object", "user_id", "created_at")
INSERT = f"INSERT INTO grains VALUES ({', '.join('?' * (2 + len(COLUMNS)))})"

Row = tuple[Any, ...]


def opened(path: Path) -> sqlite3.Connection:
    """A table with an index on each of five columns; each statement outside BEGIN is a commit.

    A commit waits for the disk, as that of a store does.
    """
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("PRAGMA journal_mode = WAL")
    database.execute("PRAGMA synchronous = FULL")
    columns = ", ".join(COLUMNS)
    database.execute(
        f"CREATE TABLE grains (address BLOB PRIMARY KEY, blob BLOB, {columns}) WITHOUT ROWID"
    )
    for column in COLUMNS:
        database.execute(f"CREATE INDEX by_{column} ON grains ({column})")
    return database


def rows(batch: GrainBatch, grains: Sequence[data.Fields]) -> list[Row]:
    """What to insert for encoded grains."""
    return [
        (digest, blob, *(fields[column] for column in COLUMNS))
        for digest, blob, fields in zip(batch.digests, batch.blobs, grains, strict=True)
    ]


def documents(path: Path, addresses: list[str], grains: list[data.Fields]) -> sqlite3.Connection:
    """A table of JSON documents by address, with an index for row S5."""
    table = sqlite3.connect(path)
    table.execute("PRAGMA journal_mode = WAL")
    columns = "subject, relation, current, created_at"
    table.execute(
        f"CREATE TABLE grains (address TEXT PRIMARY KEY, {columns}, document) WITHOUT ROWID"
    )
    table.execute(f"CREATE INDEX by_subject ON grains ({columns})")
    inserted = [
        (address, one["subject"], one["relation"], 1, one["created_at"], json.dumps(one))
        for address, one in zip(addresses, grains, strict=True)
    ]
    table.executemany("INSERT INTO grains VALUES (?, ?, ?, ?, ?, ?)", inserted)
    table.commit()
    return table
