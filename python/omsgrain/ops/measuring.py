# SPDX-License-Identifier: Apache-2.0
"""The single measurements of ``bench``."""

from __future__ import annotations

import os
import random
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import omsgrain as og

Durability = Literal["commit", "relaxed"]

ROBOTS = 500
_MOST = 60_000  # grains of one measurement: below a run of the index, so that all have one flush
_CODEC = 2_000  # grains that are encoded at once
_START = 1_768_471_200_000


@dataclass(frozen=True, slots=True)
class PutRate:
    """How fast grains go into a store.

    Attributes:
        durability: of the store.
        batch: grains a call of ``put_many``; None: ``put``, one by one.
        grains: how many were put.
        rate: grains a second.
    """

    durability: Durability
    batch: int | None
    grains: int
    rate: float


@dataclass(frozen=True, slots=True)
class CallTimes:
    """How long one call takes, in seconds: half of them at most p50, all but 5 % at most p95."""

    p50: float
    p95: float


def _grains(number: int, first: int = 0) -> list[dict[str, Any]]:
    """What a robot in a warehouse might say."""
    return [
        {
            "type": "belief",
            "subject": f"robot-{i % ROBOTS}",
            "relation": "mg:perceives",
            "object": f"shelf {i} has {i % 17} boxes",
            "confidence": 0.93,
            "source_type": "sensor",
            "created_at": _START + i,
            "namespace": "warehouse:zone-3",
            "structural_tags": ["inventory", "shelf"],
            "user_id": f"u{i % 100}",
        }
        for i in range(first, first + number)
    ]


def codec_works() -> list[tuple[str, Callable[[], object]]]:
    """Return what the codec does, by name, each on the same number of grains."""
    grains = _grains(_CODEC)
    encoded = og.encode_many(grains)
    blobs, pairs = encoded.blobs, list(zip(encoded.blobs, encoded.addresses, strict=True))
    return [
        ("encode", lambda: og.encode_many(grains)),
        ("decode", lambda: og.decode_many(blobs)),
        ("verify", lambda: og.verify_many(pairs)),
    ]


def rate_of(work: Callable[[], object], seconds: float) -> float:
    """Return how many grains a second a work of the codec does."""
    done, begun = 0, time.perf_counter()
    while not done or time.perf_counter() - begun < seconds:
        work()
        done += _CODEC
    return done / (time.perf_counter() - begun)


def times_of(call: Callable[[], object], seconds: float) -> CallTimes:
    """Call again and again, and return how long that takes."""
    took: list[float] = []
    while not took or sum(took) < seconds:
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    took.sort()
    return CallTimes(statistics.median(took), took[min(len(took) - 1, int(0.95 * len(took)))])


def sync_time(file: Path, seconds: float) -> float:
    """What it takes until the disk has a further page, as each commit waits for."""
    with file.open("wb", buffering=0) as page:

        def call() -> None:
            page.write(os.urandom(4_096))
            os.fsync(page.fileno())

        return times_of(call, seconds / 4).p50


def put_rate(place: Path, durability: Durability, batch: int | None, seconds: float) -> PutRate:
    """Put into a new store for so long, or until many grains are in."""
    path = place / "put.omsg"
    took, done = 0.0, 0
    try:
        with og.open(path, durability=durability) as store:
            store.put(_grains(1, _MOST * 10)[0])  # the first makes what later ones find
            while not done or (took < seconds and done < _MOST):
                grains = _grains(batch or 1, done)
                begun = time.perf_counter()
                if batch is None:
                    store.put(grains[0])
                else:
                    store.put_many(grains, batch_size=batch)
                took += time.perf_counter() - begun
                done += len(grains)
            begun = time.perf_counter()
        took += time.perf_counter() - begun
    finally:
        shutil.rmtree(path, ignore_errors=True)
    return PutRate(durability, batch, done, done / took)


class MeasuredStore:
    """A store that is read from, closed when it was made."""

    def __init__(self, place: Path, grains: int) -> None:
        self.path, self.count = place / "read.omsg", grains
        encoded = og.encode_many(_grains(grains))
        self._addresses = encoded.addresses
        with og.open(self.path) as store:
            store.put_many(encoded)
        files = (file.stat().st_size for file in self.path.iterdir())
        self.store_bytes = sum(files) / grains
        self.blob_bytes = sum(map(len, encoded.blobs)) / grains

    def calls(self, store: og.GrainStore) -> Iterator[tuple[str, Callable[[], object]]]:
        """What is asked, of other grains each time; the text index is made before its turn."""
        rng = random.Random(1)
        addresses, robots = self._addresses, ROBOTS
        yield "get", lambda: store.get(rng.choice(addresses))
        yield (
            "query",
            lambda: store.query(
                subject=f"robot-{rng.randrange(robots)}", relation="mg:perceives", limit=10
            ),
        )
        store.search("shelf")
        yield "search", lambda: store.search(f"{rng.randrange(self.count)}")


def memory_used() -> int | None:
    """Return the bytes of this process beside files, or at its peak; None where nobody says."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1]) << 10
    with suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if os.uname().sysname == "Darwin" else peak << 10
    return None
