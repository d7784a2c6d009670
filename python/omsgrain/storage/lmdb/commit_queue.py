# SPDX-License-Identifier: Apache-2.0
"""The order of writers: a queue for the threads of a process, a file lock for the processes.

Every commit costs a sync of the disk, so threads that wait share a commit. If one work fails, the
commit is rolled back and all works run again, each in a nested transaction. Then a failure takes
back only its own work.

The lock is ours and not a library's, since it does four things together. Readers that cannot be
noted in LMDB's lock file share it. A process that has waited long goes first, by a second lock on
one byte. Waiting ends after a time. The kernel releases it with its process, however that dies.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.data_file import WRITER_FILE, failure

if TYPE_CHECKING:
    from omsgrain.storage.lmdb.memtable import Appended, Memtable
    from omsgrain.storage.lmdb.writer import LmdbWriter

_TOGETHER = 128  # works that share a commit at the most


class CommitBatch:
    """The pending additions of a commit, shared by the writers of its works."""

    __slots__ = ("added", "base", "fresh", "own", "pending", "rows", "writer")

    def __init__(self) -> None:
        # sequence number by address, of the works before this one
        self.pending: dict[bytes, int] = {}
        self.fresh: dict[bytes, int] = {}  # the same, of this work
        self.added: list[Appended] = []  # the grains of the works before this one
        self.own: list[Appended] = []  # those of this work
        self.base: int | None = None  # the last sequence number that was committed before
        # index rows of what the works wrote; made when a work queries the index
        self.rows: Memtable | None = None
        # the writer of the last work that succeeded; None if there is none yet
        self.writer: LmdbWriter | None = None

    def keep(self, writer: LmdbWriter) -> None:
        """The work is done: what it added belongs to the commit."""
        self.writer = writer
        self.pending.update(self.fresh)
        self.added += self.own
        self.fresh, self.own = {}, []

    def drop(self) -> None:
        """The work failed: forget what it added."""
        self.fresh, self.own = {}, []
        self.rows = None


Work = Callable[[Any], Any]
"""A function that writes with the writer it is given. It may run more than once."""


class PendingWrite:
    __slots__ = ("alone", "done", "error", "expecting", "leads", "left", "result", "woken", "work")

    def __init__(self, work: Work, alone: bool, expecting: Sequence[bytes]) -> None:
        self.work = work
        self.alone = alone  # it shares its commit with no other
        self.expecting = expecting  # addresses that it will look for
        self.done = False  # it was committed, or failed
        self.leads = False  # its thread commits next
        self.left = False  # its thread was interrupted and waits no more
        # held until the work is done or its thread leads; None if the thread need not wait
        self.woken: threading.Lock | None = None
        self.result: Any = None
        self.error: BaseException | None = None

    def settle(self, result: Any, error: BaseException | None) -> None:
        self.result, self.error, self.done = result, error, True

    def wake(self) -> None:
        if self.woken is not None:
            self.woken.release()

    def outcome(self) -> Any:
        if self.error is not None:
            raise self.error
        return self.result


class _Queue:
    """The works of a process that wait for a commit, in order of arrival.

    The first of them leads: its thread commits next. ``_led`` says that there is a leader.
    """

    def __init__(self) -> None:
        self._waiting: deque[PendingWrite] = deque()
        self._lock = threading.Lock()
        self._led = False
        self._wanted = 0  # so many works end the leader's pause
        self._gathered = threading.Lock()
        self._gathered.acquire()

    def join(self, member: PendingWrite) -> None:
        """Wait behind the others until the work is done, or is to lead."""
        with self._lock:
            self._waiting.append(member)
            if not self._led:
                self._led = member.leads = True
                return
            member.woken = woken = threading.Lock()
            woken.acquire()
            if 0 < self._wanted <= len(self._waiting):
                self._wanted = 0
                self._gathered.release()
        woken.acquire()

    def leave(self, member: PendingWrite) -> None:
        """Wait no more: an interrupt ends the thread's write."""
        with self._lock:
            member.left = True
            if member.leads:
                self._choose(member)
            elif member in self._waiting:
                self._waiting.remove(member)

    def gather(self, wanted: int, patience: float) -> None:
        """Pause until so many works wait, or for some seconds."""
        with self._lock:
            if len(self._waiting) >= wanted:
                return
            self._gathered.acquire(blocking=False)  # an interrupt may have left it free
            self._wanted = wanted
        self._gathered.acquire(timeout=patience)
        with self._lock:
            if not self._wanted:  # enough came just after the time was over
                self._gathered.acquire(blocking=False)
            self._wanted = 0

    def take(self) -> list[PendingWrite]:
        with self._lock:
            waiting = self._waiting
            taken = [waiting.popleft()]
            if not taken[0].alone:
                while waiting and not waiting[0].alone and len(taken) < _TOGETHER:
                    taken.append(waiting.popleft())
            return taken

    def end(self, leader: PendingWrite, unsettled: list[PendingWrite]) -> int:
        """Put works in front again and let the first one lead; return how many wait."""
        with self._lock:
            if unsettled:
                self._waiting.extendleft([m for m in reversed(unsettled) if not m.left])
            self._choose(leader)
            return len(self._waiting)

    def _choose(self, leader: PendingWrite) -> None:
        """Let the work behind the leader's lead."""
        waiting, leader.leads = self._waiting, False
        if waiting and waiting[0] is leader:  # it was interrupted
            waiting.popleft()
        self._led = bool(waiting)
        if waiting:
            waiting[0].leads = True
            waiting[0].wake()


