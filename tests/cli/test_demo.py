# SPDX-License-Identifier: Apache-2.0
"""The demo on the data it ships with, and the data itself."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from importlib import import_module
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.cli import run
from omsgrain.cli.demo import observations
from omsgrain.cli.demo_story import Story
from omsgrain.errors import FormatError
from support.paths import ROOT
from support.shell import USAGE

EXAMPLES = ROOT / "examples"
WEATHER = EXAMPLES / "seattle-weather.csv"


def test_demo(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "memory.omsg"
    assert run(["demo", str(target), "--data", str(EXAMPLES)]) == 0
    told = capfd.readouterr().out
    assert "56 of 56 claims held." in told
    assert {"ERR_INTEGRITY", "ERR_CORRUPT", "ERR_SIGNATURE", "ERR_ERASED"} <= set(
        re.findall("ERR_[A-Z]+", told)
    )
    with og.open(target, readonly=True) as store:
        assert len(store) == 3 * 1461 + 22 + 2  # the robot thought again; a rule
    assert run(["demo", str(target), "--data", str(EXAMPLES)]) == 2


def test_without_a_clone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (["demo"], ["demo", "--data", str(tmp_path)]):
        assert run(words) == USAGE
        assert "clone" in capfd.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("held", [True, False])
def test_what_held_as_json(
    held: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def tell(story: Story, *_: object) -> None:
        story.step("One")
        story.say("something")
        story.check("it is so", True)
        story.check("it is otherwise", held)

    monkeypatch.setattr(import_module("omsgrain.cli.demo"), "_run_chapters", tell)
    assert run(["demo", "--data", str(EXAMPLES), "--json"]) == (0 if held else 1)
    checks = [
        {"claim": "it is so", "held": True},
        {"claim": "it is otherwise", "held": held},
    ]
    assert json.loads(capfd.readouterr().out) == {"ok": held, "checks": checks}


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
