# SPDX-License-Identifier: Apache-2.0
"""The soak, small: `python -m benches.soak` runs it for half an hour."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benches import soak
from benches.soak_work import ROLES


def test_a_soak_of_seconds(tmp_path: Path, long: bool) -> None:
    found = soak.soak(tmp_path, seconds=60 if long else 2, person=20)
    assert not found.problems
    assert (found.lost, found.left) == (0, 0)
    assert found.grains and found.people[0] > 2
    assert {*found.operations} == {*ROLES}
    assert found.operations["writer 1"]["put"] and found.operations["reader 1"]["query"]
    assert str(found.grains) in soak.told(found)


def test_one_that_ends_early_is_not_good(tmp_path: Path) -> None:
    (tmp_path / "stop").touch()  # each child is done at once, and well
    found = soak.soak(tmp_path, seconds=600, person=20)
    assert found.seconds < 600
    assert found.problems and not found.good


def test_one_that_is_ended_leaves_no_process_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[subprocess.Popen[str]] = []
    directories: set[Path] = set()

    class Noted(subprocess.Popen[str]):
        def __init__(self, command: list[str], **options: Any) -> None:
            super().__init__(command, **options)
            children.append(self)
            directories.add(Path(command[3]))

    def ended_meanwhile(seconds: float) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(subprocess, "Popen", Noted)
    monkeypatch.setattr("time.sleep", ended_meanwhile)
    monkeypatch.setattr(sys, "argv", ["soak", "--minutes", "10"])
    with pytest.raises(SystemExit) as ended:
        soak.main()
    assert ended.value.code == 128 + signal.SIGTERM
    assert len(children) == len(ROLES)
    assert all(child.poll() is not None for child in children)
    assert len(directories) == 1 and not any(one.exists() for one in directories)


def test_nested_values_are_reported() -> None:
    rising = [n << 20 for n in range(100, 300)]
    level = [100 << 20] * 200
    assert not soak.Memory(*soak.quarters(rising), max(rising)).flat
    assert soak.Memory(*soak.quarters(level), max(level)).flat
    outcome = soak.Outcome(1.0)
    assert outcome.good
    outcome.lost = 1
    assert not outcome.good
