# SPDX-License-Identifier: Apache-2.0
"""A fleet of simulated robots and their hub: `python -m benches.fleet [--robots 1000]`.

Each robot keeps its own store, writes readings, changes its mind, forgets, and syncs when it can:
it brings what is its own, and takes what the fleet shares. Calls get lost on their way there or on
their way back, and commits come to nothing. In the end the network is good, all sync
once more, and it is counted what crossed beside the new grains, each once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from typing import Any, TypeVar

import omsgrain as og
from benches.room import room
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store.context import Settings, context_of
from omsgrain.sync import Batch, LocalPeer, sync
from omsgrain.sync.protocol import pack_value

T = TypeVar("T")
SHARED = "fleet"
TIME = 1_700_000_000_000
_STRANGERS = 50
"""One robot in so many meets the hub only after it has worked for a while, and may have erased."""
_CALLS = ("hello", "tombstones", "changes", "reconcile", "missing", "get", "put")


class Lost(Exception):
    """A call, or its answer, did not arrive; or a commit came to nothing."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a fleet.

    Attributes:
        robots: how many.
        grains: how many the hub has in the end.
        ideal: bytes of the grains that crossed, each once for each robot and way.
        bytes: all bytes that crossed, those of lost calls among them.
        lost: calls that were lost.
        failed: commits that came to nothing.
        seconds: how long it took.
        converged: each robot and the hub agree.
    """

    robots: int
    grains: int
    ideal: int
    bytes: int
    lost: int
    failed: int
    seconds: float
    converged: bool

    @property
    def ratio(self) -> float:
        """Bytes that crossed, against the ideal."""
        return self.bytes / self.ideal


class Network:
    """What lies between a robot and the hub.

    Args:
        inner: the hub.
        random: decides what is lost.
        loss: how many calls of 1 are.
    """

    def __init__(self, inner: LocalPeer, random: Random, loss: float) -> None:
        self._inner, self._random, self._loss = inner, random, loss
        self._crossed: set[bytes] = set()
        self.bytes = self.ideal = self.lost = 0

    def through(self, hub: LocalPeer, loss: float) -> Network:
        """The same link to a hub that was opened anew."""
        self._inner, self._loss = hub, loss
        return self

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name not in _CALLS:
            return call

        def sent(*given: Any) -> Any:
            self._count(given)
            fate = self._random.random()
            if fate < self._loss / 2:
                self.lost += 1
                raise Lost
            answer = call(*given)
            self._count((answer,))
            if fate < self._loss:
                self.lost += 1
                raise Lost
            return answer

        return sent

    def _count(self, values: tuple[Any, ...]) -> None:
        self.bytes += len(pack_value(values))
        for value in values:
            for grain in value.grains if isinstance(value, Batch) else ():
                if grain not in self._crossed:
                    self._crossed.add(grain)
                    self.ideal += len(grain)


class Fragile:
    """A store some of whose commits come to nothing, when all their work is done.

    Each is rolled back. A commit that power cuts off is LMDB's to undo, and not tried here.
    """

    def __init__(self, inner: Storage, random: Random, failing: float) -> None:
        self._inner, self._random, self.failing = inner, random, failing
        self.failed = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write(self, work: Callable[[Writer], T], *, expecting: Sequence[bytes] = ()) -> T:
        """Run ``work`` in a transaction, which may come to nothing."""

        def run(writer: Writer) -> T:
            done = work(writer)
            if self._random.random() < self.failing:
                self.failed += 1
                raise Lost
            return done

        return self._inner.write(run, expecting=expecting)


class Robot:
    """A robot with a store of its own, which is open only while it works."""

    def __init__(self, number: int, path: Path, failing: float) -> None:
        self.number, self.path, self.failing = number, path, failing
        self.random = Random(number)
        self.erased: set[str] = set()
        self.network: Network | None = None
        self.failed = self.made = 0

    def open(self, failing: float) -> og.GrainStore:
        """Open its store."""
        below: Any = Fragile(LmdbStorage(self.path, durable=False), self.random, failing)
        return og.GrainStore(below, Settings(actor=f"robot-{self.number}", count_access=False))

    def work(self, hub: og.GrainStore, new: int, loss: float) -> None:
        """Write for a while, then try to sync."""
        with self.open(self.failing) as store:
            try:
                if self.network is None and self.number % _STRANGERS:
                    self._set_up(store, hub, loss)
                self._write(store, new)
                self.sync(store, hub, loss)
            except Lost:
                pass
            self.failed += getattr(context_of(store).inner, "failed", 0)

    def _set_up(self, store: og.GrainStore, hub: og.GrainStore, loss: float) -> None:
        """Sync before it erases anything, so that its tombstones have the key of the fleet."""
        while True:
            with suppress(Lost):
                self.sync(store, hub, loss)
                return

    def _write(self, store: og.GrainStore, new: int) -> None:
        random = self.random
        readings = [self._reading() for _ in range(new)]
        names = [name for name in store.put_many(readings).addresses if name is not None]
        for name in random.sample(names, max(new // 20, 1)):
            store.supersede(name, self._reading(), justification="measured again")
        store.contest(random.choice(names))
        if random.random() < 0.3:
            doomed = random.choice(names)
            store.delete_many([doomed], erased="asked")
            self.erased.add(doomed)

    def _reading(self) -> dict[str, Any]:
        self.made += 1
        random = self.random
        return {
            "type": "observation",
            "observer_id": f"robot-{self.number}",
            "observer_type": "lidar",
            "subject": f"aisle {random.randrange(40)}",
            "object": {
                "metres": round(random.uniform(0.2, 30), 3),
                "clear": random.random() < 0.9,
            },
            "confidence": round(random.random(), 3),
            "created_at": TIME + self.made * 1_000,
            "namespace": f"robots:{self.number}",
        }

    def sync(self, store: og.GrainStore, hub: og.GrainStore, loss: float) -> bool:
        """Bring its own, and take what is shared; whether anything changed."""
        if self.network is None:
            self.network = Network(LocalPeer(hub), self.random, loss)
        there: Any = self.network.through(LocalPeer(hub), loss)
        here = LocalPeer(store)
        sent = sync(here, there, direction="push")
        got = sync(here, there, direction="pull", namespaces=[SHARED])
        return sent.changed or got.changed

    def agrees(self, hub: og.GrainStore, shared: set[str]) -> bool:
        """Whether its store and the hub tell the same."""
        with self.open(0.0) as store:
            mine = {grain.address for grain in store}
            return (
                shared <= mine
                and all(hub.exists(name) for name in mine)
                and all(hub.status(name) == store.status(name) for name in mine)
                and self.erased.isdisjoint(mine)
                and not any(hub.exists(name) for name in self.erased)
            )


def simulate(
    directory: Path,
    *,
    robots: int,
    rounds: int = 2,
    new: int = 500,
    loss: float = 0.02,
    failing: float = 0.01,
    threads: int = 4,
) -> Outcome:
    """Let a fleet work, and then come together.

    Args:
        directory: where the stores are made.
        robots: how many.
        rounds: how often each works and tries to sync.
        new: readings a round.
        loss: how many calls of 1 are lost.
        failing: how many commits of 1 come to nothing.
        threads: robots that are at work at the same time.
    """
    start = time.perf_counter()
    fleet = [Robot(n, directory / f"robot-{n}", failing) for n in range(robots)]
    shared: set[str] = set()
    below = LmdbStorage(directory / "hub", durable=False)
    with og.GrainStore(below, Settings(actor="hub", count_access=False)) as hub:
        for turn in range(rounds):
            rule = og.Belief(
                subject="fleet",
                relation="has_speed_limit",
                object=f"{turn + 1} m/s",
                namespace=SHARED,
                created_at=TIME + turn,
            )
            shared.add(hub.put(rule))
            with ThreadPoolExecutor(threads) as pool:
                try:
                    list(pool.map(lambda robot: robot.work(hub, new, loss), fleet))
                except BaseException:
                    pool.shutdown(cancel_futures=True)  # or a signal would wait for all
                    raise
        for robot in fleet:
            with robot.open(0.0) as store:
                while robot.sync(store, hub, 0.0):
                    pass
        agreed = all(robot.agrees(hub, shared) for robot in fleet)
        networks = [robot.network for robot in fleet if robot.network is not None]
        return Outcome(
            robots,
            len(hub),
            sum(one.ideal for one in networks),
            sum(one.bytes for one in networks),
            sum(one.lost for one in networks),
            sum(robot.failed for robot in fleet),
            time.perf_counter() - start,
            agreed,
        )


def main() -> int:
    """Simulate and print; 1 if the fleet does not come together, or too much crosses."""
    parser = argparse.ArgumentParser(prog="python -m benches.fleet", description=__doc__)
    parser.add_argument("--robots", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--new", type=int, default=500)
    parser.add_argument("--loss", type=float, default=0.02)
    parser.add_argument("--failing", type=float, default=0.01)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    with room() as directory:
        found = simulate(directory, **vars(options))
    for name, value in asdict(found).items():
        print(f"{name:10}{value}")
    print(f"{'ratio':10}{found.ratio:.4f}")
    return 0 if found.converged and found.ratio < 1.15 else 1


if __name__ == "__main__":
    sys.exit(main())
