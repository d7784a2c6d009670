# SPDX-License-Identifier: Apache-2.0
"""Is there a store at this path, may we have it, and if it is new: make it."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from omsgrain.durable import sync_directory
from omsgrain.errors import AccessDeniedError, DiskFullError, StoreDamagedError, StoreError
from omsgrain.storage.tables import FORMAT, FORMAT_RECORD, FORMAT_VALUE, META, TABLES, Table

if TYPE_CHECKING:
    from lmdb import Environment, Transaction, _Database

DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"
WRITER_FILE = "writer.lock"
HEAD_FILE = "head"
NEXT_FILE = "data.next"
PART_DIRECTORY = "data.part"
_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC), errno.EFBIG)
DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, struct.error)
_ROOM = 4 << 20  # bytes; more than the largest grain
_BESIDE = {LOCK_FILE, WRITER_FILE, HEAD_FILE, PART_DIRECTORY}


def failure(path: Path, doing: str, error: BaseException) -> StoreError:
    """Make the StoreError for something that LMDB or the operating system refused."""
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    number = getattr(error, "errno", None)
    kind: type[StoreError] = StoreError
    if number in _FULL or any(os.strerror(one) in reason for one in _FULL):
        kind = DiskFullError
    elif os.strerror(errno.EIO) in reason and _is_full(path):
        # LMDB says so of a write that ended half way, for want of room.
        kind, reason = DiskFullError, os.strerror(errno.ENOSPC)
    elif isinstance(error, lmdb.ReadonlyError) or number in DENIED:
        kind = AccessDeniedError
    elif isinstance(error, _DAMAGED):
        kind = StoreDamagedError
    return kind(f"could not {doing} {str(path)!r}", found=reason)


def _is_full(path: Path) -> bool:
    """Whether a commit of a usual size finds no room beside the store."""
    try:
        from tempfile import TemporaryFile  # slow to import, and needed after a failed commit only

        with TemporaryFile(dir=path) as file:
            file.write(bytes(_ROOM))
    except OSError as error:
        return error.errno in _FULL
    return False


def identity(path: Path) -> tuple[int, int] | None:
    """Return what tells the directory from any other on this machine; None if there is none."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return (stat.st_dev, stat.st_ino)


def prepare(path: Path, *, readonly: bool) -> None:
    """See that LMDB finds a store at the path, or an empty directory to make one in.

    A directory with anything else in it is left alone, so that a wrong path cannot litter it.
    """
    try:
        if not path.exists():
            if readonly:
                raise StoreError(f"there is no store at {str(path)!r}")
            if not path.parent.is_dir():
                raise StoreError(f"the directory {str(path.parent)!r} does not exist")
            path.mkdir(exist_ok=True)
        if not path.is_dir():
            raise StoreError(f"{str(path)!r} is not a store", expected="a directory")
        names = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise failure(path, "open the store", error) from error
    if DATA_FILE not in names and (readonly or names - _BESIDE):
        raise StoreError(f"{str(path)!r} is not a store", expected=f"a file {DATA_FILE} in it")


def open_tables(
    env: Environment, path: Path, *, readonly: bool
) -> tuple[int, dict[Table, _Database]]:
    """Open every table; in a new store make them first."""
    if readonly:
        with env.begin() as txn:
            found = _format(env, txn, path)
        if found is None:
            raise StoreError(f"{str(path)!r} is not a store yet", found="an empty file")
        text = f"{str(path)!r} was written by an older version: open it once for writing"
        if found < FORMAT:
            raise StoreError(
                text, expected=f"store format {FORMAT}", found=f"store format {found}"
            )
        try:
            return found, {t: _open_table(env, None, t) for t in TABLES}
        except lmdb.NotFoundError:  # one that came later, and changed no row of the others
            raise StoreError(text, found="a table is missing") from None
    # py-lmdb ends every read transaction with an abort, which would close handles opened in it;
    # nothing is written, and so nothing synced, where all tables exist.
    with env.begin(write=True) as txn:
        found = _format(env, txn, path)
        tables = {t: _open_table(env, txn, t) for t in TABLES}
        if found is None:
            txn.put(FORMAT_RECORD, FORMAT_VALUE.pack(FORMAT), db=tables[META])
    if found is None:
        sync_names(path)
    return found or FORMAT, tables


def _open_table(env: Environment, txn: Transaction[bytes] | None, table: Table) -> _Database:
    """Open a table; make it if there is a transaction to do so in."""
    many = table.places
    return env.open_db(table.name, txn=txn, create=txn is not None, dupsort=many, dupfixed=many)


def _format(env: Environment, txn: Transaction[bytes], path: Path) -> int | None:
    """Return the format of a store, None of an empty file; refuse anything else."""
    if not env.stat()["entries"]:
        return None
    try:
        record = txn.get(FORMAT_RECORD, db=env.open_db(META.name, txn=txn, create=False))
    except (lmdb.NotFoundError, lmdb.IncompatibleError):
        record = None
    if record is None or len(record) != FORMAT_VALUE.size or not any(record):
        raise StoreError(f"{str(path)!r} is not a store", found="an LMDB file of another program")
    (found,) = FORMAT_VALUE.unpack(record)
    if found > FORMAT:
        raise StoreError(
            f"{str(path)!r} was written by a newer version of omsgrain",
            expected=f"store format {FORMAT} or older",
            found=f"store format {found}",
        )
    return int(found)


def sync_names(path: Path) -> None:
    """Make the new directory's entries durable; without them a power cut could take the store."""
    sync_directory(path)
    sync_directory(path.parent)
