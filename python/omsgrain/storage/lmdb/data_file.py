# SPDX-License-Identifier: Apache-2.0
"""LMDB's file of a store: look for it at a path, open it, or make it.

A process that opens the file again has another ``DataFile``.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import lmdb

from omsgrain import _core
from omsgrain.durable import DENIED, store_error, sync_directory
from omsgrain.errors import AccessDeniedError, StoreCutError, StoreDamagedError, StoreError
from omsgrain.storage.lmdb import pages
from omsgrain.storage.tables import (
    FORMAT,
    FORMAT_RECORD,
    FORMAT_VALUE,
    HEAD,
    HEAD_RECORD,
    INDEXED_FORMAT,
    META,
    TABLES,
    Table,
)

if TYPE_CHECKING:
    from lmdb import Environment, Transaction, _Database

try:
    import fcntl
except ImportError:  # not a POSIX system: no compaction there, and so nothing to wait for
    fcntl = None  # type: ignore[assignment]

DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"
WRITER_FILE = "writer.lock"
HEAD_FILE = "head"
NEXT_FILE = "data.next"
PART_DIRECTORY = "data.part"
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, struct.error)
_BESIDE = {LOCK_FILE, WRITER_FILE, HEAD_FILE, PART_DIRECTORY}


def failure(path: Path, doing: str, error: BaseException) -> StoreError:
    """Make the StoreError for something that LMDB or the operating system refused."""
    kind: type[StoreError] = StoreError
    if isinstance(error, lmdb.ReadonlyError):
        kind = AccessDeniedError
    elif isinstance(error, _DAMAGED):
        kind = StoreDamagedError
    return store_error(path, doing, error, kind)


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


MAP_PATIENCE = 30.0
"""Seconds to wait for other threads' transactions; they are short, so longer is a mistake."""


class MapResizeLock:
    """Counts open transactions. Moving or closing the map under one would crash LMDB.

    A transaction leaves a mark and then looks whether the lock is taken; a thread that takes the
    lock does so and then looks for marks: one of the two sees the other. A list's append and pop
    need no lock, and a read of one grain would notice what a lock costs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self.marks: list[None] = []  # one for each open transaction
        self.taken = False  # a thread is alone inside, or waits to be

    def enter(self) -> None:
        """Go in; waits while a thread is alone inside."""
        self.marks.append(None)
        if self.taken:
            self.wait()

    def wait(self) -> None:
        """Take a mark back that was left too late, and leave another when the lock is free."""
        while self.taken:
            self.leave()
            with self._lock:
                while self.taken:
                    self._changed.wait()
            self.marks.append(None)

    def leave(self) -> None:
        if self.marks:  # after a fork the lock is another one, and has no mark of its parent's
            self.marks.pop()
        if self.taken:
            self.wake()

    def wake(self) -> None:
        """Let the thread look again that waits to be alone."""
        with self._lock:
            self._changed.notify_all()

    def shut(self, patience: float) -> bool:
        """Let no thread in, and wait until all are out."""
        with self._lock:
            while self.taken:
                self._changed.wait()
            self.taken = True
            alone = self._changed.wait_for(lambda: not self.marks, patience)
            if not alone:
                self._reopen()
            return alone

    def open(self) -> None:
        with self._lock:
            self._reopen()

    def _reopen(self) -> None:
        self.taken = False
        self._changed.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let no transaction in for the length of a ``with`` block; those inside may stay."""
        with self._lock:
            mine = not self.taken  # who else has taken it lets none in either
            self.taken = True
        try:
            yield
        finally:
            if mine:
                self.open()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be alone inside for the length of a ``with`` block."""
        if not self.shut(MAP_PATIENCE):
            raise StoreError(
                "a transaction in this process stays open",
                expected="transactions that end before the next write or close",
            )
        try:
            yield
        finally:
            self.open()


_PAUSE = 0.002  # seconds between two tries; openings are short

opening = threading.RLock()
"""One thread of a process opens or replaces files at a time. A fork waits for it, lest the child
inherit a descriptor that holds the directory's lock."""


@contextmanager
def file_swap(path: Path, patience: float) -> Iterator[None]:
    """Hold the lock on a store's directory: no other process opens its files, or replaces them."""
    with opening:
        if fcntl is None:
            yield
            return
        fd = os.open(path, os.O_RDONLY)
        try:
            until = time.monotonic() + patience
            while True:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() >= until:
                        raise StoreError(
                            f"the files of the store {str(path)!r} are being opened or replaced",
                            expected=f"that to end within {patience:g} s",
                        ) from None
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(fd)


@contextmanager
def passing(path: Path, patience: float) -> Iterator[None]:
    """Be the only one to open the files; finish a replacement first."""
    with file_swap(path, patience):
        if (
            path / NEXT_FILE
        ).exists():  # the process that began it is dead, or we would wait for its lock
            try:
                _finish(path)
            except PermissionError as error:
                raise _interrupted(path, error.strerror) from error
        yield


