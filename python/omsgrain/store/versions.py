# SPDX-License-Identifier: Apache-2.0
"""A table in memory whose rows keep their versions, so that a snapshot stays what it was."""

from __future__ import annotations

import threading
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

__all__ = ["Versions"]


class Versions:
    """Keys with their values, each value from one commit on; None where the key has none.

    One thread writes at a time, and others read meanwhile: what they may hold is never shortened
    or put in another order.
    """

    __slots__ = ("_lock", "_order", "_rows")

    def __init__(self) -> None:
        self._rows: dict[bytes, tuple[tuple[int, bytes | None], ...]] = {}
        self._order: list[bytes] | None = []  # the keys sorted; None when it must be made again
        self._lock = threading.Lock()

    def get(self, key: bytes, commit: int) -> bytes | None:
        """Return the value as a commit left it."""
        for since, value in reversed(self._rows.get(key, ())):
            if since <= commit:
                return value
        return None

    def set(self, key: bytes, value: bytes | None, commit: int) -> None:
        """Set the value from a commit on, which is none before the last one."""
        before = self._rows.get(key)
        if before is not None:
            self._rows[key] = (*(v for v in before if v[0] != commit), (commit, value))
            return
        with self._lock:
            self._rows[key] = ((commit, value),)
            if self._order and key < self._order[-1]:
                self._order = None
            elif self._order is not None:
                self._order.append(key)  # numbers rise, so most tables are never sorted

    def take_back(self, key: bytes, commit: int) -> None:
        """Forget the value that a commit set."""
        self._keep(key, tuple(v for v in self._rows.get(key, ()) if v[0] != commit))

    def prune(self, key: bytes, oldest: int) -> bool:
        """Forget the values that no snapshot from ``oldest`` on can see.

        Returns:
            Whether only one value, or none, is left, so that there is nothing more to prune.
        """
        versions = self._rows.get(key, ())
        while len(versions) > 1 and versions[1][0] <= oldest:
            versions = versions[1:]
        if len(versions) == 1 and versions[0][1] is None and versions[0][0] <= oldest:
            versions = ()
        self._keep(key, versions)
        return not versions or (len(versions) == 1 and versions[0][1] is not None)

    def _keep(self, key: bytes, versions: tuple[tuple[int, bytes | None], ...]) -> None:
        if versions:
            self._rows[key] = versions
        else:
            with self._lock:
                if self._rows.pop(key, None) is not None:
                    self._order = None

    def walk(
        self, after: bytes | None, prefix: bytes, commit: int
    ) -> Iterator[tuple[bytes, bytes]]:
        """Walk keys and values as a commit left them, by rising keys beyond one, with a prefix."""
        order = self._sorted()
        start = bisect_left(order, prefix)
        if after is not None:
            start = max(start, bisect_right(order, after))
        for i in range(start, len(order)):
            key = order[i]
            if not key.startswith(prefix):
                return
            value = self.get(key, commit)
            if value is not None:
                yield key, value

    def last(self, commit: int) -> tuple[bytes, bytes] | None:
        """Return the highest key and its value as a commit left them."""
        for key in reversed(self._sorted()):
            value = self.get(key, commit)
            if value is not None:
                return key, value
        return None

    def _sorted(self) -> list[bytes]:
        with self._lock:
            if self._order is None:
                self._order = sorted(self._rows)
            return self._order
