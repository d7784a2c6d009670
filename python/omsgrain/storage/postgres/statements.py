# SPDX-License-Identifier: Apache-2.0
"""What the database is asked, as SQL.

The number of the store is the first parameter, unless lists are given: then it comes behind them.
``unnest`` of one list is named with its schema, so that nobody else's function is run. Of several
lists only the bare name will do, and the server takes it for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

from omsgrain.storage.base import Which
from omsgrain.storage.postgres.schema import FIRST, SCHEMA, TEXTS, WORDS, name_of
from omsgrain.storage.tables import STATES, Table

T = TypeVar("T")

ABOVE = b"\xff" * 512
"""Above every key and place: keys have 511 bytes at the most."""

BEYOND = 1 << 63
"""Above every number that a grain can have here; a key of eight bytes may name a higher one."""

TOGETHER = 10_000
"""Numbers or addresses asked for at a time."""


def together(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut a list into parts that are asked for at once."""
    return (items[start : start + TOGETHER] for start in range(0, len(items), TOGETHER))


READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
HEAD = f"SELECT last_seq, blob_bytes, grains, ordinal FROM {SCHEMA}.heads WHERE store_id = %b"
LOCKED_HEAD = (
    f"SELECT last_seq, blob_bytes, grains, ordinal, commits FROM {SCHEMA}.heads "
    "WHERE store_id = %b FOR UPDATE"
)

GET = (
    f"SELECT b.blob FROM {SCHEMA}.addresses a "
    f"JOIN {SCHEMA}.blobs b ON b.store_id = a.store_id AND b.seq = a.seq "
    "WHERE a.store_id = %b AND a.digest = %b"
)
# Whatever the planner believes of a table, it cannot make a join of a look-up with a LIMIT: that
# would read the whole store where there are no statistics yet.
NAMED = (
    "SELECT f.digest, f.seq, f.blob FROM pg_catalog.unnest(%b::bytea[]) u (d) CROSS JOIN LATERAL "
    f"(SELECT a.digest, b.seq, b.blob FROM {SCHEMA}.addresses a JOIN {SCHEMA}.blobs b "
    "ON b.store_id = a.store_id AND b.seq = a.seq "
    "WHERE a.store_id = %b AND a.digest = u.d LIMIT 1) f"
)
FIND = (
    "SELECT f.digest, f.seq FROM pg_catalog.unnest(%b::bytea[]) u (d) CROSS JOIN LATERAL "
    f"(SELECT a.digest, a.seq FROM {SCHEMA}.addresses a "
    "WHERE a.store_id = %b AND a.digest = u.d LIMIT 1) f"
)
BLOB = f"SELECT blob FROM {SCHEMA}.blobs WHERE store_id = %b AND seq = %b::bigint"
BLOBS = (
    "SELECT f.seq, f.blob FROM pg_catalog.unnest(%b::bigint[]) u (s) CROSS JOIN LATERAL "
    f"(SELECT b.seq, b.blob FROM {SCHEMA}.blobs b "
    "WHERE b.store_id = %b AND b.seq = u.s LIMIT 1) f"
)
PAGE = (
    "SELECT seq, digest, blob FROM (SELECT seq, digest, blob, "
    "sum(octet_length(blob)) OVER (ORDER BY seq) - octet_length(blob) AS before "
    f"FROM {SCHEMA}.blobs WHERE store_id = %b AND seq > %b::bigint ORDER BY seq LIMIT %b) p "
    "WHERE before < %b ORDER BY seq"
)

_TERMS = f"FROM {SCHEMA}.terms WHERE store_id = %b AND key = %b"
_COUNTED = {"current": "current", "past": "past", "all": "current + past"}
_STATE = {"current": " AND past = false", "past": " AND past = true", "all": ""}

COUNTS: dict[Which, str] = {
    which: f"SELECT coalesce((SELECT {_COUNTED[which]} FROM {SCHEMA}.counts "
    f"WHERE store_id = %b AND key = %b), (SELECT count(*) {_TERMS}{_STATE[which]}))"
    for which in ("current", "past", "all")
}
_PASTS = {
    "current": "(VALUES (false))",
    "past": "(VALUES (true))",
    "all": "(VALUES (false), (true))",
}
HAS: dict[Which, str] = {
    which: "SELECT f.place FROM pg_catalog.unnest(%b::bytea[]) u (p) "
    f"CROSS JOIN {_PASTS[which]} v (x) CROSS JOIN LATERAL "
    f"(SELECT t.place FROM {SCHEMA}.terms t WHERE t.store_id = %b "
    "AND t.key = %b AND t.past = v.x AND t.place = u.p LIMIT 1) f"
    for which in ("current", "past", "all")
}


