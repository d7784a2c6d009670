# SPDX-License-Identifier: Apache-2.0
"""No samples of what is stored: ANALYZE keeps some values of each column in ``pg_statistic``.

What was removed from a table stays there until its next ANALYZE, and after it in free space of a
table that is not ours to write anew. Nothing is lost: plans go by keys, whatever is in them, and
the numbers of stores and grains are sampled as ever. So are names of tenants and of roles, whose
rows no erasure removes.
"""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain.store.postgres.schema import FIRST, SCHEMA
from omsgrain.store.postgres.texts import TEXTS, WORDS

__all__ = ["unsampled", "unsampled_tables"]


def unsampled(name: str, columns: str) -> str:
    """Make the statement that has columns of a table, and of its parts, sampled no more."""
    changes = [f"ALTER COLUMN {column} SET STATISTICS 0" for column in columns.split()]
    return f"ALTER TABLE {name} {', '.join(changes)}"


def unsampled_tables() -> Iterator[str]:
    """Make the statements for every table of the first two versions of the schema."""
    yield unsampled(f"{SCHEMA}.heads", "commits")
    yield unsampled(f"{SCHEMA}.blobs", "digest blob")
    yield unsampled(f"{SCHEMA}.addresses", "digest")
    yield unsampled(f"{SCHEMA}.terms", "key place")
    yield unsampled(f"{SCHEMA}.counts", "key")
    for name in FIRST:
        yield unsampled(f"{SCHEMA}.{name.replace('-', '_')}", "key value")
    # These came later, and may be of who needed them first: none is a reason not to open.
    yield _if_ours(TEXTS, "digest key")
    yield _if_ours(WORDS, "says about more words")
    yield _if_ours(f"{SCHEMA}.near", "v")
    yield _if_ours(f"{SCHEMA}.near_come", "record")


def _if_ours(name: str, columns: str) -> str:
    """Do as ``unsampled`` if there is such a table, and the role may alter it."""
    ours = f"SELECT pg_has_role(relowner, 'USAGE') FROM pg_class WHERE oid = to_regclass('{name}')"
    return f"DO $$ BEGIN IF ({ours}) THEN {unsampled(name, columns)}; END IF; END $$"
