# SPDX-License-Identifier: Apache-2.0
"""LMDB's file of a store, as one process has it open; opened again, it is another object."""

from __future__ import annotations

import os
import shutil
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
from omsgrain.durable import sync_directory
from omsgrain.errors import AccessDeniedError, StoreCutError, StoreError
from omsgrain.storage.lmdb.open import (
    DATA_FILE,
    DENIED,
    HEAD_FILE,
    LOCK_FILE,
    NEXT_FILE,
    PART_DIRECTORY,
    open_tables,
)
from omsgrain.storage.lmdb.pages import only_free_pages_from
from omsgrain.storage.tables import HEAD, HEAD_RECORD, META

if TYPE_CHECKING:
    from omsgrain.storage.tables import Table

try:
    import fcntl
except ImportError:  # not a POSIX system: no compaction there, and so nothing to wait for
    fcntl = None  # type: ignore[assignment]


_PAUSE = 0.002  # seconds between two tries; openings are short

guard = threading.RLock()
"""One thread of a process at the door at a time. A fork waits for it, lest the child inherit a
descriptor that holds the door."""


@contextmanager
def passing(path: Path, patience: float) -> Iterator[None]:
    """Be the only one to open the files; finish a replacement first."""
    with _file_swap(path, patience):
        if (path / NEXT_FILE).exists():  # whoever began it is dead, having left the door
            try:
                _finish(path)
            except PermissionError as error:
                raise _interrupted(path, error.strerror) from error
        yield


@contextmanager
def kept_out(path: Path) -> Iterator[None]:
    """Open the files where nobody else can: the caller keeps writers out, and makes no file."""
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
    with _file_swap(path, patience):
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
        mode = os.stat(path / LOCK_FILE).st_mode  # who only reads may have leave to write to it
        os.unlink(path / LOCK_FILE)
    os.close(os.open(path / LOCK_FILE, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    take_after(path / LOCK_FILE, model, mode)  # LMDB fills it
    os.rename(path / NEXT_FILE, path / DATA_FILE)
    sync_directory(path)


@contextmanager
def _file_swap(path: Path, patience: float) -> Iterator[None]:
    with guard:
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
    """One open data file.

    Attributes:
        env: LMDB's environment.
        fd: a descriptor of the same file, whatever becomes of its name.
        held: the same file, asked for its name at each transaction.
        readonly: it was opened for reading only.
        format: the store's format.
        tables: LMDB's handles.
        page_size: bytes of a page.
        closed: it can be used no more.
        least: it is known to have so many bytes.
    """

    env: lmdb.Environment
    fd: int
    held: _core.HeldFile
    readonly: bool
    format: int
    tables: dict[Table, lmdb._Database]
    page_size: int
    closed: bool = False
    least: int = 0

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
                    number, tables = open_tables(env, path, readonly=readonly)
                    return cls(env, fd, held, readonly, number, tables, int(env.stat()["psize"]))
                except lmdb.MapResizedError:  # another process was growing the file just now
                    env.set_mapsize(0)
                except lmdb.MapFullError:  # by the tables that an older format lacks
                    env.set_mapsize(2 * env.info()["map_size"])
        except BaseException:
            env.close()
            held.close()
            os.close(fd)
            raise

    def close(self) -> None:
        """Close it; a second call does nothing."""
        if not self.closed:
            self.closed = True
            self.env.close()
            self.held.close()
            os.close(self.fd)

    def size(self) -> int:
        """Return the size of the file."""
        return os.fstat(self.fd).st_size

    def has_name(self) -> bool:
        """Tell whether the file is still in a directory: neither replaced nor removed."""
        return self.held.has_name()

    def map_size(self) -> int:
        """Return the address space set aside."""
        return int(self.env.info()["map_size"])

    def head(self) -> tuple[int, int]:
        """Return the last sequence number and the bytes of all blobs, as they are committed."""
        with self.env.begin() as txn:
            record = txn.get(HEAD_RECORD, db=self.tables[META])
        return (0, 0) if record is None else HEAD.unpack(record)[:2]


def _empty_begun(path: Path) -> None:
    """Empty a file that was cut off in its first write: LMDB would refuse it, and make no other.

    Nothing was ever committed to it. A store to which there was has the file ``head``; and what
    does not begin as LMDB does is somebody's, and stays.
    """
    data = path / DATA_FILE
    if not data.exists() or not 0 < data.stat().st_size < _FIRST or (path / HEAD_FILE).exists():
        return
    with data.open("rb") as file:
        begins = file.read(len(_BEGINS))
    if _BEGINS.startswith(begins):
        os.truncate(data, 0)


def is_noted(path: Path) -> bool:
    """Tell whether LMDB's lock file of the store can take a note of who reads.

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
            expected=f"permission to write to its {lock_file.name}: who reads is noted there",
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


def extend(env: lmdb.Environment, fd: int, page_size: int, least: int = 0) -> int:
    """Make a data file as long as it says it is; nobody else writes meanwhile.

    LMDB does not write pages at the end that are free again already.
    """
    whole = _whole_size(env, page_size)
    if whole <= least:
        return least
    found = os.fstat(fd).st_size
    if found < whole:
        os.ftruncate(fd, whole)
    return max(found, whole)


def _measure(env: lmdb.Environment, fd: int, path: Path) -> None:
    """Refuse a file that was cut short: reading beyond its end would end the process.

    A writer that was killed, or is about to extend the file, leaves only free pages out.
    """
    page_size = env.stat()["psize"]
    for _ in range(_TRIES):
        found, whole = os.fstat(fd).st_size, _whole_size(env, page_size)
        if found >= whole:
            return
        with env.begin() as txn:  # keeps its pages from being used again
            fine = only_free_pages_from(fd, found // page_size, page_size, txn.id())
        if fine:
            return
        if fine is False:
            break
    raise StoreCutError(
        f"the data file of the store {str(path)!r} is cut short",
        expected=f"{whole} bytes",
        found=str(found),
    )


def _whole_size(env: lmdb.Environment, page_size: int) -> int:
    return int((env.info()["last_pgno"] + 1) * page_size)
