# SPDX-License-Identifier: Apache-2.0
"""The SQL statements on the tables of a store.

``$1`` is always the number of the store. ``unnest`` of one list is qualified with its schema, so
that no other role's function is called. With several lists, only the unqualified name works, and
the server takes it for its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TypeVar

from omsgrain.storage.base import Which
from omsgrain.storage.postgres.schema import SCHEMA, name_of
from omsgrain.storage.tables import DUE, STATES, Table

T = TypeVar("T")

ABOVE = b"\xff" * 512
"""Above every key and place: keys have at most 511 bytes."""

BEYOND = 1 << 63
"""Above every sequence number here; a key of eight bytes may name a higher one."""

TOGETHER = 10_000
"""Numbers or addresses per statement."""


def together(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Split a list into parts for one statement each."""
    return (items[start : start + TOGETHER] for start in range(0, len(items), TOGETHER))


READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"
FIRST_DUE = f"SELECT key FROM {name_of(DUE)} WHERE store_id = $1 ORDER BY key LIMIT 1"
HEAD = (
    f"SELECT last_seq, blob_bytes, grains, ordinal, ({FIRST_DUE}) "
    f"FROM {SCHEMA}.heads WHERE store_id = $1"
)
LOCKED_HEAD = (
    f"SELECT last_seq, blob_bytes, grains, ordinal, commits FROM {SCHEMA}.heads "
    "WHERE store_id = $1 FOR UPDATE"
)

GET = (
    f"SELECT b.blob FROM {SCHEMA}.addresses a "
    f"JOIN {SCHEMA}.blobs b ON b.store_id = a.store_id AND b.seq = a.seq "
    "WHERE a.store_id = $1 AND a.digest = $2"
)
# The planner cannot make a join from a look-up with a LIMIT. A join would read the whole store
# where statistics are missing.
NAMED = (
    "SELECT f.digest, f.blob FROM pg_catalog.unnest($2::bytea[]) u (d) CROSS JOIN LATERAL "
    f"(SELECT a.digest, b.blob FROM {SCHEMA}.addresses a JOIN {SCHEMA}.blobs b "
    "ON b.store_id = a.store_id AND b.seq = a.seq "
    "WHERE a.store_id = $1 AND a.digest = u.d LIMIT 1) f"
)
FIND = (
    "SELECT f.digest, f.seq FROM pg_catalog.unnest($2::bytea[]) u (d) CROSS JOIN LATERAL "
    f"(SELECT a.digest, a.seq FROM {SCHEMA}.addresses a "
    "WHERE a.store_id = $1 AND a.digest = u.d LIMIT 1) f"
)
BLOB = f"SELECT blob FROM {SCHEMA}.blobs WHERE store_id = $1 AND seq = $2"
GRAINS = (
    "SELECT f.seq, f.digest, f.blob FROM pg_catalog.unnest($2::bigint[]) u (s) CROSS JOIN LATERAL "
    f"(SELECT b.seq, b.digest, b.blob FROM {SCHEMA}.blobs b "
    "WHERE b.store_id = $1 AND b.seq = u.s LIMIT 1) f ORDER BY f.seq"
)
BLOBS = (
    "SELECT f.seq, f.blob FROM pg_catalog.unnest($2::bigint[]) u (s) CROSS JOIN LATERAL "
    f"(SELECT b.seq, b.blob FROM {SCHEMA}.blobs b "
    "WHERE b.store_id = $1 AND b.seq = u.s LIMIT 1) f"
)
PAGE = (
    "SELECT seq, digest, blob FROM (SELECT seq, digest, blob, "
    "sum(octet_length(blob)) OVER (ORDER BY seq) - octet_length(blob) AS before "
    f"FROM {SCHEMA}.blobs WHERE store_id = $1 AND seq > $2 ORDER BY seq LIMIT $3) p "
    "WHERE before < $4 ORDER BY seq"
)

_TERMS = f"FROM {SCHEMA}.terms w WHERE store_id = $1 AND key = $2"
_BETWEEN = f"FROM {SCHEMA}.terms WHERE store_id = $1 AND key >= $2 AND key <= $3"
_COUNTED = {"current": "current", "past": "past", "all": "current + past"}
_STATE = {"current": " AND past = false", "past": " AND past = true", "all": ""}
_IS = {"current": "t.past = false", "past": "t.past = true", "all": "t.past IN (false, true)"}
_PASTS = {
    "current": "(VALUES (false))",
    "past": "(VALUES (true))",
    "all": "(VALUES (false), (true))",
}


