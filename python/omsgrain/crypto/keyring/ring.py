# SPDX-License-Identifier: Apache-2.0
"""An open key file: its index, its keys, and the changes of other processes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from weakref import WeakSet

from omsgrain.crypto import private_file
from omsgrain.crypto.keyring.file import (
    START,
    KeyRecord,
    RecordIndex,
    Records,
    RecordState,
    RingFile,
)
from omsgrain.crypto.master_key import MasterKey, load_master, unwrap
from omsgrain.crypto.seal import KEY_SIZE, UserKeys, user_key
from omsgrain.durable import identity, sync_directory
from omsgrain.errors import ErasedError, KeyMissingError, StoreError

try:
    import fcntl
except ImportError:  # not POSIX: only one process may change the file
    fcntl = None  # type: ignore[assignment]


PATIENCE = 30.0
"""The longest wait, in seconds, for another thread or process that changes the file."""

_PAUSE = 0.0005, 0.02  # seconds between two tries


def lock(handle: int) -> bool:
    """Lock an open file, unless it is locked through another descriptor."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def unlock(handle: int) -> None:
    if fcntl is not None:
        fcntl.flock(handle, fcntl.LOCK_UN)


class RingLock:
    """The lock for changes, across processes; a thread that has it may take it again."""

    __slots__ = ("_thread", "depth", "patience")

    def __init__(self, patience: float = PATIENCE) -> None:
        self._thread = threading.RLock()
        self.depth = 0
        self.patience = patience

    def __enter__(self) -> None:
        """Lock out the other threads; the file is not locked yet."""
        if not self._thread.acquire(timeout=self.patience):
            raise _late("thread")
        self.depth += 1

    def __exit__(self, *_: object) -> None:
        self.leave()

    def leave(self) -> None:
        self.depth -= 1
        self._thread.release()

    def attempt(self) -> bool:
        """Take the lock if no thread has it, not even this one."""
        if not self._thread.acquire(blocking=False):
            return False
        if self.depth:
            self._thread.release()
            return False
        self.depth = 1
        return True

    def wait(self, handle: int) -> None:
        until = time.monotonic() + self.patience
        pause, longest = _PAUSE
        while not lock(handle):
            if time.monotonic() >= until:
                raise _late("process")
            time.sleep(pause)
            pause = min(2 * pause, longest)


def _late(who: str) -> StoreError:
    return StoreError(f"another {who} is changing the key file", expected="it to end soon")


_PIECE = 1 << 20

T = TypeVar("T")


def new_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.rekey-new")


def _old(path: Path) -> Path:
    return path.with_name(f".{path.name}.rekey-old")


def steady(path: Path, read: Callable[[], T]) -> T:
    """Read a key file; read again if another one replaced it meanwhile."""
    while True:
        before = identity(path)
        try:
            return read()
        except KeyMissingError:
            if identity(path) == before:
                raise


def has_leftovers(path: Path) -> bool:
    """Return whether a rewrite of the file was interrupted."""
    return new_path(path).exists() or _old(path).exists()


def tidy(path: Path) -> None:
    """Remove the files of a killed process; the caller has the lock."""
    old = _old(path)
    with suppress(FileNotFoundError):
        if os.path.samefile(old, path):
            old.unlink()  # it was killed before it replaced the old file
    private_file.remove(old)
    private_file.remove(new_path(path))


def write_copy(
    file: RingFile,
    path: Path,
    wrapped: bytes,
    generation: int,
    copy: Callable[[KeyRecord, int], bytes],
) -> RingFile:
    """Copy the records of a file into a new one, locked; it is on the disk when this returns."""
    fresh = RingFile.create(path, wrapped, generation)
    try:
        lock(fresh.handle)
        end, piece = START, bytearray()
        for offset, record in file.records(START):
            piece += copy(record, offset)
            if len(piece) >= _PIECE:
                private_file.write_at(fresh.handle, bytes(piece), end)
                end, piece = end + len(piece), bytearray()
        private_file.write_at(fresh.handle, bytes(piece), end)
        end, head = end + len(piece), file.head
        fresh.commit(fresh.head.next(end=end, records=head.records, erased=head.erased))
        fresh.appear()
    except BaseException:
        fresh.discard()
        raise
    return fresh


