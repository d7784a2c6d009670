# SPDX-License-Identifier: Apache-2.0
"""A backup or a restore that is killed at any step is none; the next one completes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.storage.backup.repository import BackupRepository
from support.backup_places import filled
from support.child_process import check, ended

# Dies before the n-th time that it makes, names or changes a file; says so if it got to the end.
DYING = """
import os, sys
import omsgrain as og
from omsgrain.storage.backup import parts
parts._ROWS = 16
left = int(sys.argv[3])
def count(event, args):
    global left
    watched = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod"}
    writes = event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)
    if event in watched or writes:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), 9)
def backup():
    with og.open(sys.argv[1], readonly=True) as store:
        sys.addaudithook(count)
        store.maintenance.backup_to(sys.argv[2])
def restore():
    sys.addaudithook(count)
    og.restore(sys.argv[2], sys.argv[1])
"""
BACKUP = DYING + "backup()\nprint('whole')\n"
RESTORE = DYING + "restore()\nprint('whole')\n"


def killed(code: str, store: Path, place: Path, step: int) -> bool:
    """Run to a step; whether it was killed there."""
    done = ended(code, store, place, step)
    assert done.returncode == -9 or done.stdout == "whole\n", done.stderr
    return done.returncode == -9


@pytest.fixture
def store(tmp_path: Path) -> Path:
    filled(tmp_path / "memory.omsg", 60).close()
    return tmp_path / "memory.omsg"


def test_a_killed_backup_is_none_and_resumes(store: Path, tmp_path: Path) -> None:
    place = tmp_path / "backups"
    steps, sent = 0, set[Path]()
    while killed(BACKUP, store, place, steps):
        assert BackupRepository(place).backups() == []
        files = {path for path in place.rglob("parts/*/*") if not path.name.startswith(".")}
        assert sent <= files
        sent, steps = files, steps + 9
    assert steps > 20
    og.restore(place, tmp_path / "new.omsg")
    with og.open(store) as old, og.open(tmp_path / "new.omsg") as new:
        assert [grain.address for grain in new] == [grain.address for grain in old]
        old.delete(next(iter(old)).address, reason="wrong")
        assert BackupRepository(place).prune(keep_last=1).waiting


def test_a_killed_restore_leaves_no_store(store: Path, tmp_path: Path) -> None:
    place, target = tmp_path / "backups", tmp_path / "new.omsg"
    with og.open(store) as old:
        old.maintenance.backup_to(place)
    steps = 0
    while killed(RESTORE, target, place, steps):
        assert not target.exists()
        steps += 4
    assert steps > 10
    assert check(target).ok
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "backups",
        "memory.omsg",
        "new.omsg",
    ]
