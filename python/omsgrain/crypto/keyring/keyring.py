# SPDX-License-Identifier: Apache-2.0
"""The keys of all users, in a file that can destroy each. Spec: OMS §20.

The file has a random root, wrapped under the master key. It has a random salt for each user,
encrypted under a key of the file. `derive` makes the user's keys of both. To erase a user is to
overwrite the user's salt: the keys cannot be made again, even with the master key.

That is true for this file only. An earlier copy still has the salt. So may a medium that does not
overwrite in place (flash, copy-on-write file systems). `rekey` rewrites the file under other keys;
then destroy the old master key.

Python cannot wipe keys in memory; they are only dropped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeVar

from omsgrain.crypto.keyring import ring
from omsgrain.crypto.keyring.file import (
    START,
    KeyRecord,
    RecordIndex,
    Records,
    RecordState,
    RingFile,
    pack,
)
from omsgrain.crypto.keyring.ring import Ring
from omsgrain.crypto.master_key import MasterKey, load_master, wrap
from omsgrain.crypto.seal import KEY_SIZE, UserKeys, name_bytes
from omsgrain.errors import ErasedError, KeyMissingError, UnsupportedError

_TOGETHER = 16_384  # records written at once

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class KeyStats:
    """Counts of a key file.

    Attributes:
        path: The file.
        live: Users with keys.
        erased: Destroyed records.
        generation: Increases with each destruction, rewrap and rekey.
    """

    path: str
    live: int
    erased: int
    generation: int


class KeyRing(Ring):
    """The keys of users. All threads can share one, and many processes the same file.

    Do not use a ring after a fork; open it again in the child. Every method may raise
    `KeyMissingError` (the file is damaged or gone, or the ring is closed) and `OSError`. Methods
    that change the file may raise `StoreError`, if others change it for half a minute, or if it is
    read-only.
    """

    __slots__ = ()

    @classmethod
    def create(cls, path: str | os.PathLike[str], *, master: MasterKey) -> KeyRing:
        """Make a new key file, mode 0600, with a new root.

        Args:
            path: A path that does not exist.
            master: The master key: 32 bytes, a path, a function, or an object that wraps.

        Raises:
            KeyMissingError: The master key is invalid, or does not unwrap what it wrapped.
            OSError: The file exists (FileExistsError), or cannot be written.
        """
        secret, path = os.urandom(2 * KEY_SIZE), Path(os.path.realpath(path))
        file = RingFile.create(path, wrap(load_master(master), secret), 1)
        try:
            file.commit(file.head.next())
            file.appear()
            return cls(file, secret, master)
        except BaseException:
            file.discard()
            raise

    @classmethod
    def open(cls, path: str | os.PathLike[str], *, master: MasterKey) -> KeyRing:
        """Open a key file.

        Args:
            path: The file; only its owner may be able to read it.
            master: As for `create`. A path is read again, or a function called, when another
                process has rewritten the file.

        Raises:
            KeyMissingError: The file is missing, not a key file, cut short or damaged; or it has
                another master key; or others may read either file.
            UnsupportedError: The file has a later version.
            OSError: A file cannot be read.
        """
        place = Path(os.path.realpath(path))
        return ring.steady(place, lambda: cls._of(RingFile.open(place), master))

    @classmethod
    def _of(cls, file: RingFile, master: MasterKey) -> KeyRing:
        try:
            return cls(file, None, master)
        except BaseException:
            file.close()
            raise

    def ensure(self, user_ids: Iterable[str]) -> None:
        """Make records for users without one; they are on the disk when it returns.

        An erased user gets another record, of the next generation.

        Args:
            user_ids: The user ids; at most 1,024 bytes of UTF-8 each. "" means no user.

        Raises:
            RangeError: Invalid user id; no record was made.
        """
        names = self._names(user_ids)
        self.refresh()
        if not (self._file.doubt or self._missing(names)):
            return
        with self._changing() as file:
            todo = self._missing(names)
            for at in range(0, len(todo), _TOGETHER):
                some = todo[at : at + _TOGETHER]
                data = b"".join(self._records.new(*record) for record in some)
                file.append(data)
                head = file.head
                file.commit(head.next(end=head.end + len(data), records=head.records + len(some)))
                with self._guard:
                    self._catch_up()

    def _names(self, user_ids: Iterable[str]) -> dict[bytes, bytes]:
        if isinstance(user_ids, str):
            user_ids = [user_ids]
        names = [name_bytes(user_id) for user_id in user_ids]
        with self._guard:
            self._check()
            return {name: self._records.identity(name) for name in names}

    def _missing(self, names: dict[bytes, bytes]) -> list[tuple[bytes, bytes, int]]:
        """Return name, identity and next generation of users without a live record."""
        found = []
        for name, identity in names.items():
            with self._guard:
                self._check()
                if self._index.offset_of(identity) in self._cache:
                    continue  # live, or the last refresh had removed it
                last = self._last(identity)
                if last is None:
                    found.append((name, identity, 1))
                elif self._records.state(last[1]) is not RecordState.LIVE:
                    found.append((name, identity, last[1].generation + 1))
        return found

    def of_user(self, user_id: str) -> UserKeys | None:
        """Return the keys of a user; None without a live record.

        Raises:
            KeyMissingError: The record is damaged.
            RangeError: Invalid user id.
        """
        (identity,) = self._names([user_id]).values()
        try:
            return self._fetch(lambda index: index.offset_of(identity), self._keys)
        except ErasedError:
            return None

    def by_number(self, number: bytes) -> UserKeys:
        """Return the keys of a record.

        Raises:
            KeyMissingError: The record does not exist, or is damaged.
            ErasedError: The keys were destroyed.
        """
        return self._of_number(number, self._keys)

    def user_id_of(self, number: bytes) -> str:
        """Return the user id of a record, as NFC text.

        Raises:
            KeyMissingError: The record does not exist, or is damaged.
            ErasedError: The record was destroyed.
        """
        return self._of_number(number, self._open_record)[1].decode()

    def _of_number(self, number: bytes, read: Callable[[int, KeyRecord | None], T]) -> T:
        found = self._fetch(partial(_offset, number), read)
        if found is None:
            raise KeyMissingError("the key file has no record with this number")
        return found

    def destroyed(self, user_ids: Iterable[str]) -> list[bytes]:
        """Return the numbers of destroyed records of users, the oldest first.

        If one of the users was ever erased, all records are read.

        Raises:
            RangeError: Invalid user id.
        """
        identities = set(self._names(user_ids).values())
        self.refresh()
        with self._guard:
            last = [one[1] for identity in identities if (one := self._last(identity))]
            if all(r.generation == 1 and self._records.state(r) is RecordState.LIVE for r in last):
                return []
            return [
                record.number
                for _, record in self._check().records(START)
                if record.identity in identities
                and self._records.state(record) is not RecordState.LIVE
            ]

    def users(self) -> Iterator[UserKeys]:
        """Yield the keys of all live records, in any order; the file may change meanwhile."""
        self.refresh()
        with self._guard:
            living = self._index.living
            numbers = list(living)
        for number in numbers:
            try:
                keys = self._fetch(partial(_offset, number), self._glance)
            except ErasedError:
                with self._guard:
                    living.pop(number, None)
                continue
            if keys is not None:
                yield keys

    def erase(self, user_ids: Iterable[str]) -> int:
        """Destroy the keys of users for good; they are gone from the disk when it returns.

        One call needs the same few syncs for all users. A holder of the root who knows a user id
        can see that the user existed, and was erased.

        Args:
            user_ids: The user ids; users without a live record are skipped.

        Returns:
            How many were destroyed.

        Raises:
            RangeError: Invalid user id; no key was destroyed.
        """
        names = self._names(user_ids)
        with self._changing() as file:
            doomed = list(self._live(names.values()))
            if not doomed:
                return 0
            try:
                self._destroy(file, doomed)
            except BaseException:
                with self._guard:
                    self._cache.clear()
                raise
            with self._guard:
                for offset, _ in doomed:
                    self._cache.pop(offset, None)
                self._generation = file.head.generation
        return len(doomed)

    def _live(self, identities: Iterable[bytes]) -> Iterator[tuple[int, KeyRecord]]:
        for identity in identities:
            with self._guard:
                last = self._last(identity)
                if last is not None and self._records.state(last[1]) is RecordState.LIVE:
                    yield last

    def _destroy(self, file: RingFile, doomed: list[tuple[int, KeyRecord]]) -> None:
        # The marks are on the disk before any overwrite: a half overwritten record is known.
        generation, erased = file.head.generation, file.head.erased + len(doomed)
        head = file.head.next(generation=generation + 1, erasing=1)
        file.announce(head)
        for offset, record in doomed:
            file.mark(offset, self._records.mark(record))
        # From here on, readers of an unmarked record see another generation.
        head = head.next(generation=generation + 2)
        file.announce(head)
        file.sync()
        for offset, record in doomed:
            file.destroy(offset, record)
        file.conclude(head.next(generation=generation + 3, erased=erased, erasing=0))

    def rewrap(self, master: MasterKey) -> None:
        """Wrap the secrets of the file under another master key; records do not change.

        Raises:
            KeyMissingError: The master key is invalid, or does not unwrap what it wrapped.
        """
        with self._changing() as file:
            wrapped = wrap(load_master(master), self._secret)
            file.rewrap(wrapped, file.head.generation + 1)
            self._master = master
            with self._guard:
                self._catch_up()

    def rekey(self, master: MasterKey) -> None:
        """Rewrite the file under new keys, and overwrite the old one.

        Users, numbers and keys stay; destroyed records stay destroyed. Other processes open the
        new file at their next `refresh`, if their master key opens it. To make old copies of the
        file useless, give another master key and destroy the old one.

        Raises:
            KeyMissingError: The master key is invalid, or does not unwrap what it wrapped.
            UnsupportedError: The system cannot replace an open file.
        """
        if os.name != "posix":
            raise UnsupportedError("rekey needs a system that can replace an open file")
        with self._changing() as file:
            secret = self._secret[:KEY_SIZE] + os.urandom(KEY_SIZE)
            wrapped = wrap(load_master(master), secret)
            into = Records(secret[:KEY_SIZE], secret[KEY_SIZE:])
            generation = file.head.generation + 1
            beside, copy = ring.new_path(file.path), partial(self._records.copy, into=into)
            fresh = ring.write_copy(file, beside, wrapped, generation, copy)
            ring.swap(file, fresh)
            with self._guard:
                self._adopt(fresh, secret)
                self._master = master
            ring.bury(file)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the key file into a new one, which the same master key opens.

        The copy keeps users who are erased later: make a new one after each erasure, and destroy
        the old copy.

        Raises:
            OSError: The file exists (FileExistsError), or cannot be written.
        """
        with self._changing() as file:
            target, generation = Path(os.path.realpath(path)), file.head.generation
            wrapped = file.wrapped()
            ring.write_copy(file, target, wrapped, generation, lambda r, _: pack(r)).close()

    def stats(self) -> KeyStats:
        """Count the records."""
        generation = self.refresh()
        return KeyStats(str(self._file.path), self.live, self._file.head.erased, generation)

    def __enter__(self) -> KeyRing:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def live(self) -> int:
        """The number of users with a key."""
        head = self._file.head
        return head.records - head.erased

    def __repr__(self) -> str:
        return f"<KeyRing {self.live} live, {self._file.head.erased} erased>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key ring contains keys and cannot be pickled")


def _offset(number: bytes, index: RecordIndex) -> int | None:
    return index.numbers.get(number)
