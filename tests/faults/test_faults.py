# SPDX-License-Identifier: Apache-2.0
"""Disks that fail, power that goes, clocks that jump: what had returned is there, all is sound.

A shim between the program and libc counts what changes files, and fails or kills at the n-th; see
tests/faults. Here that is at a place or two of each scenario; with --long at every one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from faults import shim
from faults.shim import Kind
from faults.table import SCENARIOS
from support.paths import TESTS

pytestmark = pytest.mark.skipif(shim.compiler() is None, reason="no cc, or not Linux")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim.build(tmp_path_factory.mktemp("shim"))


class Driver:
    """The program under the shim; it imports much, so that all scenarios share one."""

    def __init__(self, library: Path, *args: object) -> None:
        self._said = TemporaryFile("w+")
        self._child = subprocess.Popen(
            [sys.executable, "-m", "faults.driver", *map(str, args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            env=shim.environment(library),
            cwd=TESTS,
            text=True,
        )

    def answers(self, jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return its answers to jobs."""
        assert self._child.stdin is not None and self._child.stdout is not None
        self._child.stdin.write("\n".join(map(json.dumps, jobs)) + "\n\n")
        self._child.stdin.flush()
        lines = iter(self._child.stdout.readline, "\n")
        return [json.loads(line or self._died()) for line in lines]

    def end(self) -> list[dict[str, Any]]:
        """Return the answer to a job that is given by arguments."""
        out, _ = self._child.communicate()
        if self._child.returncode:
            self._died()
        self._said.close()
        return [json.loads(line) for line in out.splitlines()]

    def _died(self) -> str:
        self._said.seek(0)
        pytest.fail(self._said.read())


@pytest.fixture(scope="module")
def driver(library: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    made = Driver(library, tmp_path_factory.mktemp("faults"))
    yield made
    made.end()


_TWICE = (Kind.KILL, Kind.FAIL_FULL)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_fault_anywhere(name: str, driver: Driver, long: bool) -> None:
    kinds = [kind for kind in Kind if kind is not Kind.COUNT]
    jobs: list[dict[str, Any]] = [
        {"scenario": name, "kind": kind.name, "points": None if long else 1 + (kind in _TWICE)}
        for kind in kinds
    ]
    answers = driver.answers(jobs)
    if not any(one["refused"] for one in answers if Kind[one["kind"]] in shim.FAILING):
        places = [answers[0]["of"] * n // 6 for n in range(1, 6)]  # all over the scenario
        job: dict[str, Any] = {"scenario": name, "kind": "FAIL_FULL", "points": places}
        answers += driver.answers([job])
    found = [one for one in answers if one["problem"]]
    assert not found, found
    assert {one["kind"] for one in answers} == {kind.name for kind in kinds}
    assert all(one["of"] > 5 for one in answers)
    # Faults that nobody has seen would prove nothing; an erasure tells what it could not do.
    failed = [one for one in answers if Kind[one["kind"]] in shim.FAILING]
    assert name == "an erasure" or any(one["refused"] for one in failed)


def test_restarts(library: Path, tmp_path: Path, long: bool) -> None:
    (told,) = Driver(library, "restarts", tmp_path, 2_000 if long else 12).end()
    assert told["restarts"] == (2_000 if long else 12)
    assert 0 < told["died"] < told["restarts"]
    assert told["grains"] > told["restarts"]


def test_a_clock_that_jumps(library: Path, tmp_path: Path) -> None:
    (told,) = Driver(library, "clock", tmp_path).end()
    assert told == {"jumps": 6}