@cache
def term_count(which: Which) -> str:
    """Count the grains of a term, from its row in ``counts`` if it has one."""
    return (
        f"SELECT coalesce((SELECT {_COUNTED[which]} FROM {SCHEMA}.counts "
        f"WHERE store_id = $1 AND key = $2), (SELECT count(*) {_TERMS}{_STATE[which]}))"
    )


@cache
def has_term(which: Which) -> str:
    return (
        "SELECT f.place FROM pg_catalog.unnest($3::bytea[]) u (p) "
        f"CROSS JOIN {_PASTS[which]} v (x) CROSS JOIN LATERAL "
        f"(SELECT t.place FROM {SCHEMA}.terms t WHERE t.store_id = $1 "
        "AND t.key = $2 AND t.past = v.x AND t.place = u.p LIMIT 1) f"
    )


# A grain has the same place under all its terms; the number at its end leads to the rest.
_STATE_AT = (
    f"(SELECT s.value FROM {name_of(STATES)} s WHERE s.store_id = $1 "
    "AND s.key = '\\x00000000'::bytea || substring(w.place from 13))"
)
_NUMBER_AT = " + ".join(
    [f"(get_byte(q.place, {12 + n})::bigint << {24 - 8 * n})" for n in range(4)]
)
_BLOB_AT = f"SELECT b.blob FROM {SCHEMA}.blobs b WHERE b.store_id = $1 AND b.seq = {_NUMBER_AT}"


@cache
def places(
    which: Which, newest: bool, terms: int = 0, states: bool = False, blobs: bool = False
) -> str:
    """Select the next places of a term, with the announced answers.

    ``$2`` is the term, ``$3`` the previous place, ``$4`` the limit. From ``$5`` on are the terms
    to look up for each place.
    """
    sign, order = ("<", "DESC") if newest else (">", "ASC")
    end = f"AND place {sign} $3 ORDER BY place {order} LIMIT $4"
    more = "".join([f", {_has(which, 5 + n)} AS has_{n}" for n in range(terms)])
    more += f", {_STATE_AT} AS state" if states else ""
    if which != "all":
        text = f"SELECT place{more} {_TERMS}{_STATE[which]} {end}"
    else:
        parts = [f"(SELECT place {_TERMS}{_STATE[one]} {end})" for one in ("current", "past")]
        both = " UNION ALL ".join(parts)
        text = f"SELECT place{more} FROM ({both}) w ORDER BY place {order} LIMIT $4"
    if not blobs:
        return text
    wanted = " AND ".join([f"has_{n}" for n in range(terms)]) or "true"
    blob = f"CASE WHEN {wanted} THEN ({_BLOB_AT}) END"
    return f"SELECT q.*, {blob} FROM ({text}) q ORDER BY place {order}"


def _has(which: Which, param: int) -> str:
    return (
        f"EXISTS (SELECT 1 FROM {SCHEMA}.terms t WHERE t.store_id = $1 AND t.key = ${param} "
        f"AND {_IS[which]} AND t.place = w.place)"
    )


@cache
def keys(which: Which, first: bool) -> str:
    """Select the next terms below ``$3``, from ``$2`` on or after it.

    It skips from key to key, however many rows a key has.
    """
    sign = ">=" if first else ">"
    return (
        "WITH RECURSIVE k (key, n) AS ("
        f"(SELECT key, 1 FROM {SCHEMA}.terms WHERE store_id = $1 AND key {sign} $2 AND key < $3 "
        "ORDER BY key LIMIT 1) UNION ALL "
        f"SELECT (SELECT t.key FROM {SCHEMA}.terms t WHERE t.store_id = $1 AND t.key > k.key "
        "AND t.key < $3 ORDER BY t.key LIMIT 1), k.n + 1 "
        "FROM k WHERE k.key IS NOT NULL AND k.n < $4) "
        f"SELECT key, EXISTS (SELECT 1 FROM {SCHEMA}.terms t "
        f"WHERE t.store_id = $1 AND t.key = k.key{_STATE[which]}) "
        "FROM k WHERE key IS NOT NULL ORDER BY key"
    )


@cache
def places_between(which: Which, newest: bool) -> str:
    """Select the next ``$5`` places after ``$4`` of the terms from ``$2`` to ``$3``."""
    sign, order = ("<", "DESC") if newest else (">", "ASC")
    return (
        f"SELECT place {_BETWEEN}{_STATE[which]} AND place {sign} $4 ORDER BY place {order} "
        "LIMIT $5"
    )


