# SPDX-License-Identifier: Apache-2.0
"""``omsgrain retain``: the oldest grains go, by age or by size."""

from __future__ import annotations

from pathlib import Path

import pytest

import omsgrain as og
from support.shell import USAGE, Shell, exit_code


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "memory.omsg"
    with og.open(path) as made:
        made.put_many(
            [
                {"type": "event", "content": f"{n}", "created_at": 1_700_000_000_000 + n}
                for n in range(20)
            ]
        )
        made.put({"type": "event", "content": "map", "namespace": "maps", "created_at": 1})
    return path


def test_a_dry_run_changes_nothing(shell: Shell, store: Path) -> None:
    report = shell.json(
        "retain", store, "--keep", "7d", "--keep-where", "namespace=maps", "--dry-run"
    )
    assert (report["removed"], report["kept"]) == (20, [["keep_where", 1]])
    assert report["complete"] and report["file_bytes"] > report["free_bytes"] >= 0
    with og.open(store, readonly=True) as made:
        assert len(made) == 21


def test_stats_say_the_age_as_it_is_given(shell: Shell, store: Path) -> None:
    assert shell("retain", store, "--keep", "36h") == 0
    assert shell("stats", store) == 0
    assert (
        dict(line.rsplit(maxsplit=1) for line in shell.out.decode().splitlines())["keep"]
        == "1d12h"
    )


def test_grains_that_match_the_filters_stay(shell: Shell, store: Path) -> None:
    arguments = (
        "retain",
        store,
        "--keep",
        "7d",
        "--keep-where",
        "namespace=maps",
        "--actor",
        "ops",
    )
    assert shell(*arguments) == 0
    assert shell.out.startswith(b"20 grains removed; kept: 1 by keep_where\nfile: ")
    assert shell.json("query", store)["results"][0]["grain"]["content"] == "map"
    (entry,) = shell.json("audit", store, "--operation", "retain")
    assert (entry["actor"], entry["count"]) == ("ops", 20)
    assert shell.json(*arguments)["removed"] == 0


def test_a_size_that_rules_prevent_is_reported(shell: Shell, store: Path) -> None:
    with og.open(store, durability="relaxed") as made:
        made.put_many(
            [
                {"type": "event", "content": f"{n} " * 400, "created_at": 1_700_000_000_000 + n}
                for n in range(7_000)
            ]
        )
    code, report = shell.refused(
        "retain", store, "--max-bytes", "16MiB", "--keep-where", "type=event"
    )
    assert code == exit_code("ERR_INVALIDATION_DENIED") and not report["complete"]
    report = shell.json("retain", store, "--max-bytes", "16MiB", "--keep", "9000d")
    assert report["removed"] >= 1_000 and report["complete"]
    assert report["file_bytes"] - report["free_bytes"] <= 14 << 20


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((), USAGE),
        (("--keep-cited",), USAGE),
        (("--keep", "soon"), USAGE),
        (("--keep", "0d"), USAGE),
        (("--max-bytes", "1"), "ERR_RANGE"),
        (("--max-bytes", "much"), USAGE),
    ],
)
def test_what_is_refused(
    shell: Shell, store: Path, arguments: tuple[str, ...], code: str | int
) -> None:
    wanted = code if isinstance(code, int) else exit_code(code)
    assert shell("retain", store, *arguments) == wanted
    with og.open(store, readonly=True) as made:
        assert len(made) == 21
