# SPDX-License-Identifier: Apache-2.0
"""The LMDB environment under a store: its files as one process has them open, and its commits.

The map grows by itself. Another process may compact the store, which replaces the files that are
open here (``data_file.py``). Each transaction first checks that its file is still the store's; if
not, the new one is opened as soon as the transactions of this process have ended.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import lmdb

from omsgrain import _core
from omsgrain.durable import identity
from omsgrain.errors import AccessDeniedError, StoreError
from omsgrain.storage.lmdb.commit_queue import (
    CommitBatch,
    CommitQueue,
    PendingWrite,
    SharedLock,
    WorkFailedError,
    WriterLock,
)
from omsgrain.storage.lmdb.data_file import (
    DATA_FILE,
    HEAD_FILE,
    NEXT_FILE,
    WRITER_FILE,
    DataFile,
    MapResizeLock,
    failure,
    is_noted,
)
from omsgrain.storage.lmdb.memtable import LEAST, IdleThread, Memtable
from omsgrain.storage.lmdb.writer import LmdbWriter
from omsgrain.storage.location import Budget
from omsgrain.storage.tables import ADDRESSES, BLOBS, MARK, OLD_ADDRESSES, TERMS

if TYPE_CHECKING:
    from lmdb import Transaction, _Database

    from omsgrain.storage.lmdb.reader import SnapshotCache
    from omsgrain.storage.tables import Table


_LAYOUT = struct.Struct(">4sQQ")
_SUM = struct.Struct(">I")
_MAGIC = b"omsh"
_pwrite = getattr(os, "pwrite", None)  # one call of the system less, where there is one
_NEW = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)


class HeadFile:
    """The last sequence number and the bytes of all blobs, as the last commit left them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None
        self._lock = threading.Lock()  # a sync may note what it has while others commit

    def write(self, last_seq: int, blob_bytes: int) -> None:
        """Note how far the store has come. Not synced: after a power cut it may be behind."""
        body = _LAYOUT.pack(_MAGIC, last_seq, blob_bytes)
        body += _SUM.pack(zlib.crc32(body))
        with self._lock:
            if self._fd is None:
                self._fd = os.open(self._path, _NEW, 0o666)
            if _pwrite is not None:
                _pwrite(self._fd, body, 0)
                return
            os.lseek(self._fd, 0, os.SEEK_SET)
            os.write(self._fd, body)

    def raise_to(self, last_seq: int, blob_bytes: int) -> None:
        """Note how far the store has come, unless a commit beside this one has noted more."""
        if (self.read() or 0) <= last_seq:
            self.write(last_seq, blob_bytes)

    def read(self) -> int | None:
        """Return the last sequence number noted; None if there is none that can be trusted."""
        try:
            raw = self._path.read_bytes()
        except OSError:
            return None
        body, check = raw[: _LAYOUT.size], raw[_LAYOUT.size :]
        if len(check) != _SUM.size or _SUM.unpack(check)[0] != zlib.crc32(body):
            return None
        magic, last_seq, _ = _LAYOUT.unpack(body)
        return int(last_seq) if magic == _MAGIC else None

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def compare(noted: int | None, found: int, path: Path) -> None:
    """Refuse a store that is behind what was noted."""
    if noted is not None and noted > found:
        raise StoreError(
            f"the newest commit of the store {str(path)!r} is damaged; an older state was found",
            expected=f"sequence number {noted}",
            found=str(found),
        )


FIRST_MAP = 64 << 20
FORK_PATIENCE = 5.0
T = TypeVar("T")


