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
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

import omsgrain as og
from omsgrain import container
from omsgrain.crypto.keyring import KeyRing
from omsgrain.engine.base import Settings
from omsgrain.errors import ErasedError, InvalidationDeniedError, NotFoundError
from omsgrain.gateways.aimem import export_stream
from omsgrain.store.lmdb import LmdbStore

MASTER = bytes(range(32))
ROLES = ("writer 1", "writer 2", "reader 1", "reader 2", "eraser", "exporter")
PERSON = 2_000  # grains about one person
STAYING = 6  # people who are done, before the oldest of them is erased
PATIENCE = 600.0  # seconds to wait for another process that writes
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


# -- the processes --------------------------------------------------------------------------------


@dataclass(slots=True)
class Room:
    """What all processes share: a directory.

    A person's addresses stand in ``people/NAME.at-work``; it is renamed to ``.done`` and then to
    ``.erasing`` and ``.erased``.

    Attributes:
        path: the directory.
        person: how many grains there are about one.
    """

    path: Path
    person: int = PERSON

    @property
    def store(self) -> Path:
        """The store's directory."""
        return self.path / "memory.omsg"

    @property
    def keys(self) -> Path:
        """The key file."""
        return self.path / "people.keys"

    @property
    def over(self) -> bool:
        """Whether it is time to end."""
        return (self.path / "stop").exists()

    def people(self, state: str) -> list[Path]:
        """The files of people, the oldest first."""
        return sorted((self.path / "people").glob(f"*.{state}"), key=lambda one: one.stem[-6:])

    @contextmanager
    def open(self, role: str, *, readonly: bool = False) -> Iterator[og.GrainStore]:
        """Open the store; on a busy machine a turn to write may be long in coming."""
        with KeyRing.open(self.keys, master=MASTER) as ring:
            below = LmdbStore(self.store, readonly=readonly, patience=PATIENCE)
            with og.GrainStore(below, Settings(actor=role, keys=ring)) as store:
                yield store


def user(path: Path) -> str:
    """The user id of a person, by the file: AIMEM wants a URI."""
    return f"urn:person:{path.stem}"


def reading(random: Random, person: str, number: int) -> dict[str, object]:
    """A grain whose parts belong together, so that a reader can tell a wrong one."""
    return {
        "type": "observation",
        "observer_id": "robot-7",
        "observer_type": "lidar",
        "subject": f"aisle {number % 40}",
        "object": {"of": person, "number": number, "note": "x" * random.randrange(300)},
        "confidence": 0.9,
        "created_at": 1_768_471_200_000 + number,
        "namespace": "warehouse",
        "user_id": person,
        "session_id": f"{person} {number // 100}",
    }


def write(room: Room, role: str, random: Random, done: Callable[[str], None]) -> None:
    """Go from person to person; an address is noted when the call that stored it has returned."""
    generation = 0
    with room.open(role) as store:
        while not room.over:
            if len(room.people("done")) > 2 * STAYING:  # or the store would grow
                time.sleep(0.05)
                continue
            path = room.path / "people" / f"{role[-1]}-{generation:06}.at-work"
            person, number = user(path), 0
            with path.open("w") as noted:
                while number < room.person and not room.over:
                    size = random.choice((1, 1, 20, 100))
                    items = [reading(random, person, number + n) for n in range(size)]
                    number += size
                    names = store.put_many(items).addresses if size > 1 else [store.put(items[0])]
                    done("put")
                    if random.random() < 0.2:
                        new = reading(random, person, number)
                        number += 1
                        names.append(store.supersede(str(names[0]), new, justification="again"))
                        done("supersede")
                    if random.random() < 0.05:
                        store.contest(str(names[-1]), reason="doubt")
                        done("contest")
                    noted.writelines(f"{name}\n" for name in names)
                    noted.flush()
            path.rename(path.with_suffix(".done"))
            generation += 1