_IS = {"current": "t.past = false", "past": "t.past = true", "all": "t.past IN (false, true)"}


@cache
def places(
    which: Which, newest: bool, terms: int = 0, states: bool = False, blobs: bool = False
) -> str:
    """Ask for the places of a term, in order, from behind one."""
    sign, order = ("<", "DESC") if newest else (">", "ASC")
    end = f"AND place {sign} %b ORDER BY place {order} LIMIT %b"
    more = "".join([f", {_has(which)} AS has_{n}" for n in range(terms)])
    more += f", {_STATE_AT} AS state" if states else ""
    if which != "all":
        text = f"SELECT place{more} {_TERMS_AT}{_STATE[which]} {end}"
    else:
        parts = [f"(SELECT place {_TERMS}{_STATE[one]} {end})" for one in ("current", "past")]
        both = " UNION ALL ".join(parts)
        text = f"SELECT place{more} FROM ({both}) w ORDER BY place {order} LIMIT %b"
    if not blobs:
        return text
    wanted = " AND ".join([f"has_{n}" for n in range(terms)]) or "true"
    blob = f"CASE WHEN {wanted} THEN ({_BLOB_AT}) END"
    return f"SELECT q.*, {blob} FROM ({text}) q ORDER BY place {order}"


# Each grain has the same place under all its terms; the number at its end leads to the rest.
_TERMS_AT = f"FROM {SCHEMA}.terms w WHERE store_id = %b AND key = %b"
_STATE_AT = (
    f"(SELECT s.value FROM {name_of(STATES)} s WHERE s.store_id = %b "
    "AND s.key = '\\x00000000'::bytea || substring(w.place from 13))"
)
_NUMBER_AT = " + ".join(
    [f"(get_byte(q.place, {12 + n})::bigint << {24 - 8 * n})" for n in range(4)]
)
_BLOB_AT = f"SELECT b.blob FROM {SCHEMA}.blobs b WHERE b.store_id = %b AND b.seq = {_NUMBER_AT}"


def _has(which: Which) -> str:
    return (
        f"EXISTS (SELECT 1 FROM {SCHEMA}.terms t WHERE t.store_id = %b AND t.key = %b "
        f"AND {_IS[which]} AND t.place = w.place)"
    )


# From each key to the next one, however many rows it has in between.
FIRST_KEY, NEXT_KEY = ">=", ">"
KEYS: dict[Which, str] = {
    which: "WITH RECURSIVE k (key, n) AS ("
    f"(SELECT key, 1 FROM {SCHEMA}.terms WHERE store_id = %b AND key {{first}} %b AND key < %b "
    "ORDER BY key LIMIT 1) UNION ALL "
    f"SELECT (SELECT t.key FROM {SCHEMA}.terms t WHERE t.store_id = %b AND t.key > k.key "
    "AND t.key < %b ORDER BY t.key LIMIT 1), k.n + 1 "
    "FROM k WHERE k.key IS NOT NULL AND k.n < %b) "
    f"SELECT key, EXISTS (SELECT 1 FROM {SCHEMA}.terms t "
    f"WHERE t.store_id = %b AND t.key = k.key{_STATE[which]}) "
    "FROM k WHERE key IS NOT NULL ORDER BY key"
    for which in ("current", "past", "all")
}


@cache
def row(table: Table) -> str:
    """Ask for the value of a key."""
    return f"SELECT value FROM {name_of(table)} WHERE store_id = %b AND key = %b"


@cache
def all_rows(table: Table) -> str:
    """Ask for all rows."""
    return f"SELECT key, value FROM {name_of(table)} WHERE store_id = %b"


@cache
def some_rows(table: Table) -> str:
    """Ask for the values of some keys."""
    return (
        "SELECT f.key, f.value FROM pg_catalog.unnest(%b::bytea[]) u (k) CROSS JOIN LATERAL "
        f"(SELECT t.key, t.value FROM {name_of(table)} t "
        "WHERE t.store_id = %b AND t.key = u.k LIMIT 1) f"
    )


@cache
def rows_from(table: Table) -> str:
    """Ask for the rows from a key on, below another one."""
    return _walk(table, ">=")


@cache
def rows_after(table: Table) -> str:
    """Ask for the rows behind a key, below another one."""
    return _walk(table, ">")


