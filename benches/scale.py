# SPDX-License-Identifier: Apache-2.0
"""One store grows: `python -m benches.scale [N] [OUT]`, 10 million grains unless said otherwise.

Writes OUT (results/growth.json) after each step, so a run that is stopped leaves what it measured;
with --store it also goes on where it was stopped. At the sizes 1, 2, 5, 10, 20 .. steps the store
is looked at: queries right after new grains and once the index is written, gets, memory, size, how
long it takes to open; at some of them check and backup, too. With --doc nothing is measured:
docs/scale.md gets the figures of OUT.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from pathlib import Path
from typing import Any

import omsgrain as og
from benches import data, growth, machine
from benches.measure import check
from benches.opened import opened_in_child
from benches.room import room
from benches.sampler import Sampler

COMMIT = 1_000  # grains a commit, as in row S1
CHUNK = 10_000  # dicts in memory at a time
PAGE = 10
ASKED = 500  # queries and gets a look: each robot once
ROBOTS = 500
UPKEEP = (0, 3)  # looks that check and back up, and the last: a check of a million takes minutes
STORE = "memory.omsg"


def main() -> int:
    """Run; or only write the page."""
    parser = argparse.ArgumentParser(prog="python -m benches.scale", description=__doc__)
    parser.add_argument("grains", nargs="?", type=int, default=10_000_000)
    parser.add_argument("out", nargs="?", type=Path, default=growth.FILE)
    parser.add_argument("--step", type=int, default=100_000, help="grains a step (100,000)")
    parser.add_argument("--store", type=Path, help="a directory for the store, which is kept")
    parser.add_argument("--memory", help="a budget, as open(memory_limit=) takes it (none)")
    parser.add_argument("--doc", action="store_true", help="write docs/scale.md from OUT")
    options = parser.parse_args()
    if options.doc:
        growth.write_page(growth.load(options.out))
        return 0
    if options.store:
        options.store.mkdir(parents=True, exist_ok=True)
        grow(options.store, options.grains, options.step, options.out, options.memory)
    else:
        # On a disk, beside this file: /tmp may be memory.
        with room() as directory:
            grow(directory, options.grains, options.step, options.out, options.memory)
    from benches import plot

    if not plot.curves(growth.load(options.out), options.out.with_suffix(".png")):
        print("no plot: matplotlib is not installed", file=sys.stderr)
    return 0


def grow(directory: Path, grains: int, step: int, out: Path, memory: str | None = None) -> None:
    """Put so many grains into the store of a directory, and write what it costs to ``out``."""
    path = directory / STORE
    found = _before(path, out, step) | {"memory": memory}
    size = found["steps"][-1]["grains"] if found["steps"] else 0
    looks = points(grains, step)
    store = og.open(path, memory_limit=memory)
    try:
        while size < grains:
            count = min(step, grains - size)
            with Sampler() as watched:
                seconds = _put(store, size, count)
                size += count
                if size in looks:
                    fresh = _queries(store, size)
                    seconds += _timed(store.close)  # now all of it is in the index tables
            done = {"grains": size, "count": count, "seconds": seconds, "anonymous": watched.peak}
            found["steps"].append(done)
            if size in looks:
                opened = opened_in_child(path)
                store = og.open(path, memory_limit=memory)
                look = {"fresh": fresh, **opened, **_look(store, size)}
                if looks.index(size) in UPKEEP or size == grains:
                    look |= _upkeep(store, directory)
                found["points"].append({"grains": size, **look})
            _write(found, out)
            print(growth.line(found), flush=True)
    finally:
        store.close()


def points(grains: int, step: int) -> list[int]:
    """Sizes at which the store is looked at: 1, 2, 5, 10 steps, then each ten, and the last."""
    small = [step * n for n in (1, 2, 5)]
    return [n for n in (*small, *range(10 * step, grains, 10 * step)) if n < grains] + [grains]


def _before(path: Path, out: Path, step: int) -> dict[str, Any]:
    """What a run measured that was stopped, if this is its store; else a new record."""
    if path.exists() and out.exists():
        found = growth.load(out)
        with og.open(path, readonly=True) as store:
            if found["step"] == step and found["steps"][-1]["grains"] == len(store):
                return found
    check(not path.exists(), "the store is not the one of the figures; remove one of them")
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "step": step,
        "commit": COMMIT,
        "steps": [],
        "points": [],
    }


def _put(store: og.GrainStore, size: int, count: int) -> float:
    seconds = 0.0
    for first in range(size, size + count, CHUNK):
        grains = data.standard(min(CHUNK, size + count - first), first)
        start = time.perf_counter()
        report = store.put_many(grains, errors="collect", batch_size=COMMIT)
        seconds += time.perf_counter() - start
        check(report.stored == len(grains), "all are new")
    return seconds


def _queries(store: og.GrainStore, size: int) -> dict[str, float]:
    """The newest of a robot, as in row S5; the first one alone, since it may read what is new."""
    rng = random.Random(size)
    robots = [
        n for n in rng.sample(range(ROBOTS), min(ASKED, ROBOTS)) if n + (PAGE - 1) * ROBOTS < size
    ]
    check(len(robots) > 0, f"a step of {PAGE * ROBOTS:,} grains or more has a page of each robot")

    def ask(robot: int) -> list[object]:
        page = store.query(subject=f"robot-{robot}", relation="mg:perceives", limit=PAGE)
        return [hit.grain["object"] for hit in page.results]

    first = _timed(lambda: ask(robots[0]))
    for robot in robots[:20]:
        newest = size - 1 - (size - 1 - robot) % ROBOTS
        wanted = [f"shelf {i} has {i % 17} boxes" for i in range(newest, 0, -ROBOTS)[:PAGE]]
        check(ask(robot) == wanted, "the newest of the robot")
    return {"first": first} | _spread([_timed(partial(ask, n)) for n in robots])


def _look(store: og.GrainStore, size: int) -> dict[str, Any]:
    flushed = _queries(store, size)
    numbers = random.Random(size + 1).sample(range(size), min(ASKED, size))
    blobs = [og.encode(data.standard(1, n)[0]) for n in numbers]
    asked = [og.address(blob) for blob in blobs]
    check([store.get(address).blob for address in asked[:20]] == blobs[:20], "the same grains")
    gets = [_timed(partial(store.get, a)) for a in asked[20:] or asked]
    stats = store.stats()
    check(stats.watermark == stats.last_seq == size, "all are in the index tables")
    return {
        "flushed": flushed,
        "get": _spread(gets),
        "file_bytes": stats.file_bytes,
        "blob_bytes": stats.blob_bytes,
    }


def _upkeep(store: og.GrainStore, directory: Path) -> dict[str, float]:
    copy = directory / "backup.omsg"
    backup = _timed(lambda: store.maintenance.backup(copy))
    shutil.rmtree(copy)
    start = time.perf_counter()
    check(store.maintenance.check().ok, "the store is good")
    return {"backup": backup, "check": time.perf_counter() - start}


def _spread(seconds: list[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    late = min(len(ordered) - 1, int(0.95 * len(ordered)))
    return {"p50": statistics.median(ordered), "p95": ordered[late]}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _write(found: dict[str, Any], out: Path) -> None:
    """In one step, so that a run that is stopped leaves a whole file."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    part.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    os.replace(part, out)


if __name__ == "__main__":
    sys.exit(main())
