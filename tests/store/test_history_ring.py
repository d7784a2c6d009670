# SPDX-License-Identifier: Apache-2.0
"""A store that bounds its history beside its writers: in the background, and through kills."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import DiskFullError
from omsgrain.storage.lmdb.memtable import IdleThread
from omsgrain.store import history_limiter

LONG = 20.0  # seconds until a test that is stuck gives up
OLD = 1_700_000_000_000


def reading(n: int, **more: Any) -> dict[str, Any]:
    return {"type": "event", "content": f"reading {n}", "created_at": OLD + n, **more}


def counting(patch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Return a semaphore that counts removed grains."""
    removed = threading.Semaphore(0)
    remove: Callable[..., Any] = history_limiter.remove_page

    def watched(*args: Any, **given: Any) -> Any:
        found = remove(*args, **given)
        if found[0]:
            removed.release(found[0])
        return found

    patch.setattr(history_limiter, "remove_page", watched)
    return removed


def test_grains_leave_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed = counting(monkeypatch)
    with og.open(tmp_path / "m.omsg", keep="1d", keep_where={"namespace": "maps"}) as store:
        store.put_many([*(reading(n) for n in range(5)), reading(9, namespace="maps")])
        for _ in range(5):
            assert removed.acquire(timeout=LONG)
        store.flush()  # behind the commit that removed them
        assert len(store) == 1


def test_an_open_store_forgets_what_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with og.open(tmp_path / "m.omsg") as store:
        store.put_many([reading(n) for n in range(5)])
    removed = counting(monkeypatch)
    with og.open(tmp_path / "m.omsg", keep=timedelta(days=1)):
        for _ in range(5):
            assert removed.acquire(timeout=LONG)


def test_a_handle_for_another_actor_has_the_limits_too(tmp_path: Path) -> None:
    with og.open(tmp_path / "m.omsg", keep="1d") as store:
        with store.as_actor("did:web:other.example") as other:
            other.put(reading(1))
        assert store.__class__ is other.__class__
    with og.open(tmp_path / "m.omsg", readonly=True) as store:
        assert len(store) == 0


def test_a_writer_bounds_the_history_where_no_thread_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdleThread, "wake", lambda self: None)
    with og.open(tmp_path / "m.omsg", durability="relaxed", max_bytes="16MiB") as store:
        for part in range(24):
            store.put_many(
                [reading(1_000 * part + n, content=f"{part} {n} " * 150) for n in range(500)]
            )
        assert store.stats().file_bytes <= 20 << 20 and len(store) < 11_000


def test_a_file_that_is_too_large_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdleThread, "wake", lambda self: None)

    def fill(store: og.GrainStore, parts: range) -> None:
        for part in parts:
            store.put_many([reading(500 * part + n, content=f"{n} " * 300) for n in range(500)])

    with og.open(tmp_path / "m.omsg", durability="relaxed") as store:
        fill(store, range(40))
        assert store.stats().file_bytes > 24 << 20
    with og.open(tmp_path / "m.omsg", durability="relaxed", max_bytes="16MiB") as store:
        fill(store, range(40, 44))
        assert store.stats().file_bytes < 16 << 20
        newest = [hit.grain["created_at"] for hit in store.query(limit=500)]
        assert newest == [OLD + 500 * 44 - 1 - n for n in range(500)]
        assert store.maintenance.check().ok


def test_a_put_that_is_stored_returns_though_nothing_can_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IdleThread, "wake", lambda self: None)

    def refuse(*_: Any) -> None:
        refused.append(1)
        raise DiskFullError("could not write to the store")

    refused: list[int] = []
    monkeypatch.setattr(history_limiter.HistoryLimiter, "_step", refuse)
    with og.open(tmp_path / "m.omsg", durability="relaxed", max_bytes="16MiB") as store:
        done = store.put_many([reading(n, content=f"{n} " * 150) for n in range(500)])
        assert refused and done.stored == len(store) == 500
        with pytest.raises(DiskFullError):
            store.maintenance.retain(max_bytes="16MiB")


def test_it_works_without_writes_too() -> None:
    worked = threading.Semaphore(0)
    thread = IdleThread(lambda still: worked.release(), name="test", eager=True, every=0.001)
    thread.wait = lambda seconds: False
    thread.wake()
    for _ in range(3):
        assert worked.acquire(timeout=LONG)
    thread.end()


# Puts readings into a ring for ever, and says how many have returned.
WRITER = """
import sys
import omsgrain as og
from omsgrain.store import history_limiter
path, size, step, batch, first = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:])
history_limiter.STEP = step
limits = {"max_bytes": size, "keep_where": {"namespace": "maps"}}
with og.open(path, durability="relaxed", **limits) as store:
    print("ready", flush=True)
    for n in range(first, 1 << 40, batch):
        store.put_many([
            {"type": "event", "content": f"{k} " * 150, "created_at": 1_700_000_000_000 + k}
            for k in range(n, n + batch)
        ])
        print(n + batch, flush=True)
"""


class Ring:
    """A ring with a map and a held grain in it."""

    def __init__(self, path: Path, size: str, step: int, batch: int) -> None:
        self.path = path
        self.arguments = size, str(step), str(batch)
        self.batch = batch
        self.put = 0
        with og.open(path) as store:
            store.put(reading(0, content="map", namespace="maps"))
            self.held = store.put(reading(0, content="held"))
            store.holds.add(self.held, authority="did:web:court.example", reason_code="case")

    def kill_after(self, lines: int) -> None:
        """Put so many batches, and kill the writer."""
        code = [sys.executable, "-c", WRITER, str(self.path), *self.arguments, str(self.put)]
        child = subprocess.Popen(code, stdout=subprocess.PIPE, text=True)
        assert child.stdout is not None
        with child, child.stdout as said:
            assert said.readline() == "ready\n"
            numbers = [said.readline() for _ in range(lines)]
            child.kill()
            numbers += said.read().split("\n")[:-1]
        self.put = int(numbers[-1])

    def check(self) -> None:
        with og.open(self.path) as store:
            newest = store.query(limit=2 * self.batch).results
            numbers = {hit.grain["content"].split()[0] for hit in newest}
            assert {str(self.put - k) for k in range(1, self.batch)} <= numbers
            assert store.exists(self.held) and store.query(namespace="maps").results
            assert store.audit.verify(grains=True).ok


def test_a_killed_ring_keeps_what_must_stay(tmp_path: Path) -> None:
    ring, random = Ring(tmp_path / "m.omsg", "16MiB", 100, 200), Random(8)
    ring.kill_after(60)
    ring.check()
    ring.kill_after(random.randint(1, 9))
    ring.check()
    with og.open(ring.path) as store:
        assert store.maintenance.check().ok and len(store) < ring.put


@pytest.mark.long
def test_an_hour_of_readings_in_a_ring_survives_twenty_kills(tmp_path: Path) -> None:
    """As many readings as 200 a second make in an hour, as fast as they come."""
    ring, random, sizes = Ring(tmp_path / "m.omsg", "256MB", 1_000, 1_000), Random(9), []
    for _ in range(20):
        ring.kill_after(random.randint(20, 52))
        ring.check()
        sizes.append((ring.path / "data.mdb").stat().st_size)
    assert ring.put >= 500_000 and 200_000_000 < max(sizes) <= 256_000_000
    with og.open(ring.path) as store:
        assert store.maintenance.check().ok