def _walk(table: Table, sign: str) -> str:
    return (
        f"SELECT key, value FROM {name_of(table)} WHERE store_id = %b "
        f"AND key {sign} %b AND key < %b ORDER BY key LIMIT %b"
    )


@cache
def last_row(table: Table) -> str:
    """Ask for the row with the highest key."""
    return f"SELECT key, value FROM {name_of(table)} WHERE store_id = %b ORDER BY key DESC LIMIT 1"


# --- writing -------------------------------------------------------------------------------------

ADD_BLOBS = (
    f"INSERT INTO {SCHEMA}.blobs (store_id, seq, digest, blob) "
    "SELECT %b::bigint, s, d, b "
    "FROM unnest(%b::bigint[], %b::bytea[], %b::bytea[]) u (s, d, b)"
)
ADD_ADDRESSES = (
    f"INSERT INTO {SCHEMA}.addresses (store_id, digest, seq) "
    "SELECT %b::bigint, d, s FROM unnest(%b::bytea[], %b::bigint[]) u (d, s)"
)
ADD_TERMS = (
    f"INSERT INTO {SCHEMA}.terms (store_id, key, past, place) "
    "SELECT %b::bigint, k, x, p "
    "FROM unnest(%b::bytea[], %b::boolean[], %b::bytea[]) u (k, x, p)"
)
# One for each row, many on the way at a time.
MOVE_TERM = (
    f"UPDATE {SCHEMA}.terms SET past = %b WHERE store_id = %b AND key = %b AND past = %b "
    "AND place = %b RETURNING key, past"
)
DROP_TERM = (
    f"DELETE FROM {SCHEMA}.terms WHERE store_id = %b AND key = %b AND past = %b AND place = %b "
    "RETURNING key, past, place"
)
TERMS_BY_NUMBER = (
    f"SELECT key, place FROM {SCHEMA}.terms WHERE store_id = %b AND substring(place from 13) = %b"
)
DROP_ADDRESS = (
    f"DELETE FROM {SCHEMA}.addresses WHERE store_id = %b AND digest = %b AND seq = %b::bigint"
)
DROP_BLOB = f"DELETE FROM {SCHEMA}.blobs WHERE store_id = %b AND seq = %b::bigint"
GRAINS = (
    "SELECT f.seq, f.digest, f.blob FROM pg_catalog.unnest(%b::bigint[]) u (s) CROSS JOIN LATERAL "
    f"(SELECT b.seq, b.digest, b.blob FROM {SCHEMA}.blobs b "
    "WHERE b.store_id = %b AND b.seq = u.s LIMIT 1) f ORDER BY f.seq"
)
SET_HEAD = (
    f"UPDATE {SCHEMA}.heads SET last_seq = %b, blob_bytes = %b, grains = %b, ordinal = %b, "
    "commits = %b WHERE store_id = %b"
)


@cache
def set_rows(table: Table) -> str:
    """Set the values of keys."""
    return (
        f"INSERT INTO {name_of(table)} (store_id, key, value) "
        "SELECT %b::bigint, k, v FROM unnest(%b::bytea[], %b::bytea[]) u (k, v) "
        "ON CONFLICT (store_id, key) DO UPDATE SET value = excluded.value"
    )


@cache
def drop_row(table: Table) -> str:
    """Delete a key."""
    return f"DELETE FROM {name_of(table)} WHERE store_id = %b AND key = %b"


@cache
def drop_rows(table: Table) -> str:
    """Delete the rows from a key on, below another one, so many at the most; tell how many."""
    name = name_of(table)
    return (
        f"WITH d AS (DELETE FROM {name} WHERE store_id = %b AND key >= %b AND key < coalesce(("
        f"SELECT key FROM {name} WHERE store_id = %b AND key >= %b AND key < %b "
        "ORDER BY key OFFSET %b LIMIT 1), %b) RETURNING key) SELECT count(*) FROM d"
    )


# --- counts --------------------------------------------------------------------------------------

