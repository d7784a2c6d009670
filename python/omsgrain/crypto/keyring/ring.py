# SPDX-License-Identifier: Apache-2.0
"""A key file as a process has it open: its index, its keys, and how it follows what others do."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar
from weakref import WeakSet

from omsgrain.crypto.derive import KEY, UserKeys, user_key
from omsgrain.crypto.keyring import move
from omsgrain.crypto.keyring.file import START, RingFile
from omsgrain.crypto.keyring.index import Index
from omsgrain.crypto.keyring.lock import Turn, lock, unlock
from omsgrain.crypto.keyring.record import Record, Records, State
from omsgrain.crypto.master import MasterKey, load_master, unwrap
from omsgrain.errors import ErasedError, KeyMissingError, StoreError

__all__ = ["Ring"]

#: Users whose keys are kept at hand.
CACHED = 1 << 16

T = TypeVar("T")


class Ring:
    """An open key file.

    The turn is for changes; the guard, which is never held while waiting for others, for the file
    that is open, the index and the keys. Who takes both takes the turn first.
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
    _index: Index
    _records: Records

    def __init__(self, file: RingFile, secret: bytes | None, master: MasterKey) -> None:
        """Take an open file; its secrets are unwrapped if they are not given."""
        self._cache: dict[int, UserKeys] = {}
        self._generation = -1
        self._guard = threading.RLock()
        self._master = master
        self._refusal: str | None = None
        self._secret = b""
        self._turn = Turn()
        self._adopt(file, self._unwrap(file) if secret is None else secret)
        _open.add(self)
        try:
            if self._index.pending or not file.settled or move.has_leftovers(file.path):
                with self._changing():
                    pass
        except BaseException:
            self.close()
            raise

    def _unwrap(self, file: RingFile) -> bytes:
        secret = unwrap(load_master(self._master), file.wrapped())
        if not isinstance(secret, bytes) or len(secret) != 2 * KEY:
            raise KeyMissingError(
                "what the master key unwrapped are not the secrets of a key file"
            )
        if self._secret and secret[:KEY] != self._secret[:KEY]:
            raise KeyMissingError("another key file took the place of the one that was open")
        return secret

    def _adopt(self, file: RingFile, secret: bytes) -> None:
        records, index = Records(secret[:KEY], secret[KEY:]), Index()
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
        """See what other processes did: keys that are gone are dropped, new ones found.

        To be called at the beginning of each transaction; a microsecond, if nothing was done.

        Returns:
            The generation of the file.

        Raises:
            KeyMissingError: the file is damaged, or another took its place that this ring's
                master key does not open.
            OSError: it cannot be read.
        """
        file = self._file
        if self._refusal is not None or file.head.erasing or not file.is_same():
            self._follow()
        return self._file.head.generation

    @property
    def generation(self) -> int:
        """The generation of the file: higher after each destruction, rewrap and rekey."""
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
        """Open the file that is in the place of ours."""
        path = self._file.path
        try:
            move.steady(path, lambda: self._replace(RingFile.open(path)))
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
        """Finish a destruction, unless somebody is at it, who has the lock then."""
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
        """Have the turn, with the file as it is now.

        Raises:
            StoreError: others have it for too long, or the file can only be read.
        """
        with self._turn:
            if self._check().readonly:
                raise StoreError("the key file can only be read", expected="one that is writable")
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
        """Finish what others were killed at, and what failed here."""
        file = self._file
        move.tidy(file.path)
        if file.doubt:
            file.touch()
        elif file.settled and not self._index.pending:
            return
        erased = 0
        for offset, record in file.records(START):
            state = self._records.state(record)
            if state is State.ERASING:
                file.destroy(offset, record)
            erased += state is not State.LIVE
        file.clear()
        head = file.head
        risen = head.generation + (head.erasing or erased != head.erased)
        file.commit(head.next(generation=risen, erased=erased, erasing=0))
        with self._guard:
            self._index.pending = False
            self._catch_up()

    def _fetch(
        self, find: Callable[[Index], int | None], read: Callable[[int, Record | None], T]
    ) -> T | None:
        """Find a record and read it; again, if that fails: others may have changed the file."""
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

    def _open_record(self, offset: int, record: Record | None) -> tuple[bytes, bytes]:
        """Salt and name of a record; the guard is the caller's."""
        record = record or self._file.record(offset)
        if self._records.state(record) is not State.LIVE:
            raise ErasedError("the keys of this record were destroyed")
        return self._records.open(record, offset)

    def _keys(self, offset: int, record: Record | None) -> UserKeys:
        """The keys of a record; the guard is the caller's."""
        if record is None:
            return self._cache[offset]
        keys = self._derive(offset, record)
        if len(self._cache) >= CACHED:
            del self._cache[next(iter(self._cache))]
        self._cache[offset] = keys
        return keys

    def _glance(self, offset: int, record: Record | None) -> UserKeys:
        """The same, for who asks for all in turn: nobody else's keys make room for them."""
        if record is None or len(self._cache) < CACHED:
            return self._keys(offset, record)
        return self._derive(offset, record)

    def _derive(self, offset: int, record: Record) -> UserKeys:
        salt, name = self._open_record(offset, record)
        root, generation = self._secret[:KEY], record.generation
        return UserKeys(record.number, user_key(root, name, salt=salt, generation=generation))

    def _last(self, identity: bytes) -> tuple[int, Record] | None:
        """The last record of a user, live or not; the guard is the caller's."""
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
        """In the child of a fork: the lock is the parent's too, and its threads are not here."""
        self._guard, self._turn = threading.RLock(), Turn()
        self._drop("the key ring was opened before a fork; open it again in this process")


_open: WeakSet[Ring] = WeakSet()


def _after_fork() -> None:
    for ring in list(_open):
        ring._abandon()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
