# SPDX-License-Identifier: Apache-2.0
"""The store on disk: a directory with one LMDB file, ``memory.omsg/data.mdb``, and its lock."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from omsgrain import _core
from omsgrain.durable import file_path, identity
from omsgrain.errors import OmsError, StoreError
from omsgrain.storage.base import CheckReport, CompactReport, RebuildReport, Sidecar, StoreStats
from omsgrain.storage.lmdb import data_file
from omsgrain.storage.lmdb.backup import copy
from omsgrain.storage.lmdb.commit_queue import PATIENCE
from omsgrain.storage.lmdb.data_file import prepare
from omsgrain.storage.lmdb.environment import Environment, compare
from omsgrain.storage.lmdb.maintenance import compact, rebuild
from omsgrain.storage.lmdb.memtable import RUN, run_in
from omsgrain.storage.lmdb.pages import used_bytes
from omsgrain.storage.lmdb.reader import LmdbReader, LmdbSnapshot
from omsgrain.storage.location import Budget
from omsgrain.storage.tables import FORMAT, INDEXED_FORMAT

if TYPE_CHECKING:
    from omsgrain.storage.lmdb.writer import LmdbWriter

_shared: dict[tuple[int, int] | None, Environment] = {}
_lock = threading.RLock()  # re-entered when the garbage collector closes a handle inside


def acquire(
    path: Path, *, readonly: bool, durable: bool, patience: float, budget: Budget | None = None
) -> Environment:
    """Open the environment at the path, or share the one this process has open already."""
    budget = budget or Budget()
    with _lock:
        prepare(path, readonly=readonly)
        env = _shared.get(identity(path))
        if env is None:
            env = Environment(
                path, readonly=readonly, durable=durable, patience=patience, budget=budget
            )
            _shared[env.identity] = env
        else:
            env.strengthen(readonly=readonly, durable=durable)
            env.budget = env.budget.tightened(budget)
        env.users += 1
        return env


def release(env: Environment) -> None:
    with _lock:
        if _shared.get(env.identity) is not env:
            return  # inherited over a fork: the parent's to close
        env.users -= 1
        if not env.users:
            try:
                env.close()
            finally:
                if env.closed:
                    del _shared[env.identity]


_still: list[Environment] = []  # those without transactions, for the fork under way


def _before_fork() -> None:
    _lock.acquire()
    _still.extend(env for env in _shared.values() if env.before_fork())
    data_file.opening.acquire()


def _after_fork_in_parent() -> None:
    data_file.opening.release()
    for env in _still:
        env.after_fork_in_parent()
    _still.clear()
    _lock.release()


def _after_fork_in_child() -> None:
    data_file.opening.release()
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


T = TypeVar("T")


class LmdbStorage:
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        readonly: bool = False,
        durable: bool = True,
        patience: float = PATIENCE,
        budget: Budget | None = None,
    ) -> None:
        self.path = file_path(path)
        self.name = str(self.path)
        self.readonly = readonly
        self.sidecar = Sidecar(folder=self.path)
        self._written: Callable[[], None] | None = None
        self._closed = False
        self._next_flush = 0
        self._env = acquire(
            self.path, readonly=readonly, durable=durable, patience=patience, budget=budget
        )
        self._let_go = weakref.finalize(self, release, self._env)
        try:
            noted = self._env.head_file.read()  # before the snapshot, which is then no older
            with self.read() as reader:
                compare(noted, reader.last_seq(), self.path)
        except BaseException:
            self._closed = True
            self._let_go()
            raise

    def read(self) -> AbstractContextManager[LmdbReader]:
        """Open a snapshot. Never write while you hold one: a growing file would wait for it."""
        if self._closed:
            raise StoreError("the store is closed")
        return LmdbSnapshot(self._env)

    def latest(self) -> _core.CommitReader | None:
        seen = self._env.seen
        return None if seen is None or self._closed else seen.reader

    def write(
        self,
        work: Callable[[LmdbWriter], T],
        *,
        expecting: Sequence[bytes] = (),
        alone: bool = False,
    ) -> T:
        env = self._writable()
        result = env.write(work, alone=alone)
        gathered = env.memtable.last - env.memtable.watermark
        most = min(run_in(RUN, env.memtable.last), env.budget.run)
        if gathered >= max(most, self._next_flush):
            try:
                self.flush(most)
                self._next_flush = 0
            except StoreError:
                # All puts so far are safe. The first put without room reports the full disk.
                # Try again when more has gathered.
                self._next_flush = gathered + most // 4
        env.written()
        if self._written is not None:
            self._written()
        return result

    def flush(self, least: int = 1) -> None:
        self._writable().flush(least)

    def rebuild(self) -> RebuildReport:
        return self._writable().write(rebuild, alone=True)

    def compact(self) -> CompactReport:
        """Rewrite the file without free pages: smaller, and with nothing of what was removed."""
        return compact(self._writable())

    def check(self) -> CheckReport:
        self.env()
        from omsgrain.storage.check import check_in_child

        return check_in_child(self.path)

    def on_write(self, call: Callable[[], None]) -> None:
        self._written = call

    def sync(self) -> None:
        self.env().sync()

    def backup(self, path: str | os.PathLike[str]) -> None:
        copy(self.env(), file_path(path))

    def stats(self) -> StoreStats:
        env = self.env()
        with LmdbSnapshot(env) as reader:
            head = reader.head
            map_bytes = env.file.map_size()
            number = FORMAT if reader.indexed_paths() is None else INDEXED_FORMAT
            used = used_bytes(env.file.fd, *reader.commit())
            size = env.file.size()
        return StoreStats(
            grains=head.grains,
            blob_bytes=head.blob_bytes,
            last_seq=head.last_seq,
            watermark=head.watermark,
            file_bytes=size,
            map_bytes=map_bytes,
            format=number,
            free_bytes=0 if used is None else max(0, size - used),
        )

    def descriptor(self) -> int:
        """Return a descriptor of the data file; use it while a snapshot is open."""
        return self.env().file.fd

    def close(self) -> None:
        """Let go of the file; the last handle of the process closes it."""
        if not (self._closed or self.readonly):
            # So that the next process need not read the tail again. Nothing depends on it.
            with suppress(OmsError):
                self.flush()
        self._closed = True
        self._let_go()

    def env(self) -> Environment:
        if self._closed:
            raise StoreError("the store is closed")
        return self._env

    def _writable(self) -> Environment:
        env = self.env()
        if self.readonly:
            raise StoreError(f"the store {str(self.path)!r} is open for reading only")
        return env
