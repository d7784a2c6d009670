# SPDX-License-Identifier: Apache-2.0
"""From the store to the table ``words``: pages of grains, each in a transaction with its number.

The row of ``texts`` says how far the table has come. Who feeds locks it first, so that processes
that feed one store take turns, and each finds what the one before has done.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from omsgrain.search import feed
from omsgrain.search.feed import Page, State
from omsgrain.search.postgres.rows import row_of
from omsgrain.store.postgres.texts import TEXTS, WORDS

if TYPE_CHECKING:
    from omsgrain.store.postgres.pool import Connection

__all__ = ["TEXTS", "WORDS", "Come", "come", "empty", "exists", "wiped", "write"]

_COME = (
    "SELECT last_seq, known, digest, grains, size, gone, key "
    f"FROM {TEXTS} WHERE store_id = %(store)s::bigint"
)
_BEGIN = (
    f"INSERT INTO {TEXTS} (store_id, last_seq, known, digest, grains, size, gone) "
    "VALUES (%(store)s, 0, 0, '', 0, 0, 0) ON CONFLICT (store_id) DO NOTHING"
)
_GO_ON = (
    f"UPDATE {TEXTS} SET last_seq = %(last)s, known = %(known)s, digest = %(digest)s, "
    "grains = %(grains)s, size = %(size)s, gone = %(gone)s WHERE store_id = %(store)s::bigint"
)
_PUT = (
    f"INSERT INTO {WORDS} (store_id, seq, size, says, about, more, words, wide) "
    "SELECT %(store)s::bigint, seq, size, says, about, more, words::tsvector, wide "
    "FROM unnest("
    "%(seq)s::bigint[], %(size)s::integer[], %(says)s::text[], %(about)s::text[], "
    "%(more)s::text[], %(words)s::text[], %(wide)s::boolean[]) "
    "AS given (seq, size, says, about, more, words, wide)"
)
_REMOVE = (
    f"WITH gone AS (DELETE FROM {WORDS} WHERE store_id = %(store)s::bigint "
    "AND seq = ANY (%(gone)s::bigint[]) RETURNING size) "
    "SELECT count(*), coalesce(sum(size), 0)::bigint FROM gone"
)
_CLEAR = f"DELETE FROM {WORDS} WHERE store_id = %(store)s::bigint"


class Come(NamedTuple):
    """How far the table of a store has come.

    Attributes:
        state: what it has seen of the store.
        size: how many words its grains have together.
        gone: how many rows were deleted since what they held was wiped out.
        key: opens the words of the store to a role that may see them; None before any.
    """

    state: State
    size: int
    gone: int
    key: Any


_NOTHING = Come(State(0, 0, b"", 0), 0, 0, None)


def come(connection: Connection, store_id: int, *, lock: bool = False) -> Come:
    """Return how far the table has come.

    Args:
        connection: in a transaction.
        store_id: the number of the store.
        lock: nobody else may feed until the end of the transaction.
    """
    given = {"store": store_id}
    if lock:
        connection.execute(_BEGIN, given)
    text = f"{_COME} FOR UPDATE" if lock else _COME
    row = connection.execute(text, given).fetchone()
    if row is None:
        return _NOTHING
    last, known, digest, grains, size, gone, key = row
    return Come(State(last, known, bytes(digest), grains), size, gone, key)


def exists(connection: Connection, store_id: int) -> bool:
    """Whether the store has anything in the tables."""
    return come(connection, store_id).key is not None


def write(connection: Connection, store_id: int, page: Page, before: State) -> None:
    """Take in a page that follows a state, unless another process has done so."""
    now = come(connection, store_id, lock=True)
    if now.state != before:
        return
    if page.anew:
        now = _cleared(connection, store_id, now)
    if page.removed:
        given = {"store": store_id, "gone": page.removed}
        fewer, less = connection.execute(_REMOVE, given).fetchone() or (0, 0)
        left = replace(now.state, grains=now.state.grains - fewer)
        now = now._replace(state=left, size=now.size - less, gone=now.gone + fewer)
    taken = 0
    for some in feed.rows_of(page):
        rows = [row_of(store_id, one) for one in some]
        if rows:
            columns = {name: [getattr(row, name) for row in rows] for name in rows[0]._fields}
            connection.execute(_PUT, {"store": store_id, **columns})
        taken += len(rows)
        now = now._replace(size=now.size + sum(row.size for row in rows))
    _go_on(connection, store_id, now._replace(state=feed.after(page, now.state, taken)))


def empty(connection: Connection, store_id: int) -> None:
    """Take out everything, so that it is made anew."""
    now = come(connection, store_id, lock=True)
    _go_on(connection, store_id, _cleared(connection, store_id, now))


def wiped(connection: Connection, store_id: int, gone: int) -> None:
    """Note that what so many deleted rows held was wiped out."""
    now = come(connection, store_id, lock=True)
    _go_on(connection, store_id, now._replace(gone=max(0, now.gone - gone)))


def _cleared(connection: Connection, store_id: int, now: Come) -> Come:
    """Delete all rows; return how far the table has come then."""
    fewer = connection.execute(_CLEAR, {"store": store_id}).rowcount
    return now._replace(state=_NOTHING.state, size=0, gone=now.gone + fewer)


def _go_on(connection: Connection, store_id: int, now: Come) -> None:
    given = {"store": store_id, "size": now.size, "gone": now.gone, **asdict(now.state)}
    connection.execute(_GO_ON, given)
