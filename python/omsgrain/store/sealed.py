# SPDX-License-Identifier: Apache-2.0
"""A store seen by somebody who holds keys: what is sealed is open to them.

    store = SealedStore(LmdbStore(path), ring)

It is the store below, with the same rows; only reading differs. ``grain`` opens what the ring has
a key for. ``find`` knows plain addresses too. A list of the index has the sealed grains among the
others, in the same order, from the blind rows. What the ring has no key for stays as it is for
everybody: header and address.

To find grains of unknown users, one token is made for each user of the ring.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from omsgrain.store.base import (
    CheckReport,
    CompactReport,
    Reader,
    RebuildReport,
    Store,
    StoreStats,
    Writer,
)
from omsgrain.store.home import Beside, beside
from omsgrain.store.unsealing import SealedReader, SealedWriter

if TYPE_CHECKING:
    from omsgrain.crypto.keyring import KeyRing

__all__ = ["SealedStore"]

T = TypeVar("T")


class SealedStore:
    """A ``Store`` whose sealed grains are open.

    Args:
        inner: the store.
        ring: the keys; every transaction looks whether some were destroyed since.
    """

    def __init__(self, inner: Store, ring: KeyRing) -> None:
        self.inner = inner
        self.ring = ring

    @property
    def beside(self) -> Beside:
        """What the store has beside its tables."""
        return beside(self.inner)

    @property
    def readonly(self) -> bool:
        """Whether ``write`` is refused."""
        return self.inner.readonly

    @contextmanager
    def read(self) -> Iterator[Reader]:
        """Open a snapshot."""
        self.ring.refresh()
        with self.inner.read() as reader:
            yield SealedReader(reader, self.ring)

    def write(self, work: Callable[[Writer], T], *, expecting: Sequence[bytes] = ()) -> T:
        """Run ``work`` in a write transaction."""

        def run(writer: Writer) -> T:
            self.ring.refresh()  # here, since the turn may have been long in coming
            return work(SealedWriter(writer, self.ring))

        return self.inner.write(run, expecting=expecting)

    def sync(self) -> None:
        """Make durable what was written with ``durability="relaxed"``."""
        self.inner.sync()

    def flush(self) -> None:
        """Write out what is held in memory for the index."""
        self.inner.flush()

    def rebuild(self) -> RebuildReport:
        """Make the index anew; blind rows stay, since nothing else could tell them."""
        return self.inner.rebuild()

    def check(self) -> CheckReport:
        """Look at every blob, address and index row."""
        return self.inner.check()

    def compact(self) -> CompactReport:
        """Write the store's file anew."""
        return self.inner.compact()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store; keys are not in it."""
        self.inner.backup(path)

    def stats(self) -> StoreStats:
        """Return how much the store holds."""
        return self.inner.stats()

    def close(self) -> None:
        """Let go of the store; the ring stays open."""
        self.inner.close()
