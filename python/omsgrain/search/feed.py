# SPDX-License-Identifier: Apache-2.0
"""From the store to the text index: what has come since, page by page, by sequence number.

A page is read in a snapshot of its own, and written in a transaction together with the number it
reaches to. So a process that is killed has the pages before, another that feeds at the same time
takes turns, and no process holds a snapshot of the store while it waits for the index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from hashlib import sha256
from itertools import zip_longest
from typing import Any, TypeAlias

from omsgrain import _core
from omsgrain.grain import bare
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.search.words import COLUMNS, columns
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import (
    DELETED,
    EVENTS,
    SEQUENCE,
    event_of,
)

PAGE = 4_096
"""Grains a transaction, if they are small."""

Read: TypeAlias = Callable[[], AbstractContextManager[Reader]]
"""Opens a snapshot of the store."""

Words: TypeAlias = tuple[int, str, str, str]
"""The number of a grain, and the text of each of ``COLUMNS``, as ``for_index`` gives it."""

_TOGETHER = 128  # grains decoded at a time: unpacked, each can have a megabyte

_POSTINGS = "SELECT term, col, offset, doc FROM temp.postings"  # by term, and then by grain
_SIZES = "SELECT '', sz, id FROM words_docsize ORDER BY id"
_PUT = (
    f"INSERT INTO words (rowid, {', '.join(COLUMNS)}) VALUES (?, {', '.join('?' * len(COLUMNS))})"
)


@dataclass(frozen=True, slots=True)
class FeedState:
    """How far an index has come."""

    last: int  # the last sequence number of the store that it has seen
    known: int  # the number of a grain that it has taken in; 0 without one
    digest: bytes  # SHA-256 of that grain's bytes
    grains: int  # how many it has, those that are gone too


@dataclass(frozen=True, slots=True)
class FeedPage:
    """What is to be taken in next."""

    restart: bool  # the index is not of this store, or the store has fallen back: begin again
    blobs: list[tuple[int, bytes]]  # new ones, with their numbers
    removed: list[int]  # numbers of grains that are gone
    last: int  # the number that this reaches to


def state(db: sqlite3.Connection) -> FeedState:
    """Return how far an index has come."""
    match db.execute("SELECT last, known, digest, grains FROM state").fetchall():
        case [(int(last), int(known), bytes(digest), int(grains))]:
            return FeedState(last, known, digest, grains)
    raise sqlite3.DatabaseError("no state")


def next_page(read: Read, before: FeedState, *, sure: bool, most: int = PAGE) -> FeedPage | None:
    """Read what comes after the state of an index; None if nothing does."""
    with read() as reader:
        end = reader.last_seq()
        if sure and end == before.last:
            return None
        restart = end < before.last or not _knows(reader, before)
        if end == before.last and not restart:
            return None
        last = 0 if restart else before.last
        blobs = reader.page(last, min(PAGE, most))
        upto = blobs[-1][0] if blobs else end
        return FeedPage(restart, blobs, list(_removed(reader, last, upto)), upto)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Write all that is done inside, or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def write(db: sqlite3.Connection, page: FeedPage, before: FeedState) -> None:
    """Take in a page that follows a state, unless another process has done so."""
    with transaction(db):
        if state(db) != before:
            return
        if page.restart:
            _wipe(db)
            before = state(db)
        taken = 0
        for rows in rows_of(page):
            db.executemany(_PUT, rows)
            taken += len(rows)
        now = after(page, before, taken)
        db.execute(
            "UPDATE state SET last = ?, known = ?, digest = ?, grains = ?",
            (now.last, now.known, now.digest, now.grains),
        )
        _forget(db, page.removed)


def after(page: FeedPage, before: FeedState, taken: int) -> FeedState:
    """Return the state of an index that has taken in a page."""
    known, digest = before.known, before.digest
    if page.blobs:
        known, digest = page.blobs[-1][0], sha256(page.blobs[-1][1]).digest()
    elif known in page.removed:
        known, digest = 0, b""
    return FeedState(page.last, known, digest, before.grains + taken)


def rows_of(page: FeedPage) -> Iterator[list[Words]]:
    """Give what an index is given of a page, some grains at a time."""
    for start in range(0, len(page.blobs), _TOGETHER):
        yield list(_rows(page.blobs[start : start + _TOGETHER]))


def fill(db: sqlite3.Connection, read: Read) -> int:
    """Catch up an index that no other process has; return the number that it has come to."""
    while True:
        before = state(db)
        page = next_page(read, before, sure=True)
        if page is None:
            return before.last
        write(db, page, before)


def first_difference(db: sqlite3.Connection, other: sqlite3.Connection, upto: int) -> int | None:
    """Compare two indexes of a store, word by word, as far as the number that ``db`` has come to.

    Args:
        db: an index.
        other: one that has come as far, or further.
        upto: the number.

    Returns:
        The grain of the first word that is not in both; None if there is none.
    """
    left_out = gone(db) | gone(other)
    for select in (_POSTINGS, _SIZES):
        for one, two in zip_longest(*(_facts(i, select, upto, left_out) for i in (db, other))):
            if one != two:
                return int(min(filter(None, (one, two)), key=lambda f: (str(f[0]), f[-1]))[-1])
    return None


def _facts(db: sqlite3.Connection, select: str, upto: int, left_out: set[int]) -> Iterator[Any]:
    """What an index says of the grains that both may have, in order; the grain comes last."""
    vocabulary = "fts5vocab(main, words, instance)"
    db.execute(f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.postings USING {vocabulary}")
    return (f for f in db.execute(select) if f[-1] <= upto and f[-1] not in left_out)


def gone(db: sqlite3.Connection) -> set[int]:
    """The grains that were removed and whose words are still in the index."""
    return {seq for (seq,) in db.execute("SELECT seq FROM gone")}


def empty(db: sqlite3.Connection) -> None:
    """Empty the index, so that the next feed starts from the beginning."""
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
    db.execute("UPDATE state SET last = 0, known = 0, digest = x'', grains = 0")


def _rows(blobs: list[tuple[int, bytes]]) -> Iterator[Words]:
    """The words of each grain; those that cannot be read are sealed or damaged, and have none."""
    found = _core.decode_many([bare(blob) for _, blob in blobs])[0]
    for (seq, blob), fields in zip(blobs, found, strict=True):
        if fields is not None and not blob[1] & ENCRYPTED_BIT:
            yield (seq, *columns(fields))


def _knows(reader: Reader, before: FeedState) -> bool:
    """Whether the store still has the grain that the index knows, or says that it was removed."""
    if before.known == 0:
        return True
    blob = reader.blob_at(before.known)
    if blob is not None:
        return sha256(blob).digest() == before.digest
    return before.known in _removed(reader, before.last, reader.last_seq())


def _removed(reader: Reader, after: int, upto: int) -> Iterator[int]:
    """The grains that were removed by events with numbers in ``(after, upto]``."""
    for key, value in reader.rows(EVENTS, SEQUENCE.pack(after)):
        if SEQUENCE.unpack(key)[0] > upto:
            return
        kind, seq, _ = event_of(value)
        if kind == DELETED:
            yield seq
