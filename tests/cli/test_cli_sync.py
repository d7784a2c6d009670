# SPDX-License-Identifier: Apache-2.0
"""``omsgrain sync``."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omsgrain as og
from support.shell import USAGE, Shell, belief, count, exit_code

if TYPE_CHECKING:
    from support.servers.postgres import Postgres


def test_sync(shell: Shell, tmp_path: Path) -> None:
    robot, hub = tmp_path / "robot.omsg", tmp_path / "hub.omsg"
    with og.open(robot) as store:
        store.put_many([belief(n) for n in range(5)])
    told = shell.json("sync", robot, hub, "--dry-run", "--direction", "push", "--create")
    assert told["sent"]["grains"] == 5 and not hub.exists()
    assert shell("sync", robot, hub, "--create") == 0
    assert shell.out.startswith(b"Sent: 5 grains, ")
    assert count(hub) == 5
    told = shell.json("sync", robot, hub, "--full")
    assert told["sent"]["grains"] == told["received"]["grains"] == 0
    assert told["sent"]["compared"] and told["sent"]["refused"] == []


@pytest.mark.parametrize("how", [(), ("--dry-run",), ("--direction", "push")])
def test_a_target_is_made_when_it_is_asked_for(
    shell: Shell, tmp_path: Path, how: tuple[str, ...]
) -> None:
    """A mistyped path is no new store, as with ``serve``, ``mcp`` and ``token add``."""
    robot, hub, file = tmp_path / "robot.omsg", tmp_path / "hub.omsg", tmp_path / "out.mg"
    with og.open(robot) as store:
        store.put(belief(1))
    assert shell("sync", robot, file) == 0
    for source in (robot, file):
        code, error = shell.error("sync", source, hub, *how)
        assert (code, error["code"]) == (exit_code("ERR_STORE"), "ERR_STORE")
        assert "hub.omsg" in error["message"] and not hub.exists()
        assert shell("sync", source, hub, "--create", *how) == 0
        assert hub.exists() == ("--dry-run" not in how)
        assert shell("sync", source, hub, "--create", *how) == 0
        shutil.rmtree(hub, ignore_errors=True)
    for target in (file, "http://127.0.0.1:1"):
        assert shell("sync", robot, target, "--create") == USAGE
    assert shell("sync", robot, hub, "--create", "--direction", "pull") == USAGE
    assert not hub.exists()


@pytest.mark.services
def test_a_store_in_a_database(shell: Shell, postgres: Postgres, tmp_path: Path) -> None:
    robot, hub = tmp_path / "robot.omsg", f"{postgres.database()}?tenant=hub"
    with og.open(robot) as store:
        addresses = store.put_many([belief(n) for n in range(5)]).addresses
    assert shell.error("sync", robot, hub)[1]["code"] == "ERR_STORE"
    assert shell.json("sync", robot, hub, "--create")["sent"]["grains"] == 5
    assert shell.json("sync", hub, robot, "--full")["sent"]["grains"] == 0
    table = tmp_path / "all.parquet"
    assert shell("export", hub, table) == 0 and shell("import", tmp_path / "new.omsg", table) == 0
    with og.open(tmp_path / "new.omsg") as store:
        assert [grain.address for grain in store] == addresses


def test_refusals_are_the_exit_code(shell: Shell, tmp_path: Path) -> None:
    robot, hub = tmp_path / "robot.omsg", tmp_path / "hub.omsg"
    with og.open(robot) as store, og.open(hub) as other:
        address = store.put(belief(1))
        other.put(belief(1))
        other.delete_many([address], erased="gdpr17")
    assert shell("sync", robot, hub, "--direction", "push", "--json") == 54
    (refused,) = json.loads(shell.out)["sent"]["refused"]
    assert refused == {"part": "grain", "address": address, "code": "ERR_ERASED"}


def test_bad_arguments(shell: Shell, tmp_path: Path) -> None:
    robot = tmp_path / "robot.omsg"
    with og.open(robot) as store:
        store.put(belief(1))
    assert shell.error("sync", tmp_path / "none.omsg", robot)[1]["code"] == "ERR_STORE"
    assert shell.error("sync", robot, "gopher://hub")[1]["code"] == "ERR_UNSUPPORTED"
    assert shell("sync", robot, robot) == 20
    assert shell("sync", robot, tmp_path / "hub.omsg", "--direction", "up") == USAGE
