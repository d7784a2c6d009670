# SPDX-License-Identifier: Apache-2.0
"""Fill the table ``words`` from the store: pages of grains, each in a transaction with its number.

The row of ``texts`` says how far the table is. A feeding process locks it first, so that processes
that feed one store take turns, and each sees the work of the previous one.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import psycopg

from omsgrain.search import feed
from omsgrain.search.feed import FeedPage, FeedState, Words
from omsgrain.search.stem import RULES
from omsgrain.search.words import GAP
from omsgrain.storage.postgres.connection import Database, Pause, failure, is_broken, is_clash
from omsgrain.storage.postgres.maintenance import compact
from omsgrain.storage.postgres.schema import TEXTS, WORDS

if TYPE_CHECKING:
    from omsgrain.storage.postgres.pool import Connection

LONGEST = 500
"""Characters of a word that count: a tsvector accepts words of 2,046 bytes."""

_MOST = 900_000  # maximum bytes of words in a tsvector, whose limit is 1 MiB
_WORD = re.compile("[0-9A-Za-z\x80-\U0010ffff]+")
_FOLD = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_GAP = GAP.strip()


class TextRow(NamedTuple):
    seq: int
    size: int
    says: str
    about: str
    more: str
    words: str
    wide: bool


def cut(word: str) -> str:
    return word[:LONGEST]


def framed(words: list[str]) -> str:
    """Return words in order, each with its own space on both sides."""
    return f" {'  '.join(words)} " if words else ""


def lexeme(store_id: int, word: str) -> str:
    """Return a word of a store for a tsvector or a tsquery: stores share an index of words."""
    return f"'{store_id}.{word}'"


def row_of(store_id: int, given: Words) -> TextRow:
    seq, *columns = given
    split = [[cut(word) for word in _WORD.findall(_folded(text))] for text in columns]
    different = {word for words in split for word in words}
    different.discard(_GAP)
    wide = sum(map(len, different)) > _MOST // 4 and (
        sum(len(word.encode()) + 12 for word in different) > _MOST
    )
    # In PostgreSQL's order, so that its answer can be compared.
    names = [] if wide else sorted(lexeme(store_id, word) for word in different)
    says, about, more = map(framed, split)
    return TextRow(seq, sum(map(len, split)), says, about, more, " ".join(names), wide)


def _folded(text: str) -> str:
    """Fold the case of ASCII letters; ``for_index`` folded the others."""
    return text.lower() if text.isascii() else text.translate(_FOLD)


_COME = (
    "SELECT last_seq, known, digest, grains, languages, rules, size, gone, key "
    f"FROM {TEXTS} WHERE store_id = %(store)s::bigint"
)
_BEGIN = (
    f"INSERT INTO {TEXTS} (store_id, last_seq, known, digest, grains, rules, size, gone) "
    f"VALUES (%(store)s, 0, 0, '', 0, {RULES}, 0, 0) ON CONFLICT (store_id) DO NOTHING"
)
_GO_ON = (
    f"UPDATE {TEXTS} SET last_seq = %(last)s, known = %(known)s, digest = %(digest)s, "
    "grains = %(grains)s, languages = %(languages)s, rules = %(rules)s, "
    "size = %(size)s, gone = %(gone)s WHERE store_id = %(store)s::bigint"
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


class IndexProgress(NamedTuple):
    state: FeedState  # the state that it has indexed
    size: int  # total number of words
    gone: int  # number of deleted rows whose content is not wiped yet
    key: Any  # gives a permitted role access to the words; None before the first row


_NOTHING = IndexProgress(FeedState(0, 0, b"", 0), 0, 0, None)


def progress(connection: Connection, store_id: int, *, lock: bool = False) -> IndexProgress:
    given = {"store": store_id}
    if lock:
        connection.execute(_BEGIN, given)
    text = f"{_COME} FOR UPDATE" if lock else _COME
    row = connection.execute(text, given).fetchone()
    if row is None:
        return _NOTHING
    last, known, digest, grains, languages, rules, size, gone, key = row
    state = FeedState(last, known, bytes(digest), grains, languages, rules)
    return IndexProgress(state, size, gone, key)


def write(connection: Connection, store_id: int, page: FeedPage, before: FeedState) -> None:
    """Index a page that follows a state, unless another process has done so."""
    now = progress(connection, store_id, lock=True)
    if now.state != before:
        return
    if page.restart:
        now = _cleared(connection, store_id, now)
    if page.removed:
        given = {"store": store_id, "gone": page.removed}
        fewer, less = connection.execute(_REMOVE, given).fetchone() or (0, 0)
        left = replace(now.state, grains=now.state.grains - fewer)
        now = now._replace(state=left, size=now.size - less, gone=now.gone + fewer)
    taken = languages = 0
    for some in feed.rows_of(page):
        languages |= some.languages
        rows = [row_of(store_id, one) for one in some.rows]
        if rows:
            columns = {name: [getattr(row, name) for row in rows] for name in rows[0]._fields}
            connection.execute(_PUT, {"store": store_id, **columns})
        taken += len(rows)
        now = now._replace(size=now.size + sum(row.size for row in rows))
    _go_on(connection, store_id, now._replace(state=feed.after(page, now.state, taken, languages)))


def empty(connection: Connection, store_id: int) -> None:
    """Delete all rows, so that the next feed starts over."""
    now = progress(connection, store_id, lock=True)
    _go_on(connection, store_id, _cleared(connection, store_id, now))


def wiped(connection: Connection, store_id: int, gone: int) -> None:
    """Record that the content of so many deleted rows is wiped."""
    now = progress(connection, store_id, lock=True)
    _go_on(connection, store_id, now._replace(gone=max(0, now.gone - gone)))


def _cleared(connection: Connection, store_id: int, now: IndexProgress) -> IndexProgress:
    fewer = connection.execute(_CLEAR, {"store": store_id}).rowcount
    return now._replace(state=_NOTHING.state, size=0, gone=now.gone + fewer)


def _go_on(connection: Connection, store_id: int, now: IndexProgress) -> None:
    given = {"store": store_id, "size": now.size, "gone": now.gone, **asdict(now.state)}
    connection.execute(_GO_ON, given)


T = TypeVar("T")

_CONNECTIONS = 4

# The pool's plans are generic and look up keys. A search needs a plan of its own, and the index of
# words returns bitmaps. The newest rows come from their own index without sorting: a store may
# have more of them than the planner assumes.
_PLANS = (
    "SET LOCAL plan_cache_mode = force_custom_plan",
    "SET LOCAL enable_bitmapscan = on",
    "SET LOCAL enable_sort = off",
)


class Sessions:
    """Connections for searches in the database of a store."""

    def __init__(self, database: Database, store_id: int) -> None:
        self._database = database.twin(_CONNECTIONS)
        self._let_go = weakref.finalize(self, self._database.close)
        self.store_id = store_id  # the number of the store
        self.place = database.place  # the address of the database, for errors

    def read(self, work: Callable[[Connection], T]) -> T:
        return self._run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` in a transaction, and retry after conflicts and lost connections.

        ``work`` must have the same effect when repeated: the answer to a commit can be lost.
        """
        return self._run("BEGIN ISOLATION LEVEL READ COMMITTED", work)

    def _run(self, begin: str, work: Callable[[Connection], T]) -> T:
        database = self._database
        pause = Pause(database.patience)
        opening = (begin, *_PLANS)
        while True:
            wire, _ = database.begin(*[(text, ()) for text in opening])
            try:
                connection = wire.plain()
                result = work(connection)
                connection.execute("COMMIT")
            except psycopg.Error as error:
                closed = wire.closed
                database.end(wire)
                if is_broken(error, closed):
                    database.pool.drop()
                elif not is_clash(error):
                    raise failure(self.place, "use the text index", error) from None
                if not pause.take():
                    raise failure(self.place, "use the text index", error) from None
            except BaseException:
                database.end(wire)
                raise
            else:
                database.end(wire, None)
                return result

    def rewrite(self, table: str) -> None:
        """Rewrite a table without deleted rows, which it keeps until a vacuum."""
        self._database.check_open()
        compact(self._database, [table])

    def close(self) -> None:
        self._let_go()
