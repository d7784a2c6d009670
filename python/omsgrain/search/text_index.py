# SPDX-License-Identifier: Apache-2.0
"""The text index of a store: which grains have which words, best first.

It stands beside the store's tables, in a file of SQLite's engine FTS5, and is caught up by
sequence number before it answers. Losing it loses nothing.

    index = TextIndex(directory / FILE)
    found = index.search(store.read, "shelf boxes")
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable, Set
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

from omsgrain.errors import StoreError
from omsgrain.search import feed, text_file
from omsgrain.search.feed import Read
from omsgrain.search.find import TRIES, Query, Row, Start, TextIndex
from omsgrain.search.rank import PhraseCounts, RankedMatches
from omsgrain.search.text_file import FILE, in_memory
from omsgrain.storage.base import CheckProblem
from omsgrain.storage.lmdb.budget import Budget

if TYPE_CHECKING:
    from omsgrain.search.nearest import Nearest
    from omsgrain.storage.base import Storage

P = ParamSpec("P")
T = TypeVar("T")


class DamagedError(StoreError):
    """The index was of no use and is empty now: catch up, and try again."""


class Handle:
    """The connection to an index."""

    def __init__(self, path: Path | None, *, readonly: bool, cache: int = text_file.CACHE) -> None:
        self._file = path
        self._path = path  # None once this handle works in memory
        self._readonly = readonly
        self._cache = cache
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._borrowed = False  # the connection is to a file that is not to be written
        self._closed = False
        with _all_lock:
            _all.add(self)

    @property
    def exists(self) -> bool:
        """Whether there is an index already."""
        return self._db is not None or (self._path is not None and self._path.exists())

    def check(self) -> None:
        """Refuse a handle that was closed, or came over a fork."""
        if self._closed:
            raise StoreError("the store is closed")
        if os.getpid() != self._process:
            raise StoreError("the store was opened before a fork; open it again in this process")

    def read(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do something that changes nothing."""
        with self._lock:
            self.check()
            try:
                return work(self._opened(), *args, **kwargs)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not text_file.is_damage(error):
                    raise text_file.failure(error) from error
                self._discard()
                raise DamagedError(
                    "the text index was damaged", found=type(error).__name__
                ) from error

    def write(
        self,
        work: Callable[Concatenate[sqlite3.Connection, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Do something that may change the index; raises as ``read`` does."""
        with self._lock:
            if self.read(lambda db: self._borrowed):
                copy = self.read(text_file.copied)
                self._let_go()
                self._db, self._path = copy, None
            return self.read(work, *args, **kwargs)

    def truncate(self) -> None:
        """Bring all that was written into the file itself, and empty the files beside it."""
        if self._file is None:
            return
        if not self._may_write(self._file):
            raise StoreError("a handle that only reads cannot clear the text index")
        sql = "PRAGMA wal_checkpoint(TRUNCATE)"
        if self.read(lambda db: db.execute(sql).fetchone())[0]:
            raise StoreError("another process does not let go of the text index; try again")

    def close(self) -> None:
        """Let go; a second call does nothing."""
        self._closed = True
        if os.getpid() == self._process:
            with self._lock:
                self._let_go()

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            path = self._path
            if path is not None and self._may_write(path):
                self._db = text_file.in_file(path)
            elif path is not None and (found := text_file.to_read(path)) is not None:
                self._db, self._borrowed = found, True
            else:
                self._db, self._path = text_file.in_memory(), None
            text_file.set_cache(self._db, self._cache)
        return self._db

    def _may_write(self, path: Path) -> bool:
        if self._readonly or not os.access(path.parent, os.W_OK):
            return False
        return os.access(path, os.W_OK) or not path.exists()

    def _discard(self) -> None:
        """Get rid of a damaged index; the next use has an empty one."""
        borrowed = self._borrowed
        self._let_go()
        if borrowed:
            self._path = None
        elif self._path is not None:
            text_file.remove(self._path)

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._borrowed = None, False

    def before_fork(self) -> bool:
        """Wait for a moment without work, not for long, and close the file."""
        still = self._lock.acquire(timeout=_FORK_PATIENCE)
        if still and self._path is not None:
            self._let_go()
        return still

    def after_fork(self) -> None:
        """Go on, in the parent; in the child nothing goes on."""
        self._lock.release()


_FORK_PATIENCE = 5.0
_all: weakref.WeakSet[Handle] = weakref.WeakSet()
_all_lock = threading.Lock()
_still: list[Handle] = []  # those that stand still for the fork under way


def _before_fork() -> None:
    _all_lock.acquire()
    _still.extend(handle for handle in list(_all) if handle.before_fork())


def _after_fork() -> None:
    for handle in _still:
        handle.after_fork()
    _still.clear()
    _all_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


class SqliteTextIndex(TextIndex):
    """An index in a file, or in memory."""

    def __init__(
        self, path: Path | None, *, readonly: bool = False, budget: Budget | None = None
    ) -> None:
        given = budget or Budget()
        self._handle = Handle(path, readonly=readonly, cache=given.text)
        self._page = given.page
        self._feeding = threading.Lock()
        self._sure = False  # the index is of this store
        self._counts = PhraseCounts()

    @property
    def exists(self) -> bool:
        """Whether there is an index already, so that it is of use to keep it up to date."""
        return self._handle.exists

    def catch_up(self, read: Read) -> int:
        """Take in what the store has and the index has not; a search does so by itself."""
        self._handle.check()
        with self._feeding:
            with suppress(DamagedError):
                return self._feed(read)
            return self._feed(read)

    def _feed(self, read: Read) -> int:
        while True:
            before = self._handle.read(feed.state)
            page = feed.next_page(read, before, sure=self._sure, most=self._page)
            self._sure = True
            if page is None:
                return before.last
            self._handle.write(feed.write, page, before)

    def start(self, read: Read, query: Query, seqs: Set[int] | None, size: int) -> Start:
        """Catch up, and begin to read the matches of a query."""
        damaged = False
        for _ in range(TRIES):
            upto = self.catch_up(read)
            walk = RankedMatches(self._counts, query, seqs)
            try:
                page = self._handle.read(_page_of, walk, size, upto)
            except DamagedError:
                if damaged:
                    raise
                damaged = True
                continue
            if page is not None:
                return Start(page, partial(self._next, walk))
        raise StoreError("the text index is made anew again and again", expected="one at a time")

    def _next(self, walk: RankedMatches, size: int) -> list[Row]:
        return self._handle.read(walk.page, size)

    def rebuild(self, read: Read) -> None:
        """Make an index that exists anew from the blobs; nothing else stays in its files."""
        if self.exists:
            self._handle.truncate()
            self._handle.write(feed.empty)
            self.catch_up(read)
            self._handle.truncate()

    def scrub(self, read: Read) -> None:
        """See that no word of removed grains stays in the files of the index."""
        if self.exists:
            self.catch_up(read)
            if self._handle.read(feed.gone):
                self.rebuild(read)
            else:
                self._handle.truncate()

    def check(self, read: Read) -> tuple[CheckProblem, ...]:
        """Compare an index that exists, word by word, with one that is made anew in memory.

        SQLite notices most damage when it meets it, and then the index is made anew unasked. This
        finds what it cannot notice.
        """
        if not self.exists:
            return ()
        with closing(in_memory()) as fresh:
            upto = feed.fill(fresh, read)
            try:
                self.catch_up(read)
                wrong = self._handle.read(feed.first_difference, fresh, upto)
                if wrong is None:
                    wrong = self._alive(read)
            except DamagedError:
                return (CheckProblem("text", None, "the text index was damaged; it is made anew"),)
        if wrong is None:
            return ()
        return (CheckProblem("text", wrong, "the text index is not what the grains give"),)

    def _alive(self, read: Read) -> int | None:
        """A grain that cannot be found though the store has it."""
        gone = self._handle.read(feed.gone)
        with read() as reader:
            return next((seq for seq in sorted(gone) if reader.blob_at(seq) is not None), None)

    def close(self) -> None:
        """Let go of the index; a second call does nothing."""
        self._handle.close()


def _page_of(db: Connection, walk: RankedMatches, size: int, upto: int) -> list[Row] | None:
    """Read a page of an index that has come so far; None if somebody makes it anew just now."""
    db.execute("BEGIN")
    try:
        return walk.page(db, size) if feed.state(db).last >= upto else None
    finally:
        db.execute("ROLLBACK")  # nothing was written


def texts_of(store: Storage, budget: Budget) -> TextIndex:
    """Return the text index of a store: in its directory, in its database, or in memory."""
    there = store.sidecar
    if there.database is not None:
        from omsgrain.search.postgres.text_index import PostgresTextIndex

        return PostgresTextIndex(
            there.database, there.store_id, readonly=store.readonly, page=budget.page
        )

    path = None if there.folder is None else there.folder / FILE
    return SqliteTextIndex(path, readonly=store.readonly, budget=budget)


def vectors_of(store: Storage) -> Nearest:
    """Return what finds neighbours among the vectors of a store."""
    from omsgrain.search.nearest import Nearest

    there = store.sidecar
    if there.database is None:
        return Nearest(there.folder)
    from omsgrain.search.postgres.vectors import PostgresGraphs

    graphs = PostgresGraphs(there.database, there.store_id, readonly=store.readonly)
    return Nearest(graphs=graphs)