@cache
def count_between(which: Which) -> str:
    return f"SELECT count(*) FROM (SELECT 1 {_BETWEEN}{_STATE[which]} LIMIT $4) l"


@cache
def row(table: Table) -> str:
    return f"SELECT value FROM {name_of(table)} WHERE store_id = $1 AND key = $2"


@cache
def all_rows(table: Table) -> str:
    return f"SELECT key, value FROM {name_of(table)} WHERE store_id = $1"


@cache
def some_rows(table: Table) -> str:
    return (
        "SELECT f.key, f.value FROM pg_catalog.unnest($2::bytea[]) u (k) CROSS JOIN LATERAL "
        f"(SELECT t.key, t.value FROM {name_of(table)} t "
        "WHERE t.store_id = $1 AND t.key = u.k LIMIT 1) f"
    )


@cache
def rows(table: Table, first: bool) -> str:
    """Select the next rows below the key ``$3``, from ``$2`` on or after it."""
    return (
        f"SELECT key, value FROM {name_of(table)} WHERE store_id = $1 "
        f"AND key {'>=' if first else '>'} $2 AND key < $3 ORDER BY key LIMIT $4"
    )


@cache
def last_row(table: Table) -> str:
    return f"SELECT key, value FROM {name_of(table)} WHERE store_id = $1 ORDER BY key DESC LIMIT 1"


# --- writing -------------------------------------------------------------------------------------

ADD_BLOBS = (
    f"INSERT INTO {SCHEMA}.blobs (store_id, seq, digest, blob) SELECT $1, s, d, b "
    "FROM unnest($2::bigint[], $3::bytea[], $4::bytea[]) u (s, d, b)"
)
ADD_ADDRESSES = (
    f"INSERT INTO {SCHEMA}.addresses (store_id, digest, seq) "
    "SELECT $1, d, s FROM unnest($2::bytea[], $3::bigint[]) u (d, s)"
)
ADD_TERMS = (
    f"INSERT INTO {SCHEMA}.terms (store_id, key, past, place) SELECT $1, k, x, p "
    "FROM unnest($2::bytea[], $3::boolean[], $4::bytea[]) u (k, x, p)"
)
# One statement per row, many of them in one round trip.
MOVE_TERM = (
    f"UPDATE {SCHEMA}.terms SET past = NOT $3 WHERE store_id = $1 AND key = $2 AND past = $3 "
    "AND place = $4 RETURNING key, past"
)
DROP_TERM = (
    f"DELETE FROM {SCHEMA}.terms WHERE store_id = $1 AND key = $2 AND past = $3 AND place = $4 "
    "RETURNING key, past, place"
)
TERMS_BY_NUMBER = (
    f"SELECT key, place FROM {SCHEMA}.terms WHERE store_id = $1 AND substring(place from 13) = $2"
)
DROP_ADDRESS = f"DELETE FROM {SCHEMA}.addresses WHERE store_id = $1 AND digest = $2 AND seq = $3"
DROP_BLOB = f"DELETE FROM {SCHEMA}.blobs WHERE store_id = $1 AND seq = $2"
SET_HEAD = (
    f"UPDATE {SCHEMA}.heads SET last_seq = $2, blob_bytes = $3, grains = $4, ordinal = $5, "
    "commits = $6 WHERE store_id = $1"
)


SET_FORMAT = f"UPDATE {SCHEMA}.stores SET format = $2 WHERE store_id = $1"


@cache
def set_rows(table: Table) -> str:
    return (
        f"INSERT INTO {name_of(table)} (store_id, key, value) "
        "SELECT $1, k, v FROM unnest($2::bytea[], $3::bytea[]) u (k, v) "
        "ON CONFLICT (store_id, key) DO UPDATE SET value = excluded.value"
    )


@cache
def drop_row(table: Table) -> str:
    return f"DELETE FROM {name_of(table)} WHERE store_id = $1 AND key = $2"


@cache
def drop_rows(table: Table) -> str:
    """Delete at most ``$4`` rows from ``$2`` on and below ``$3``; return their number."""
    name = name_of(table)
    return (
        f"WITH d AS (DELETE FROM {name} WHERE store_id = $1 AND key >= $2 AND key < coalesce(("
        f"SELECT key FROM {name} WHERE store_id = $1 AND key >= $2 AND key < $3 "
        "ORDER BY key OFFSET $4 LIMIT 1), $3) RETURNING key) SELECT count(*) FROM d"
    )


