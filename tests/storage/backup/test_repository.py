# SPDX-License-Identifier: Apache-2.0
"""Incremental backups: what they send, what comes back, what a prune deletes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from obstore.store import LocalStore, MemoryStore

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import (
    DiskFullError,
    ErasedError,
    NotFoundError,
    OmsError,
    RangeError,
    SchemaError,
    StoreError,
)
from omsgrain.storage.backup import repository as repositories
from omsgrain.storage.backup.repository import BackupReport, BackupRepository
from omsgrain.storage.tables import AUDIT, INDEXED_FORMAT, META
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from support import store_kinds
from support.backup_places import CutObjects, addresses, filled, reading, rows_of

HOUR = 3_600_000
PLACES: dict[str, Callable[[Path], Any]] = {
    "directory": lambda path: path,
    "local store": lambda path: LocalStore(prefix=path, mkdir=True),
    "store in memory": lambda path: MemoryStore(),
}


@pytest.fixture
def store(tmp_path: Path) -> GrainStore:
    return filled(tmp_path / "memory.omsg", 300)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backups"


def make(store: GrainStore, place: Path, now: int) -> BackupReport:
    """Make a backup at a time, ms since 1970."""
    with context_of(store).inner.read() as reader:
        return BackupRepository(place).add(reader, now)


def objects(place: Path, folder: str) -> set[str]:
    return {path.name for path in (place / folder).rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", PLACES)
def test_a_restored_store_equals_the_store(store: GrainStore, tmp_path: Path, kind: str) -> None:
    first, second, *_ = store
    store.supersede(first.address, reading(1_000))
    store.delete(second.address, reason="wrong")
    store.holds.add(next(iter(store)).address, authority="court", reason_code="litigation")
    store.vectors.add(next(iter(store)).address, [0.5, 1.0], model="toy")
    store.consumers.set_position("follower", 7)
    target = PLACES[kind](tmp_path / "backups")
    report = store.maintenance.backup_to(target)
    assert (report.sent, report.backup.grains) == (report.parts, len(store))
    og.restore(target, tmp_path / "new.omsg", actor="ops")
    wanted = rows_of(store)
    with og.open(tmp_path / "new.omsg") as restored:
        assert [grain.address for grain in restored] == [grain.address for grain in store]
        assert restored.maintenance.check().ok
        assert [*restored.audit.entries()][-1].operation == "restore"
        found = rows_of(restored)
        for table, rows in wanted.items():
            if table is AUDIT:
                assert found[table][: len(rows)] == rows
            elif table is not META:  # its head has another watermark
                assert found[table] == rows, table
        assert restored.consumers.position("follower") == 7
        assert {g.address for g in restored.query(subject="room 2", limit=500)} == {
            g.address for g in store.query(subject="room 2", limit=500)
        }


def test_a_second_backup_sends_only_what_changed(
    store: GrainStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omsgrain.storage.backup.parts._ROWS", 16)
    first = store.maintenance.backup_to(place)
    assert first.sent == first.parts > 10
    same = store.maintenance.backup_to(place)
    assert same.sent == 0
    assert same.backup.parent == first.backup.id
    store.put_many([reading(number) for number in range(300, 303)])
    more = store.maintenance.backup_to(place)
    assert 0 < more.sent <= 4
    assert more.sent_bytes < first.sent_bytes / 2
    store.delete(next(iter(store)).address, reason="wrong")
    less = store.maintenance.backup_to(place)
    assert 0 < less.sent <= 8
    assert [backup.id for backup in BackupRepository(place).backups()] == [
        report.backup.id for report in (first, same, more, less)
    ]


def test_a_cut_backup_resumes(
    store: GrainStore, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omsgrain.storage.backup.parts._ROWS", 16)
    cut = CutObjects(place, 8)
    monkeypatch.setattr(repositories, "objects_at", lambda _: cut)
    with pytest.raises(StoreError):
        store.maintenance.backup_to(place)
    assert BackupRepository(place).backups() == []
    sent, cut.most, cut.sent = set(cut.sent), None, []
    report = store.maintenance.backup_to(place)
    assert report.sent == report.parts - 7  # and a mark that it runs
    assert not {name for name in cut.sent if name.startswith("parts/")} & sent
    og.restore(place, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == [grain.address for grain in store]


def test_a_part_of_another_size_is_sent_again(
    store: GrainStore, place: Path, tmp_path: Path
) -> None:
    store.maintenance.backup_to(place)
    part = next((place / "parts").rglob("*/*"))
    part.write_bytes(part.read_bytes()[:-1])
    assert store.maintenance.backup_to(place).sent == 1
    og.restore(place, tmp_path / "new.omsg")


def test_a_backup_is_of_one_moment(store: GrainStore, place: Path, tmp_path: Path) -> None:
    before = [grain.address for grain in store]
    with context_of(store).inner.read() as reader, og.open(tmp_path / "memory.omsg") as other:
        reader.last_seq()
        other.put(reading(900))
        other.delete(before[0], reason="wrong")
        backup = BackupRepository(place).add(reader, 1).backup
    assert backup.grains == 300
    og.restore(place, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == before


def test_restore_to_a_time(store: GrainStore, place: Path, tmp_path: Path) -> None:
    sizes = {}
    for hour in (1, 2, 3):
        store.put(reading(1_000 + hour))
        sizes[hour] = make(store, place, hour * HOUR).backup
    asked: list[tuple[int | str | timedelta, int]] = [
        (2 * HOUR, 2),
        (3 * HOUR - 1, 2),
        ("1970-01-01T01:00:00Z", 1),
        (timedelta(days=1), 3),
        (sizes[3].id, 3),
        (sizes[1].id[:16], 1),
    ]
    for at, hour in asked:
        target = tmp_path / f"{str(at)[:16]}.omsg".replace(":", "")
        og.restore(place, target, at=at)
        assert len(addresses(target)) == 300 + hour
    assert BackupRepository(place).find() == sizes[3]
    assert BackupRepository(place).find("@7200") == sizes[2]
    for missing in (HOUR - 1, "0" * 64):
        with pytest.raises(NotFoundError):
            og.restore(place, tmp_path / "none.omsg", at=missing)
    for wrong in ("yesterday", "abcdef", "0" * 65):
        with pytest.raises(SchemaError) as refused:
            og.restore(place, tmp_path / "none.omsg", at=wrong)
        assert refused.value.field == "/at"
        with pytest.raises(SchemaError):
            BackupRepository(place).find(wrong)
    assert not (tmp_path / "none.omsg").exists()


def test_times_rise_where_the_clock_does_not(store: GrainStore, place: Path) -> None:
    times = [make(store, place, now).backup.created_at for now in (9, 9, 3)]
    assert times == [9, 10, 11]


def test_a_restore_overwrites_nothing(store: GrainStore, place: Path, tmp_path: Path) -> None:
    store.maintenance.backup_to(place)
    with pytest.raises(StoreError):
        og.restore(place, tmp_path / "memory.omsg")
    assert len(store) == 300
    with pytest.raises(SchemaError):  # a copy has no times
        store.maintenance.backup(tmp_path / "copy.omsg")
        og.restore(tmp_path / "copy.omsg", tmp_path / "new.omsg", at=5)


def test_a_restored_store_is_private(store: GrainStore, place: Path, tmp_path: Path) -> None:
    store.maintenance.backup_to(place)
    og.restore(place, tmp_path / "new.omsg")
    for path in (place, tmp_path / "new.omsg"):
        assert path.stat().st_mode & 0o777 == 0o700


def test_a_place_has_one_store(store: GrainStore, place: Path, tmp_path: Path) -> None:
    store.maintenance.backup_to(place)
    with filled(tmp_path / "other.omsg", 1) as other:
        with pytest.raises(StoreError):
            other.maintenance.backup_to(place)
    assert not objects(place, "running")
    og.restore(place, tmp_path / "new.omsg")
    with og.open(tmp_path / "new.omsg") as restored:  # which goes on from the store
        assert restored.maintenance.backup_to(place).backup.parent is not None


def test_a_store_in_memory_can_be_backed_up(place: Path, tmp_path: Path) -> None:
    with og.open(":memory:") as store:
        store.put_many([reading(number) for number in range(30)])
        first = next(iter(store)).address
        store.supersede(first, reading(99))
        store.maintenance.backup_to(place)
        wanted = [grain.address for grain in store]
    og.restore(place, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == wanted
    with og.open(tmp_path / "new.omsg") as restored:
        assert first not in {grain.address for grain in restored.query(current=True, limit=99)}


@pytest.mark.services
def test_a_store_in_postgresql_is_restored_to_a_directory(
    place: Path, tmp_path: Path, ring: KeyRing
) -> None:
    with og.open(store_kinds.url_of(tmp_path / "town"), keys=ring) as store:
        store.put_many([reading(n, user_id=f"user-{n % 3}") for n in range(30)])
        store.put_many([reading(n) for n in range(30)])
        first, *rest = [grain.address for grain in store]
        store.delete(first, reason="wrong")
        store.supersede(rest[-1], reading(99))
        assert store.maintenance.backup_to(place).sent > 5
        assert store.maintenance.backup_to(place).sent == 0
        wanted, rows = [grain.address for grain in store], rows_of(store)
    og.restore(place, tmp_path / "new.omsg", keys=ring)
    with og.open(tmp_path / "new.omsg", keys=ring) as restored:
        assert [grain.address for grain in restored] == wanted
        assert len(restored.query(user_id="user-1", limit=99)) == 10
        found = rows_of(restored)
        for table, old in rows.items():
            if table not in (AUDIT, META):
                assert found[table] == old, table


@pytest.mark.parametrize("run", [64, 65_536])
def test_indexed_paths_are_restored(
    store: GrainStore, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int
) -> None:
    """Also where the index is written while the grains are added."""
    monkeypatch.setattr("omsgrain.storage.lmdb.storage.RUN", run)
    store.paths.add("object.metres", "observer_id")
    store.put(reading(1_000))
    report = store.maintenance.backup_to(place)
    assert report.backup.format == INDEXED_FORMAT
    og.restore(place, tmp_path / "new.omsg")
    with og.open(tmp_path / "new.omsg") as restored:
        assert restored.paths.declared() == store.paths.declared()
        above = {"object.metres": {"gte": 299}}
        assert len(restored.query(where=above).results) == 2
        assert restored.maintenance.check().ok
        restored.put(reading(1_001))
        assert len(restored.query(where=above).results) == 3
        assert restored.maintenance.check().ok


def test_an_empty_store(place: Path, tmp_path: Path) -> None:
    with og.open(tmp_path / "empty.omsg") as store:
        assert store.maintenance.backup_to(place).backup.grains == 0
    og.restore(place, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == []


def test_a_damaged_blob_is_not_backed_up(
    store: GrainStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with context_of(store).inner.read() as reader:
        kind = type(reader)
    whole = kind.hashed_page

    def damaged(self: Any, after: int) -> list[tuple[int, bytes, bytes | None]]:
        return [
            (seq, blob, digest if seq != 7 else None) for seq, blob, digest in whole(self, after)
        ]

    monkeypatch.setattr(kind, "hashed_page", damaged)
    with pytest.raises(OmsError) as refused:
        store.maintenance.backup_to(place)
    assert refused.value.code == "ERR_INTEGRITY"
    assert not objects(place, "backups")


# --- keys and erasure ----------------------------------------------------------------------------


def test_encrypted_grains_stay_encrypted(place: Path, tmp_path: Path, ring: KeyRing) -> None:
    with og.open(tmp_path / "town.omsg", keys=ring) as store:
        own = store.put(reading(1, user_id="mira", note="a secret of mira"))
        store.maintenance.backup_to(place)
        for file in place.rglob("*"):
            if file.is_file():
                assert b"mira" not in file.read_bytes()
        og.restore(place, tmp_path / "before.omsg", keys=ring)
        with og.open(tmp_path / "before.omsg", keys=ring) as restored:
            assert restored.get(own)["note"] == "a secret of mira"
            assert [g.address for g in restored.query(user_id="mira")] == [own]
        store.privacy.erase(["mira"], reason_code="gdpr17")
    og.restore(place, tmp_path / "after.omsg", keys=ring)
    with og.open(tmp_path / "after.omsg", keys=ring) as restored:
        with pytest.raises(ErasedError):
            restored.get(own)


def test_erased_grains_can_be_erased_again(store: GrainStore, place: Path, tmp_path: Path) -> None:
    gone = store.put(reading(1, user_id="mira"))
    store.maintenance.backup_to(place)
    store.privacy.erase(["mira"], reason_code="gdpr17")
    og.restore(place, tmp_path / "with.omsg")
    assert gone in addresses(tmp_path / "with.omsg")
    og.restore(place, tmp_path / "without.omsg", tombstones_from=tmp_path / "memory.omsg")
    assert gone not in addresses(tmp_path / "without.omsg")


def test_prune_deletes_the_bytes_of_what_was_erased(
    store: GrainStore, place: Path, tmp_path: Path
) -> None:
    store.put(reading(1, user_id="mira", note="a secret of mira"))
    store.maintenance.backup_to(place)
    store.privacy.erase(["mira"], reason_code="gdpr17")
    store.maintenance.backup_to(place)

    def has_secret() -> bool:
        files = [file for file in place.rglob("*") if file.is_file()]
        return any(b"a secret of mira" in file.read_bytes() for file in files)

    assert has_secret()
    report = BackupRepository(place).prune(keep_last=1)
    assert (len(report.removed), report.kept, report.waiting) == (1, 1, False)
    assert report.parts > 0 and report.freed > 0
    assert not has_secret()
    og.restore(place, tmp_path / "new.omsg")
    assert addresses(tmp_path / "new.omsg") == [grain.address for grain in store]


# --- prune ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rules", "kept"),
    [
        ({"keep_last": 1}, [10]),
        ({"keep_last": 3}, [8, 9, 10]),
        ({"keep_last": 99}, [*range(1, 11)]),
        ({"keep_within": timedelta(hours=2)}, [8, 9, 10]),
        ({"keep_within": "2h"}, [8, 9, 10]),
        ({"keep_within": timedelta(0)}, [10]),
        ({"keep_last": 4, "keep_within": timedelta(hours=1)}, [7, 8, 9, 10]),
        ({"keep_last": 1, "keep_within": timedelta(hours=4)}, [6, 7, 8, 9, 10]),
    ],
)
def test_which_backups_a_prune_keeps(place: Path, rules: dict[str, Any], kept: list[int]) -> None:
    with og.open(":memory:") as store:
        for hour in range(1, 11):
            make(store, place, hour * HOUR)
    report = BackupRepository(place).prune(now="1970-01-01T10:00:00Z", **rules)
    left = BackupRepository(place).backups()
    assert [backup.created_at // HOUR for backup in left] == kept
    assert (report.kept, len(report.removed)) == (len(kept), 10 - len(kept))


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({}, SchemaError),
        ({"keep_last": 0}, RangeError),
        ({"keep_within": timedelta(seconds=-1)}, RangeError),
        ({"keep_within": "a day"}, SchemaError),
        ({"keep_last": 1, "now": "soon"}, SchemaError),
    ],
)
def test_rules_that_keep_nothing_are_refused(
    place: Path, rules: dict[str, Any], error: type[OmsError]
) -> None:
    with pytest.raises(error):
        BackupRepository(place).prune(**rules)


def test_prune_deletes_no_part_where_there_is_no_backup(store: GrainStore, place: Path) -> None:
    store.maintenance.backup_to(place)
    before = objects(place, "parts")
    (place / "backups").rename(place / "elsewhere")
    assert BackupRepository(place).prune(keep_last=1).parts == 0
    assert objects(place, "parts") == before


def test_prune_waits_for_a_backup_that_runs(
    store: GrainStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omsgrain.storage.backup.parts._ROWS", 16)
    make(store, place, HOUR)
    store.delete(next(iter(store)).address, reason="wrong")
    make(store, place, 2 * HOUR)
    monkeypatch.setattr(repositories, "objects_at", lambda _: CutObjects(place, 3))
    store.put_many([reading(number) for number in range(600, 700)])
    with pytest.raises(StoreError):
        store.maintenance.backup_to(place)
    monkeypatch.undo()
    before = objects(place, "parts")
    report = BackupRepository(place).prune(keep_last=1)
    assert (report.waiting, report.parts, len(report.removed)) == (True, 0, 1)
    assert objects(place, "parts") == before
    for mark in (place / "running").iterdir():  # as if it was killed two days ago
        os.utime(mark, (time.time() - 48 * 3_600,) * 2)
    partial = place / "parts" / ".half.1234.partial"
    partial.write_bytes(b"half")
    os.utime(partial, (1, 1))
    report = BackupRepository(place).prune(keep_last=1)
    assert (report.waiting, report.removed) == (False, ())
    assert report.parts > 0
    assert not partial.exists()
    assert not objects(place, "running")
    needed = {part.sha256 for part in BackupRepository(place).find().parts}
    assert objects(place, "parts") == needed


def test_prune_makes_room_after_a_full_disk(
    store: GrainStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(store, place, HOUR)
    store.put_many([reading(number) for number in range(600, 700)])
    make(store, place, 2 * HOUR)
    store.put_many([reading(number) for number in range(700, 800)])
    full = CutObjects(place, 2, DiskFullError)
    monkeypatch.setattr(repositories, "objects_at", lambda _: full)
    with pytest.raises(DiskFullError):
        store.maintenance.backup_to(place)
    monkeypatch.undo()
    report = BackupRepository(place).prune(keep_last=1)
    assert not report.waiting and len(report.removed) == 1 and report.parts > 0
    make(store, place, 3 * HOUR)


def test_a_backup_relies_on_no_part_that_a_prune_may_delete(
    store: GrainStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that no backup names may be about to go, unless a mark keeps the prune away."""
    first = make(store, place, HOUR)
    for manifest in (place / "backups").iterdir():
        manifest.unlink()
    again = make(store, place, 2 * HOUR)
    assert again.sent == again.parts == first.parts


def test_a_part_that_goes_meanwhile_fails_the_backup(
    store: GrainStore, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(store, place, HOUR)
    store.put(reading(2_000))

    class Deleting(CutObjects):
        def put(self, name: str, data: bytes) -> None:
            super().put(name, data)
            if name.startswith("parts/"):
                (place / name).unlink()

    monkeypatch.setattr(repositories, "objects_at", lambda _: Deleting(place))
    with pytest.raises(StoreError):
        store.maintenance.backup_to(place)
    assert len(objects(place, "backups")) == 1
