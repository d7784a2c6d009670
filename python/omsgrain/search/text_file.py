# SPDX-License-Identifier: Apache-2.0
"""The file ``text.db``, or the same in memory: made, opened, and made anew if it is of no use.

    words    FTS5: the words of a grain in three columns; rowid is its sequence number
    gone     grains that were removed since the file was made, and whose words are still in it
    state    one row: how far it has come; a grain it has, by number and digest; how many it has

All of it can be made again from the blobs, so nothing in it is worth a repair: a file that is
damaged, of another version or another program's is deleted. It is a WAL database with
``synchronous=NORMAL``: a commit costs no sync of the disk, a power cut can take the last ones, but
what is left fits together.

The text itself is not kept (``content=''``), only where which words stand: half the size. Its
price is that FTS5 cannot take out a grain, for which it would need the text. So a removed grain is
noted in ``gone``, and what must not stay in the file goes when the file is filled anew.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from omsgrain.errors import StoreError, UnsupportedError
from omsgrain.search.words import COLUMNS

FILE = "text.db"
PATIENCE = 30.0
"""Seconds to wait for another process that writes."""

CACHE = 8 << 20
"""Bytes of the file that SQLite keeps in memory."""

_PROGRAM = 0x6F6D7367  # "omsg"
_FORMAT = 1
"""Rises with the tables, and with whatever makes other words of the same grain."""

_TABLES = f"""
CREATE VIRTUAL TABLE words USING fts5({", ".join(COLUMNS)}, content='', tokenize='ascii');
CREATE TABLE gone (seq INTEGER PRIMARY KEY);
CREATE TABLE state (last INTEGER, known INTEGER, digest BLOB, grains INTEGER);
INSERT INTO state VALUES (0, 0, x'', 0);
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
"""How SQLite puts it when the tables are not those that were made."""

_opening = threading.Lock()


def in_memory() -> sqlite3.Connection:
    """Make an empty one in memory."""
    connection = _connect(":memory:")
    _make(connection)
    return connection


def in_file(path: Path) -> sqlite3.Connection:
    """Open the file for writing; make it, or make it anew, if need be."""
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
            time.sleep(0.01)  # not all that is locked is waited for by SQLite itself
        except OSError as error:
            raise StoreError("could not make the text index", found=error.strerror) from error


def to_read(path: Path) -> sqlite3.Connection | None:
    """Open the file for reading; None if there is none that can be used."""
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
    """Copy a file to memory that nobody writes meanwhile; None if somebody does.

    Where SQLite may make no file beside a WAL database, it reads it only if told that nobody
    writes. Every writer makes the log before it changes the file.
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
    """Copy a whole one into memory."""
    target = _connect(":memory:")
    source.backup(target)
    return target


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


def remove(path: Path) -> None:
    """Delete the file and those beside it.

    The file itself first: whoever has it open sees that its name is gone, and leaves the files
    beside the new one alone.
    """
    try:
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
    except OSError as error:
        raise StoreError("the text index cannot be deleted", found=error.strerror) from error


def is_damage(error: sqlite3.Error | UnicodeDecodeError) -> bool:
    """Whether an error says that the file is damaged, and not that it is busy or the disk full.

    Python cannot even read some of what SQLite says about a damaged file.
    """
    if isinstance(error, UnicodeDecodeError):
        return True
    if isinstance(error, sqlite3.OperationalError):
        return str(error).startswith(_NOT_OURS)
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(
        error, sqlite3.ProgrammingError
    )


def failure(error: Exception) -> StoreError:
    """The StoreError for something that SQLite refused."""
    return StoreError("the text index cannot be used", found=str(error) or type(error).__name__)


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        name,
        timeout=PATIENCE,
        isolation_level=None,  # transactions are begun by hand
        check_same_thread=False,  # one thread at a time uses it
        uri=name.startswith("file:"),
    )
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA temp_store = MEMORY")
    set_cache(connection, CACHE)
    return connection


def set_cache(connection: sqlite3.Connection, size: int) -> None:
    """Say how many bytes of the file SQLite may keep in memory."""
    connection.execute(f"PRAGMA cache_size = -{size >> 10}")


def _opened(path: Path) -> sqlite3.Connection | None:
    """Try once; None if the file was replaced meanwhile, or was of no use and is gone now."""
    with suppress(FileExistsError):
        # SQLite would make it for its owner only. Never open a file that exists: closing it would
        # drop the locks that this process has on it.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))
    before = _identity(path)
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
            if _identity(path) == before:
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
    """Make the tables, if nobody has."""
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
                "the SQLite of this Python has no full-text search",
                expected="SQLite with FTS5",
                found=sqlite3.sqlite_version,
            ) from error


def _version(connection: sqlite3.Connection) -> tuple[int, int]:
    (program,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    return program, version


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


def _changed(path: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from any other, and from itself after a change."""
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
