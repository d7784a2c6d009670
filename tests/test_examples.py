# SPDX-License-Identifier: Apache-2.0
"""The programs in examples/ do what they say."""

from __future__ import annotations

import importlib.util
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import omsgrain as og
from omsgrain.cli.weather import observations
from omsgrain.ops import ingest
from shell import belief

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # tasks in other processes look it up there
    spec.loader.exec_module(module)
    return module


def test_sql_and_frames_answer_the_same(tmp_path: Path) -> None:
    questions = load("questions")
    with og.open(tmp_path / "m.omsg") as store:
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
            assert hub.import_parquet(tmp_path / "tables" / f"{name}.parquet").merged == 1
        assert len(hub) == 4
