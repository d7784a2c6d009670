# SPDX-License-Identifier: Apache-2.0
"""Incremental backups: manifests, and parts of tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fuzz.target import Run, Target
from omsgrain.storage.backup.manifest import decode
from omsgrain.storage.backup.parts import MOST_BYTES, MOST_ROWS, rows_in
from support.backup_places import filled, reading


@contextmanager
def _manifest(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        backup = decode(data)
        assert all(0 < part.rows <= part.size <= MOST_BYTES for part in backup.parts)
        assert all(part.sha256.isalnum() for part in backup.parts), "a path"
        assert decode(data) == backup

    yield run


@contextmanager
def _part(room: Path) -> Iterator[Run]:
    def run(data: bytes) -> None:
        rows = rows_in(data)
        keys = [key for key, _ in rows]
        assert keys == sorted(set(keys)) and len(keys) <= MOST_ROWS
        assert sum(6 + len(key) + len(value) for key, value in rows) == len(data)

    yield run


@cache
def _files() -> dict[str, list[bytes]]:
    with TemporaryDirectory() as folder:
        place = Path(folder, "backups")
        with filled(Path(folder, "m.omsg"), 5) as store:
            store.supersede(next(iter(store)).address, reading(6))
            store.maintenance.backup_to(place)
        return {
            name: [
                path.read_bytes() for path in sorted(place.rglob(f"{name}/**/*")) if path.is_file()
            ]
            for name in ("backups", "parts")
        }


TARGETS: Final = {
    "backup manifest": Target(_manifest, lambda: _files()["backups"], "json"),
    "backup part": Target(_part, lambda: _files()["parts"]),
}
