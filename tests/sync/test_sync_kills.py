# SPDX-License-Identifier: Apache-2.0
"""A sync that is killed is gone on from by the next one."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from random import Random

import omsgrain as og
from omsgrain.storage.check import check
from omsgrain.store.context import context_of
from support.sync_stores import addresses, belief, together, told

# Says when it begins, and syncs by small batches, so that a kill is in the midst of many.
SYNC = """
import sys
import omsgrain as og
from omsgrain.sync import LocalPeer, batch, reconcile, run, sync
batch._MOST_GIVEN = run.ITEMS = reconcile.ITEMS = 7
inner, count, limit = batch.put, 0, int(sys.argv[3])
def counted(*given):
    global count
    done = inner(*given)
    count += 1
    print(count, flush=True)
    return done
batch.put = counted
with og.open(sys.argv[1]) as robot, og.open(sys.argv[2]) as hub:
    sync(LocalPeer(robot), LocalPeer(hub))
print("done", flush=True)
"""


def killed(robot: Path, hub: Path, after: int, delay: float) -> bool:
    """Sync in a process that is killed after some batches; whether it had ended before."""
    command = [sys.executable, "-c", SYNC, str(robot), str(hub), "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() in ("done", str(after)):
                break
        end = time.perf_counter() + delay
        while time.perf_counter() < end:
            pass
        child.kill()
        return "done" in child.stdout.read() or line.strip() == "done"


def test_killed_and_resumed(tmp_path: Path, long: bool) -> None:
    random = Random(5)
    robot_path, hub_path = tmp_path / "robot.omsg", tmp_path / "hub.omsg"
    made = 0
    gone: set[str] = set()
    for turn in range(25 if long else 2):
        with og.open(robot_path) as robot, og.open(hub_path) as hub:
            for store in (robot, hub):
                new = [belief(f"{made + n}", made + n) for n in range(30)]
                made += 30
                names = [name for name in store.put_many(new).addresses if name is not None]
                store.supersede(names[0], belief("later", made, x_n=made), justification="x")
                store.contest(names[1])
                store.delete_many([names[2]], erased="gdpr17")
                gone.add(names[2])
        killed(robot_path, hub_path, random.randrange(1, 12), random.random() * 0.003)
        if turn % 2:
            killed(robot_path, hub_path, random.randrange(1, 12), random.random() * 0.003)
        with og.open(robot_path) as robot, og.open(hub_path) as hub:
            for store in (robot, hub):
                report = check(context_of(store).storage.path)  # type: ignore[attr-defined]
                assert report.ok, report.problems
            together(robot, hub)
            assert addresses(robot) == addresses(hub)
            assert told(robot) == told(hub)
            assert gone.isdisjoint(addresses(hub))
