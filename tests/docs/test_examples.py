# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/ do what they say."""

from __future__ import annotations

import json
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp.client.stdio  # noqa: F401 - keeps the sys.stderr of its import: not that of a test
import pytest

import omsgrain as og
from omsgrain import container
from omsgrain.crypto.detached import sign_file, signature_path
from omsgrain.interchange.ingest import ingest
from support.example import EXAMPLES, load
from support.markdown_page import table
from support.shell import belief, exit_code
from support.signers import ALICE, BOB


def test_sql_and_frames_answer_the_same(tmp_path: Path) -> None:
    questions = load("questions")
    with og.open(tmp_path / "m.omsg") as store:
        observations = load("demo/weather").observations
        store.put_many(observations(EXAMPLES / "seattle-weather.csv"), errors="collect")
        with (EXAMPLES / "mission.jsonl").open("rb") as stream:
            list(ingest(store, stream))
        wettest, counted = questions.by_sql(store)
        assert [wettest, counted] == questions.by_frame(store)
    assert [(year, month) for year, month, _ in wettest] == [
        (2012, 11), (2013, 9), (2014, 3), (2015, 12),
    ]  # fmt: skip
    assert counted == [(f"seattle/{what}", 1_461) for what in ("anemometer", "rain-gauge",
                                                                "thermometer")]  # fmt: skip


