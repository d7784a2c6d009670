# SPDX-License-Identifier: Apache-2.0
"""The LMDB environment under a store: the writers of one process, on files that others share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

import lmdb

from omsgrain.errors import OmsError, StoreError
from omsgrain.storage.lmdb.commit_queue import (
    CommitBatch,
    CommitQueue,
    PendingWrite,
    WorkFailedError,
)
from omsgrain.storage.lmdb.data_file import extend
from omsgrain.storage.lmdb.files import Budget, StoreDirectory
from omsgrain.storage.lmdb.open import failure

if TYPE_CHECKING:
    from lmdb import Transaction

PAUSE = 2.0
"""Seconds without a write that make a idle moment."""

LEAST = 256
"""Fewer grains than this are not worth a commit."""


class IdleFlush:
    """Calls ``flush`` once after each spell of writing.

    Attributes:
        wait: waits so many seconds, or until this ends, and tells whether it has ended. A test may
            put its own in the place.
    """

    def __init__(self, flush: Callable[[int], None]) -> None:
        self._flush = flush
        self._flushed = 0  # so many writes were followed by a idle moment
        self._writes = 0  # two threads may count as one; only that it has changed matters
        self._resting = False
        self._woken = threading.Condition()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.wait: Callable[[float], bool] = self._ended.wait

    def written(self) -> None:
        """Say that something was written just now."""
        self._writes += 1
        if self._resting or self._thread is None:
            with self._woken:
                self._woken.notify()
                if self._thread is None and not self._ended.is_set():
                    self._thread = threading.Thread(
                        target=self._run, name="omsgrain-idle-flush", daemon=True
                    )
                    with suppress(RuntimeError):  # the interpreter is ending
                        self._thread.start()

    def end(self) -> None:
        """Let the thread end; waits for nothing."""
        self._ended.set()
        with self._woken:
            self._woken.notify()

    def _run(self) -> None:
        while True:
            with self._woken:
                self._resting = True
                self._woken.wait_for(self._has_work)
                self._resting = False
            seen = self._writes
            if self.wait(PAUSE):
                return
            if seen == self._writes:
                # The grains are safe without it; a full disk is told by the next put.
                with suppress(OmsError):
                    self._flush(LEAST)
                self._flushed = seen

    def _has_work(self) -> bool:
        return self._writes != self._flushed or self._ended.is_set()


T = TypeVar("T")


class Environment(StoreDirectory):
    """The open files of one store, and the works that wait to be written.

    Attributes:
        users: how many handles share it.
    """

    def __init__(
        self, path: Path, *, readonly: bool, durable: bool, patience: float, budget: Budget
    ) -> None:
        super().__init__(
            path, readonly=readonly, durable=durable, patience=patience, budget=budget
        )
        self.users = 0
        self._idle_flush: IdleFlush | None = None
        self._queue = CommitQueue(self._commit_all)

    def write(
        self, work: Callable[[Transaction[bytes], CommitBatch], T], *, alone: bool = False
    ) -> T:
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
        session = CommitBatch()
        settled: list[tuple[PendingWrite, object, Exception | None]]
        with self._lock:
            txn = self.begin(write=True)
            try:
                with txn:  # committed on the way out
                    if apart:
                        settled = [(m, *self._apart(txn, session, m)) for m in members]
                    else:
                        one = len(members) == 1
                        settled = [(m, self._run(txn, session, m, one), None) for m in members]
                with suppress(OSError):
                    file = self.file
                    file.least = extend(file.env, file.fd, file.page_size, file.least)
            except lmdb.MapFullError:
                raise
            except lmdb.Error as error:
                raise failure(self.path, "write to the store", error) from error
            finally:
                self.done()
            if session.after is not None:
                session.after()
        for member, result, refusal in settled:
            member.settle(result, refusal)

    def _run(
        self, txn: Transaction[bytes], session: CommitBatch, member: PendingWrite, alone: bool
    ) -> object:
        """Run one work in the common transaction, which ends if it fails."""
        try:
            result = member.work(txn, session)
        except lmdb.Error:
            raise
        except Exception as error:
            if alone:
                raise
            raise WorkFailedError from error
        session.keep()
        return result

    def _apart(
        self, txn: Transaction[bytes], session: CommitBatch, member: PendingWrite
    ) -> tuple[object, Exception | None]:
        """Run one work in a transaction inside the common one; what it costs is noticed."""
        try:
            with self.file.env.begin(parent=txn, write=True) as inner:
                result = member.work(inner, session)
        except lmdb.Error:
            raise
        except Exception as error:
            session.drop()
            return None, error
        session.keep()
        return result, None

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Have the writers' turn without a transaction: nobody writes, all may read."""
        self._check_writer()
        with self._queue.exclusive(), self._lock:
            self.begin(write=True).abort()  # on the right files, and they can be written
            self.done()
            yield

    def flush_when_idle(self, flush: Callable[[Environment, int], None]) -> None:
        """Say how to write the index, of so many grains at least, when nobody writes for a while.

        The first call counts.
        """
        if self._idle_flush is None:
            self._idle_flush = IdleFlush(partial(flush, self))

    def written(self) -> None:
        """Say that something was written just now; a idle moment is counted from here."""
        if self._idle_flush is not None:
            self._idle_flush.written()

    def close(self) -> None:
        """Close the files."""
        try:
            super().close()
        finally:
            if self.closed and self._idle_flush is not None:
                self._idle_flush.end()
