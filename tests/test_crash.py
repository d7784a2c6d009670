# SPDX-License-Identifier: Apache-2.0
"""A store whose writer is killed loses nothing that ``put`` or ``put_many`` had returned."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

import omsgrain as og

# Puts grains for ever, by turns one and many, and says each address once the call has returned.
WRITER = """
import sys
from random import Random
import omsgrain as og
path, seed = sys.argv[1], int(sys.argv[2])
random = Random(seed)
number = 0
def observation():
    global number
    number += 1
    return {
        "type": "observation", "observer_id": f"robot-{seed}", "observer_type": "sensor",
        "object": {"reading": random.random(), "note": "x" * random.randint(0, 2000)},
        "created_at": 1_700_000_000_000 + number, "subject": f"reading {number}",
    }
with og.open(path) as store:
    print("ready", flush=True)
    while True:
        if random.random() < 0.5:
            addresses = [store.put(observation())]
        else:
            errors = random.choice(["raise", "collect"])
            items = [observation() for _ in range(random.randint(1, 400))]
            addresses = store.put_many(items, errors=errors, batch_size=100).addresses
        print(*addresses, sep="\\n", flush=True)
"""


def write_and_kill(path: Path, seed: int, lines: int) -> list[str]:
    """Kill a writer after it has said so many lines; return all addresses that it had said."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(seed)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    with child, child.stdout as said:
        assert said.readline() == "ready\n"
        returned = [said.readline().strip() for _ in range(lines)]
        child.kill()
        rest = said.read()
    # The kill may cut the last line short; that address was returned, but not said.
    return [line for line in [*returned, *rest.split("\n")[:-1]] if line]


def test_nothing_returned_is_lost(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = tmp_path / "memory.omsg"
    random = Random(20)
    returned: set[str] = set()
    for seed in range(50 if request.config.getoption("--long") else 3):
        returned.update(write_and_kill(path, seed, random.randint(1, 1_500)))
        with og.open(path) as store:
            report = store.verify()
            assert all(store.exists(address) for address in returned)
            assert report.verified == len(store) == store.stats().grains
            assert [change.seq for change in store.changes()] == list(range(1, len(store) + 1))
            kept = og.Belief(subject=f"round {seed}", relation="was", object="survived")
            returned.add(store.put(kept))


def test_readers_beside_a_killed_writer(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    og.open(path).close()
    with og.open(path, readonly=True) as store:
        for seed in range(2):
            addresses = write_and_kill(path, seed, 300)
            assert all(store.exists(address) for address in addresses)
            store.verify()


@pytest.mark.parametrize(
    "moment",
    [
        "environment.lmdb.open = die",  # the directory is made
        "environment.open_tables = die",  # LMDB's file is made
        "opening.os.fsync = die",  # the tables are committed
    ],
)
def test_killed_while_it_is_made(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "memory.omsg"
    code = f"""if True:
        import os, sys
        from omsgrain.store import environment, lmdb, opening
        def die(*args, **options):
            os.kill(os.getpid(), 9)
        {moment}
        lmdb.LmdbStore(sys.argv[1])
    """
    assert subprocess.run([sys.executable, "-c", code, str(path)]).returncode == -9
    assert path.is_dir()
    with og.open(path) as store:
        store.put(og.Belief(subject="store", relation="is", object="whole"))
        assert store.verify().verified == 1
