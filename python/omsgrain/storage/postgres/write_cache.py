# SPDX-License-Identifier: Apache-2.0
"""What a write transaction need not ask twice: nobody else writes to the store while it lasts.

A work on a thousand grains asks of each whether it is held, guarded, signed and so on. Most stores
have few such rows, or none. So a table that is asked a second time is read whole if it is small,
and answers from here on, with what the transaction itself has changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from omsgrain.storage.tables import Table

_FEW = 2_048  # rows of a table that is read whole
_BLOBS = 16 << 20  # bytes of blobs kept


class WriteCache:
    """Small tables, and blobs that were read."""

    def __init__(self, tables: dict[Table, dict[bytes, bytes]]) -> None:
        self._tables = tables
        self._met: set[Table] = set()
        self._large: set[Table] = set()
        self._blobs: dict[int, bytes] = {}
        self._size = 0

    def table(
        self, table: Table, read: Callable[[int], Iterable[tuple[bytes, bytes]]]
    ) -> dict[bytes, bytes] | None:
        """All rows of a table, where they are few and not asked for the first time."""
        found = self._tables.get(table)
        if found is None and table not in self._large:
            if table not in self._met:
                self._met.add(table)
                return None
            rows = dict(read(_FEW + 1))
            if len(rows) <= _FEW:
                found = self._tables[table] = rows
            else:
                self._large.add(table)
        return found

    def set(self, table: Table, key: bytes, value: bytes | None) -> bool:
        """Note a change; tell whether it is one, as far as that is known."""
        rows = self._tables.get(table)
        if rows is None:
            return True
        if value is None:
            return rows.pop(key, None) is not None
        rows[key] = value
        return True

    def forget(self, tables: Iterable[Table]) -> None:
        """Hold some tables no longer: they were changed by a statement."""
        for table in tables:
            self._tables.pop(table, None)

    def blob(self, seq: int) -> bytes | None:
        """A blob that was read, and is there."""
        return self._blobs.get(seq)

    def keep(self, seq: int, blob: bytes) -> None:
        """Keep a blob that was read."""
        self._size += len(blob)
        if self._size > _BLOBS:
            self._blobs, self._size = {}, len(blob)
        self._blobs[seq] = blob

    def drop(self, seq: int) -> None:
        """Forget a blob that is removed."""
        self._blobs.pop(seq, None)


def walked(
    rows: dict[bytes, bytes], after: bytes | None, prefix: bytes
) -> Iterator[tuple[bytes, bytes]]:
    """Walk rows that are held by rising keys; those that go meanwhile are not met."""
    for key in sorted(key for key in rows if key.startswith(prefix)):
        if (after is None or key > after) and (value := rows.get(key)) is not None:
            yield key, value
