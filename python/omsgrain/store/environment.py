# SPDX-License-Identifier: Apache-2.0
"""The LMDB environment under a store: opened once a process, shared, growing, safe over a fork.

LMDB must not be opened twice in one process (its file locks belong to the process, and the first
close drops them), so handles on the same file share one ``Environment`` and count its users.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import lmdb

from omsgrain.errors import StoreError
from omsgrain.store.gate import Gate
from omsgrain.store.opening import (
    DATA_FILE,
    HEAD_FILE,
    WRITER_FILE,
    failure,
    identity,
    open_tables,
    prepare,
)
from omsgrain.store.recent import Recent
from omsgrain.store.side import SideFile
from omsgrain.store.turns import Member, Queue, Session, WriterLock

if TYPE_CHECKING:
    from lmdb import Transaction, _Database

    from omsgrain.store.tables import Table

__all__ = ["Environment", "acquire"]

T = TypeVar("T")

FIRST_MAP = 64 << 20
LARGEST_STEP = 4 << 30
MAX_READERS = 1_024
MAX_TABLES = 64
FORK_PATIENCE = 5.0


class Environment:
    """One open LMDB file.

    Attributes:
        path: the store's directory.
        readonly: no handle may write.
        durable: every commit is synced to the disk before it returns.
        recent: what this process knows beyond the watermark.
        side: the note of how far the store had come.
        tables: LMDB's handles. Opening the file again changes them, so look them up in each
            transaction.
    """

    tables: dict[Table, _Database]

    def __init__(self, path: Path, *, readonly: bool, durable: bool, patience: float) -> None:
        self.path = path
        self.readonly = readonly
        self.durable = durable
        self.users = 0
        self.recent = Recent(0)
        self.side = SideFile(path / HEAD_FILE)
        self._lock = WriterLock(path / WRITER_FILE, patience)
        self._queue = Queue()
        self._gate = Gate()
        self._refusal: str | None = None
        self._writing = threading.Lock()
        self._writer: int | None = None
        try:
            self._open(FIRST_MAP if identity(path) is None else 0)
        except BaseException:
            self._lock.close()
            raise
        self.identity = identity(path)
        self._fd = os.open(path / DATA_FILE, os.O_RDONLY)  # to ask about the file, nothing more

    def begin(self, *, write: bool = False) -> Transaction[bytes]:
        """Begin a transaction; end it with ``commit`` or ``abort``, then call ``done``."""
        while True:
            self._gate.enter()
            try:
                self._check()
                return self._env.begin(write=write)
            except lmdb.MapResizedError:
                self.done()
                self._resize(grow=False)  # another process let the file grow: take its size
            except lmdb.Error as error:
                self.done()
                raise failure(self.path, "read the store", error) from error
            except BaseException:
                self.done()
                raise

    def done(self) -> None:
        """Say that a transaction has ended."""
        self._gate.leave()

    def write(self, work: Callable[[Transaction[bytes], Session], T], *, alone: bool = False) -> T:
        """Run ``work`` in a write transaction, again after each time the map was too small.

        Threads that wait for each other here share a commit, unless the work is ``alone``.
        """
        self._check()
        if self.readonly:
            raise StoreError(f"the store {str(self.path)!r} is open for reading only")
        if self._writer == threading.get_ident():
            raise StoreError("a write transaction inside another one of the same thread")
        member = Member(work, alone)
        self._queue.append(member)
        while not member.done:
            with self._writing:
                if not member.done:
                    self._lead(member)
        return cast("T", member.outcome())

    def _lead(self, own: Member) -> None:
        """Commit the works at the head of the queue; others may be among them, or all of them."""
        self._writer = threading.get_ident()
        members = self._queue.take()
        try:
            while True:
                try:
                    self._commit(members)
                    return
                except lmdb.MapFullError:
                    self._resize(grow=True)
        except Exception as error:
            for member in members:
                if not member.done:
                    member.settle(None, error)
        finally:
            # After an interrupt the others lead themselves.
            self._queue.give_back([m for m in members if not m.done and m is not own])
            self._writer = None

    def _commit(self, members: list[Member]) -> None:
        session = Session()
        self._lock.acquire()
        try:
            txn = self.begin(write=True)
            try:
                if not os.fstat(self._fd).st_nlink:
                    txn.abort()
                    raise StoreError(f"the files of the store {str(self.path)!r} are gone")
                with txn:  # committed on the way out
                    shared = len(members) > 1
                    settled = [(m, *self._run(txn, session, m, shared)) for m in members]
                if self.file_size() < self._whole_size():
                    # LMDB does not write pages at the end that are free again already.
                    with suppress(OSError):
                        os.truncate(self.path / DATA_FILE, self._whole_size())
            except lmdb.MapFullError:
                raise
            except lmdb.Error as error:
                raise failure(self.path, "write to the store", error) from error
            finally:
                self.done()
            if session.after is not None:
                session.after()
        finally:
            self._lock.release()
        for member, result, refusal in settled:
            member.settle(result, refusal)

    def _run(
        self, txn: Transaction[bytes], session: Session, member: Member, nested: bool
    ) -> tuple[object, Exception | None]:
        """Run one work; one of several in a transaction inside the common one."""
        if not nested:
            result = member.work(txn, session)
            session.keep()
            return result, None
        try:
            with self._env.begin(parent=txn, write=True) as inner:
                result = member.work(inner, session)
        except lmdb.Error:
            raise
        except Exception as error:
            session.drop()
            return None, error
        session.keep()
        return result, None

    def map_size(self) -> int:
        """Return the size of the memory map; ask inside a transaction, lest it move meanwhile."""
        return self._env.info()["map_size"]

    def file_size(self) -> int:
        """Return the size of the data file; ask inside a transaction, lest it be closed."""
        return os.fstat(self._fd).st_size

    def copy(self, path: Path) -> None:
        """Copy the file as it is now into a directory; writers may go on.

        Free pages are copied along: the copy without them ends the process in py-lmdb 3.0.0.
        """
        self._gate.enter()
        try:
            self._check()
            self._env.copy(str(path), compact=False)
        finally:
            self.done()

    def sync(self) -> None:
        """Sync to the disk what was committed without."""
        self._gate.enter()
        try:
            self._check()
            self._env.sync(True)
        except lmdb.Error as error:
            raise failure(self.path, "sync the store", error) from error
        finally:
            self.done()

    def strengthen(self, *, readonly: bool, durable: bool) -> None:
        """Open the file again if a further handle needs more than the others asked for."""
        wanted = (self.readonly and readonly, self.durable or durable)
        before = (self.readonly, self.durable)
        if wanted == before:
            return
        with self._gate.alone():
            self._close()
            self.readonly, self.durable = wanted
            try:
                self._open(0)
            except StoreError:
                self.readonly, self.durable = before
                self._open(0)
                raise

    def _check(self) -> None:
        if self._refusal is not None:
            raise StoreError(self._refusal)

    def _resize(self, *, grow: bool) -> None:
        with self._gate.alone():
            self._check()
            size = self.map_size()
            size = size + min(size, LARGEST_STEP) if grow else 0  # 0: as large as the file says
            try:
                self._env.set_mapsize(size)
            except (lmdb.Error, OverflowError) as error:
                # LMDB has let go of the old map: only opening again gives a whole environment.
                self._env.close()
                self._open(0)
                raise failure(self.path, "map more memory for the store", error) from error

    def _open(self, map_size: int) -> None:
        try:
            self._env = lmdb.open(
                str(self.path),
                map_size=map_size,
                readonly=self.readonly,
                sync=self.durable,
                create=False,
                mode=0o666,  # the umask decides
                max_dbs=MAX_TABLES,
                max_readers=MAX_READERS,
                max_spare_txns=0,  # a cached transaction's slot would not outlive a fork
            )
            try:
                self._measure()
                self._env.reader_check()  # frees the slots of readers that were killed
                self.tables = self._open_tables()
            except BaseException:
                self._env.close()
                raise
        except (lmdb.Error, OSError) as error:
            self._refusal = f"the store {str(self.path)!r} could not be opened again"
            raise failure(self.path, "open the store", error) from error
        self._refusal = None

    def _measure(self) -> None:
        """Refuse a file that was cut short: reading beyond its end would end the process."""
        whole, found = self._whole_size(), (self.path / DATA_FILE).stat().st_size
        if found < whole:
            raise StoreError(
                f"the data file of the store {str(self.path)!r} is cut short",
                expected=f"{whole} bytes",
                found=str(found),
            )

    def _whole_size(self) -> int:
        return int((self._env.info()["last_pgno"] + 1) * self._env.stat()["psize"])

    def _open_tables(self) -> dict[Table, _Database]:
        if not self.readonly:
            self._lock.acquire()  # LMDB would wait for another writer without end
        try:
            while True:
                try:
                    return open_tables(self._env, self.path, readonly=self.readonly)
                except lmdb.MapResizedError:  # another process was growing the file just now
                    self._env.set_mapsize(0)
        finally:
            if not self.readonly:
                self._lock.release()

    def _close(self) -> None:
        try:
            if not (self.durable or self.readonly):
                self._env.sync(True)
        except lmdb.Error as error:
            raise failure(self.path, "sync the store", error) from error
        finally:
            self._env.close()

    def release(self) -> None:
        """Say that a handle is closed; the last one closes the file."""
        with _lock:
            if _shared.get(self.identity) is not self:
                return  # inherited over a fork: the parent's to close
            self.users -= 1
            if self.users:
                return
            with self._gate.alone():
                self._refusal = "the store is closed"
                del _shared[self.identity]
                os.close(self._fd)
                self._lock.close()
                self.side.close()
                self._close()

    def before_fork(self) -> bool:
        """Wait for a moment without transactions, which a child could not end; not for long."""
        return self._gate.shut(FORK_PATIENCE)

    def after_fork_in_parent(self) -> None:
        """Go on."""
        self._gate.open()

    def after_fork_in_child(self) -> None:
        """Refuse all further use, and let go of the file so that the child may open it anew."""
        self._refusal = "the store was opened before a fork; open it again in this process"
        if not self._gate.inside:
            self._env.close()
        os.close(self._fd)
        self._lock.after_fork()
        self.side.close()
        self._gate = Gate()  # the old one stays shut: who opens it has stayed in the parent


_shared: dict[tuple[int, int] | None, Environment] = {}
_lock = threading.RLock()  # re-entered when the garbage collector closes a handle inside


def acquire(path: Path, *, readonly: bool, durable: bool, patience: float) -> Environment:
    """Open the environment at the path, or share the one this process has open already.

    Raises:
        StoreError: there is no store and none can be made, or it cannot be opened.
    """
    with _lock:
        prepare(path, readonly=readonly)
        env = _shared.get(identity(path))
        if env is None:
            env = Environment(path, readonly=readonly, durable=durable, patience=patience)
            _shared[env.identity] = env
        else:
            env.strengthen(readonly=readonly, durable=durable)
        env.users += 1
        return env


_still: list[Environment] = []  # those that stand still for the fork under way


def _before_fork() -> None:
    _lock.acquire()
    _still.extend(env for env in _shared.values() if env.before_fork())


def _after_fork_in_parent() -> None:
    for env in _still:
        env.after_fork_in_parent()
    _still.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    for env in _shared.values():
        env.after_fork_in_child()
    _still.clear()
    _shared.clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_before_fork,
        after_in_parent=_after_fork_in_parent,
        after_in_child=_after_fork_in_child,
    )