class WorkFailedError(Exception):
    """One of several works has failed: begin again, each apart from the others."""


_WORTH = 100e-6  # seconds; a shorter commit is not worth a pause


class CommitQueue:
    """The threads of a process that write to one store: one of them commits for all that wait.

    When a commit ends, its leader wakes all whose works it did, and the next leader. Those threads
    often write again at once. So the next leader pauses for as many works as there were threads,
    for at most half the time that the last commit took.
    """

    def __init__(self, commit: Callable[[list[PendingWrite]], None]) -> None:
        self._commit = commit
        self._leader: int | None = None
        self._threads = 1  # that wrote or waited at the end of the last commit
        self._pause = 0.0
        self.queue = _Queue()

    def write(self, work: Work, *, alone: bool = False, expecting: Sequence[bytes] = ()) -> Any:
        """Run a work in a write transaction; others may share it, unless it is ``alone``."""
        member = PendingWrite(work, alone, expecting)
        try:
            self._join(member)
            if not member.done:
                self._lead(member)
        except BaseException:
            self.queue.leave(member)
            raise
        return member.outcome()

    def _join(self, member: PendingWrite) -> None:
        if self._leader == threading.get_ident():  # it would wait for itself
            raise StoreError("a write transaction inside another one of the same thread")
        self.queue.join(member)

    def _lead(self, own: PendingWrite) -> None:
        """Commit the works at the head of the queue: this one and those behind it."""
        self._leader = threading.get_ident()
        members = [own]
        try:
            if self._threads > 1 and self._pause > _WORTH and not own.alone:
                self.queue.gather(self._threads, self._pause)
            members = self.queue.take()
            began = time.monotonic()
            self._commit(members)
            self._pause = (time.monotonic() - began) / 2
        except Exception as error:
            for member in members:
                if not member.done:
                    member.settle(None, error)
        finally:
            # After an interrupt the others lead themselves.
            self._leader = None
            undone = [m for m in members if not m.done and m is not own]
            self._threads = len(members) + self.queue.end(own, undone)
            for member in members:
                if member.done:
                    member.wake()

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Keep the other threads from committing for the length of a ``with`` block."""
        member = PendingWrite(lambda writer: None, True, ())
        try:
            self._join(member)
            self._leader = threading.get_ident()
            self.queue.take()
            yield
        finally:
            if member.leads:
                self._leader = None
            self.queue.leave(member)


try:
    import fcntl
except ImportError:  # not a POSIX system: LMDB's own lock has to do
    fcntl = None  # type: ignore[assignment]


PATIENCE = 30.0
"""Seconds to wait for another process that writes."""

_PAUSE = 0.0005, 0.004  # seconds between two tries for the lock: a busy writer lets go but briefly
_FIRST = 0.0005, 0.001  # the same, where all others wait for us to take it
_LONG = 0.1  # seconds after which a process that waits goes first
_LOOK = 0.005  # seconds after which a process looks again whether one goes first
# Elsewhere the two kinds of locks are one, or there is only one.
_CAN_GO_FIRST = sys.platform == "linux"


def _late(who: str, patience: float) -> StoreError:
    return StoreError(
        f"another {who} is writing to the store",
        expected=f"its turn to end within {patience:g} s",
    )


class WriterLock:
    """The writers' turn: a lock on a file, which dead processes let go of.

    One thread of a process has it at a time, and may take it again inside.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._fd: int | None = None
        self._closed = False
        self._guard = threading.Lock()  # one thread may close while another tries
        self._thread = threading.RLock()
        self._depth = 0
        self._first = False  # we have waited long, and all others let us by
        self._looked = 0.0  # when no other process was first
        self.patience = patience

    def __enter__(self) -> None:
        began = time.monotonic()
        if not self._thread.acquire(timeout=self.patience):
            raise _late("thread", self.patience)
        try:
            if not self._depth and fcntl is not None:
                try:
                    self._try()  # nearly always it is free
                except OSError:
                    self._lock_file(began)
            self._depth += 1
        except BaseException:
            self._thread.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            with self._guard:
                if self._fd is not None and fcntl is not None:
                    fcntl.flock(self._fd, fcntl.LOCK_UN)
        self._thread.release()

    def _lock_file(self, began: float) -> None:
        pause, longest = _PAUSE
        try:
            while not self._has_taken():
                now = time.monotonic()
                if now - began >= self.patience:
                    raise _late("process", self.patience)
                if now - began >= _LONG and not self._first and self._goes_first():
                    pause, longest = _FIRST
                time.sleep(pause)
                pause = min(2 * pause, longest)
        except OSError as error:
            raise failure(self._path.parent, "lock for writing the store", error) from error
        finally:
            if self._first:
                self._lets_by()

    def _has_taken(self) -> bool:
        try:
            self._try()
        except BlockingIOError:
            return False
        return True

    def _try(self) -> None:
        with self._guard:
            if self._closed:
                raise StoreError("the store is closed")
            if self._fd is None:
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            if _CAN_GO_FIRST and not self._first:
                now = time.monotonic()
                if now - self._looked >= _LOOK:  # not each time: it costs two calls of the system
                    # Exclusive, since a process that may only read goes first with a shared lock.
                    fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
                    fcntl.lockf(self._fd, fcntl.LOCK_UN, 1)
                    self._looked = now
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _goes_first(self) -> bool:
        """Go before all other processes, unless another one does already."""
        with self._guard:
            if _CAN_GO_FIRST and self._fd is not None:
                with suppress(BlockingIOError):
                    fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)
                    self._first = True
        return self._first

    def _lets_by(self) -> None:
        with self._guard:
            self._first = False
            if self._fd is not None:
                fcntl.lockf(self._fd, fcntl.LOCK_UN, 1)

    def close(self) -> None:
        with self._guard:
            self._closed = True
            if self._fd is not None:
                os.close(self._fd)
                self._fd = None

    def after_fork(self) -> None:
        """In the child: close the file, which would hold the lock when the parent is killed."""
        self._guard = threading.Lock()  # a thread that stayed in the parent may hold the old one
        if self._thread.acquire(blocking=False):
            self._thread.release()
        else:
            self._thread, self._depth = threading.RLock(), 0
        self._first = False  # that lock is the parent's
        self.close()


