# SPDX-License-Identifier: Apache-2.0
"""Parts stay the same where rows do."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.backup import parts
from omsgrain.storage.backup.parts import TablePart, parts_of, ranges, rows_in
from omsgrain.storage.tables import BLIND, BLOBS, SEQUENCE, TABLES, Life
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from support.backup_places import filled, reading


def parts_in(store: GrainStore) -> list[TablePart]:
    with context_of(store).inner.read() as reader:
        return [*parts_of(reader)]


def test_all_rows_are_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_ROWS", 8)
    with filled(tmp_path / "m.omsg", 200) as store:
        found = [part for part in parts_in(store) if part.table is BLOBS]
        assert len(found) > 10
        rows = [row for part in found for row in rows_in(part.data)]
        assert [SEQUENCE.unpack(key)[0] for key, _ in rows] == [*range(1, 201)]
        assert [blob for _, blob in rows] == [grain.blob for grain in store]
        assert all(len(rows_in(part.data)) == part.rows for part in found)


def test_a_part_ends_at_its_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with filled(tmp_path / "m.omsg", 40) as store:
        monkeypatch.setattr(parts, "MOST_ROWS", 10)
        assert [p.rows for p in parts_in(store) if p.table is BLOBS] == [10] * 4
        monkeypatch.setattr(parts, "_FULL", 1)
        assert {p.rows for p in parts_in(store)} == {1}


def test_a_removed_row_changes_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_ROWS", 8)
    with filled(tmp_path / "m.omsg", 200) as store:
        before = {part.data for part in parts_in(store) if part.table is BLOBS}
        store.delete(next(iter(store)).address, reason="wrong")
        after = {part.data for part in parts_in(store) if part.table is BLOBS}
        assert len(after - before) <= 1


CELL = 4_096


@pytest.mark.parametrize(
    ("last", "ends"),
    [
        (0, []),
        (CELL - 1, []),
        (CELL, [1]),
        (3 * CELL + 5, [1, 2, 3]),
        (16 * CELL, [16]),
        (35 * CELL, [16, 32, 33, 34, 35]),
        (256 * CELL, [256]),
    ],
)
def test_ranges_of_grains(last: int, ends: list[int]) -> None:
    assert [end // CELL for end in ranges(last)] == ends


def test_ranges_are_few() -> None:
    for last in (10**5, 10**7, 10**9, (1 << 32) - 1):
        assert len(ranges(last)) <= 15 * 5
        assert 0 <= last - ranges(last)[-1] < CELL


def test_new_encrypted_grains_change_the_last_parts_only(
    tmp_path: Path, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_CELL", 4)  # ranges of 16 grains
    monkeypatch.setattr(parts, "_ROWS", 64)
    users = [f"user-{n % 5}" for n in range(150)]
    blind = {table for table in TABLES if table.life is Life.BLIND}
    with og.open(tmp_path / "m.omsg", keys=ring) as store:
        store.put_many([reading(n, user_id=user) for n, user in enumerate(users)])
        before = {part.data for part in parts_in(store) if part.table in blind}
        store.put_many([reading(n, user_id=users[0]) for n in range(150, 153)])
        after = {part.data for part in parts_in(store) if part.table in blind}
        assert len(after) > 20
        assert len(after - before) <= 8
        rows = [row for p in parts_in(store) if p.table is BLIND for row in rows_in(p.data)]
        with context_of(store).inner.read() as reader:
            assert sorted(rows) == [*reader.rows(BLIND)]
        store.maintenance.backup_to(tmp_path / "backups")
    og.restore(tmp_path / "backups", tmp_path / "new.omsg", keys=ring)
    with og.open(tmp_path / "new.omsg", keys=ring) as restored:
        assert len(restored.query(user_id="user-0", limit=100)) == 33
