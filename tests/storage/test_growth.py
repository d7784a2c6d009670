# SPDX-License-Identifier: Apache-2.0
"""A store that grows: every grain is found, and a query reads only what it returns.

The figures (time, memory, disk) are printed as measurements; nothing here depends on them.
"""

from __future__ import annotations

import resource
import statistics
import time
from pathlib import Path

import pytest

import omsgrain as og

TIME = 1_700_000_000_000
BATCH = 1_000
ROBOTS = 500
USERS = 100


def grain(i: int) -> dict[str, object]:
    return {
        "type": "belief",
        "subject": f"robot-{i % ROBOTS}",
        "relation": "mg:perceives",
        "object": f"shelf {i} has {i % 17} boxes",
        "confidence": 0.93,
        "source_type": "sensor",
        "created_at": TIME + i,
        "namespace": "warehouse:zone-3",
        "importance": 0.5,
        "structural_tags": ["inventory", "shelf"],
        "user_id": f"u{i % USERS}",
        "session_id": f"s{i // 1_000}",
    }


def questions(i: int) -> list[dict[str, object]]:
    """Queries that name something, each with results enough for its page."""
    return [
        {"subject": f"robot-{i % ROBOTS}"},
        {"relation": "mg:perceives"},
        {"subject": f"robot-{i % ROBOTS}", "relation": "mg:perceives"},
        {"object": f"shelf {i} has {i % 17} boxes"},
        {"user_id": f"u{i % USERS}"},
        {"session_id": f"s{i // 1_000}"},
        {"created_after": TIME + i - 20, "created_before": TIME + i + 20},
        {"namespace": "warehouse:*", "created_before": TIME + i},
    ]


def ask(store: og.GrainStore, numbers: list[int]) -> list[float]:
    """Ask all questions; what each took, in ms. None may read more rows than it returns."""
    took = []
    for i in numbers:
        for asked in questions(i):
            start = time.perf_counter()
            page = store.query(**asked, limit=10, explain=True)  # type: ignore[arg-type]
            took.append(1e3 * (time.perf_counter() - start))
            assert page.results
            assert page.plan is not None
            assert page.plan.rows <= len(page.results) + 1
            assert page.plan.blobs <= len(page.results) + 1
    return took


@pytest.mark.parametrize(
    "count",
    [5_000, pytest.param(1_000_000, marks=pytest.mark.long),
     pytest.param(10_000_000, marks=pytest.mark.long)],
)  # fmt: skip
def test_a_growing_store(count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = count // 10
    rates, p95s = [], []
    with og.open(tmp_path / "memory.omsg", count_access=False) as store:
        for tenth in range(10):
            start = time.perf_counter()
            for first in range(tenth * part, (tenth + 1) * part, BATCH):
                end = min(first + BATCH, (tenth + 1) * part)
                report = store.put_many(map(grain, range(first, end)), errors="collect")
                assert report.stored == end - first
            rates.append(part / (time.perf_counter() - start))
            numbers = [(tenth + 1) * part * k // 23 for k in range(1, 22)]
            p95s.append(statistics.quantiles(ask(store, numbers), n=20)[-1])
        assert len(store) == count
        size = store.stats().file_bytes / count
    start = time.perf_counter()
    with og.open(tmp_path / "memory.omsg", readonly=True) as store:
        ask(store, [count // 2])
    reopened = time.perf_counter() - start
    start = time.perf_counter()
    with og.open(tmp_path / "memory.omsg", readonly=True) as store:
        found = store.maintenance.check()
    checked = time.perf_counter() - start
    assert found.ok, found.problems
    assert found.grains == count
    if count == 5_000:
        return
    with capsys.disabled():
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"\n{count} grains: {rates[0]:.0f} a second at first, {rates[-1]:.0f} at last; query "
            f"p95 {p95s[0]:.2f} ms at first, {p95s[-1]:.2f} ms at last; {size:.0f} bytes a grain; "
            f"opened and asked in {reopened:.2f} s; checked in {checked:.0f} s; peak resident "
            f"memory {peak:.0f} MB with the map"
        )
