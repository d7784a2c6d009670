# SPDX-License-Identifier: Apache-2.0
"""How fast omsgrain is on this machine and this disk, so that one can choose how to put.

Every measurement has a share of the time and a new store, and its clock runs until that store is
closed: by then all index rows are in its file, and the disk has it. Making grains is not timed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.ops.measuring import (
    ROBOTS,
    CallTimes,
    Durability,
    MeasuredStore,
    codec_works,
    memory_used,
    put_rate,
    rate_of,
    sync_time,
    times_of,
)
from omsgrain.ops.measuring import PutRate as PutRate
from omsgrain.storage.lmdb.open import DATA_FILE

SECONDS = 15.0
"""How long it takes, about."""

BATCHES = (1, 10, 100, 1_000, 10_000)
"""Sizes of batches that are tried."""

ROOM = 256 << 20
"""Bytes that must be free; it takes a tenth of that, and a full disk is no place to try."""

ENOUGH = 0.9  # of the best rate: more is not worth a larger batch
DURABILITIES: tuple[Durability, ...] = ("commit", "relaxed")

_READ = 10_000  # grains in the store that is read from


@dataclass(frozen=True, slots=True)
class Advice:
    """What follows.

    Attributes:
        batch: the smallest batch that reaches nine tenths of the best rate, by durability.
        relaxed_one: how many times as fast ``put`` is when it does not wait for the disk.
        relaxed_batch: the same of ``put_many``, at the batch advised for ``commit``.
    """

    batch: dict[str, int]
    relaxed_one: float
    relaxed_batch: float


@dataclass(frozen=True, slots=True)
class BenchReport:
    """What was measured.

    Attributes:
        codec: grains a second: ``encode``, ``decode``, ``verify``, on all cores.
        put: rates of putting.
        grains: in the store that was read from.
        read: times of ``get``, of ``query`` for the newest ten of a subject, and of ``search``
            for a rare word.
        blob_bytes: of a grain.
        store_bytes: of a grain with all its index rows, as files.
        memory_bytes: of this process beside files, or at its peak; None where nobody says.
        sync: seconds to have the disk take one page.
        advice: what follows.
    """

    codec: dict[str, float]
    put: list[PutRate]
    grains: int
    read: dict[str, CallTimes]
    blob_bytes: float
    store_bytes: float
    memory_bytes: int | None
    sync: float
    advice: Advice


def bench(
    directory: Path,
    *,
    seconds: float = SECONDS,
    batches: Sequence[int] = BATCHES,
    progress: Callable[[int], object] = lambda done: None,
) -> BenchReport:
    """Measure in a directory of its own inside of this one; it is gone again, whatever happens."""
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
        found = MeasuredStore(place, min(_READ, max(ROBOTS, round(seconds * 1_000))))
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
    """How many measurements there are."""
    return 7 + len(DURABILITIES) * (1 + len(set(batches)))


@contextmanager
def _place(directory: Path) -> Iterator[Path]:
    if (directory / DATA_FILE).exists():
        raise StoreError("this is a store; name a directory that is none")
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
