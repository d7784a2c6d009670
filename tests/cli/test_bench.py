# SPDX-License-Identifier: Apache-2.0
"""``omsgrain bench``: what it says, that it leaves nothing behind, and where it refuses."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain.cli import bench as verb
from omsgrain.errors import StoreError
from support.shell import USAGE, Shell

TINY = ("--seconds", "0.01", "--batch", "1", "--batch", "20")


def test_what_it_says(shell: Shell, tmp_path: Path) -> None:
    found = shell.json("bench", tmp_path, *TINY)
    assert set(found) == {
        "codec", "put", "grains", "read", "blob_bytes", "store_bytes", "memory_bytes", "sync",
        "advice",
    }  # fmt: skip
    assert set(found["codec"]) == {"encode", "decode", "verify"}
    assert set(found["read"]) == {"get", "query", "search"}
    assert all(0 < times["p50"] <= times["p95"] for times in found["read"].values())
    rows = [(one["durability"], one["batch"]) for one in found["put"]]
    assert rows == [(d, b) for d in ("commit", "relaxed") for b in (None, 1, 20)]
    assert all(one["rate"] > 0 and one["grains"] > 0 for one in found["put"])
    assert found["store_bytes"] > found["blob_bytes"] > 100
    assert set(found["advice"]["batch"]) == {"commit", "relaxed"}
    assert found["advice"]["batch"]["commit"] in (1, 20)
    assert list(tmp_path.iterdir()) == []


def test_as_a_table(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shell("bench", *TINY) == 0
    text = shell.out.decode()
    for words in ("one by one", "20 at once", "grains/s", "p95", "a sync", "grains at once:"):
        assert words in text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, StoreError("no room"), MemoryError])
def test_leaves_nothing_when_it_is_stopped(
    tmp_path: Path, error: type[BaseException] | BaseException
) -> None:
    def stop(done: int) -> None:
        steps.append(done)
        if len(steps) == 6:  # in the middle of putting
            raise error

    steps: list[int] = []
    with pytest.raises(error if isinstance(error, type) else type(error)):
        verb.measure(tmp_path, seconds=0.01, batches=[1, 2], progress=stop)
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_is_an_exit_code(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(og.GrainStore, "put_many", stop)
    assert shell("bench", tmp_path, *TINY) == 130
    assert list(tmp_path.iterdir()) == []


def test_a_store_is_left_alone(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        store.put({"type": "belief", "subject": "a", "relation": "b", "object": "c",
                   "confidence": 1, "created_at": 1})  # fmt: skip
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    code, error = shell.error("bench", path, *TINY)
    assert (code, error["code"]) == (60, "ERR_STORE")
    assert shell("bench", tmp_path, *TINY) == 0
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


@pytest.mark.parametrize("free", [0, verb.ROOM - 1])
def test_a_disk_that_is_nearly_full(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int
) -> None:
    usage: Callable[[object], object] = lambda path: shutil._ntuple_diskusage(9, 9, free)  # noqa: E731
    monkeypatch.setattr(shutil, "disk_usage", usage)
    code, error = shell.error("bench", tmp_path, *TINY)
    assert (code, error["code"], error["found"]) == (60, "ERR_STORE", str(free))
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**options: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)  # root may write anywhere
    code, error = shell.error("bench", tmp_path, *TINY)
    assert (code, error["code"]) == (60, "ERR_STORE")


@pytest.mark.parametrize(
    "args", [("nowhere",), ("--seconds", "0"), ("--batch", "0"), ("--batch", "x"), (".", ".")]
)
def test_usage(shell: Shell, args: tuple[str, ...]) -> None:
    assert shell("bench", *args) == USAGE


def test_advice_is_the_smallest_batch_near_the_best() -> None:
    rates = {("commit", None): 10, ("commit", 1): 9, ("commit", 10): 91, ("commit", 100): 100,
             ("relaxed", None): 40, ("relaxed", 1): 95, ("relaxed", 10): 182,
             ("relaxed", 100): 99}  # fmt: skip
    put = [verb.PutRate(d, b, 1, rate) for (d, b), rate in rates.items()]  # type: ignore[arg-type]
    advice = verb._advice(put, [1, 10, 100])
    assert advice == verb.Advice({"commit": 10, "relaxed": 10}, 4.0, 2.0)
