# SPDX-License-Identifier: Apache-2.0
"""Text indexes and vectors of single users' encrypted grains, opened, in memory.

No word of them is written to a file. Those of a few users stay in memory for the next search. They
are dropped once the user's key is destroyed. Spec: OMS §20
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from heapq import merge, nsmallest
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from omsgrain import _core
from omsgrain.crypto.seal import Sealer
from omsgrain.errors import ErasedError, KeyMissingError
from omsgrain.search.matrix import VectorMatrices
from omsgrain.search.text import TextIndex
from omsgrain.search.vectors import Model
from omsgrain.storage.base import PAGE_BYTES, PAGE_GRAINS, Reader
from omsgrain.storage.blind_index import seqs_of
from omsgrain.storage.encrypted import MOST_OPENED, DecryptingReader
from omsgrain.storage.tables import SEALED, SEQUENCE, VECTORS, VEILED

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.base import Transactions
    from omsgrain.storage.location import Budget

_KEPT = 4  # users whose indexes are in memory
_TOGETHER = 64  # grains whose vectors are read at once


class OpenedGrains:
    """The grains of one user in a store, opened."""

    def __init__(self, storage: Transactions, user_id: str, keys: UserKeys) -> None:
        self._storage, self._user_id, self.keys = storage, user_id, keys
        self._term = _core.term("user_id", user_id)

    @contextmanager
    def snapshot(self) -> Iterator[DecryptingReader]:
        """Open a snapshot in which encrypted grains are looked for under this user's key only."""
        with self._storage.read() as reader:
            assert isinstance(reader, DecryptingReader)
            yield reader.narrowed(self._user_id, ())

    @contextmanager
    def feed(self) -> Iterator[UserReader]:
        """Open a snapshot for a text index: it has the user's grains alone."""
        with self.snapshot() as reader:
            yield UserReader(reader, self)

    def seqs(
        self, reader: DecryptingReader, after: int = 0, most: int = MOST_OPENED
    ) -> Iterator[int]:
        """Iterate over the numbers of the user's grains after one, rising."""
        inner = reader.inner
        plain: Sequence[int] = ()
        if inner.term_count(self._term):
            places = inner.places(self._term, None, False)
            numbers = (int.from_bytes(place[12:], "big") for place in places)
            plain = nsmallest(most, (seq for seq in numbers if seq > after))
        return merge(plain, seqs_of(inner, self.keys.number, after=after))

    def all(self, reader: Reader, model: Model) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys and the opened values of the user's vectors of a model."""
        assert isinstance(reader, DecryptingReader)
        return self._vectors(reader, model, self.seqs(reader))

    def some(
        self, reader: Reader, model: Model, seqs: Iterable[int]
    ) -> Iterator[tuple[bytes, bytes]]:
        """Do the same for those of some grains that are the user's."""
        own = (seq for seq in sorted(seqs) if self._has(reader, seq))
        return self._vectors(reader, model, own)

    def _vectors(
        self, reader: Reader, model: Model, seqs: Iterator[int]
    ) -> Iterator[tuple[bytes, bytes]]:
        sealer = Sealer(self.keys.vector)
        while keys := [model.key(seq) for seq in islice(seqs, _TOGETHER)]:
            yield from reader.some_rows(VECTORS, keys).items()
            for key, sealed in reader.some_rows(VEILED, keys).items():
                yield key, bytes(sealer.unseal_vector(sealed, key))

    def _has(self, reader: Reader, seq: int) -> bool:
        number = reader.row(SEALED, SEQUENCE.pack(seq))
        if number is not None:
            return number == self.keys.number
        grain = reader.grain(seq)
        return grain is not None and grain.get("user_id") == self._user_id


class UserReader(DecryptingReader):
    """A snapshot whose pages have one user's grains only, opened: the feed of a text index."""

    def __init__(self, reader: DecryptingReader, user: OpenedGrains) -> None:
        super().__init__(reader.inner, reader.ring, (user.keys,))
        self._user = user

    def blob_at(self, seq: int) -> bytes | None:
        grain = self.grain(seq)
        return None if grain is None else grain.blob

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        found: list[tuple[int, bytes]] = []
        for seq in islice(self._user.seqs(self, after, grains), grains):
            blob = self.blob_at(seq)
            if blob is not None:
                found.append((seq, blob))
                size -= len(blob)
                if size < 0:
                    break
        return found


class UserIndexes(NamedTuple):
    texts: TextIndex
    vectors: VectorMatrices


class UserTexts:
    """The text indexes and vectors of the users who were searched last."""

    def __init__(self, ring: KeyRing, budget: Budget) -> None:
        self._ring, self._budget = ring, budget
        self._users: dict[bytes, UserIndexes] = {}
        self._lock = threading.Lock()

    def of(self, keys: UserKeys) -> UserIndexes:
        """Return what is in memory of a user, which may be nothing; drop those without a key."""
        from omsgrain.search.text_file import SqliteTextIndex

        self.drop_dead()
        with self._lock:
            found = self._users.pop(keys.number, None)
            if found is None:
                vectors = VectorMatrices(self._budget.vectors // _KEPT)
                found = UserIndexes(SqliteTextIndex(None, budget=self._budget), vectors)
            self._users[keys.number] = found  # last, as the one used last
            while len(self._users) > _KEPT:
                self._users.pop(next(iter(self._users)))  # closed once no search uses it
            return found

    def drop_vectors(self) -> None:
        """Forget the vectors in memory."""
        with self._lock:
            for user in self._users.values():
                user.vectors.drop()

    def drop_dead(self) -> None:
        """Drop what is in memory of users whose key was destroyed."""
        with self._lock:
            for number in [number for number in self._users if not self._lives(number)]:
                dead = self._users.pop(number)
                dead.texts.close()
                dead.vectors.drop()

    def _lives(self, number: bytes) -> bool:
        try:
            self._ring.by_number(number)
        except (ErasedError, KeyMissingError):
            return False
        return True

    def close(self) -> None:
        """Close all indexes."""
        with self._lock:
            while self._users:
                self._users.popitem()[1].texts.close()