# --- counts --------------------------------------------------------------------------------------

COUNTED = f"SELECT key, ordinal FROM {SCHEMA}.counts WHERE store_id = $1 AND ordinal > $2"
# All rows exist. Look them up by key and not by a join, for the same reason as above.
ADD_COUNTS = (
    f"INSERT INTO {SCHEMA}.counts AS c (store_id, key, ordinal, current, past) "
    "SELECT $1, k, 0, n, p FROM unnest($2::bytea[], $3::bigint[], $4::bigint[]) u (k, n, p) "
    "ON CONFLICT (store_id, key) DO UPDATE "
    "SET current = c.current + excluded.current, past = c.past + excluded.past"
)
MANY = (
    "SELECT u.k FROM pg_catalog.unnest($2::bytea[]) u (k) WHERE (SELECT count(*) FROM "
    f"(SELECT 1 FROM {SCHEMA}.terms t WHERE t.store_id = $1 AND t.key = u.k LIMIT $3) l) >= $3"
)
COUNT = (
    f"INSERT INTO {SCHEMA}.counts (store_id, key, ordinal, current, past) "
    "SELECT $1, u.k, $3 + u.n, "
    f"(SELECT count(*) FROM {SCHEMA}.terms t "
    "WHERE t.store_id = $1 AND t.key = u.k AND t.past = false), "
    f"(SELECT count(*) FROM {SCHEMA}.terms t "
    "WHERE t.store_id = $1 AND t.key = u.k AND t.past = true) "
    "FROM pg_catalog.unnest($2::bytea[]) WITH ORDINALITY u (k, n) "
    "ON CONFLICT (store_id, key) DO NOTHING"
)

# --- maintenance ---------------------------------------------------------------------------------

EMPTY_INDEX = (
    f"DELETE FROM {SCHEMA}.terms WHERE store_id = $1",
    f"DELETE FROM {SCHEMA}.counts WHERE store_id = $1",
)
SET_ADDRESSES = ADD_ADDRESSES + " ON CONFLICT (store_id, digest) DO UPDATE SET seq = excluded.seq"
DROP_STRAYS = (
    f"DELETE FROM {SCHEMA}.addresses a WHERE a.store_id = $1 AND "
    f"(SELECT b.seq FROM {SCHEMA}.blobs b WHERE b.store_id = a.store_id AND b.seq = a.seq "
    "AND b.digest = a.digest) IS NULL"
)
COUNT_ALL = (
    f"INSERT INTO {SCHEMA}.counts (store_id, key, ordinal, current, past) "
    "SELECT store_id, key, $2 + row_number() OVER (ORDER BY key), "
    "sum(CASE WHEN past THEN 0 ELSE 1 END), sum(CASE WHEN past THEN 1 ELSE 0 END) "
    f"FROM {SCHEMA}.terms WHERE store_id = $1 GROUP BY store_id, key HAVING count(*) >= $3"
)
LAST_ORDINAL = (
    f"SELECT coalesce((SELECT max(ordinal) FROM {SCHEMA}.counts WHERE store_id = $1), $2)"
)
WINDOW = (
    f"SELECT seq, substring(digest from 1 for 8) || substring(blob from 1 for 9) "
    f"FROM {SCHEMA}.blobs WHERE store_id = $1 AND seq BETWEEN $2 AND $3"
)
MISSING_TERMS = (
    "SELECT s.p FROM (SELECT u.p, "
    f"(SELECT t.place FROM {SCHEMA}.terms t WHERE t.store_id = $1 AND t.key = u.k "
    "AND t.past = u.x AND t.place = u.p) AS place "
    "FROM unnest($2::bytea[], $3::boolean[], $4::bytea[]) u (k, x, p)) s "
    "WHERE s.place IS NULL"
)
WRONG_COUNTS = (
    f"SELECT c.key FROM {SCHEMA}.counts c, LATERAL ("
    "SELECT coalesce(sum(CASE WHEN t.past THEN 0 ELSE 1 END), 0) AS now, "
    "coalesce(sum(CASE WHEN t.past THEN 1 ELSE 0 END), 0) AS was "
    f"FROM {SCHEMA}.terms t WHERE t.store_id = c.store_id AND t.key = c.key) n "
    "WHERE c.store_id = $1 AND (c.current <> n.now OR c.past <> n.was)"
)


@cache
def entries(name: str) -> str:
    return f"SELECT count(*) FROM {name} WHERE store_id = $1"
