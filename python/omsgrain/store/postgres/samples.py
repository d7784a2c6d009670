# SPDX-License-Identifier: Apache-2.0
"""No samples of what is stored: ANALYZE keeps some values of each column in ``pg_statistic``.

What was removed from a table stays there until its next ANALYZE, and after it in free space of a
table that is not ours to write anew. Nothing is lost: plans go by keys, whatever is in them, and
the numbers of stores and grains are sampled as ever.
"""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain.store.postgres.schema import FIRST, SCHEMA
from omsgrain.store.postgres.texts import TEXTS, WORDS

__all__ = ["unsampled", "unsampled_tables"]


def unsampled(name: str, columns: str) -> str:
    """Make the statement that has columns of a table, and of its parts, sampled no more."""
    changes = [f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns.split()]
    return f"ALTER TABLE IF EXISTS {name} {', '.join(changes)}"


def unsampled_tables() -> Iterator[str]:
    """Make the statements for every table of the first two versions of the schema."""
    yield unsampled(f"{SCHEMA}.heads", "commits")
    yield unsampled(f"{SCHEMA}.blobs", "digest blob")
    yield unsampled(f"{SCHEMA}.addresses", "digest")
    yield unsampled(f"{SCHEMA}.terms", "key place")
    yield unsampled(f"{SCHEMA}.counts", "key")
    for name in FIRST:
        yield unsampled(f"{SCHEMA}.{name.replace('-', '_')}", "key value")
    yield unsampled(TEXTS, "digest key")
    yield unsampled(WORDS, "says about more words")
    # Of vectors; they are made by who first needs them.
    yield unsampled(f"{SCHEMA}.near", "v")
    yield unsampled(f"{SCHEMA}.near_come", "record")
