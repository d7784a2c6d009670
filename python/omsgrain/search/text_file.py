# SPDX-License-Identifier: Apache-2.0
"""The text index of a store in SQLite: the file ``text.db``, or a database in memory.

    words    FTS5: the words of a grain in three columns; rowid is its sequence number
    gone     removed grains whose words are still in the file
    state    one row: the last sequence number; an indexed grain by number and digest; a count; the
             languages whose stems it has

The index catches up by sequence number before it answers. It can be rebuilt from the blobs, so it
is never repaired: a file that is damaged, of another version or of another program is deleted. It
is a WAL database with ``synchronous=NORMAL``: a commit does not sync the disk. A power cut can
lose the last commits, but leaves the file consistent.

The index stores only the positions of words, not the text (``content=''``), which halves its size.
But FTS5 needs the text to remove a grain. So ``gone`` lists removed grains, and a rebuild of the
file removes their words.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Set
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import TypeVar

from omsgrain.durable import identity
from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.search import feed
from omsgrain.search.feed import Read, transaction
from omsgrain.search.rank import PhraseCounts, RankedMatches
from omsgrain.search.stem import RULES
from omsgrain.search.text import TRIES, Query, Row, Start, TextIndex, Watch
from omsgrain.search.words import COLUMNS
from omsgrain.storage.base import CheckProblem, see_open
from omsgrain.storage.location import Budget

PATIENCE = 30.0
"""Seconds to wait for another process that writes."""

CACHE = 8 << 20
"""Bytes of the file that SQLite may cache."""

_PROGRAM = 0x6F6D7367  # "omsg"
_FORMAT = RULES + 1
"""The number changes with the rules for words. Increase the last summand if the tables change."""

_TABLES = f"""
CREATE VIRTUAL TABLE words USING fts5({", ".join(COLUMNS)}, content='', tokenize='ascii');
CREATE TABLE gone (seq INTEGER PRIMARY KEY);
CREATE TABLE state (last INTEGER, known INTEGER, digest BLOB, grains INTEGER, languages INTEGER);
INSERT INTO state VALUES (0, 0, x'', 0, 0);
PRAGMA application_id = {_PROGRAM};
PRAGMA user_version = {_FORMAT};
"""

_NOT_OURS = (
    "no such table",
    "no such column",
    "no such fts5",
    "vtable constructor",
    "invalid fts5",
    "Could not decode",
)
"""Messages of SQLite about tables other than ours."""

_opening = threading.Lock()


def in_memory() -> sqlite3.Connection:
    connection = _connect(":memory:")
    _make(connection)
    return connection


def in_file(path: Path) -> sqlite3.Connection:
    """Open the file for writing; create it if it is missing or unusable."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with _opening:
                connection = _opened(path)
            if connection is not None:
                return connection
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise failure(error) from error
            time.sleep(0.01)  # SQLite does not wait for every lock itself
        except OSError as error:
            raise StoreError("cannot create the text index", found=error.strerror) from error


def to_read(path: Path) -> sqlite3.Connection | None:
    """Open the file for reading; None if it is missing or unusable."""
    if not path.exists():
        return None
    return _usable(path, "mode=ro") or _still(path)


def _usable(path: Path, options: str) -> sqlite3.Connection | None:
    connection = None
    try:
        connection = _connect(f"{path.absolute().as_uri()}?{options}")
        if _version(connection) == (_PROGRAM, _FORMAT):
            return connection
    except (sqlite3.Error, UnicodeDecodeError):
        pass
    if connection is not None:
        connection.close()
    return None


def _still(path: Path) -> sqlite3.Connection | None:
    """Copy a file to memory; None if a process writes to it meanwhile.

    SQLite can read a WAL database without creating files beside it only as an immutable file.
    Every writer creates the log before it changes the file.
    """
    log = path.with_name(f"{path.name}-wal")
    before = None if log.exists() else _changed(path)
    connection = before and _usable(path, "mode=ro&immutable=1")
    if not connection:
        return None
    try:
        copy = copied(connection)
    except (sqlite3.Error, UnicodeDecodeError):
        return None
    finally:
        connection.close()
    if not log.exists() and _changed(path) == before:
        return copy
    copy.close()
    return None


def copied(source: sqlite3.Connection) -> sqlite3.Connection:
    target = _connect(":memory:")
    with _closed_if_unusable(target):
        source.backup(target)
    return target


def remove(path: Path) -> None:
    """Delete the file and its WAL files.

    The file goes first: a process that has it open sees that it is deleted, and then leaves the
    WAL files of the new one alone.
    """
    try:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError("cannot delete the text index", found=error.strerror) from error


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether an error means a damaged file, not a busy one or a full disk.

    Python cannot decode some messages of SQLite about damaged files.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    if isinstance(error, sqlite3.OperationalError):
        return str(error).startswith(_NOT_OURS)
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, sqlite3.ProgrammingError
    )


