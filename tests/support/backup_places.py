# SPDX-License-Identifier: Apache-2.0
"""Stores to back up, and places that count or refuse what is sent to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.backup.objects import Objects, StoredObject, objects_at
from omsgrain.storage.tables import TABLES, Life, Table
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of


def reading(number: int, **fields: Any) -> dict[str, Any]:
    """A reading of a sensor."""
    return {
        "type": "observation",
        "observer_id": "lidar-3",
        "observer_type": "lidar",
        "subject": f"room {number % 5}",
        "object": {"metres": number},
        "created_at": 1_768_471_200_000 + number,
        **fields,
    }


def filled(path: Path, count: int, **options: Any) -> GrainStore:
    """An open store with so many readings."""
    store = og.open(path, actor="ops", **options)
    store.put_many([reading(number) for number in range(count)])
    return store


def addresses(path: Path, **options: Any) -> list[str]:
    """The addresses of all grains of a store that is not open."""
    with og.open(path, readonly=True, **options) as store:
        return [grain.address for grain in store]


def rows_of(store: GrainStore) -> dict[Table, list[tuple[bytes, bytes]]]:
    """All rows of the tables that a backup keeps, and all grains."""
    with context_of(store).inner.read() as reader:
        found = {
            table: [*reader.rows(table)]
            for table in TABLES
            if table.life in (Life.STATE, Life.BLIND)
        }
        after, blobs = 0, []
        while page := reader.page(after):
            after = page[-1][0]
            blobs += [(seq.to_bytes(8, "big"), blob) for seq, blob in page]
        return found | {TABLES[0]: blobs}


class CutObjects(Objects):
    """A place that takes so many objects, then fails; it counts what it was sent."""

    def __init__(
        self, path: Path, most: int | None = None, error: type[StoreError] = StoreError
    ) -> None:
        self.inner = objects_at(path)
        self.error = error
        self.name = self.inner.name
        self.most = most
        self.sent: list[str] = []

    def put(self, name: str, data: bytes) -> None:
        if self.most is not None and len(self.sent) >= self.most:
            raise self.error("it is cut")
        self.inner.put(name, data)
        self.sent.append(name)

    def get(self, name: str, most: int) -> bytes:
        return self.inner.get(name, most)

    def listed(self, prefix: str) -> Iterator[StoredObject]:
        return self.inner.listed(prefix)

    def delete(self, name: str) -> None:
        self.inner.delete(name)
