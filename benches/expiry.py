# SPDX-License-Identifier: Apache-2.0
"""Row S11: grains that expire or are erased together, and what is left of them on disk."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import omsgrain as og
from benches import data
from benches.measure import Case, Plan, Row, Sample, check, timed_on

STORE = "memory.omsg"
DAY = 86_400_000
LATER = data.START + 3 * DAY
RULES = """
name = "bench"
title = "Bench"

[[expire]]
id = "day"
days = 1
reason = "Readings are deleted after a day."
source = "the operator"
"""


def run_due(plan: Plan) -> Case:
    """A fifth as many grains stay; the peer puts what expires, into a store without rules."""
    grains, rules = plan.grains(), _rules(plan)

    def put(path: Path) -> None:
        with og.open(path / STORE) as store:
            store.put_many(grains, errors="collect")

    full = _new(plan, "full")
    put(full)
    _stay(full, plan.count)

    def copy() -> Path:
        shutil.rmtree(plan.directory / "ours", ignore_errors=True)
        return Path(shutil.copytree(full, plan.directory / "ours"))

    def ours(path: Path) -> None:
        with og.open(path / STORE, policy=str(rules)) as store:
            check(store.privacy.run_due(now=LATER).expired == plan.count, "all expired")

    ours(path := copy())
    with og.open(path / STORE, readonly=True) as store:
        check(len(store) == plan.count // 5 and store.maintenance.check().ok, "the others stay")
    return Case(timed_on(copy, ours), timed_on(lambda: _new(plan, "peer"), put), plan.count)


def left_of_expired(plan: Plan) -> Case:
    rules = str(_rules(plan))
    return _left(
        plan, lambda store: store.privacy.run_due(now=LATER).expired == plan.count, policy=rules
    )


def left_of_erased(plan: Plan) -> Case:
    people = sorted({str(grain["user_id"]) for grain in plan.grains()})
    return _left(
        plan,
        lambda store: store.privacy.erase(people, reason_code="bench").erased == plan.count,
    )


def _left(plan: Plan, remove: Callable[[og.GrainStore], bool], policy: str | None = None) -> Case:
    """The bytes of a compacted store beyond those of one that never had the grains."""
    path, other = _new(plan, "ours"), _new(plan, "other")
    with og.open(path / STORE, policy=policy) as store:
        store.put_many(plan.grains(), errors="collect")
    for each in (path, other):
        _stay(each, plan.count)
    with og.open(path / STORE, policy=policy) as store:
        check(remove(store), "all are gone")
    for each in (path, other):
        with og.open(each / STORE) as store:
            check(len(store) == plan.count // 5, "the others stay")
            store.maintenance.compact()
    return Case(_size(path, less=other), lambda: 8.0 * plan.count, plan.count)


def _size(path: Path, *, less: Path) -> Sample:
    sizes = [sum(f.stat().st_size for f in p.rglob("*") if f.is_file()) for p in (path, less)]
    return lambda: float(max(1, sizes[0] - sizes[1]))


def _stay(path: Path, count: int) -> None:
    """Put grains that do not expire, of a user who stays."""
    grains = data.standard(count // 5, count)
    with og.open(path / STORE) as store:
        for grain in grains:
            grain.update(created_at=grain["created_at"] + 10 * DAY, user_id="stays")
        check(store.put_many(grains).stored == count // 5, "all are new")


def _rules(plan: Plan) -> Path:
    path = plan.directory / "rules.toml"
    path.write_text(RULES)
    return path


def _new(plan: Plan, name: str) -> Path:
    """An empty directory; what it held is gone."""
    path = plan.directory / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    return path


LEFT = "8 bytes of each grain, as a bare tombstone would have"

ROWS = (
    Row(
        "S11",
        "run_due of grains that a rule expires, while a fifth as many stay",
        "put_many of the same dicts, without rules",
        2.0,
        run_due,
        count=100_000,
    ),
    Row(
        "S11-expired",
        "left on disk of expired grains, compacted",
        LEFT,
        1.0,
        left_of_expired,
        count=100_000,
        unit="B",
    ),
    Row(
        "S11-erased",
        "left on disk of 100 erased users' grains, compacted",
        LEFT,
        1.0,
        left_of_erased,
        count=100_000,
        unit="B",
    ),
)