@contextmanager
def kept_out(path: Path) -> Iterator[None]:
    """Open the files without the lock: the caller keeps writers out, and makes no file."""
    if (path / NEXT_FILE).exists():
        raise _interrupted(path)
    yield


def _interrupted(path: Path, found: str | None = None) -> StoreError:
    return StoreError(
        f"a compaction of {str(path)!r} was interrupted: open it once for writing", found=found
    )


def replace(path: Path, patience: float) -> None:
    """Put the file in ``data.part``, whole and synced, in the place of the store's.

    The caller has the writers' turn.
    """
    with file_swap(path, patience):
        os.rename(path / PART_DIRECTORY / DATA_FILE, path / NEXT_FILE)
        _finish(path)


def clean(path: Path) -> None:
    """Remove what a killed compaction was writing. The caller has the writers' turn."""
    shutil.rmtree(path / PART_DIRECTORY, ignore_errors=True)


def take_after(file: Path, model: os.stat_result, mode: int | None = None) -> None:
    """Give a file the owner of another and its permissions, or others, as far as we may."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(file, model.st_uid, model.st_gid)
    with suppress(PermissionError):
        os.chmod(file, (model.st_mode if mode is None else mode) & 0o777)


def _finish(path: Path) -> None:
    model = os.stat(path / DATA_FILE)
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(path / LOCK_FILE).st_mode  # readers may be allowed to write to it
        os.unlink(path / LOCK_FILE)
    os.close(os.open(path / LOCK_FILE, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    take_after(path / LOCK_FILE, model, mode)  # LMDB fills it
    os.rename(path / NEXT_FILE, path / DATA_FILE)
    sync_directory(path)


MAX_READERS = 1_024
MAX_TABLES = 64
_FIRST = 2 * 4_096  # bytes of the two pages that a file begins with, in the smallest pages
#: What LMDB's first page begins with: its number, that it is a meta page, the magic number.
_BEGINS = b"".join(
    part.to_bytes(size, sys.byteorder)
    for part, size in ((0, 8), (0, 2), (8, 2), (0, 4), (0xBEEFC0DE, 4))
)
_TRIES = 8  # each beside a writer that has committed twice meanwhile
_LOCK_BYTES = 64 * (MAX_READERS + 8)  # a slot a reader, and what LMDB has before them


@dataclass(slots=True)
class DataFile:
    env: Environment  # LMDB's environment
    fd: int  # a descriptor of the same file, whatever becomes of its name
    held: _core.HeldFile  # the same file, asked for its name at each transaction
    readonly: bool  # it was opened for reading only
    tables: dict[Table, _Database]  # LMDB's handles
    page_size: int  # bytes of a page
    closed: bool = False  # it can be used no more
    least: int = 0  # it is known to have so many bytes

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        map_size: int,
        readonly: bool,
        durable: bool,
        patience: float,
        noted: bool = True,
    ) -> DataFile:
        """Open the file of the store at a path. To write to it, hold the writers' turn."""
        with passing(path, patience) if noted else kept_out(path):
            if not readonly:
                clean(path)
                _empty_begun(path)
            elif not os.stat(path / DATA_FILE).st_size:  # LMDB says "bad file descriptor"
                raise StoreCutError(f"the data file of the store {str(path)!r} is empty")
            if noted:
                _allocate(path / LOCK_FILE)
            env = lmdb.open(
                os.fsencode(path),
                map_size=map_size,
                readonly=readonly,
                lock=noted,
                sync=durable,
                create=False,
                mode=0o666,  # the umask decides
                max_dbs=MAX_TABLES,
                max_readers=MAX_READERS,
                max_spare_txns=0,  # a cached transaction's slot would not outlive a fork
            )
            try:
                held = _core.HeldFile(path / DATA_FILE)
                fd = os.open(path / DATA_FILE, os.O_RDONLY if readonly else os.O_RDWR)
            except BaseException:
                env.close()
                raise
        try:
            env.reader_check()  # frees the slots of readers that were killed
            _measure(env, fd, path)
            while True:
                try:
                    tables = open_tables(env, path, readonly=readonly)
                    return cls(env, fd, held, readonly, tables, int(env.stat()["psize"]))
                except lmdb.MapResizedError:  # another process was growing the file just now
                    env.set_mapsize(0)
        except BaseException:
            env.close()
            held.close()
            os.close(fd)
            raise

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.env.close()
            self.held.close()
            os.close(self.fd)

    def size(self) -> int:
        """Return the size of the file; ask inside a transaction, so that it stays open."""
        return os.fstat(self.fd).st_size

    def map_size(self) -> int:
        """Return the size of the memory map; ask inside a transaction, so that it stays."""
        return int(self.env.info()["map_size"])

    def head(self) -> tuple[int, int]:
        """Return the last sequence number and the bytes of all blobs, as they are committed."""
        with self.env.begin() as txn:
            record = txn.get(HEAD_RECORD, db=self.tables[META])
        return (0, 0) if record is None else HEAD.unpack(record)[:2]