class Environment:
    """The open files of one store in this process, its transactions, and the writes that wait."""

    file: DataFile  # the data file. Opening again changes it, so look it up in each transaction.

    def __init__(
        self, path: Path, *, readonly: bool, durable: bool, patience: float, budget: Budget
    ) -> None:
        self.path = path  # the store's directory
        self.patience = patience  # seconds to wait for other processes
        self.readonly = readonly  # no handle may write
        self.durable = durable  # every commit is synced to the disk before it returns
        self.memtable = Memtable(0)  # what this process knows beyond the watermark
        # what the last snapshot made of its commit (``reader.py``); None if nothing
        self.seen: SnapshotCache | None = None
        # the commits of the last run of the index, and of the last removal, of this process
        self.flushed = self.removed = -1_000
        self.head_file = HeadFile(path / HEAD_FILE)  # the note of how far the store had come
        self.closed = False  # nothing can be done with it any more
        # how much memory it may take: the tightest that any of its handles asked for
        self.budget = budget
        self.users = 0  # how many handles share it
        # The grains are safe without it; the next put reports a full disk.
        self._idle_flush = IdleThread(lambda still: self.flush(LEAST), name="idle-flush")
        self._queue = CommitQueue(self._commit_all)
        self._lock = WriterLock(path / WRITER_FILE, patience)
        # A process that cannot be registered as a reader keeps writers out instead.
        self._shared = None if not readonly or is_noted(path) else SharedLock(path, patience)
        self._map_lock = MapResizeLock()
        self._next = str(path / NEXT_FILE)
        self._refusal: str | None = None
        try:
            # While it is open, no other directory gets the same identity.
            self._directory = os.open(path, os.O_RDONLY) if os.name == "posix" else None
        except OSError as error:
            raise failure(path, "open the store", error) from error
        self.identity = identity(path)  # what tells the directory from any other
        try:
            new = not (path / DATA_FILE).exists()
            self._open(min(FIRST_MAP, budget.step) if new else 0, readonly=readonly)
        except BaseException:
            self._let_go()
            raise

    @property
    def tables(self) -> dict[Table, _Database]:
        """LMDB's handles; look them up in each transaction."""
        return self.file.tables

    def begin(self, *, write: bool = False) -> Transaction[bytes]:
        """Begin a transaction; end it with ``commit`` or ``abort``, then call ``done``."""
        while True:
            self._enter()
            try:
                if self._refusal is not None:
                    raise StoreError(self._refusal)
                file = self.file
                if not write and not file.closed and file.held.has_name():
                    return file.env.begin()  # what nearly every read finds; no call more than this
                if not self._is_behind(write):
                    return self.file.env.begin(write=write)
                grown = False
            except lmdb.MapResizedError:
                grown = True  # by another process
            except lmdb.Error as error:
                self.done()
                raise failure(self.path, "read the store", error) from error
            except BaseException:
                self.done()
                raise
            self.done()
            if grown:
                self._resize(grow=False)
            else:
                self._follow(write)

    def _enter(self) -> None:
        """Keep the map in place, and keep writers out if this reader cannot be noted."""
        lock = self._map_lock
        lock.marks.append(None)  # `lock.enter()` without its call: every read would pay for it
        if lock.taken:
            lock.wait()
        if self._shared is not None:
            try:
                self._shared.acquire()
            except BaseException:
                lock.leave()
                raise

    def done(self) -> None:
        lock = self._map_lock
        if lock.marks:  # in a child of a fork there is none
            if self._shared is not None:
                self._shared.release()
            lock.marks.pop()
        if lock.taken:
            lock.wake()

    def commit_reader(
        self, commit: tuple[int, int, int, bool, bool], memtable: Memtable
    ) -> _core.CommitReader | None:
        """Return what reads a commit of the open file in one call, as long as it is the newest.

        Of the commit are passed: its number, the watermark and the last sequence number; whether
        all grains of the memtable are still there, and whether also nothing is said of any.
        """
        if self._shared is not None:
            return None
        file = self.file
        addresses = [file.tables[ADDRESSES], file.tables[OLD_ADDRESSES]]
        tables = addresses, file.tables[BLOBS], file.tables[TERMS]
        return _core.CommitReader(
            (file.env.begin, file.held, self._map_lock, *tables), commit, memtable, MARK
        )

    @contextmanager
    def reading(self) -> Iterator[Transaction[bytes]]:
        """Have a read transaction, of the file alone: what is beyond it is for ``Snapshot``."""
        txn = self.begin()
        try:
            yield txn
        finally:
            txn.abort()
            self.done()

    def write(self, work: Callable[[LmdbWriter], T], *, alone: bool = False) -> T:
        """Run ``work`` in a write transaction, again after each time the map was too small.

        Threads that wait for each other here share a commit, unless the work is ``alone``.
        """
        self._check_writer()
        return cast("T", self._queue.write(work, alone=alone))

    def _check_writer(self) -> None:
        self._check()
        if self.readonly:
            raise StoreError(f"the store {str(self.path)!r} is open for reading only")

    def _commit_all(self, members: list[PendingWrite]) -> None:
        apart = False
        while True:
            try:
                self._commit(members, apart)
                return
            except lmdb.MapFullError:
                self._resize(grow=True)
            except WorkFailedError:
                apart = True

    def _commit(self, members: list[PendingWrite], apart: bool) -> None:
        batch = CommitBatch()
        settled: list[tuple[PendingWrite, object, Exception | None]]
        with self._lock:
            txn = self.begin(write=True)
            try:
                with self._ended(txn):
                    if apart:
                        settled = [(m, *self._apart(txn, batch, m)) for m in members]
                    else:
                        one = len(members) == 1
                        settled = [(m, self._run(txn, batch, m, one), None) for m in members]
                file = self.file
                try:
                    file.least = extend(file.env, file.fd, file.page_size, file.least)
                except OSError:
                    pass  # `_measure` knows a file that lacks only free pages
            except lmdb.MapFullError:
                raise
            except lmdb.Error as error:
                raise failure(self.path, "write to the store", error) from error
            finally:
                self.done()
            self._committed(batch)
        for member, result, refusal in settled:
            member.settle(result, refusal)

    @contextmanager
    def _ended(self, txn: Transaction[bytes]) -> Iterator[None]:
        """Commit a write transaction at the end of a ``with`` block; abort it after an error.

        In py-lmdb 3.0.0 an abort waits for as long as other threads read without a pause.
        """
        try:
            yield
        except BaseException:
            with self._map_lock.closed():
                txn.abort()
            raise
        txn.commit()

    def _run(
        self, txn: Transaction[bytes], batch: CommitBatch, member: PendingWrite, alone: bool
    ) -> object:
        """Run one work in the common transaction, which ends if it fails."""
        writer = LmdbWriter(self, txn, batch)
        try:
            result = member.work(writer)
        except lmdb.Error:
            raise
        except Exception as error:
            if alone:
                raise
            raise WorkFailedError from error
        batch.keep(writer)
        return result

    def _apart(
        self, txn: Transaction[bytes], batch: CommitBatch, member: PendingWrite
    ) -> tuple[object, Exception | None]:
        """Run one work in a transaction inside the common one; what it costs is noticed."""
        try:
            inner = self.file.env.begin(parent=txn, write=True)
            with self._ended(inner):
                writer = LmdbWriter(self, inner, batch)
                result = member.work(writer)
        except lmdb.Error:
            raise
        except Exception as error:
            batch.drop()
            return None, error
        batch.keep(writer)
        return result, None

    def _committed(self, batch: CommitBatch) -> None:
        """Take what was committed into the memtable, and note how far the store has come."""
        writer = batch.writer
        if writer is None:
            return
        head, memtable = writer.head, writer.memtable
        if head.watermark > memtable.watermark:
            # The tables have what it had.
            self.memtable = Memtable(head.watermark, paths=writer.paths)
            return
        memtable.extend(batch.added, head.last_seq)
        if self.durable:
            try:
                self.head_file.write(head.last_seq, head.blob_bytes)
            except OSError:
                pass  # the grains are safe; only damage to the newest root goes unseen

    def flush(self, least: int = 1) -> None:
        """Write the index of the grains beyond the watermark, if there are at least so many."""
        self.write(lambda writer: writer.flush(least), alone=True)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Hold the writers' lock without a transaction: others may read, none may write."""
        self._check_writer()
        with self._queue.exclusive(), self._lock:
            # On the right files, and they can be written. In py-lmdb 3.0.0 an abort waits for as
            # long as other threads read without a pause; a commit of nothing does not.
            self.begin(write=True).commit()
            self.done()
            yield

    def written(self) -> None:
        self._idle_flush.written()

    def copy(self, path: Path) -> None:
        """Copy the data file as it is now into a directory; writers may go on.

        Free pages are copied along: the copy without them ends the process in py-lmdb 3.0.0.
        """
        with self.reading():
            name: Any = os.fsencode(path)  # which it takes, whatever its stub says
            self.file.env.copy(name, compact=False)

    def sync(self) -> None:
        """Sync to the disk what was committed without, and note how far that is."""
        self._enter()
        try:
            self._check()
            if not self.file.readonly:
                self._sync_and_note()
        except lmdb.Error as error:
            raise failure(self.path, "sync the store", error) from error
        finally:
            self.done()

    def _sync_and_note(self) -> None:
        head = self.file.head()  # before, so that the disk has what is noted
        self.file.env.sync(True)
        if not self.durable and self.file.held.has_name():
            # Without this note only damage to the newest root goes unseen.
            with suppress(OSError):
                self.head_file.raise_to(*head)

    def strengthen(self, *, readonly: bool, durable: bool) -> None:
        """Open the file again if a further handle needs more than the others asked for."""
        wanted = (self.readonly and readonly, self.durable or durable)
        before = (self.readonly, self.durable)
        if wanted == before:
            return
        if self._shared is not None and not readonly:
            raise AccessDeniedError(
                f"the store {str(self.path)!r} is open for reading only, without its lock file",
                expected="every handle of this process to be closed first",
            )
        with nullcontext() if wanted[0] else self._lock, self._map_lock.alone():
            self._check()
            self._close()
            self.readonly, self.durable = wanted
            try:
                self._open(0, readonly=self.readonly)
            except StoreError:
                self.readonly, self.durable = before
                self._open(0, readonly=self.readonly)
                raise

    def _check(self) -> None:
        if self._refusal is not None:
            raise StoreError(self._refusal)

    def _is_behind(self, write: bool) -> bool:
        """Tell whether the file that is open is not the one to read from, or to write to."""
        if self.file.closed:
            return True  # it could not be opened again; perhaps it can now
        # Where a compaction was killed, what is written to its old file would be lost. Asked for
        # first: another process may give the new file its name just now.
        # `access` makes no exception of what is not there, as `stat` does.
        if write and (self.file.readonly or os.access(self._next, os.F_OK)):
            return True
        if self.file.held.has_name():
            return False
        if self._is_in_place() and (self.path / DATA_FILE).exists():
            return True
        if write:
            raise self._gone()
        return False  # what was open when they went can be read still

    def _is_in_place(self) -> bool:
        return identity(self.path) == self.identity

    def _gone(self) -> StoreError:
        return StoreError(f"the files of the store {str(self.path)!r} are gone")

    def must_be_in_place(self) -> None:
        """See that the path still leads to this store, and to no other that was put there."""
        if not self._is_in_place():
            raise self._gone()

    def _follow(self, write: bool) -> None:
        """Open the file that is in the place of ours.

        A reader leaves it to the next writer to open it for writing, which needs the lock.
        """
        with self._map_lock.alone():
            self._check()
            if not self._is_behind(write):
                return  # another thread was here before
            self.must_be_in_place()
            noted = self.head_file.read()
            self.file.close()
            self._open(0, readonly=not write)
            self.memtable = Memtable(0)
            try:
                compare(noted, self.file.head()[0], self.path)
            except StoreError as error:
                self._refusal = error.message
                raise

    def _resize(self, *, grow: bool) -> None:
        with self._map_lock.alone():
            self._check()
            try:
                size = self.file.map_size()
                size = size + min(size, self.budget.step) if grow else 0  # 0: as the file says
                self.file.env.set_mapsize(size)
            except (lmdb.Error, OverflowError) as error:
                # LMDB has let go of the old map: only opening again gives a whole environment.
                self.file.close()
                self._open(0, readonly=True)  # this thread has no turn here
                raise failure(self.path, "map more memory for the store", error) from error

    def _open(self, map_size: int, *, readonly: bool) -> None:
        self.must_be_in_place()
        try:
            # LMDB would wait for another writer without end.
            with self._keeping_out(readonly):
                self.file = DataFile.open(
                    self.path,
                    map_size=map_size,
                    readonly=readonly,
                    durable=self.durable,
                    patience=self.patience,
                    noted=self._shared is None,
                )
        except (lmdb.Error, OSError) as error:
            raise failure(self.path, "open the store", error) from error

    @contextmanager
    def _keeping_out(self, readonly: bool) -> Iterator[None]:
        """Keep writers out as long as the files are being opened, if need be."""
        if self._shared is not None:
            self._shared.acquire()
            try:
                yield
            finally:
                self._shared.release()
        else:
            with nullcontext() if readonly else self._lock:
                yield

    def _close(self) -> None:
        try:
            if not (self.durable or self.file.readonly or self.file.closed):
                self._sync_and_note()
        except lmdb.Error as error:
            raise failure(self.path, "sync the store", error) from error
        finally:
            self.file.close()

    def close(self) -> None:
        try:
            with self._map_lock.alone():
                self._refusal = "the store is closed"
                try:
                    self._close()
                finally:
                    self._let_go()
        finally:
            if self.closed:
                self._idle_flush.end()

    def _let_go(self) -> None:
        self.closed = True
        self._lock.close()
        self.head_file.close()
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None

    def before_fork(self) -> bool:
        """Wait for a moment without transactions, which a child could not end; not for long."""
        return self._map_lock.shut(FORK_PATIENCE)

    def after_fork_in_parent(self) -> None:
        self._map_lock.open()

    def after_fork_in_child(self) -> None:
        """Refuse all further use, and let go of the file so that the child may open it again."""
        self._refusal = "the store was opened before a fork; open it again in this process"
        self.seen = None
        if self._map_lock.marks:
            self.file.held.close()
            os.close(self.file.fd)  # closing the file under a transaction would end the process
            self.file.closed = True
        else:
            self.file.close()
        self._lock.after_fork()
        if self._shared is not None:
            self._shared.after_fork()
        self._let_go()
        # The old one stays taken: the thread that would release it has stayed in the parent.
        self._map_lock = MapResizeLock()


def extend(env: lmdb.Environment, fd: int, page_size: int, least: int = 0) -> int:
    """Make a data file as long as it says it is; the caller keeps writers out.

    LMDB does not write pages at the end that are free again already.
    """
    whole = int((env.info()["last_pgno"] + 1) * page_size)
    if whole <= least:
        return least
    found = os.fstat(fd).st_size
    if found < whole:
        os.ftruncate(fd, whole)
    return max(found, whole)
