# SPDX-License-Identifier: Apache-2.0
"""``omsgrain sync``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import omsgrain as og
from shell import USAGE, Shell, belief, count

if TYPE_CHECKING:
    from servers.postgres import Postgres


def test_sync(shell: Shell, tmp_path: Path) -> None:
    robot, hub = tmp_path / "robot.omsg", tmp_path / "hub.omsg"
    with og.open(robot) as store:
        store.put_many([belief(n) for n in range(5)])
    told = shell.json("sync", robot, hub, "--dry-run", "--direction", "push")
    assert told["sent"]["grains"] == 5 and not hub.exists()
    assert shell("sync", robot, hub) == 0
    assert shell.out.startswith(b"Sent: 5 grains, ")
    assert count(hub) == 5
    told = shell.json("sync", robot, hub, "--full")
    assert told["sent"]["grains"] == told["received"]["grains"] == 0
    assert told["sent"]["compared"] and told["sent"]["refused"] == []


@pytest.mark.services
def test_a_store_in_a_database(shell: Shell, postgres: Postgres, tmp_path: Path) -> None:
    robot, hub = tmp_path / "robot.omsg", f"{postgres.database()}?tenant=hub"
    with og.open(robot) as store:
        addresses = store.put_many([belief(n) for n in range(5)]).addresses
    assert shell.json("sync", robot, hub)["sent"]["grains"] == 5
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
