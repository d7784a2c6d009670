# SPDX-License-Identifier: Apache-2.0
"""New grains cross once, and little else does."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest
from benches.measure import Plan
from benches.sync import first_sync

import omsgrain as og
from omsgrain.sync import LocalPeer, sync
from support.sync_stores import TIME, Watched, addresses, belief, memory, together

MOST = 1.15


def reading(random: Random, robot: int, n: int) -> dict[str, Any]:
    return {
        "type": "observation",
        "observer_id": f"robot-{robot}",
        "observer_type": "lidar",
        "subject": f"aisle {random.randrange(40)}",
        "object": {"metres": round(random.uniform(0.2, 30), 3), "clear": random.random() < 0.9},
        "confidence": round(random.random(), 3),
        "created_at": TIME + n * 100 + robot,
        "namespace": "warehouse",
    }


def filled(robot: int, count: int, first: int = 0) -> list[dict[str, Any]]:
    random = Random(robot * 1_000 + first)
    return [reading(random, robot, first + n) for n in range(count)]


def sizes(store: og.GrainStore, names: set[str]) -> int:
    return sum(len(store.get(name).blob) for name in names)


def test_a_round_of_a_robot_and_its_hub() -> None:
    """1,000 new grains: counted over the hub's side, and over the robot's."""
    robot, hub, other = memory(), memory(), memory()
    robot.put_many(filled(1, 200))
    other.put_many(filled(2, 200))
    together(robot, hub)
    together(other, hub)
    together(robot, hub)
    before = addresses(hub)
    robot.put_many(filled(1, 1_000, 200))
    far: Any = Watched(LocalPeer(hub))
    report = sync(LocalPeer(robot), far)
    ideal = sizes(hub, addresses(hub) - before)
    assert report.sent.grains == 1_000 and report.received.grains == 0
    assert report.sent.bytes == ideal
    assert far.bytes < ideal * MOST, far.bytes / ideal
    before = addresses(other)
    far = Watched(LocalPeer(hub))
    report = sync(LocalPeer(other), far)
    ideal = sizes(hub, addresses(other) - before)
    assert report.received.grains == 1_000 and report.sent.grains == 0
    assert far.bytes < ideal * MOST, far.bytes / ideal


def test_nothing_new_costs_some_hundred_bytes() -> None:
    robot, hub = memory(), memory()
    robot.put_many(filled(1, 300))
    together(robot, hub)
    together(robot, hub)
    far: Any = Watched(LocalPeer(hub))
    sync(LocalPeer(robot), far)
    assert far.bytes < 700


def test_a_difference_among_many_is_found_by_ranges() -> None:
    """One grain more among 2,000 costs some digests; listing them all would take 64,000 bytes."""
    robot, hub = memory(), memory()
    robot.put_many(filled(1, 2_000))
    together(robot, hub)
    robot.put(belief("one more"))
    far: Any = Watched(LocalPeer(hub))
    report = sync(LocalPeer(robot), far, full=True)
    assert report.sent.grains == 1
    assert far.bytes < 8_000


@pytest.mark.parametrize("scattered", [False, True])
def test_a_first_sync_costs_little_more_than_negentropy(
    scattered: bool, long: bool, tmp_path: Path
) -> None:
    """All that crosses beside the grains, against negentropy's messages alone."""
    plan = Plan("standard", 20_000 if long else 2_000, 1, tmp_path)
    case = first_sync(scattered, plan)
    assert case.ours() <= 1.2 * case.peer()


def test_a_first_meeting_of_stores_with_nothing_in_common() -> None:
    robot, hub = memory(), memory()
    hub.put_many(filled(2, 3_000))
    robot.put_many(filled(1, 300))
    far: Any = Watched(LocalPeer(hub))
    report = sync(LocalPeer(robot), far, direction="push")
    assert report.sent.grains == 300 and not report.sent.compared
    assert far.bytes < report.sent.bytes * MOST


def test_a_first_meeting_of_stores_that_share_much() -> None:
    robot, hub = memory(), memory()
    hub.put_many(filled(2, 3_000))
    robot.put_many([*filled(1, 20), *filled(2, 900)])
    far: Any = Watched(LocalPeer(hub))
    report = sync(LocalPeer(robot), far, direction="push")
    assert report.sent.grains == 20 and report.sent.compared
    assert far.bytes < report.sent.bytes + 80_000  # the addresses; the grains are 110,000
