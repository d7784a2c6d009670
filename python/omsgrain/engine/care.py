# SPDX-License-Identifier: Apache-2.0
"""Looking after a store."""

from __future__ import annotations

import os

from omsgrain.engine.base import Base
from omsgrain.store.base import CheckReport, RebuildReport, StoreStats

__all__ = ["Care"]


class Care(Base):
    """The part of a GrainStore that keeps it well."""

    def check(self) -> CheckReport:
        """Look at every byte that matters: blobs, addresses, index rows, counts.

        It runs in a process of its own, because LMDB does not survive every damaged page.
        """
        return self._store.check()

    def rebuild(self) -> RebuildReport:
        """Make the index anew from the blobs; the same blobs give the same bytes.

        Raises:
            StoreError: read-only, or no room; the old index is kept then.
        """
        return self._store.rebuild()

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a new directory, while it is in use.

        Raises:
            StoreError: there is something at the path, or it cannot be written.
        """
        self._store.backup(path)

    def stats(self) -> StoreStats:
        """Return how much the store holds, and how large its file is."""
        return self._store.stats()

    def sync(self) -> None:
        """Make durable what was put with ``durability="relaxed"``."""
        self._store.sync()
