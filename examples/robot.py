# SPDX-License-Identifier: Apache-2.0
"""A robot that reads its sensors and loses power: no stored reading is lost.

    python examples/robot.py robot.omsg

The robot is a separate process. The program kills it without warning (SIGKILL) in the middle of
its work and starts it again. `put_many` returns when the readings are on the disk, and only then
the robot counts them as stored. So no counted reading may be missing. The robot limits the memory
of its store, and asks the store where to continue.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import omsgrain as og

START = 1_768_471_200_000  # ms since 1970
STEP = 500  # ms between two readings
BATCH = 20  # readings of a commit: on a card, one sync for twenty costs little more than for one
MEMORY = "16MiB"


def reading(number: int) -> dict[str, Any]:
    """What the sensors say at a step: the same each time, as a recording would."""
    return {
        "type": "observation",
        "observer_id": "robot-7/lidar",
        "observer_type": "lidar",
        "subject": "robot-7",
        "object": {"nearest_m": round(2 + math.sin(number / 7), 3), "step": number},
        "namespace": "robots:7",
        "run_id": "patrol-1",
        "created_at": START + number * STEP,
    }


def patrol(path: Path) -> None:
    """Read and keep, from where the store ends, until the power goes."""
    with og.open(path, memory_limit=MEMORY, actor="robot-7") as store:
        done = next_step(store)
        print(f"from {done}", flush=True)
        while True:
            store.put_many([reading(n) for n in range(done, done + BATCH)])
            done += BATCH
            print(f"kept {done}", flush=True)


def next_step(store: og.GrainStore) -> int:
    """The step after the last one that is stored."""
    newest = store.query(type="observation", namespace="robots:7", limit=1).results
    return newest[0].grain["object"]["step"] + 1 if newest else 0


def run_until(path: Path, steps: int) -> tuple[int, int]:
    """Let the robot work until it has kept so many readings, then take the power away.

    Returns:
        Where it began, and how many it said were kept.
    """
    command = [sys.executable, __file__, str(path), "--patrol"]
    began = kept = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as robot:
        assert robot.stdout is not None
        for line in robot.stdout:
            word, number = line.split()
            began, kept = (int(number), kept) if word == "from" else (began, int(number))
            if kept >= steps:
                robot.kill()  # no signal handler, no closing, nothing is flushed
    return began, kept


def main(arguments: list[str]) -> int:
    """Lose power twice, and look at what is there; the exit code is 1 if anything is missing."""
    path = Path(arguments[0])
    if arguments[1:] == ["--patrol"]:
        patrol(path)
    lost = 0
    for steps in (100, 200):
        began, kept = run_until(path, steps)
        with og.open(path, readonly=True) as store:
            there = next_step(store)
            whole = store.query(namespace="robots:7", limit=1, count=True).total == there
        print(f"began at {began}, said {kept} were kept, power lost: {there} are there")
        lost += there < kept or not whole
    with og.open(path, readonly=True) as store:
        print("check: all well" if store.maintenance.check().ok else "check: something is wrong")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
