# SPDX-License-Identifier: Apache-2.0
"""Disks that fail, power that goes, clocks that jump: what had returned is there, all is sound.

A shim between the program and libc counts what changes files, and fails or kills at the n-th; see
tests/faults. Here that is at a place or two of each scenario; with --long at every one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from faults import shim
from faults.shim import Kind
from faults.table import SCENARIOS

TESTS = Path(__file__).parent

pytestmark = pytest.mark.skipif(shim.compiler() is None, reason="no cc, or not Linux")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim.build(tmp_path_factory.mktemp("shim"))


def driven(library: Path, *args: object, jobs: str = "") -> list[dict[str, Any]]:
    """What the driver answers."""
    done = subprocess.run(
        [sys.executable, "-m", "faults.driver", *map(str, args)],
        input=jobs,
        env=shim.environment(library),
        cwd=TESTS,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_anywhere(name: str, library: Path, tmp_path: Path, long: bool) -> None:
    kinds = [kind for kind in Kind if kind is not Kind.COUNT]
    jobs = [
        {"scenario": name, "kind": kind.name, "points": None if long else 1 + (kind is Kind.KILL)}
        for kind in kinds
    ]
    answers = driven(library, tmp_path, jobs="\n".join(map(json.dumps, jobs)))
    found = [one for one in answers if one["problem"]]
    assert not found, found
    assert {one["kind"] for one in answers} == {kind.name for kind in kinds}
    assert all(one["of"] > 5 for one in answers)
    # Faults that nobody has seen would prove nothing; an erasure tells what it could not do.
    failed = [one for one in answers if Kind[one["kind"]] in shim.FAILING]
    assert name == "an erasure" or any(one["refused"] for one in failed)


def test_restarts(library: Path, tmp_path: Path, long: bool) -> None:
    (told,) = driven(library, "restarts", tmp_path, 2_000 if long else 12)
    assert told["restarts"] == (2_000 if long else 12)
    assert 0 < told["died"] < told["restarts"]
    assert told["grains"] > told["restarts"]


def test_a_clock_that_jumps(library: Path, tmp_path: Path) -> None:
    (told,) = driven(library, "clock", tmp_path)
    assert told == {"jumps": 6}
