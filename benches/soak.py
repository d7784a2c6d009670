# SPDX-License-Identifier: Apache-2.0
"""One store under work of every kind, for long: `python -m benches.soak --minutes 30`.

Two writers, two readers, one who erases people and one who exports, each a process of its own,
over one sealed store. A writer goes from person to person; the oldest people are erased, so that
the store stays as large as it is and memory has no reason to grow. It is sampled all the while; in
the end all that was stored for people who are still there must be there, all else gone, and the
store must be sound.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import omsgrain as og
from benches import room as rooms
from benches.soak_work import MASTER, PERSON, ROLES, Room, user
from omsgrain.crypto.keyring import KeyRing

ROOT = Path(__file__).resolve().parents[1]
BEGINNING = 60.0  # seconds that a process may take to begin on a busy machine
SAMPLES = 200
#: How much more a process may hold in its last quarter than in its second.
GROWTH, SLACK = 1.25, 16 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """What a process held beside mapped files, in bytes: medians, and the most."""

    second_quarter: float
    last_quarter: float
    most: int

    @property
    def flat(self) -> bool:
        """Whether it has not grown."""
        return self.last_quarter <= self.second_quarter * GROWTH + SLACK


@dataclass(slots=True)
class Outcome:
    """What became of it.

    Attributes:
        seconds: how long it ran.
        operations: by role, how many of each kind.
        memory: by role.
        store_bytes: of the store's files, in the second and in the last quarter, and at the most.
        grains: how many there are in the end.
        people: how many were written, and how many of them erased.
        lost: addresses that were stored and are not there.
        left: addresses of people who were erased that are there.
        problems: of the store, of its audit trail, and processes that ended with an error.
    """

    seconds: float
    operations: dict[str, dict[str, int]] = field(default_factory=dict)
    memory: dict[str, Memory] = field(default_factory=dict)
    store_bytes: tuple[float, float, float] = (0.0, 0.0, 0.0)
    grains: int = 0
    people: tuple[int, int] = (0, 0)
    lost: int = 0
    left: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether nothing is lost, nothing left, and memory flat."""
        flat = all(one.flat for one in self.memory.values())
        return not (self.lost or self.left or self.problems) and flat


def soak(directory: Path, *, seconds: float, seed: int = 1, person: int = PERSON) -> Outcome:
    """Let all of them work, and look what became of it.

    However it ends, the processes have ended then.

    Args:
        directory: an empty one.
        seconds: how long.
        seed: of the work.
        person: how many grains there are about one.
    """
    room = Room(directory, person)
    (directory / "people").mkdir()
    KeyRing.create(room.keys, master=MASTER).close()
    og.open(room.store).close()
    command = [sys.executable, "-m", "benches.soak_work", str(directory), str(person)]
    children: dict[str, subprocess.Popen[str]] = {}
    held: dict[str, list[int]] = {role: [] for role in ROLES}
    sizes: list[int] = []
    try:
        for n, role in enumerate(ROLES):
            children[role] = subprocess.Popen(
                [*command, role, str(seed + n)], stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
        until = time.monotonic() + BEGINNING
        while time.monotonic() < until and len(list(directory.glob("*.began"))) < len(ROLES):
            time.sleep(0.05)
        start = time.monotonic()
        while time.monotonic() - start < seconds:
            time.sleep(seconds / SAMPLES)
            for role, process in children.items():
                held[role].append(resident(process.pid))
            sizes.append(size_of(room.store))
            if any(process.poll() is not None for process in children.values()):
                break
        took = time.monotonic() - start
    finally:
        (directory / "stop").touch()
        said = {role: process.communicate()[0] for role, process in children.items()}
    found = Outcome(took)
    if took < seconds:
        found.problems.append(f"a process ended after {took:.0f} of {seconds:.0f} seconds")
    for role, process in children.items():
        if process.returncode:
            found.problems.append(f"{role} ended with {process.returncode}")
        else:
            found.operations[role] = json.loads(said[role])
        found.memory[role] = Memory(*quarters(held[role]), max(held[role], default=0))
    found.store_bytes = (*quarters(sizes), max(sizes, default=0))
    look(room, found)
    return found


def look(room: Room, found: Outcome) -> None:
    """See that nothing is lost, nothing left, and the store is sound."""
    erased = room.people("erased")
    staying = [*room.people("done"), *room.people("at-work")]
    found.people = (len(erased) + len(staying) + len(room.people("erasing")), len(erased))
    with room.open("watcher") as store:
        found.grains = len(store)
        for path in staying:
            for name in path.read_text().split():
                found.lost += not store.exists(name) or store.get(name)["user_id"] != user(path)
        for path in erased:
            found.left += sum(map(store.exists, path.read_text().split()))
        found.problems += [str(one) for one in store.maintenance.check().problems]
        found.problems += [str(one) for one in store.audit.verify().problems]


def resident(process: int) -> int:
    """Bytes of memory of a process that are in no file; 0 where that is not told."""
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    line = next((one for one in status.splitlines() if one.startswith("RssAnon:")), "x 0")
    return int(line.split()[1]) << 10


def size_of(path: Path) -> int:
    """Bytes that the files of a directory take on the disk."""
    total = 0
    for entry in os.scandir(path):
        try:
            total += entry.stat().st_blocks * 512
        except FileNotFoundError:  # replaced meanwhile
            pass
    return total


def quarters(samples: list[int]) -> tuple[float, float]:
    """The medians of the second quarter and of the last; the first is for warming up."""
    part = len(samples) // 4
    if not part:
        return 0.0, 0.0
    return statistics.median(samples[part : 2 * part]), statistics.median(samples[-part:])


def told(found: Outcome) -> str:
    """The report, in Markdown."""
    mb = 1 / (1 << 20)
    lines = [
        f"{found.seconds / 60:.1f} minutes, {found.grains} grains in the end; {found.people[0]}"
        f" people, {found.people[1]} of them erased; {found.lost} grains lost, {found.left} left.",
        "",
        "| process | second quarter, MB | last quarter, MB | most, MB | operations |",
        "|---|---|---|---|---|",
    ]
    for role, memory in found.memory.items():
        did = ", ".join(f"{kind} {n}" for kind, n in found.operations.get(role, {}).items())
        held = (memory.second_quarter, memory.last_quarter, memory.most)
        lines.append(f"| {role} | " + " | ".join(f"{x * mb:.1f}" for x in held) + f" | {did} |")
    second, last, most = (x * mb for x in found.store_bytes)
    lines += [
        "",
        f"Files of the store: {second:.1f} MB, {last:.1f} MB, {most:.1f} MB at the most.",
    ]
    return "\n".join([*lines, *(f"Problem: {one}" for one in found.problems)])


def main() -> int:
    """Run and print; 1 if anything was lost, left, or grew."""
    parser = argparse.ArgumentParser(prog="python -m benches.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to a file too")
    options = parser.parse_args()
    with rooms.room() as directory:
        found = soak(directory, seconds=60 * options.minutes, seed=options.seed)
    print(told(found))
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(found), indent=1) + "\n")
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
