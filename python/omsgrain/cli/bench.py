# SPDX-License-Identifier: Apache-2.0
"""``omsgrain bench``: measure the speed on this machine and disk.

Every measurement gets a share of the time and a new store. Its clock stops when the store is
closed: then all index rows are on the disk. Making grains is not timed.
"""

from __future__ import annotations

import os
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import click

import omsgrain as og
from omsgrain.cli import output
from omsgrain.cli.command import DIRECTORY, Seconds, argument, command
from omsgrain.cli.console import progress
from omsgrain.counts import counted
from omsgrain.errors import StoreError
from omsgrain.storage.lmdb.data_file import DATA_FILE

Durability = Literal["commit", "relaxed"]

SECONDS = 15.0
"""About how long it takes, in seconds."""

BATCHES = (1, 10, 100, 1_000, 10_000)
"""The batch sizes to try."""

ROOM = 256 << 20
"""Free bytes that it requires; it uses a tenth, as a nearly full disk distorts the result."""

ENOUGH = 0.9  # of the best rate: beyond it a larger batch is not worth it
DURABILITIES: tuple[Durability, ...] = ("commit", "relaxed")
_READ = 10_000  # grains in the store of the read measurements
_ROBOTS = 500
_MOST = 60_000  # grains of one measurement: less than an index run, so that each has one flush
_CODEC = 2_000  # grains encoded in one call
_START = 1_768_471_200_000

EXAMPLES = """
What does a commit cost on this disk?
    omsgrain bench .
Measure two batch sizes longer:
    omsgrain bench . --seconds 60 --batch 100 --batch 1000
"""


@command("Measure the speed on this machine and disk.", EXAMPLES)
@argument(
    "directory",
    default=".",
    type=DIRECTORY,
    help="A directory on the disk to measure; by default the current one.",
)
@click.option(
    "--seconds",
    type=Seconds(0.01, 3_600),
    default=SECONDS,
    metavar="SECONDS",
    help="About how many seconds it takes: 0.01 to 3600.",
)
@click.option(
    "--batch",
    "batches",
    type=click.IntRange(1, 60_000),
    multiple=True,
    metavar="N",
    help="A batch size to try, 1 to 60000. Repeatable; by default 1, 10, 100, 1000, 10000.",
)
@output.json_option
def bench(directory: Path, seconds: float, batches: tuple[int, ...], as_json: bool) -> None:
    """Measure how fast grains are encoded, put and found, with stores in DIRECTORY.

    It helps you choose a durability and a batch size for the disk of DIRECTORY. It removes what
    it writes, and leaves existing stores alone.
    """
    sizes = batches or BATCHES
    with progress(parts(sizes), "measured", as_json) as advance:
        found = measure(directory, seconds=seconds, batches=sizes, progress=advance)
    if as_json:
        output.emit(asdict(found))
    else:
        _show(found)


def _show(found: BenchReport) -> None:
    for name, rate in found.codec.items():
        click.echo(f"{name:<16}{rate:>12,.0f} grains/s")
    click.echo()
    click.echo(f"{'put, grains/s':<16}{'commit':>12}{'relaxed':>12}")
    rates = {(one.durability, one.batch): one.rate for one in found.put}
    for batch in dict.fromkeys(one.batch for one in found.put):
        name = "one by one" if batch is None else f"{batch:,} at once"
        both = (rates["commit", batch], rates["relaxed", batch])
        click.echo(f"{name:<16}" + "".join(f"{rate:>12,.0f}" for rate in both))
    click.echo()
    click.echo(f"{f'of {found.grains:,} grains':<16}{'p50':>12}{'p95':>12}")
    for name, times in found.read.items():
        click.echo(f"{name:<16}{times.p50 * 1e6:>9,.0f} us{times.p95 * 1e6:>9,.0f} us")
    click.echo()
    memory = found.memory_bytes
    for name, text in (
        ("a grain", f"{found.blob_bytes:,.0f} bytes"),
        ("with its index", f"{found.store_bytes:,.0f} bytes"),
        ("memory", "unknown" if memory is None else f"{memory / 1e6:,.1f} MB"),
        ("a sync", f"{found.sync * 1e3:.2f} ms"),
    ):
        click.echo(f"{name:<16}{text:>18}")
    click.echo()
    for line in _words(found):
        click.echo(line)


def _words(found: BenchReport) -> list[str]:
    advice = found.advice
    batch = advice.batch["commit"]
    return [
        f"Put {batch:,} grains at once: the smallest batch with nine tenths of the best rate.",
        f'durability="relaxed" makes put {advice.relaxed_one:.1f} times as fast, and batches of '
        f"{batch:,} {advice.relaxed_batch:.1f} times;",
        "a power cut can then lose what was put since the last sync, and in the worst case all.",
        f'A sync costs {found.sync * 1e3:.2f} ms here; with "commit" each call waits for it.',
    ]


@dataclass(frozen=True, slots=True)
class Advice:
    # the smallest batch that reaches nine tenths of the best rate, by durability
    batch: dict[str, int]
    relaxed_one: float  # how many times as fast ``put`` is when it does not wait for the disk
    relaxed_batch: float  # the same for ``put_many``, with the batch advised for ``commit``


@dataclass(frozen=True, slots=True)
class BenchReport:
    # grains per second of ``encode``, ``decode`` and ``verify``, on all cores
    codec: dict[str, float]
    put: list[PutRate]
    grains: int  # the number of grains in the store of the read measurements
    # the times of ``get``, of ``query`` for the newest ten of a subject, and of ``search`` for a
    # rare word
    read: dict[str, CallTimes]
    blob_bytes: float  # bytes of one grain
    store_bytes: float  # bytes of one grain with its index rows, in the files
    # memory of this process without mapped files, or its peak; None if the system does not report
    # it
    memory_bytes: int | None
    sync: float  # seconds to write one page to the disk
    advice: Advice

    __repr__ = counted