def read(room: Room, role: str, random: Random, done: Callable[[str], None]) -> None:
    """Query, get and follow what there is; what was erased meanwhile is none of it."""
    with room.open(role, readonly=True) as store:
        while not room.over:
            asked: dict[str, object] = random.choice(
                [
                    {"subject": f"aisle {random.randrange(40)}"},
                    {"type": "observation", "order": "oldest"},
                    {"namespace": "warehouse", "current": None},
                ]
            )
            page = store.query(limit=50, **asked)  # type: ignore[arg-type]
            done("query")
            for hit in page.results[:5]:
                try:
                    grain = store.get(hit.content_address)
                    assert grain["object"]["of"] == grain["user_id"]
                    assert grain["object"]["number"] == grain["created_at"] - 1_768_471_200_000
                    done("get")
                    store.state(hit.content_address)
                    if random.random() < 0.2:
                        store.history(hit.content_address)
                        done("history")
                except (NotFoundError, ErasedError, KeyError):
                    done("gone meanwhile")


def erase(room: Room, role: str, random: Random, done: Callable[[str], None]) -> None:
    """Erase the oldest people; now and then the files are written anew."""
    with room.open(role) as store:
        while not room.over:
            people = room.people("done")
            if len(people) <= STAYING:
                time.sleep(0.05)
                continue
            path = people[0].rename(people[0].with_suffix(".erasing"))
            store.erase_subject(
                [user(path)], reason_code="gdpr17", scrub="queued", ciphertext=True
            )
            path.rename(path.with_suffix(".erased"))
            done("erase")
            if random.random() < 0.2:
                store.run_due_erasures(everything=True)
                store.compact()
                done("compact")


def export(room: Room, role: str, random: Random, done: Callable[[str], None]) -> None:
    """Write .mg files and bundles of people, and verify what was written."""
    with room.open(role) as store:
        while not room.over:
            people = room.people("done")
            if not people:
                time.sleep(0.05)
                continue
            person = user(random.choice(people))
            out = room.path / "out.mg"
            store.export_mg(out, codec=random.choice(("none", "zstd", "lz4")),
                            user_id=person, purpose="access")  # fmt: skip
            report = container.verify(out, errors="collect")
            assert report.ok, report.problems[0]
            done("export .mg")
            try:
                with (room.path / "out.jsonl").open("wb") as file:
                    for line in export_stream(store, person):
                        file.write(line)
                done("export AIMEM")
            except (ErasedError, NotFoundError, InvalidationDeniedError):
                done("erased meanwhile")


WORK = {"writer": write, "reader": read, "eraser": erase, "exporter": export}


def child(room: Room, role: str, seed: int) -> None:
    """Do the work of a role until it is over; the counts are printed."""
    counts: dict[str, int] = {}

    def done(kind: str) -> None:
        counts[kind] = counts.get(kind, 0) + 1

    (room.path / f"{role}.began").touch()
    WORK[role.split()[0]](room, role, Random(seed), done)
    print(json.dumps(counts))


# -- the one who watches --------------------------------------------------------------------------


def soak(directory: Path, *, seconds: float, seed: int = 1, person: int = PERSON) -> Outcome:
    """Let all of them work, and look what became of it.

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
    command = [sys.executable, "-m", "benches.soak", "--child", str(directory), str(person)]
    children = {
        role: subprocess.Popen([*command, role, str(seed + n)], stdout=subprocess.PIPE, text=True)
        for n, role in enumerate(ROLES)
    }
    until = time.monotonic() + BEGINNING
    while time.monotonic() < until and len(list(directory.glob("*.began"))) < len(ROLES):
        time.sleep(0.05)
    start = time.monotonic()
    held: dict[str, list[int]] = {role: [] for role in ROLES}
    sizes: list[int] = []
    try:
        while time.monotonic() - start < seconds:
            time.sleep(seconds / SAMPLES)
            for role, process in children.items():
                held[role].append(resident(process.pid))
            sizes.append(size_of(room.store))
            if any(process.poll() is not None for process in children.values()):
                break
    finally:
        (directory / "stop").touch()
        said = {role: process.communicate()[0] for role, process in children.items()}
    found = Outcome(time.monotonic() - start)
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
        found.problems += [str(one) for one in store.check().problems]
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
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        path, person, role, seed = options.child
        child(Room(Path(path), int(person)), role, int(seed))
        return 0
    with tempfile.TemporaryDirectory(prefix="tmp-", dir=Path(__file__).parent) as directory:
        found = soak(Path(directory), seconds=60 * options.minutes, seed=options.seed)
    print(told(found))
    if options.json is not None:
        options.json.write_text(json.dumps(asdict(found), indent=1) + "\n")
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