def _empty_begun(path: Path) -> None:
    """Empty a file that was cut off in its first write: LMDB would refuse it, and make no other.

    Nothing was ever committed to it. A store to which there was has the file ``head``; and what
    does not begin as LMDB does belongs to another program, and stays.
    """
    data = path / DATA_FILE
    if not data.exists() or not 0 < data.stat().st_size < _FIRST or (path / HEAD_FILE).exists():
        return
    with data.open("rb") as file:
        begins = file.read(len(_BEGINS))
    if _BEGINS.startswith(begins):
        os.truncate(data, 0)


def is_noted(path: Path) -> bool:
    """Tell whether this process can be noted as a reader in LMDB's lock file of the store.

    It cannot in a directory, or on a medium, that this user may not write to.
    """
    if os.name != "posix":
        return True
    try:
        os.close(os.open(path / LOCK_FILE, os.O_RDWR | os.O_CLOEXEC))
    except FileNotFoundError:
        effective = os.access in os.supports_effective_ids
        return os.access(path, os.W_OK, effective_ids=effective)
    except OSError as error:
        return error.errno not in DENIED
    return True


def _allocate(lock_file: Path) -> None:
    """See that all of LMDB's lock file is on the disk.

    LMDB maps it with holes in it, and a hole written to on a full disk ends the process.
    """
    if not hasattr(os, "posix_fallocate"):
        return
    try:
        fd = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except PermissionError as error:
        raise AccessDeniedError(
            f"could not open the store {str(lock_file.parent)!r}",
            expected=f"permission to write to its {lock_file.name}: readers are noted there",
            found=error.strerror,
        ) from error
    except OSError:
        return  # LMDB will say why, or do without on a file system that cannot be written
    try:
        stat = os.fstat(fd)
        size = stat.st_size or _LOCK_BYTES
        if 512 * stat.st_blocks < size:
            os.posix_fallocate(fd, 0, size)
    finally:
        os.close(fd)


def _measure(env: Environment, fd: int, path: Path) -> None:
    """Refuse a file that was cut short: reading beyond its end would end the process.

    A writer that was killed, or is about to extend the file, leaves only free pages out. Where the
    free pages cannot be read, a short file is not refused.
    """
    page_size = env.stat()["psize"]
    for _ in range(_TRIES):
        found, whole = os.fstat(fd).st_size, _whole_size(env, page_size)
        if found >= whole or not pages.WALKED:
            return
        with env.begin() as txn:  # keeps its pages from being used again
            fine = pages.only_free_pages_from(fd, found // page_size, page_size, txn.id())
        if fine:
            return
        if fine is False:
            break
    raise StoreCutError(
        f"the data file of the store {str(path)!r} is cut short",
        expected=f"{whole} bytes",
        found=str(found),
    )


def _whole_size(env: Environment, page_size: int) -> int:
    return int((env.info()["last_pgno"] + 1) * page_size)


def open_tables(env: Environment, path: Path, *, readonly: bool) -> dict[Table, _Database]:
    """Open every table; in a new store make them first."""
    if readonly:
        with env.begin() as txn:
            if not _has_format(env, txn, path):
                raise StoreError(f"{str(path)!r} is not a store yet", found="an empty file")
        return {t: _open_table(env, None, t) for t in TABLES}
    # py-lmdb ends every read transaction with an abort, which would close handles opened in it;
    # nothing is written, and so nothing synced, where all tables exist.
    with env.begin(write=True) as txn:
        new = not _has_format(env, txn, path)
        tables = {t: _open_table(env, txn, t) for t in TABLES}
        if new:
            txn.put(FORMAT_RECORD, FORMAT_VALUE.pack(FORMAT), db=tables[META])
    if new:
        sync_names(path)
    return tables


def _open_table(env: Environment, txn: Transaction[bytes] | None, table: Table) -> _Database:
    """Open a table; make it if there is a transaction to do so in."""
    many = table.places
    return env.open_db(table.name, txn=txn, create=txn is not None, dupsort=many, dupfixed=many)


def _has_format(env: Environment, txn: Transaction[bytes], path: Path) -> bool:
    """Tell whether a file is a store of a format that is known; refuse any but an empty file."""
    if not env.stat()["entries"]:
        return False
    try:
        record = txn.get(FORMAT_RECORD, db=env.open_db(META.name, txn=txn, create=False))
    except (lmdb.NotFoundError, lmdb.IncompatibleError):
        record = None
    if record is None or len(record) != FORMAT_VALUE.size or not any(record):
        raise StoreError(f"{str(path)!r} is not a store", found="an LMDB file of another program")
    (found,) = FORMAT_VALUE.unpack(record)
    if found not in (FORMAT, INDEXED_FORMAT):
        raise StoreError(
            f"{str(path)!r} was written by another version of omsgrain",
            expected=f"store format {FORMAT} or {INDEXED_FORMAT}",
            found=f"store format {found}",
        )
    return True


def sync_names(path: Path) -> None:
    """Make the new directory's entries durable; without them a power cut could take the store."""
    sync_directory(path)
    sync_directory(path.parent)
