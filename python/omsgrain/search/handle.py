# SPDX-License-Identifier: Apache-2.0
"""A handle's hold on its index: opened at the first use, one thread at a time, not over a fork.

A handle that may not write the file reads it as long as it is up to date. From the first time that
it is not, the handle works on a copy in memory.

SQLite remembers a process's locks in its memory, and a forked child would take them for its own.
So files are closed before a fork, and opened again at the next use.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar

from omsgrain.errors import StoreError
from omsgrain.search import database

__all__ = ["DamagedError", "Handle"]

P = ParamSpec("P")
T = TypeVar("T")


class DamagedError(StoreError):
    """The index was of no use and is empty now: catch up, and try again."""


class Handle:
    """The connection to an index.

    Args:
        path: the file, made when first needed; None for memory.
        readonly: never write the file.
        cache: bytes of the file that SQLite keeps in memory.
    """

    def __init__(self, path: Path | None, *, readonly: bool, cache: int = database.CACHE) -> None:
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
        """Refuse a handle that was closed, or came over a fork.

        Raises:
            StoreError: it was.
        """
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
        """Do something that changes nothing.

        Raises:
            DamagedError: the index was damaged.
            StoreError: the index is locked, or SQLite refuses something else.
        """
        with self._lock:
            self.check()
            try:
                return work(self._opened(), *args, **kwargs)
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not database.is_damage(error):
                    raise database.failure(error) from error
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
                copy = self.read(database.copied)
                self._let_go()
                self._db, self._path = copy, None
            return self.read(work, *args, **kwargs)

    def truncate(self) -> None:
        """Bring all that was written into the file itself, and empty the files beside it.

        Raises:
            StoreError: this handle may not write the file, or another does not let go of it.
        """
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
                self._db = database.in_file(path)
            elif path is not None and (found := database.to_read(path)) is not None:
                self._db, self._borrowed = found, True
            else:
                self._db, self._path = database.in_memory(), None
            database.set_cache(self._db, self._cache)
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
            database.remove(self._path)

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
