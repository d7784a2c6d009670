# SPDX-License-Identifier: Apache-2.0
"""Feed the text index from the store, page by page in the order of sequence numbers.

A page is read in its own snapshot, and written in one transaction together with its last number.
So a killed process keeps the earlier pages. Processes that feed the same index take turns. No
process holds a snapshot of the store while it waits for the index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import Any, NamedTuple, TypeAlias

from omsgrain import _core
from omsgrain.grain import bare
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.search.stem import RULES, language, stems
from omsgrain.search.words import COLUMN_OF, COLUMNS, GAP, PLAIN_KEYS, for_index, inside, lowered
from omsgrain.storage import records
from omsgrain.storage.base import Reader

PAGE = 4_096
"""Maximum grains per transaction."""

WATCHED_PAGE = 1_024
"""The same for a feed in the background or with progress: about 15 ms."""

Read: TypeAlias = Callable[[], AbstractContextManager[Reader]]
"""Opens a snapshot of the store."""

Words: TypeAlias = tuple[int, str, str, str]
"""The number of a grain, and its text for each of ``COLUMNS``, as ``columns`` makes it."""


class FeedRows(NamedTuple):
    """Rows for some grains, and the set of languages whose stems they have."""

    rows: list[Words]
    languages: int


_TOGETHER = 128  # grains to decode at a time: each can take a megabyte

_POSTINGS = "SELECT term, col, offset, doc FROM temp.postings"  # by term, then by grain
_SIZES = "SELECT '', sz, id FROM words_docsize ORDER BY id"
_PUT = (
    f"INSERT INTO words (rowid, {', '.join(COLUMNS)}) VALUES (?, {', '.join('?' * len(COLUMNS))})"
)


@dataclass(frozen=True, slots=True)
class FeedState:
    last: int  # the last sequence number that it includes
    known: int  # the number of an indexed grain; 0 if there is none
    digest: bytes  # SHA-256 of that grain's bytes
    grains: int  # number of indexed grains, including removed ones
    languages: int = 0  # the set of languages of the indexed grains
    rules: int = RULES  # by which the index was made


@dataclass(frozen=True, slots=True)
class FeedPage:
    restart: bool  # the index is of another store or newer than this one: start over
    blobs: list[tuple[int, bytes]]  # new blobs with their numbers
    removed: list[int]  # numbers of removed grains
    last: int  # the last sequence number of the page


def state(db: sqlite3.Connection) -> FeedState:
    sql = "SELECT last, known, digest, grains, languages FROM state"
    match db.execute(sql).fetchall():
        case [(int(last), int(known), bytes(digest), int(grains), int(languages))]:
            return FeedState(last, known, digest, grains, languages)
    raise sqlite3.DatabaseError("no state")


def next_page(read: Read, before: FeedState, *, sure: bool, most: int = PAGE) -> FeedPage | None:
    """Read the changes after the state of an index; None if there are none."""
    with read() as reader:
        end = reader.last_seq()
        if sure and end == before.last and before.rules == RULES:
            return None
        restart = end < before.last or not _knows(reader, before)
        if end == before.last and not restart:
            return None
        last = 0 if restart else before.last
        blobs = reader.page(last, min(PAGE, most))
        upto = blobs[-1][0] if blobs else end
        return FeedPage(restart, blobs, list(records.removed_numbers(reader, last, upto)), upto)


def lag(read: Read, now: FeedState) -> tuple[int, bool]:
    """Return how many grains an index lacks, at most, and whether it is of this store."""
    with read() as reader:
        end, grains = reader.last_seq(), reader.count()
        if end < now.last or not _knows(reader, now):
            return grains, False
        return min(end - now.last, grains), True


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def write(db: sqlite3.Connection, page: FeedPage, before: FeedState) -> None:
    """Write a page that follows a state, unless another process has done so."""
    with transaction(db):
        if state(db) != before:
            return
        if page.restart:
            _wipe(db)
            before = state(db)
        taken = languages = 0
        for some in rows_of(page):
            db.executemany(_PUT, some.rows)
            taken += len(some.rows)
            languages |= some.languages
        now = after(page, before, taken, languages)
        db.execute(
            "UPDATE state SET last = ?, known = ?, digest = ?, grains = ?, languages = ?",
            (now.last, now.known, now.digest, now.grains, now.languages),
        )
        _forget(db, page.removed)


def after(page: FeedPage, before: FeedState, taken: int, languages: int) -> FeedState:
    known, digest = before.known, before.digest
    if page.blobs:
        known, digest = page.blobs[-1][0], sha256(page.blobs[-1][1]).digest()
    elif known in page.removed:
        known, digest = 0, b""
    grains = before.grains + taken
    return FeedState(page.last, known, digest, grains, before.languages | languages)


def rows_of(page: FeedPage) -> Iterator[FeedRows]:
    """Yield the rows of a page, a few grains at a time."""
    for start in range(0, len(page.blobs), _TOGETHER):
        yield _rows(page.blobs[start : start + _TOGETHER])


def fill(db: sqlite3.Connection, read: Read) -> int:
    """Update an index that no other process uses; returns its last sequence number."""
    while True:
        before = state(db)
        page = next_page(read, before, sure=True)
        if page is None:
            return before.last
        write(db, page, before)


def first_difference(db: sqlite3.Connection, other: sqlite3.Connection, upto: int) -> int | None:
    """Return the grain of the first word that only one of two indexes has, up to a number."""
    left_out = gone(db) | gone(other)
    for select in (_POSTINGS, _SIZES):
        for one, two in zip_longest(*(_facts(i, select, upto, left_out) for i in (db, other))):
            if one != two:
                return int(min(filter(None, (one, two)), key=lambda f: (str(f[0]), f[-1]))[-1])
    return None


def _facts(db: sqlite3.Connection, select: str, upto: int, left_out: set[int]) -> Iterator[Any]:
    """Return the facts of an index about grains in both, in order, each ending with the grain."""
    vocabulary = "fts5vocab(main, words, instance)"
    db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.postings USING {vocabulary}")
    return (f for f in db.execute(select) if f[-1] <= upto and f[-1] not in left_out)


def gone(db: sqlite3.Connection) -> set[int]:
    return {seq for (seq,) in db.execute("SELECT seq FROM gone")}


def empty(db: sqlite3.Connection) -> None:
    """Empty the index, so that the next feed starts over."""
    with transaction(db):
        _wipe(db)


def _forget(db: sqlite3.Connection, seqs: Iterable[int]) -> None:
    db.executemany(
        "INSERT OR IGNORE INTO gone SELECT id FROM words_docsize WHERE id = ?",
        ((seq,) for seq in seqs),
    )


def _wipe(db: sqlite3.Connection) -> None:
    db.execute("INSERT INTO words (words) VALUES ('delete-all')")
    db.execute("DELETE FROM gone")
    db.execute("UPDATE state SET last = 0, known = 0, digest = x'', grains = 0, languages = 0")


def _rows(blobs: list[tuple[int, bytes]]) -> FeedRows:
    """Return the words of each grain; encrypted and damaged grains have none."""
    found = _core.decode_many([bare(blob) for _, blob in blobs])[0]
    rows: list[Words] = []
    languages = 0
    for (seq, blob), fields in zip(blobs, found, strict=True):
        if fields is not None and not blob[1] & ENCRYPTED_BIT:
            texts, number = columns(fields)
            rows.append((seq, *texts))
            languages |= 1 << number
    return FeedRows(rows, languages)


def columns(fields: Mapping[str, Any]) -> tuple[tuple[str, str, str], int]:
    """Return the texts of a grain for each of ``COLUMNS``, and the number of its language.

    The words come first, as they are written, then their stems.
    """
    found: tuple[list[str], list[str], list[str]] = ([], [], [])
    for name, value in fields.items():
        column = COLUMN_OF.get(name, 2)
        if column is None:
            continue
        if type(value) is str:
            found[column].append(value)
        elif type(value) is list or type(value) is dict:
            found[column].extend(inside(value, name not in PLAIN_KEYS))
    words = [lowered("\n".join(texts)) for texts in found]
    number = language({word for some in words for word in some})
    by_word = stems(number)
    says, about, more = (
        _column(texts, dict.fromkeys(map(by_word.__getitem__, some)))
        for texts, some in zip(found, words, strict=True)
    )
    return (says, about, more), number


def _column(texts: list[str], marked: dict[str, None]) -> str:
    """Return the text of a column, with marked stems; words without a stem give an empty one."""
    marked.pop("", None)
    said = GAP.join(map(for_index, texts))
    return f"{said}{GAP}{' '.join(marked)}" if marked else said


def _knows(reader: Reader, before: FeedState) -> bool:
    """Whether the index is of this store, and by our rules.

    The store has the grain that the index knows, or an event of its removal.
    """
    if before.rules != RULES:
        return False
    if before.known == 0:
        return True
    blob = reader.blob_at(before.known)
    if blob is not None:
        return sha256(blob).digest() == before.digest
    return before.known in records.removed_numbers(reader, before.last, reader.last_seq())
