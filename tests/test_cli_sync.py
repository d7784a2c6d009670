# SPDX-License-Identifier: Apache-2.0
"""``omsgrain sync``."""

from __future__ import annotations

import json
from pathlib import Path

import omsgrain as og
from shell import USAGE, Shell, belief, count


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