def failure(error: Exception) -> StoreError:
    return StoreError("the text index cannot be used", found=str(error) or type(error).__name__)


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name,
        timeout=PATIENCE,
        isolation_level=None,  # transactions start explicitly
        check_same_thread=False,  # a lock admits one thread at a time
        uri=name.startswith("file:"),
    )
    with _closed_if_unusable(connection):
        connection.execute("PRAGMA secure_delete = ON")
        connection.execute("PRAGMA temp_store = MEMORY")
        set_cache(connection, CACHE)
    return connection


@contextmanager
def _closed_if_unusable(connection: sqlite3.Connection) -> Iterator[None]:
    try:
        yield
    except BaseException:
        connection.close()
        raise


def set_cache(connection: sqlite3.Connection, size: int) -> None:
    connection.execute(f"PRAGMA cache_size = -{size >> 10}")


def _opened(path: Path) -> sqlite3.Connection | None:
    """Try to open once; None if the file was replaced, or was unusable and is deleted."""
    with suppress(FileExistsError):
        # SQLite would create it with permissions for the owner only. Never open an existing file:
        # closing it would drop the locks of this process on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
    before = identity(path)
    connection = _connect(str(path))
    try:
        found = _version(connection)
        empty = (
            found == (0, 0) and not connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        )
        if empty or found == (_PROGRAM, _FORMAT):
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA journal_size_limit = 0")
            _make(connection)
            connection.execute("SELECT * FROM state").fetchone()
            if identity(path) == before:
                return connection
        else:
            remove(path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if not is_damage(error):
            connection.close()
            raise
        remove(path)
    except BaseException:
        connection.close()
        raise
    connection.close()
    return None


def _make(connection: sqlite3.Connection) -> None:
    with transaction(connection):
        if _version(connection) == (_PROGRAM, _FORMAT):
            return
        try:
            for statement in _TABLES.strip().split(";\n"):
                connection.execute(statement)
        except sqlite3.OperationalError as error:
            if "fts5" not in str(error):
                raise
            raise UnsupportedError(
                "this Python's SQLite has no full-text search",
                expected="SQLite with FTS5",
                found=sqlite3.sqlite_version,
            ) from error


def _version(connection: sqlite3.Connection) -> tuple[int, int]:
    (program,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return program, version


def _changed(path: Path) -> tuple[int, int, int] | None:
    """Return what identifies a file and its content, or None."""
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


T = TypeVar("T")


class DamagedError(StoreError):
    """The index was damaged and is now empty: catch up and retry."""


class Handle:
    def __init__(self, path: Path | None, *, readonly: bool, cache: int = CACHE) -> None:
        self._file = path
        self._path = path  # None once this handle uses memory
        self._readonly = readonly
        self._cache = cache
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._db: sqlite3.Connection | None = None
        self._borrowed = False  # the connection is to a file that must not be written
        self._closed = False
        with _all_lock:
            _all.add(self)

    @property
    def exists(self) -> bool:
        return self._db is not None or (self._path is not None and self._path.exists())

    def check(self) -> None:
        see_open(self._closed, self._process)

    def read(self, work: Callable[[Connection], T]) -> T:
        with self._lock:
            self.check()
            try:
                return work(self._opened())
            except (sqlite3.Error, UnicodeDecodeError) as error:
                if not is_damage(error):
                    raise failure(error) from error
                self._discard()
                raise DamagedError(
                    "the text index was damaged", found=type(error).__name__
                ) from error

    def write(self, work: Callable[[Connection], T]) -> T:
        """Run a function that may change the index; raises as ``read`` does."""
        with self._lock:
            if self.read(lambda db: self._borrowed):
                copy = self.read(copied)
                self._let_go()
                self._db, self._path = copy, None
            return self.read(work)

    def truncate(self) -> None:
        """Write everything into the file itself, and empty the WAL files."""
        if self._file is None:
            return
        if not self._may_write(self._file):
            raise StoreError("a read-only handle cannot clear the text index")
        sql = "PRAGMA wal_checkpoint(TRUNCATE)"
        if self.read(lambda db: db.execute(sql).fetchone())[0]:
            raise StoreError("another process uses the text index; try again")

    def close(self) -> None:
        self._closed = True
        if os.getpid() == self._process:
            with self._lock:
                self._let_go()

    def __del__(self) -> None:
        self._let_go()  # Python 3.13 warns of a connection that is dropped open

    def _opened(self) -> sqlite3.Connection:
        if self._db is None:
            path = self._path
            if path is not None and self._may_write(path):
                self._db = in_file(path)
            elif path is not None and (found := to_read(path)) is not None:
                self._db, self._borrowed = found, True
            else:
                self._db, self._path = in_memory(), None
            set_cache(self._db, self._cache)
        return self._db

    def _may_write(self, path: Path) -> bool:
        if self._readonly or not os.access(path.parent, os.W_OK):
            return False
        return os.access(path, os.W_OK) or not path.exists()

    def _discard(self) -> None:
        """Discard a damaged index; the next use creates an empty one."""
        borrowed = self._borrowed
        self._let_go()
        if borrowed:
            self._path = None
        elif self._path is not None:
            remove(self._path)

    def _let_go(self) -> None:
        if self._db is not None:
            self._db.close()
        self._db, self._borrowed = None, False

    def before_fork(self) -> bool:
        """Wait briefly for an idle moment, and close the file."""
        still = self._lock.acquire(timeout=_FORK_PATIENCE)
        if still and self._path is not None:
            self._let_go()
        return still

    def after_fork(self) -> None:
        """Resume in the parent. In the child, the handle stays unusable."""
        self._lock.release()


_FORK_PATIENCE = 5.0
_all: weakref.WeakSet[Handle] = weakref.WeakSet()
_all_lock = threading.Lock()
_paused: list[Handle] = []  # for the current fork


def _before_fork() -> None:
    _all_lock.acquire()
    _paused.extend(handle for handle in list(_all) if handle.before_fork())


def _after_fork() -> None:
    for handle in _paused:
        handle.after_fork()
    _paused.clear()
    _all_lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork
    )


class SqliteTextIndex(TextIndex):
    def __init__(
        self, path: Path | None, *, readonly: bool = False, budget: Budget | None = None
    ) -> None:
        given = budget or Budget()
        self._handle = Handle(path, readonly=readonly, cache=given.text)
        self._page = given.page
        self._feeding = threading.Lock()
        self._sure = False  # the index belongs to this store
        self._counts = PhraseCounts()

    @property
    def exists(self) -> bool:
        return self._handle.exists

    def catch_up(self, read: Read, watch: Watch | None = None) -> int:
        self._handle.check()
        with self._feeding:
            with suppress(DamagedError):
                return self._feed(read, watch)
            return self._feed(read, watch)

    def _feed(self, read: Read, watch: Watch | None) -> int:
        # One that is watched makes way for others after each few grains.
        most = self._page if watch is None else min(self._page, feed.WATCHED_PAGE)
        while True:
            before = self._handle.read(feed.state)
            page = feed.next_page(read, before, sure=self._sure, most=most)
            self._sure = True
            if page is None:
                return before.last
            self._handle.write(partial(feed.write, page=page, before=before))
            if watch is not None and not watch(max(page.last - before.last, 0)):
                return page.last

    def behind(self, read: Read) -> int:
        with suppress(DamagedError):
            return feed.lag(read, self._handle.read(feed.state))[0]
        return feed.lag(read, self._handle.read(feed.state))[0]

    def start(
        self, read: Read, query: Query, seqs: Set[int] | None, size: int, *, wait: bool = True
    ) -> Start:
        damaged = False
        for _ in range(TRIES):
            walk = RankedMatches(self._counts, query, seqs)
            try:
                upto, lacks = (self.catch_up(read), 0) if wait else self._usable(read)
                if upto is None:
                    return Start([], lambda size: [], lacks)
                page = self._handle.read(partial(_page_of, walk=walk, size=size, upto=upto))
            except DamagedError:
                if damaged:
                    raise
                damaged = True
                continue
            if page is not None:
                return Start(page, partial(self._next, walk), lacks)
        raise StoreError(
            "another process keeps rebuilding the text index", expected="one rebuild at a time"
        )

    def _usable(self, read: Read) -> tuple[int | None, int]:
        """Return how far the index is, None if it is of another store, and what it lacks."""
        now = self._handle.read(feed.state)
        lacks, ours = feed.lag(read, now)
        return (now.last if ours else None), lacks

    def _next(self, walk: RankedMatches, size: int) -> list[Row]:
        return self._handle.read(partial(walk.page, size=size))

    def rebuild(self, read: Read) -> None:
        if self.exists:
            self._handle.truncate()
            self._handle.write(feed.empty)
            self.catch_up(read)
            self._handle.truncate()

    def scrub(self, read: Read) -> None:
        if self.exists:
            self.catch_up(read)
            if self._handle.read(feed.gone):
                self.rebuild(read)
            else:
                self._handle.truncate()

    def check(self, read: Read) -> tuple[CheckProblem, ...]:
        """Compare an existing index word by word with a new one in memory.

        SQLite detects most damage when it reads it, and the index is then rebuilt. This finds what
        SQLite cannot detect.
        """
        if not self.exists:
            return ()
        with closing(in_memory()) as fresh:
            upto = feed.fill(fresh, read)
            try:
                self.catch_up(read)
                wrong = self._handle.read(partial(feed.first_difference, other=fresh, upto=upto))
                if wrong is None:
                    wrong = self._alive(read)
            except DamagedError:
                return (
                    CheckProblem("text", None, "the text index was damaged, and will be rebuilt"),
                )
        if wrong is None:
            return ()
        return (CheckProblem("text", wrong, "the text index differs from the grains"),)

    def _alive(self, read: Read) -> int | None:
        """Return a stored grain that the index lists as removed, or None."""
        gone = self._handle.read(feed.gone)
        with read() as reader:
            return next((seq for seq in sorted(gone) if reader.blob_at(seq) is not None), None)

    def close(self) -> None:
        self._handle.close()


def _page_of(db: Connection, walk: RankedMatches, size: int, upto: int) -> list[Row] | None:
    """Read a page of an index that is far enough; None while another process rebuilds it."""
    db.execute("BEGIN")
    try:
        return walk.page(db, size) if feed.state(db).last >= upto else None
    finally:
        db.execute("ROLLBACK")  # nothing was written
