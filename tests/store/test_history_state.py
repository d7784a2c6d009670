# SPDX-License-Identifier: Apache-2.0
"""What an operator sees of a bounded history."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.crypto.keyring import KeyRing
from omsgrain.store.context import Settings
from omsgrain.store.history_state import HistoryState
from support.invented_people import Clock
from support.store_kinds import POSTGRES, SEALED_POSTGRES, made

TIME, HOUR = 1_700_000_000_000, 3_600_000


def reading(n: int) -> dict[str, object]:
    return {
        "type": "event",
        "content": f"reading {n}",
        "created_at": TIME + n * HOUR,
        "user_id": "ada",
    }


@pytest.mark.parametrize(
    "kind", ["memory", "lmdb", "sealed memory", "sealed lmdb", POSTGRES, SEALED_POSTGRES]
)
def test_how_far_a_store_goes_back(kind: str, tmp_path: Path, ring: KeyRing) -> None:
    clock = Clock(TIME)
    settings = Settings(clock=clock, keys=ring if "sealed" in kind else None)
    with og.GrainStore(made(kind, tmp_path / "m.omsg"), settings) as store:
        state = store.maintenance.history_state
        assert state() == HistoryState(0, None, None, None, None)
        for n in range(6):
            clock.now = TIME + n * HOUR
            store.put(reading(n))
        assert state() == HistoryState(0, TIME, None, None, None)
        clock.now += HOUR // 2
        assert store.maintenance.retain(keep="3h").removed == 3
        assert state() == HistoryState(3, TIME + 3 * HOUR, clock.now, 3 * HOUR, None)
        fourth = store.put(reading(9))
        store.supersede(fourth, reading(10))
        assert state().removed == 3
        store.delete(fourth, reason="wrong")
        assert state() == HistoryState(4, TIME + 3 * HOUR, clock.now, 3 * HOUR, None)


def test_an_open_ring_shows_its_limits_before_anything_left(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg", keep="7d", max_bytes="16MiB") as store:
        store.put(og.Event(content="new"))
        found = store.maintenance.history_state()
        assert (found.keep, found.max_bytes) == (7 * 24 * HOUR, 16 << 20)
        assert found.retained_at is None
    with og.open(tmp_path / "m.omsg", readonly=True) as store:
        assert store.maintenance.history_state().keep is None


def test_a_backup_keeps_the_count(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.delete(store.put(reading(1)), reason="wrong")
        store.maintenance.compact()
        store.maintenance.rebuild()
        store.maintenance.backup_to(tmp_path / "backups")
    og.restore(tmp_path / "backups", tmp_path / "new.omsg")
    with og.open(tmp_path / "new.omsg") as store:
        assert store.maintenance.history_state().removed == 1
