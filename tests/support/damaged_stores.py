# SPDX-License-Identifier: Apache-2.0
"""Reading a damaged store; run as a program, since LMDB may crash.

``python damage.py STORE PLACE`` reads cases from its input, one JSON list a line, makes a copy of
the store at a place and damages its data file: ``["flip", offset, mask]`` or ``["cut", size]``. It
answers with a line: what using, checking and writing to that copy gave. Each is done in a forked
child, and is "right", "error: ...", "wrong: ...", "signal ..." or, for the check, "found".
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import omsgrain as og
from omsgrain.errors import OmsError
from omsgrain.storage.check import check
from omsgrain.store.context import context_of

TIME = 1_700_000_000_000
LONGEST = 120  # seconds until a child that hangs is killed by its alarm
HANGS = f"signal {signal.SIGALRM.value}"
FILTERS: list[dict[str, str]] = [
    {},
    {"type": "belief"},
    {"relation": "has"},
    {"namespace": "house"},
    {"subject": "room 3"},
    {"tag": "x" * 60},
    {"relation": "has", "subject": "room 5"},
]


def belief(number: int) -> dict[str, object]:
    return {
        "type": "belief",
        "subject": f"room {number % 10}",
        "relation": "has",
        "object": "light " * (1_500 if number % 40 == 7 else number % 30),
        "confidence": 0.5,
        "created_at": TIME + number,
        "namespace": "house",
        "structural_tags": ["x" * 60, f"tag {number % 7}"],
    }


def make(path: Path, grains: int, tail: int) -> None:
    """Make a store whose pages are of every kind, some freed, with some grains in the tail."""
    with og.open(path) as store:
        for number in range(grains):
            store.put(belief(number))
            if number % 50 == 49:
                context_of(store).inner.flush()
        store.maintenance.rebuild()
        context_of(store).inner.flush()
    if tail:
        store = og.open(path)
        for number in range(grains, grains + tail):
            store.put(belief(number))
        os._exit(0)  # without the flush of a close


def answers(store: og.GrainStore) -> dict[str, list[str]]:
    """The addresses that each query gives, oldest first."""
    return {
        json.dumps(filters): [
            hit.address
            for hit in store.query(**filters, order="oldest", limit=10_000).results  # type: ignore[arg-type]
        ]
        for filters in FILTERS
    }


def use(path: Path, good: dict[str, bytes], expected: dict[str, list[str]]) -> str:
    """Get and query everything: all must be right, or an error."""
    try:
        with og.open(path, readonly=True) as store:
            for address, blob in good.items():
                if store.get(address).blob != blob:
                    return "wrong: another grain"
            for grain in store:
                if good.get(grain.address) != grain.blob:
                    return "wrong: a grain that was never put"
            for filters in FILTERS:
                for hit in store.query(**filters, limit=10_000).results:  # type: ignore[arg-type]
                    if good.get(hit.address) != hit.grain.blob:
                        return "wrong: a hit that was never put"
            if answers(store) != expected:
                return "error: a query without some of its hits"
            if len(store) != len(good):
                return "error: another count"
    except OmsError as error:
        return f"error: {error.code}"
    return "right"


def look(path: Path) -> str:
    """Run the check."""
    report = check(path)
    return "right" if report.ok else f"found: {report.problems[0].where}"


def write(path: Path, good: dict[str, bytes]) -> str:
    """Put more, twice over the size, and look whether all is there still."""
    try:
        with og.open(path, durability="relaxed") as store:
            for round in range(4):
                some = [belief(1_000 * round + n + 500) for n in range(len(good) // 4)]
                store.put_many(some)
                context_of(store).inner.flush()
            store.maintenance.rebuild()
            if any(store.get(address).blob != blob for address, blob in good.items()):
                return "wrong: another grain"
    except OmsError as error:
        return f"error: {error.code}"
    return look(path)


def in_child(work: Callable[[], str]) -> str:
    """What ``work`` says, or what ended it."""
    here, there = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(LONGEST)
        try:
            said = work()
        except BaseException as error:
            said = f"wrong: {type(error).__name__}"
        os.write(there, said.encode())
        os._exit(0)
    os.close(there)
    with os.fdopen(here) as pipe:
        said = pipe.read()
    status = os.waitpid(child, 0)[1]
    return said or f"signal {os.WTERMSIG(status)}"


def main(store: Path, place: Path) -> None:
    with og.open(store, readonly=True) as whole:
        good = {grain.address: grain.blob for grain in whole}
        expected = answers(whole)
    data = bytearray((store / "data.mdb").read_bytes())
    for line in sys.stdin:
        kind, where, *mask = json.loads(line)
        if place.exists():
            shutil.rmtree(place)
        place.mkdir()
        for name in ("head", "writer.lock"):
            if (store / name).exists():
                shutil.copy(store / name, place / name)
        if kind == "cut":
            (place / "data.mdb").write_bytes(data[:where])
        else:
            data[where] ^= mask[0]
            (place / "data.mdb").write_bytes(data)
            data[where] ^= mask[0]
        said = [
            in_child(lambda: use(place, good, expected)),
            in_child(lambda: look(place)),
        ]
        said.append(in_child(lambda: write(place, good)) if said == ["right"] * 2 else "")
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