def measure(
    directory: Path,
    *,
    seconds: float = SECONDS,
    batches: Sequence[int] = BATCHES,
    progress: Callable[[int], object] = lambda done: None,
) -> BenchReport:
    """Measure in a temporary directory inside this one."""
    sizes = sorted(set(batches))
    share = seconds / parts(sizes)
    with _place(directory) as place:
        codec = {}
        for name, work in codec_works():
            codec[name] = rate_of(work, share)
            progress(1)
        sync = sync_time(place / "page", share)
        progress(1)
        put = []
        for durability in DURABILITIES:
            for batch in (None, *sizes):
                put.append(put_rate(place, durability, batch, share))
                progress(1)
        found = MeasuredStore(place, min(_READ, max(_ROBOTS, round(seconds * 1_000))))
        read = {}
        with og.open(found.path) as store:
            for name, call in found.calls(store):
                read[name] = times_of(call, share)
                progress(1)
            memory = memory_used()
        return BenchReport(
            codec=codec,
            put=put,
            grains=found.count,
            read=read,
            blob_bytes=found.blob_bytes,
            store_bytes=found.store_bytes,
            memory_bytes=memory,
            sync=sync,
            advice=_advice(put, sizes),
        )


def parts(batches: Sequence[int]) -> int:
    return 7 + len(DURABILITIES) * (1 + len(set(batches)))


@contextmanager
def _place(directory: Path) -> Iterator[Path]:
    if (directory / DATA_FILE).exists():
        raise StoreError("this directory is a store; name another directory")
    try:
        made = tempfile.mkdtemp(prefix="omsgrain-bench-", dir=directory)
    except OSError as error:
        raise StoreError(
            f"{os.fspath(directory)!r} cannot be written", found=error.strerror
        ) from error
    try:
        free = shutil.disk_usage(made).free
        if free < ROOM:
            raise StoreError(
                "the disk is nearly full", expected=f"{ROOM} bytes free", found=str(free)
            )
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _advice(put: list[PutRate], batches: Sequence[int]) -> Advice:
    rates = {(one.durability, one.batch): one.rate for one in put}
    batch: dict[str, int] = {}
    for durability in DURABILITIES:
        best = max(rates[durability, size] for size in batches)
        batch[durability] = next(
            size for size in batches if rates[durability, size] >= ENOUGH * best
        )
    chosen = batch["commit"]
    return Advice(
        batch=batch,
        relaxed_one=rates["relaxed", None] / rates["commit", None],
        relaxed_batch=rates["relaxed", chosen] / rates["commit", chosen],
    )


@dataclass(frozen=True, slots=True)
class PutRate:
    durability: Durability
    batch: int | None  # grains per call of ``put_many``; None for ``put``
    grains: int
    rate: float  # grains per second


@dataclass(frozen=True, slots=True)
class CallTimes:
    """How long one call takes, in seconds: half of them at most p50, 95 % at most p95."""

    p50: float
    p95: float


def _grains(number: int, first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "type": "belief",
            "subject": f"robot-{i % _ROBOTS}",
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
    """Return the functions to measure by name, each over the same number of grains."""
    grains = _grains(_CODEC)
    encoded = og.encode_many(grains)
    blobs, pairs = encoded.blobs, list(zip(encoded.blobs, encoded.addresses, strict=True))
    return [
        ("encode", lambda: og.encode_many(grains)),
        ("decode", lambda: og.decode_many(blobs)),
        ("verify", lambda: og.verify_many(pairs)),
    ]


def rate_of(work: Callable[[], object], seconds: float) -> float:
    """Return how many grains per second a function of the codec handles."""
    done, begun = 0, time.perf_counter()
    while not done or time.perf_counter() - begun < seconds:
        work()
        done += _CODEC
    return done / (time.perf_counter() - begun)


def times_of(call: Callable[[], object], seconds: float) -> CallTimes:
    took: list[float] = []
    while not took or sum(took) < seconds:
        begun = time.perf_counter()
        call()
        took.append(time.perf_counter() - begun)
    took.sort()
    return CallTimes(statistics.median(took), took[min(len(took) - 1, int(0.95 * len(took)))])


def sync_time(file: Path, seconds: float) -> float:
    """Return the time to write one more page to the disk, as each commit does."""
    with file.open("wb", buffering=0) as page:

        def call() -> None:
            page.write(os.urandom(4_096))
            os.fsync(page.fileno())

        return times_of(call, seconds / 4).p50


def put_rate(place: Path, durability: Durability, batch: int | None, seconds: float) -> PutRate:
    """Put grains into a new store until the time is over or the limit is reached."""
    path = place / "put.omsg"
    took, done = 0.0, 0
    try:
        with og.open(path, durability=durability) as store:
            store.put(_grains(1, _MOST * 10)[0])  # the first creates the index files
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
    """A store to read from; it is closed once it is filled."""

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
        """Yield the read calls, each with other grains."""
        rng = random.Random(1)
        addresses, robots = self._addresses, _ROBOTS
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
    """Return the memory of this process without mapped files, or its peak; None if unknown."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text("ascii", "replace").splitlines()
        return int(next(line for line in lines if line.startswith("RssAnon:")).split()[1]) << 10
    with suppress(ImportError):
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if os.uname().sysname == "Darwin" else peak << 10
    return None