class SharedLock:
    """The writers' lock, shared by readers that may not write to any file of the store.

    All threads of a process share one lock; the last one to release it unlocks the file. A store
    that was copied and not written to since has no lock file. Then the lock is on the directory,
    which every process locks for a moment when it opens the store.
    """

    def __init__(self, path: Path, patience: float) -> None:
        self._path = path
        self._fd = -1
        self._count = 0
        self._guard = threading.Lock()
        self.patience = patience

    def acquire(self) -> None:
        """Keep writers out until ``release``."""
        with self._guard:
            if not self._count:
                try:
                    self._fd = self._locked()
                except OSError as error:
                    raise failure(self._path, "lock for reading the store", error) from error
            self._count += 1

    def release(self) -> None:
        """Let writers in, unless another thread still reads."""
        with self._guard:
            self._count -= 1
            if not self._count:
                os.close(self._fd)

    def after_fork(self) -> None:
        """In the child: close the file, which would keep writers out when the parent is killed."""
        if self._count:
            os.close(self._fd)

    def _locked(self) -> int:
        began = time.monotonic()
        while True:
            try:
                return self._shared(self._path / WRITER_FILE, began)
            except FileNotFoundError:
                fd = self._shared(self._path, began)
                if not (self._path / WRITER_FILE).exists():
                    return fd  # whoever makes the file now waits for us
                os.close(fd)

    def _shared(self, path: Path, began: float) -> int:
        """Open a file and lock it, shared; closing it lets go."""
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        may_go_first = _CAN_GO_FIRST and path != self._path
        waits = False  # and all others let us by
        try:
            while True:
                with suppress(BlockingIOError):
                    fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    if waits:
                        fcntl.lockf(fd, fcntl.LOCK_UN, 1)
                    return fd
                waited = time.monotonic() - began
                if waited >= self.patience:
                    raise _late("process", self.patience)
                if waited >= _LONG and may_go_first and not waits:
                    with suppress(BlockingIOError):
                        fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1)
                        waits = True
                time.sleep(_FIRST[0])
        except BaseException:
            os.close(fd)
            raise