COUNTED = f"SELECT key, ordinal FROM {SCHEMA}.counts WHERE store_id = %b AND ordinal > %b"
# Each is there; by its key, and not by a join, for the same reason as above.
ADD_COUNTS = (
    f"INSERT INTO {SCHEMA}.counts AS c (store_id, key, ordinal, current, past) "
    "SELECT %b::bigint, k, 0, n, p "
    "FROM unnest(%b::bytea[], %b::bigint[], %b::bigint[]) u (k, n, p) "
    "ON CONFLICT (store_id, key) DO UPDATE "
    "SET current = c.current + excluded.current, past = c.past + excluded.past"
)
MANY = (
    "SELECT u.k FROM pg_catalog.unnest(%b::bytea[]) u (k) WHERE (SELECT count(*) FROM "
    f"(SELECT 1 FROM {SCHEMA}.terms t WHERE t.store_id = %b AND t.key = u.k LIMIT %b) l) >= %b"
)
COUNT = (
    f"INSERT INTO {SCHEMA}.counts (store_id, key, ordinal, current, past) "
    "SELECT %b::bigint, u.k, %b::bigint + u.n, "
    f"(SELECT count(*) FROM {SCHEMA}.terms t "
    "WHERE t.store_id = %b AND t.key = u.k AND t.past = false), "
    f"(SELECT count(*) FROM {SCHEMA}.terms t "
    "WHERE t.store_id = %b AND t.key = u.k AND t.past = true) "
    "FROM pg_catalog.unnest(%b::bytea[]) WITH ORDINALITY u (k, n) "
    "ON CONFLICT (store_id, key) DO NOTHING"
)

# --- upkeep --------------------------------------------------------------------------------------

WATCHED = f"SELECT row_security_active('{SCHEMA}.terms')"
EMPTY_INDEX = (
    f"DELETE FROM {SCHEMA}.terms WHERE store_id = %b",
    f"DELETE FROM {SCHEMA}.counts WHERE store_id = %b",
)
SET_ADDRESSES = ADD_ADDRESSES + " ON CONFLICT (store_id, digest) DO UPDATE SET seq = excluded.seq"
DROP_STRAYS = (
    f"DELETE FROM {SCHEMA}.addresses a WHERE a.store_id = %b AND "
    f"(SELECT b.seq FROM {SCHEMA}.blobs b WHERE b.store_id = a.store_id AND b.seq = a.seq "
    "AND b.digest = a.digest) IS NULL"
)
COUNT_ALL = (
    f"INSERT INTO {SCHEMA}.counts (store_id, key, ordinal, current, past) "
    "SELECT store_id, key, %b::bigint + row_number() OVER (ORDER BY key), "
    "sum(CASE WHEN past THEN 0 ELSE 1 END), sum(CASE WHEN past THEN 1 ELSE 0 END) "
    f"FROM {SCHEMA}.terms WHERE store_id = %b GROUP BY store_id, key HAVING count(*) >= %b"
)
LAST_ORDINAL = (
    f"SELECT coalesce((SELECT max(ordinal) FROM {SCHEMA}.counts WHERE store_id = %b), %b::bigint)"
)
_OURS = (
    "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
    f"WHERE n.nspname = '{SCHEMA}' AND c.relkind IN ('r', 'p')"
)
TABLES = f"SELECT '{SCHEMA}.' || quote_ident(c.relname) {_OURS} AND NOT c.relispartition"
OWNED = f"SELECT bool_and(pg_has_role(c.relowner, 'USAGE')) {_OURS}"
SIZE = f"SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint {_OURS}"

# --- check ---------------------------------------------------------------------------------------

WINDOW = (
    f"SELECT seq, substring(digest from 1 for 8) || substring(blob from 1 for 9) "
    f"FROM {SCHEMA}.blobs WHERE store_id = %b AND seq BETWEEN %b::bigint AND %b::bigint"
)
MISSING_TERMS = (
    "SELECT s.p FROM (SELECT u.p, "
    f"(SELECT t.place FROM {SCHEMA}.terms t WHERE t.store_id = %b AND t.key = u.k "
    "AND t.past = u.x AND t.place = u.p) AS place "
    "FROM unnest(%b::bytea[], %b::boolean[], %b::bytea[]) u (k, x, p)) s "
    "WHERE s.place IS NULL"
)
WRONG_COUNTS = (
    f"SELECT c.key FROM {SCHEMA}.counts c, LATERAL ("
    "SELECT coalesce(sum(CASE WHEN t.past THEN 0 ELSE 1 END), 0) AS now, "
    "coalesce(sum(CASE WHEN t.past THEN 1 ELSE 0 END), 0) AS was "
    f"FROM {SCHEMA}.terms t WHERE t.store_id = c.store_id AND t.key = c.key) n "
    "WHERE c.store_id = %b AND (c.current <> n.now OR c.past <> n.was)"
)


@cache
def entries(name: str) -> str:
    """Count the rows of a table."""
    return f"SELECT count(*) FROM {name} WHERE store_id = %b"


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