@pytest.fixture
def missions(tmp_path: Path) -> Path:
    """Files of three robots; that of the last is damaged."""
    directory = tmp_path / "missions"
    directory.mkdir()
    for n in range(3):
        with og.open(tmp_path / f"{n}.omsg") as store:
            old = store.put(belief(10 * n))
            store.supersede(old, belief(10 * n + 1, created_at=7))
            store.export_mg(directory / f"{n}.mg", purpose="move")
    last = directory / "2.mg"
    data = bytearray(last.read_bytes())
    data[len(data) // 2] ^= 1
    last.write_bytes(data)
    return directory


@pytest.mark.parametrize("cluster", [[], ["--dask", "tcp://scheduler:8786"]])
def test_a_fleet_to_tables(
    missions: Path,
    tmp_path: Path,
    cluster: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fleet = load("fleet_to_parquet")
    monkeypatch.setattr(fleet, "ProcessPoolExecutor", ThreadPoolExecutor)
    asked: list[str] = []

    class Client:
        """A cluster of one: Dask gives an executor of the same kind."""

        def __init__(self, address: str) -> None:
            asked.append(address)

        def get_executor(self) -> ThreadPoolExecutor:
            return ThreadPoolExecutor(1)

        def __enter__(self) -> Client:
            return self

        def __exit__(self, *_: Any) -> None:
            pass

    monkeypatch.setitem(sys.modules, "distributed", SimpleNamespace(Client=Client))
    assert fleet.main([str(missions), str(tmp_path / "tables"), *cluster]) == 1
    assert asked == cluster[1:]
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["file"] for one in told] == ["0.mg", "1.mg", "2.mg"]
    assert [one.get("grains") for one in told] == [2, 2, None]
    assert told[2]["problems"] >= 1
    assert sorted(p.name for p in (tmp_path / "tables").iterdir()) == ["0.parquet", "1.parquet"]
    with og.open(tmp_path / "hub.omsg") as hub:
        for name in ("0", "1"):
            assert hub.parquet.read(tmp_path / "tables" / f"{name}.parquet").merged == 1
        assert len(hub) == 4


def test_a_robot_that_loses_power(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load("robot").main([str(tmp_path / "robot.omsg")]) == 0
    first, second, checked = capsys.readouterr().out.splitlines()
    began, said, there = (int(n) for n in re.findall(r"\d+", second))
    assert began == int(re.findall(r"\d+", first)[-1]) >= 100
    assert there >= said >= 200
    assert checked == "check: all well"


def test_a_pipeline_that_waits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = load("pipeline")
    monkeypatch.setattr(pipeline, "WAITING", 8)
    monkeypatch.setattr(pipeline, "BATCH", 4)
    good = [json.dumps(belief(n)).encode() for n in range(40)]
    bad = [b'{"type": "belief"}', b"{", b'{"type": "event", "content": ""}']
    (tmp_path / "in.jsonl").write_bytes(b"\n".join(good[:20] + bad + good[20:]) + b"\n")
    given = [str(tmp_path / name) for name in ("m.omsg", "in.jsonl", "refused.jsonl")]
    assert pipeline.main(given) == 1
    told = [int(n) for n in re.findall(r"\d+", capsys.readouterr().out)]
    stored, there, refused, commits, waiting = told
    assert (stored, there, refused) == (40, 0, 3)
    assert commits >= 11  # of 43 lines, four at a time
    assert waiting <= 8 + 4
    aside = [json.loads(line) for line in (tmp_path / "refused.jsonl").read_text().splitlines()]
    assert [row["line"] for row in aside] == [line.decode() for line in bad]


def test_an_agent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert load("agent").main([str(tmp_path / "m.omsg")]) == 0
    said = dict(line.split(": ", 1) for line in capfd.readouterr().out.splitlines())
    assert {"remember", "recall", "forget", "history"} <= set(said["tools"].split(", "))
    assert said["recalled"] == "Ada drinks black tea."
    assert said["before"] == "Ada drinks green tea."
    assert said["after forgetting"] == "0 found"
    assert said["audit trail"].count("by mcp") == 4


def test_an_agent_over_http(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert load("agent_http").main([str(tmp_path / "m.omsg")]) == 0
    assert capfd.readouterr().out.splitlines() == [
        "recalled: Ada drinks black tea.",
        "versions: 2",
        "without the token: 401",
    ]


def test_a_person_gets_a_report_and_is_erased(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert load("person").main([str(tmp_path / "town.omsg")]) == 0
    lines = capsys.readouterr().out.splitlines()
    numbers = [[int(n) for n in re.findall(r"\d+", line)] for line in lines[:4]]
    assert numbers == [[2, 1], [0, 1, 1], [0], [1, 3]]
    report = json.loads((tmp_path / "town.json").read_text("utf-8"))
    assert "green tea" in json.dumps(report)
    assert container.verify(tmp_path / "town.mg").verified == 3


def test_mif_to_aimem_and_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert load("mif_to_aimem").main([str(EXAMPLES / "garden.mif.json")]) == 0
    _, there, back, strict = capsys.readouterr().out.splitlines()
    assert there.endswith(" 0 fields lost")
    assert back.endswith(" the same document")
    assert "importance" in strict


def test_a_foreign_mg(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    foreign, file = load("foreign_mg"), tmp_path / "m.mg"
    with og.open(tmp_path / "m.omsg") as store:
        store.put_many([belief(n) for n in range(3)])
        store.export_mg(file)
    assert foreign.main([str(file)]) == 0
    assert "not signed" in capsys.readouterr().out
    signature = sign_file(file, ALICE)
    signature_path(file).write_bytes(signature)
    assert foreign.main([str(file), ALICE.did]) == 0
    assert foreign.main([str(file), BOB.did]) == 1
    assert "3 grains verified" in capsys.readouterr().out
    data = bytearray(file.read_bytes())
    data[60] ^= 1
    file.write_bytes(data)
    assert foreign.main([str(file)]) == exit_code("ERR_SIGNATURE")
    signature_path(file).unlink()
    assert foreign.main([str(file)]) == exit_code("ERR_INTEGRITY")
    assert foreign.main([str(tmp_path / "none.mg")]) == exit_code("ERR_NOT_FOUND")


def test_an_agent_finds_when_a_belief_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = load("belief_change")
    found = example.main(tmp_path / "agent.omsg")
    assert found is not None
    assert found.day == "Wednesday"
    assert (found.before[-7:], found.after[-7:]) == ("gate 4.", "gate 9.")
    said = capsys.readouterr().out
    assert "corrected: The parcels for ada wait at gate 4." in said
    assert "versions: 3" in said
    with og.Memory(tmp_path / "agent.omsg", user="ada") as memory:  # it survived its process
        assert memory.recall("parcels")[0].text.endswith("gate 4.")


def test_robot_bag(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["robot_bag.py"])
    load("robot_bag").main()
    assert capsys.readouterr().out.splitlines() == [
        "/imu: 1000 messages, 100 stored, 900 between samples, 0 left out",
        "/battery: 100 messages, 100 stored, 0 between samples, 0 left out",
        "/camera: 10 messages, 0 stored, 0 between samples, 10 left out",
        "lowest: 24.2 V, message 800 of the bag",
        "box: 201 grains, 1110 messages of the recording",
        "verified: 201 grains, 0 failures",
    ]


def test_each_example_is_listed_and_short() -> None:
    listed = {row[0] for row in table(EXAMPLES / "README.md", "file", "what it is")}
    files = {file.relative_to(EXAMPLES).as_posix() for file in EXAMPLES.rglob("*.*")}
    files = {file for file in files if "__pycache__" not in file} - {"README.md"}
    chapters = {file for file in files if file.startswith("demo/")} - {"demo/__main__.py"}
    assert listed == files - chapters
    for file in EXAMPLES.glob("*.py"):
        text = file.read_text("utf-8")
        assert len(text.splitlines()) < 120, file.name
        assert text.split("\n")[1].startswith('"""'), file.name
        assert f"python examples/{file.name}" in text, file.name
