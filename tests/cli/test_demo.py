# SPDX-License-Identifier: Apache-2.0
"""The demo on the data beside it, and the data itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.errors import FormatError
from support.example import EXAMPLES, load
from support.shell import USAGE

WEATHER = EXAMPLES / "seattle-weather.csv"
observations = load("demo/weather").observations


def demo(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(EXAMPLES / "demo"), *words],
        capture_output=True, encoding="utf-8", check=False,
    )  # fmt: skip


def test_demo(tmp_path: Path) -> None:
    target = tmp_path / "memory.omsg"
    done = demo(str(target))
    assert (done.returncode, done.stderr) == (0, "")
    assert "56 of 56 claims held." in done.stdout
    assert {"ERR_INTEGRITY", "ERR_CORRUPT", "ERR_SIGNATURE", "ERR_ERASED"} <= set(
        re.findall("ERR_[A-Z]+", done.stdout)
    )
    with og.open(target, readonly=True) as store:
        assert len(store) == 3 * 1461 + 22 + 2  # the robot thought again; a rule
    assert demo(str(target)).returncode == USAGE


def test_claims_as_json() -> None:
    done = demo("--json")
    told = json.loads(done.stdout)
    assert (done.returncode, told["ok"], len(told["checks"])) == (0, True, 56)


def test_a_claim_that_does_not_hold() -> None:
    story = load("demo/story").Story(quiet=True)
    story.check("it is so", True)
    assert story.ok
    story.check("it is otherwise", False)
    assert not story.ok
    assert story.checks[1] == {"claim": "it is otherwise", "held": False}


def test_the_mission_is_whole() -> None:
    """Every type is there, no line raises a warning, and every address leads to an earlier one."""
    batch = og.encode_jsonl(EXAMPLES / "mission.jsonl")
    assert batch.warnings == []
    known: set[str] = set()
    for address, blob in batch:
        grain = og.decode(blob)
        for name in ("derived_from", "depends_on", "parent_goals"):
            assert known.issuperset(grain.get(name, ()))
        assert known.issuperset(entry["hash"] for entry in grain.get("related_to", ()))
        known.add(address)
    types = {og.decode(blob).type for blob in batch.blobs}
    assert types == {row.name for row in og.registry.TYPES}


def test_the_weather_is_noaas() -> None:
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    assert sha256(WEATHER.read_bytes()).hexdigest() in text
    batch = og.encode_many(observations(WEATHER))
    assert len(set(batch.addresses)) == 3 * 1461
    assert batch.warnings == []


def test_a_table_that_is_not_weather(tmp_path: Path) -> None:
    rows = WEATHER.read_text(encoding="utf-8").splitlines()[:3]
    (path := tmp_path / "x.csv").write_text("\n".join([*rows, "2012/01/03,wet,1,2,3,rain"]))
    with pytest.raises(FormatError) as caught:
        list(observations(path))
    assert caught.value.line == 4
