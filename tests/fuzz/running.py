# SPDX-License-Identifier: Apache-2.0
"""A target for some seconds, or for some inputs; what it found is kept as files."""

from __future__ import annotations

import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from pathlib import Path
from random import Random

import omsgrain
from fuzz.lines import Lines
from fuzz.mutate import Mutator
from fuzz.target import Run, Target, outcome
from fuzz.watching import Watch

_PACKAGE = str(Path(omsgrain.__file__).parent)
_SHRINKING = 300  # tries to find a shorter input of the same kind
_LOOKED = 4  # of so many inputs one is looked at for new lines, which takes several times as long


@dataclass(slots=True)
class Tally:
    """The outcomes of the inputs.

    Attributes:
        inputs: how many were tried.
        outcomes: how many times each code came, or "taken".
        lines: how many lines of the package were reached.
        kept: inputs that reached something new, and became seeds.
        found: by where it happened, the input that did it.
    """

    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    lines: int = 0
    kept: int = 0
    found: dict[str, bytes] = field(default_factory=dict)

    def __str__(self) -> str:
        """One line for a person."""
        common = ", ".join(f"{code} {count}" for code, count in self.outcomes.most_common(5))
        return (
            f"{self.inputs} inputs, {self.lines} lines reached, {self.kept} seeds added,"
            f" {len(self.found)} findings; {common}"
        )


def inputs(target: Target, random: Random) -> Iterator[tuple[Mutator, bytes]]:
    """Changed seeds without end; among them each seed once as it is."""
    mutator = Mutator(target.shape, target.seeds(), random)
    left = random.sample(mutator.seeds, len(mutator.seeds))
    while True:
        if left and random.random() < 0.25:
            yield mutator, left.pop()
        data = mutator.next()
        if target.mend is not None and random.random() < 0.5:
            data = target.mend(data)
        yield mutator, data


def fuzz(
    target: Target,
    room: Path,
    *,
    seed: int,
    seconds: float | None = None,
    count: int | None = None,
    watch: Watch | None = None,
) -> Tally:
    """Try a target.

    Args:
        target: what is tried.
        room: an empty directory.
        seed: the same gives the same inputs, as long as only their number is bounded.
        seconds: how long, of the processor's time: a busy machine makes no run worthless.
        count: of how many inputs.
        watch: bounds each of them; none, none.
    """
    tally, seen = Tally(), Lines(_PACKAGE)
    # What looks like a typo in a field of a grain is warned of; that is no matter here.
    with warnings.catch_warnings(), target.opened(room) as run:
        warnings.simplefilter("ignore")
        end = time.process_time() + (seconds if seconds is not None else float("inf"))
        for mutator, data in islice(inputs(target, Random(seed)), count):
            if time.process_time() > end:
                break
            tally.inputs += 1
            if watch is not None:
                watch.next(data)
            looked = tally.inputs % _LOOKED == 0
            try:
                with seen if looked else nullcontext():
                    tally.outcomes[outcome(run, data)] += 1
            except Exception as error:
                where = place(error)
                if where not in tally.found:
                    tally.found[where] = shrunk(run, data, where, watch)
            if looked and seen.new:
                mutator.add(data)
                tally.kept += 1
        if watch is not None:
            watch.rest()
    tally.lines = seen.count
    return tally


def place(error: BaseException) -> str:
    """The error, and the last line of the package on its way."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if f.filename.startswith(_PACKAGE)] or list(frames)
    last = own[-1]
    checks = "" if not isinstance(error, AssertionError) else f" at {frames[-1].lineno}"
    return f"{type(error).__name__}{checks} in {Path(last.filename).name}:{last.lineno}"


def shrunk(run: Run, data: bytes, where: str, watch: Watch | None = None) -> bytes:
    """A shorter input that does the same, if one is found by leaving pieces out."""
    size, tries = len(data) // 2, 0
    while size:
        at = 0
        while at < len(data) and tries < _SHRINKING:
            shorter = data[:at] + data[at + size :]
            tries += 1
            if watch is not None:
                watch.next(shorter)
            try:
                outcome(run, shorter)
            except Exception as error:
                if place(error) == where:
                    data = shorter
                    continue
            at += size
        size //= 2
    return data


def keep(folder: Path, found: Iterable[bytes]) -> list[Path]:
    """Write what was found to files that are named by their content."""
    paths = []
    for data in found:
        folder.mkdir(parents=True, exist_ok=True)
        paths.append(folder / sha256(data).hexdigest()[:16])
        paths[-1].write_bytes(data)
    return paths