def swap(file: RingFile, fresh: RingFile) -> None:
    """Replace the old file by the new one."""
    path, old = file.path, _old(file.path)
    try:
        with suppress(OSError):  # without links the old file may stay unwiped
            os.link(path, old)
        os.replace(fresh.path, path)
    except BaseException:
        old.unlink(missing_ok=True)
        fresh.close()
        private_file.remove(fresh.path)
        raise
    fresh.path = path
    sync_directory(path.parent)


def bury(file: RingFile) -> None:
    """Overwrite the old file; its slots make readers of it open the new one."""
    try:
        private_file.zero(file.handle, 0, os.fstat(file.handle).st_size)
        file.sync()
        _old(file.path).unlink(missing_ok=True)
    finally:
        file.close()


#: The most users whose keys are cached.
CACHED = 1 << 16


class Ring:
    """An open key file.

    The lock is for changes. The guard, which is never held during a wait for others, is for the
    open file, the index and the keys. A thread that takes both takes the lock first.
    """

    __slots__ = (
        "__weakref__",
        "_cache",
        "_file",
        "_generation",
        "_guard",
        "_index",
        "_master",
        "_records",
        "_refusal",
        "_secret",
        "_turn",
    )

    _file: RingFile
    _index: RecordIndex
    _records: Records

    def __init__(self, file: RingFile, secret: bytes | None, master: MasterKey) -> None:
        """Use an open file; unwrap its secrets if they are not given."""
        self._cache: dict[int, UserKeys] = {}
        self._generation = -1
        self._guard = threading.RLock()
        self._master = master
        self._refusal: str | None = None
        self._secret = b""
        self._turn = RingLock()
        self._adopt(file, self._unwrap(file) if secret is None else secret)
        _open.add(self)
        try:
            if self._index.pending or not file.settled or has_leftovers(file.path):
                with self._changing():
                    pass
        except BaseException:
            self.close()
            raise

    def _unwrap(self, file: RingFile) -> bytes:
        secret = unwrap(load_master(self._master), file.wrapped())
        if not isinstance(secret, bytes) or len(secret) != 2 * KEY_SIZE:
            raise KeyMissingError("the master key did not unwrap the secrets of a key file")
        if self._secret and secret[:KEY_SIZE] != self._secret[:KEY_SIZE]:
            raise KeyMissingError("another key file replaced the open one")
        return secret

    def _adopt(self, file: RingFile, secret: bytes) -> None:
        records, index = Records(secret[:KEY_SIZE], secret[KEY_SIZE:]), RecordIndex()
        index.extend(file, records)
        index.pending = index.pending or index.erased != file.head.erased
        self._file, self._secret, self._records, self._index = file, secret, records, index
        self._generation = file.head.generation
        self._cache.clear()

    def _check(self) -> RingFile:
        if self._refusal is not None:
            raise KeyMissingError(self._refusal)
        return self._file

    def refresh(self) -> int:
        """Read the changes of other processes: remove destroyed keys, find new ones.

        Call it at the beginning of each transaction; it takes a microsecond if nothing changed.

        Returns:
            The generation of the file.

        Raises:
            KeyMissingError: The file is damaged, or this ring's master key does not open the file
                that replaced it.
            OSError: The file cannot be read.
        """
        file = self._file
        if self._refusal is not None or file.head.erasing or not file.is_same():
            self._follow()
        return self._file.head.generation

    @property
    def generation(self) -> int:
        """The generation of the file: increases with each destruction, rewrap and rekey."""
        return self.refresh()

    def _follow(self) -> None:
        with self._guard:
            file = self._check()
            gone = file.is_gone()
            if not gone:
                self._catch_up()
                if not file.head.erasing:
                    return
        if gone:
            with self._turn:
                if self._file is file:
                    self._reopen()
        elif not file.readonly and self._turn.attempt():
            try:
                self._finish()
            finally:
                self._turn.leave()

    def _catch_up(self) -> None:
        file = self._file
        before = file.head.sequence
        file.look()
        if file.head.sequence < before or self._index.is_ahead_of(file):
            self._adopt(file, self._unwrap(file))
        if file.head.generation != self._generation:
            self._cache.clear()
            self._generation = file.head.generation
        self._index.extend(file, self._records)

    def _reopen(self) -> None:
        path = self._file.path
        try:
            steady(path, lambda: self._replace(RingFile.open(path)))
        except BaseException:
            self._cache.clear()
            raise

    def _replace(self, file: RingFile) -> None:
        try:
            secret = self._unwrap(file)
            with self._guard:
                old = self._check()
                self._adopt(file, secret)
                old.close()
        except BaseException:
            file.close()
            raise

    def _finish(self) -> None:
        """Finish a destruction, unless another process has the lock for it."""
        handle = self._file.handle
        if not lock(handle):
            return
        try:
            if self._file.is_in_place():
                with self._guard:
                    self._catch_up()
                self._settle()
        finally:
            unlock(handle)

    @contextmanager
    def _changing(self) -> Iterator[RingFile]:
        """Hold the lock, with the file as it is now."""
        with self._turn:
            if self._check().readonly:
                raise StoreError("the key file is read-only", expected="a writable key file")
            self._take()
            try:
                with self._guard:
                    self._catch_up()
                self._settle()
                yield self._file
            finally:
                unlock(self._file.handle)

    def _take(self) -> None:
        self._turn.wait(self._file.handle)
        while not self._file.is_in_place():
            unlock(self._file.handle)
            self._reopen()
            self._turn.wait(self._file.handle)

    def _settle(self) -> None:
        """Finish changes that were interrupted or that failed here."""
        file = self._file
        tidy(file.path)
        if file.doubt:
            file.touch()
        elif file.settled and not self._index.pending:
            return
        erased = 0
        for offset, record in file.records(START):
            state = self._records.state(record)
            if state is RecordState.ERASING:
                file.destroy(offset, record)
            erased += state is not RecordState.LIVE
        file.clear()
        head = file.head
        risen = head.generation + (head.erasing or erased != head.erased)
        file.commit(head.next(generation=risen, erased=erased, erasing=0))
        with self._guard:
            self._index.pending = False
            self._catch_up()

    def _fetch(
        self, find: Callable[[RecordIndex], int | None], read: Callable[[int, KeyRecord | None], T]
    ) -> T | None:
        """Find a record and read it; retry if that fails: others may have changed the file."""
        for last in (False, True):
            with self._guard:
                file = self._check()
                offset = find(self._index)
                try:
                    if offset is not None:
                        known = offset in self._cache
                        return read(offset, None if known else file.record(offset))
                except (KeyMissingError, ErasedError, OSError):
                    if last:
                        raise
            if not last:
                self.refresh()
        return None

    def _open_record(self, offset: int, record: KeyRecord | None) -> tuple[bytes, bytes]:
        """Return salt and name of a record; the caller has the guard."""
        record = record or self._file.record(offset)
        if self._records.state(record) is not RecordState.LIVE:
            raise ErasedError("the keys of this record were destroyed")
        return self._records.open(record, offset)

    def _keys(self, offset: int, record: KeyRecord | None) -> UserKeys:
        """Return the keys of a record; the caller has the guard."""
        if record is None:
            return self._cache[offset]
        keys = self._derive(offset, record)
        if len(self._cache) >= CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[offset] = keys
        return keys

    def _glance(self, offset: int, record: KeyRecord | None) -> UserKeys:
        """Return the keys of a record without caching them, for a walk over all users."""
        if record is None or len(self._cache) < CACHED:
            return self._keys(offset, record)
        return self._derive(offset, record)

    def _derive(self, offset: int, record: KeyRecord) -> UserKeys:
        salt, name = self._open_record(offset, record)
        root, generation = self._secret[:KEY_SIZE], record.generation
        return UserKeys(record.number, user_key(root, name, salt=salt, generation=generation))

    def _last(self, identity: bytes) -> tuple[int, KeyRecord] | None:
        """Return the last record of a user, live or not; the caller has the guard."""
        offset = self._index.offset_of(identity)
        return None if offset is None else (offset, self._file.record(offset))

    def close(self) -> None:
        """Close the file and drop all keys."""
        with self._turn, self._guard:
            self._drop("the key ring is closed")

    def _drop(self, refusal: str) -> None:
        self._refusal = self._refusal or refusal
        self._cache.clear()
        self._secret = b""
        self._file.close()
        if hasattr(self, "_records"):
            del self._records

    def _abandon(self) -> None:
        """Close the ring in the child of a fork, which shares the parent's lock."""
        self._guard, self._turn = threading.RLock(), RingLock()
        self._drop("the key ring was opened before a fork; open it again in this process")


_open: WeakSet[Ring] = WeakSet()


def _after_fork() -> None:
    for ring in list(_open):
        ring._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
