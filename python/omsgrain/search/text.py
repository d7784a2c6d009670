# SPDX-License-Identifier: Apache-2.0
"""The text index of a store: which grains have which words, best first.

It stands beside the store's tables, in a file of SQLite's engine FTS5, and is caught up by
sequence number before it answers. Losing it loses nothing.

    index = TextIndex(directory / FILE)
    found = index.search(store.read, "shelf boxes")
"""

from __future__ import annotations

import threading
from collections.abc import Set
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from omsgrain.errors import StoreError
from omsgrain.search import feed
from omsgrain.search.database import FILE, in_memory
from omsgrain.search.feed import Read
from omsgrain.search.finding import MOST, TRIES, Found, Match, Row, Start, Texts
from omsgrain.search.handle import DamagedError, Handle
from omsgrain.search.query import Query
from omsgrain.search.ranking import Counts, Walk
from omsgrain.store.base import Problem
from omsgrain.store.budget import Budget

__all__ = ["FILE", "MOST", "Found", "Match", "TextIndex"]


class TextIndex(Texts):
    """An index in a file, or in memory.

    Args:
        path: the file, made when first needed; None for memory.
        readonly: never write the file. Where it is behind, memory holds a copy that is not.
        budget: how much memory to take.
    """

    def __init__(
        self, path: Path | None, *, readonly: bool = False, budget: Budget | None = None
    ) -> None:
        given = budget or Budget()
        self._handle = Handle(path, readonly=readonly, cache=given.text)
        self._page = given.page
        self._feeding = threading.Lock()
        self._sure = False  # the index is of this store
        self._counts = Counts()

    @property
    def exists(self) -> bool:
        """Whether there is an index already, so that it is of use to keep it up to date."""
        return self._handle.exists

    def catch_up(self, read: Read) -> int:
        """Take in what the store has and the index has not; a search does so by itself.

        Args:
            read: opens a snapshot: ``store.read``.

        Returns:
            The sequence number that the index has come to.

        Raises:
            StoreError: the index cannot be written, or the store not be read.
        """
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
            walk = Walk(self._counts, query, seqs)
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

    def _next(self, walk: Walk, size: int) -> list[Row]:
        return self._handle.read(walk.page, size)

    def rebuild(self, read: Read) -> None:
        """Make an index that exists anew from the blobs; nothing else stays in its files.

        Raises:
            StoreError: this handle may not write the file, or another does not let go of it.
        """
        if self.exists:
            self._handle.truncate()
            self._handle.write(feed.empty)
            self.catch_up(read)
            self._handle.truncate()

    def scrub(self, read: Read) -> None:
        """See that no word of removed grains stays in the files of the index.

        Raises:
            StoreError: as for ``rebuild``.
        """
        if self.exists:
            self.catch_up(read)
            if self._handle.read(feed.gone):
                self.rebuild(read)
            else:
                self._handle.truncate()

    def check(self, read: Read) -> tuple[Problem, ...]:
        """Compare an index that exists, word by word, with one that is made anew in memory.

        SQLite notices most damage when it meets it, and then the index is made anew unasked. This
        finds what it cannot notice.

        Raises:
            StoreError: the index or the store cannot be read.
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
                return (Problem("text", None, "the text index was damaged; it is made anew"),)
        if wrong is None:
            return ()
        return (Problem("text", wrong, "the text index is not what the grains give"),)

    def _alive(self, read: Read) -> int | None:
        """A grain that cannot be found though the store has it."""
        gone = self._handle.read(feed.gone)
        with read() as reader:
            return next((seq for seq in sorted(gone) if reader.blob_at(seq) is not None), None)

    def close(self) -> None:
        """Let go of the index; a second call does nothing."""
        self._handle.close()


def _page_of(db: Connection, walk: Walk, size: int, upto: int) -> list[Row] | None:
    """Read a page of an index that has come so far; None if somebody makes it anew just now."""
    db.execute("BEGIN")
    try:
        return walk.page(db, size) if feed.state(db).last >= upto else None
    finally:
        db.execute("ROLLBACK")  # nothing was written
