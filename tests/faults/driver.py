# SPDX-License-Identifier: Apache-2.0
"""The program under the shim: `python -m faults.driver ROOM`, with jobs as lines of JSON.

With ``restarts ROOM N`` a store is opened N times, and with ``clock ROOM`` its clock jumps.

A job is ``{"scenario": name, "kind": name, "points": [...] or how many}``; no number means every
point. Each point is worked and looked at in forked children, over a copy of what was prepared. The
answer is a line of JSON for each point: where it was, what was said, and the problem or null.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

from faults.scenario import DONE, REFUSED, Said, Scenario, Steps
from faults.shim import DEADLY, Kind, Shim
from faults.table import SCENARIOS
from omsgrain.errors import OmsError

_LONGEST = 60  # seconds until a child that hangs is killed
#: How a child ended that found something.
_PROBLEM = 9
IMPORTED = "imported"


def main(room: Path) -> None:
    """Answer each job, and an empty line by another."""
    warnings.simplefilter("ignore")
    shim = Shim()
    for line in sys.stdin:
        if not line.strip():
            print(flush=True)
            continue
        job = json.loads(line)
        scenario, kind = SCENARIOS[job["scenario"]], Kind[job["kind"]]
        place = room / job["scenario"]
        first = place / "prepared"
        if not first.exists():
            prepare(scenario, first)
        changes = counted(shim, scenario, first, place / "counted")
        for at in points(job["points"], changes, kind):
            here = place / f"{kind.name} {at}"
            said, problem = tried(shim, scenario, first, here, kind, at)
            shutil.rmtree(here)
            answer = {"scenario": job["scenario"], "kind": kind.name, "at": at, "of": changes}
            print(json.dumps(answer | {"refused": said.refused, "problem": problem}), flush=True)


def prepare(scenario: Scenario, first: Path) -> None:
    """Make what each point gets a copy of."""
    first.mkdir(parents=True)
    problem = apart(lambda say: scenario.prepare(first))[1]
    assert not problem, problem


def points(asked: int | list[int] | None, changes: int, kind: Kind) -> list[int]:
    """Which changes it happens at: all, those given, or so many from equal parts."""
    if kind is Kind.SHORT_READ:
        return [1]
    if isinstance(asked, list):
        return asked
    if asked is None or asked >= changes:
        return list(range(1, changes + 1))
    random, ends = (
        Random(f"{kind.name} {changes}"),
        [n * changes // asked for n in range(asked + 1)],
    )
    return [random.randint(first + 1, last) for first, last in pairwise(ends)]


def counted(shim: Shim, scenario: Scenario, first: Path, here: Path) -> int:
    """How many changes there are when nothing happens; the work must then be as it should."""
    shutil.rmtree(here, ignore_errors=True)
    said, problem = tried(shim, scenario, first, here, Kind.COUNT, 0)
    assert not problem, problem
    assert said.ended and not said.refused, said
    return int(said.results.pop("changes"))


def tried(
    shim: Shim, scenario: Scenario, first: Path, here: Path, kind: Kind, at: int
) -> tuple[Said, str | None]:
    """Work with a fault and check the result; return the problem, if there is one."""
    shutil.copytree(first, here)

    def work(say: Callable[..., None]) -> None:
        shim.arm(kind, at, here)
        try:
            scenario.work(here, Steps(say))
        except (OmsError, OSError) as error:
            say(REFUSED, "end", getattr(error, "code", type(error).__name__))
        else:
            say(DONE, "end", True)
        say(DONE, "changes", shim.rest())

    lines, problem = apart(work, dies=kind in DEADLY)
    said = Said()
    for verdict, name, value in lines:
        (said.results if verdict == DONE else said.refused)[name] = value
    said.ended = said.results.pop("end", False)
    if kind is not Kind.COUNT:
        said.results.pop("changes", None)
    if not problem:
        problem = apart(lambda say: scenario.look(here, said))[1]
    return said, problem


def apart(
    work: Callable[[Callable[..., None]], None], *, dies: bool = False
) -> tuple[list[Any], str | None]:
    """Run an action in a forked child; return its output and its problem.

    What it imports is imported here then, or each later child would do it again.
    """
    here, there = os.pipe()
    known = set(sys.modules)
    child = os.fork()
    if not child:
        os.close(here)
        signal.alarm(_LONGEST)

        def say(*what: Any) -> None:
            os.write(there, json.dumps(what).encode() + b"\n")

        try:
            work(say)
        except BaseException as error:
            frames = traceback.extract_tb(error.__traceback__)[-4:]
            way = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
            say("problem", f"{type(error).__name__}: {error} ({way})")
            os._exit(_PROBLEM)
        say(IMPORTED, sorted(set(sys.modules) - known))
        os._exit(0)
    os.close(there)
    with os.fdopen(here, "rb") as pipe:
        text = pipe.read()
    status = os.waitpid(child, 0)[1]
    lines = [json.loads(line) for line in text.split(b"\n")[:-1]]
    if lines and lines[-1][0] == IMPORTED:
        for name in lines.pop()[1]:
            with suppress(ImportError):
                import_module(name)
    if lines and lines[-1][0] == "problem":
        return lines[:-1], lines[-1][1]
    if os.WIFSIGNALED(status) and not (dies and os.WTERMSIG(status) == signal.SIGKILL):
        return lines, f"died of signal {os.WTERMSIG(status)}"
    return lines, None


def restarts(room: Path, rounds: int, seed: int) -> dict[str, int]:
    """Open a store again and again; some processes die. Returned grains stay.

    Returns:
        How many there were, of them how many died, and how many grains there are in the end.
    """
    from faults.commits import restarted, whole

    shim, random = Shim(), Random(seed)
    store, noted, died = room / "memory.omsg", room / "noted", 0
    for number in range(rounds):
        at = random.choice((0, random.randrange(1, 25)))

        def work(say: Callable[..., None], number: int = number, at: int = at) -> None:
            shim.arm(Kind.KILL if at else Kind.COUNT, at, store)
            restarted(store, noted, number)

        _, problem = apart(work, dies=True)
        assert not problem, (number, problem)
        died += noted.read_text().count(f"end {number}\n") == 0
        if number % 100 == 99 or number == rounds - 1:
            _, problem = apart(lambda say: whole(store, noted))
            assert not problem, (number, problem)
    return {"restarts": rounds, "died": died, "grains": noted.read_text().count("put ")}


def jumps(room: Path) -> dict[str, int]:
    """Use a store while its clock jumps by years; how often it did."""
    from faults.commits import JUMPS, clock_jumps

    shim = Shim()
    _, problem = apart(lambda say: clock_jumps(room, shim.clock))
    assert not problem, problem
    return {"jumps": len(JUMPS)}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["restarts", path, rounds]:
            print(json.dumps(restarts(Path(path), int(rounds), 7)))
        case ["clock", path]:
            print(json.dumps(jumps(Path(path))))
        case [path]:
            main(Path(path))
