# SPDX-License-Identifier: Apache-2.0
"""What a row is, and how it is measured.

Ours and the peer take turns, and who begins changes each round, so that what else the machine
does falls on both; the medians are compared. The garbage collector works as it does for users and
freeing the result counts too: whoever makes many objects pays for them. The input objects are the
same in every round, so that text cached in them is warm for both.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from benches import data

T = TypeVar("T")

Sample = Callable[[], float]
"""Does the work once and returns what it took: seconds or bytes."""

ALL_SETS = tuple(data.SETS)
ALL_CORES = 0

UNITS = {"us": 1e-6, "ms": 1e-3, "B": 1.0, "MB": 1e6}


@dataclass(frozen=True, slots=True)
class Plan:
    """What the one who runs a row decides.

    Attributes:
        set: name of a set of grains.
        count: how many of them.
        rounds: how often each side is measured in a pass; before that each runs once to warm up.
        directory: an empty directory, on a disk.
    """

    set: str
    count: int
    rounds: int
    directory: Path

    def grains(self) -> list[data.Fields]:
        """The grains of one batch."""
        return data.SETS[self.set](self.count)

    def batches(self) -> list[list[data.Fields]]:
        """Other grains for each round, for the warm-up and for the check."""
        n, rounds = self.count, self.rounds + 2
        grains = data.SETS[self.set](n * rounds)
        return [grains[i * n : (i + 1) * n] for i in range(rounds)]


@dataclass(frozen=True, slots=True)
class Case:
    """A row ready to run: its result is checked, its input is there.

    Attributes:
        ours: our side.
        peer: the other side.
        items: grains a sample, or queries, for figures per one of them.
        peer_items: the same of the peer, if it gets fewer because it would take too long.
    """

    ours: Sample
    peer: Sample
    items: int = 1
    peer_items: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table, or one for each set and each number of threads.

    Attributes:
        id: its name.
        work: what is done.
        peer: against what.
        goal: the least ratio peer / ours; with ``kind="more"`` the most that ours may take more
            than the peer, with ``kind="most"`` the most that ours may take; for all sets, or by
            set. None: the row is not judged.
        build: checks, and gives what is timed.
        sets: the sets of grains it is run on.
        threads: sizes of the core's thread pool; the goal holds for the first.
        count: grains a sample; None: as many as the set says.
        unit: of the figures: a key of ``UNITS``.
        kind: ``ratio``, ``more`` or ``most``.
        of: what the figures are per one of; with ``queries``, ``work`` says of how many grains.
    """

    id: str
    work: str
    peer: str
    goal: float | Mapping[str, float] | None
    build: Callable[[Plan], Case]
    sets: tuple[str, ...] = ("standard",)
    threads: tuple[int, ...] = (ALL_CORES,)
    count: int | None = None
    unit: str = "us"
    kind: Literal["ratio", "more", "most"] = "ratio"
    of: Literal["grains", "queries"] = "grains"

    def goal_of(self, set: str, threads: int) -> float | None:
        """The goal on a set of grains; None if the row is not judged there."""
        if threads != self.threads[0]:
            return None
        return self.goal.get(set) if isinstance(self.goal, Mapping) else self.goal


def timed(work: Callable[[], object]) -> Sample:
    """A sample of how many seconds a call takes."""

    def sample() -> float:
        gc.collect()
        start = time.perf_counter()
        work()
        return time.perf_counter() - start

    return sample


def timed_on(make: Callable[[], T], work: Callable[[T], object]) -> Sample:
    """A sample of how many seconds the work takes on what is made before the clock starts."""

    def sample() -> float:
        made = make()
        return timed(lambda: work(made))()

    return sample


def interleaved(case: Case, rounds: int) -> tuple[list[float], list[float]]:
    """Samples of both sides, taken in turns, after one call of each that does not count."""
    ours: list[float] = []
    peer: list[float] = []
    case.ours()
    case.peer()
    gc.freeze()  # the input is not searched for garbage again and again
    for i in range(rounds):
        sides = [(case.ours, ours), (case.peer, peer)]
        for side, samples in sides if i % 2 == 0 else reversed(sides):
            samples.append(side())
    return ours, peer


def check(right: bool, what: str) -> None:
    """Stop before anything wrong is timed; also under ``python -O``.

    Raises:
        AssertionError: it is not right.
    """
    if not right:
        raise AssertionError(f"not measured, because it is wrong: {what}")
