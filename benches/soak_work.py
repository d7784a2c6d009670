# SPDX-License-Identifier: Apache-2.0
"""What each process of the soak does: `python -m benches.soak_work DIRECTORY PERSON ROLE SEED`.

Who works notes what was done when the call has returned, so that it can be told in the end.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import omsgrain as og
from omsgrain import container
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import ErasedError, InvalidationDeniedError, NotFoundError
from omsgrain.interchange.aimem_export import export_stream
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store.context import Settings

MASTER = bytes(range(32))
ROLES = ("writer 1", "writer 2", "reader 1", "reader 2", "eraser", "exporter")
PERSON = 2_000  # grains about one person
STAYING = 6  # people who are done, before the oldest of them is erased
PATIENCE = 600.0  # seconds to wait for another process that writes


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
            below = LmdbStorage(self.store, readonly=readonly, patience=PATIENCE)
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
                    grain = store.get(hit.address)
                    assert grain["object"]["of"] == grain["user_id"]
                    assert grain["object"]["number"] == grain["created_at"] - 1_768_471_200_000
                    done("get")
                    store.status(hit.address)
                    if random.random() < 0.2:
                        store.history(hit.address)
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
            store.privacy.erase(
                [user(path)], reason_code="gdpr17", scrub="queued", ciphertext=True
            )
            path.rename(path.with_suffix(".erased"))
            done("erase")
            if random.random() < 0.2:
                store.privacy.run_due(everything=True)
                store.maintenance.compact()
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


def main(path: str, person: str, role: str, seed: str) -> None:
    """Do the work of a role until it is over; the counts are printed."""
    counts: dict[str, int] = {}

    def done(kind: str) -> None:
        counts[kind] = counts.get(kind, 0) + 1

    room = Room(Path(path), int(person))
    (room.path / f"{role}.began").touch()
    WORK[role.split()[0]](room, role, Random(int(seed)), done)
    print(json.dumps(counts))


if __name__ == "__main__":
    main(*sys.argv[1:])
