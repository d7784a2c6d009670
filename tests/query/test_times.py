# SPDX-License-Identifier: Apache-2.0
"""Times of questions: their forms, ages before now, and pages of a query by age."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.query import times
from omsgrain.query.filters import conditions
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings
from support.invented_people import Clock
from support.shell import USAGE, Shell

NOW = 1_768_471_200_000
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (NOW, NOW),
        (-5, -5),
        (datetime(2026, 1, 15, 10, tzinfo=timezone.utc), NOW),
        ("2026-01-15T10:00:00Z", NOW),
        ("2026-01-15T12:00:00.5+02:00", NOW + 500),
        ("2026-01-15", NOW - 10 * HOUR),
        ("1768471200000", NOW),
        ("0", 0),
        ("@1768471200", NOW),
        (" @1768471200.25 ", NOW + 250),
        ("@-1.5", -1_500),
        ("1h", NOW - HOUR),
        ("90s", NOW - 90_000),
        ("1d12h", NOW - 36 * HOUR),
        ("1s500ms", NOW - 1_500),
        ("2w", NOW - 14 * 24 * HOUR),
        ("0s", NOW),
        (timedelta(minutes=1), NOW - 60_000),
        (timedelta(minutes=-1), NOW + 60_000),
    ],
)
def test_a_time_has_many_forms(given: Any, ms: int) -> None:
    assert times.millis(given, field="/x", now=NOW) == ms


def test_spans_count_forwards_for_a_time_to_come() -> None:
    assert times.millis("1h", field="/x", now=NOW, ahead=True) == NOW + HOUR
    assert times.millis(timedelta(hours=1), field="/x", now=NOW, ahead=True) == NOW + HOUR


@pytest.mark.parametrize(
    "given",
    [
        "", "yesterday", "2026", "1h ago", "h", "1", "1.5h", "-1h", "1m1h", "1h1h", "1s1m", "ms",
        "@", "@1e9", "@x", "2026-13-01", "\u0661h", "9999999999h", "1768471200",
        "1768471200000000", datetime(2026, 1, 15), True, 1.5, None, [1],
    ],
)  # fmt: skip
def test_what_is_no_time_is_refused_by_name(given: Any) -> None:
    with pytest.raises(err.SchemaError) as caught:
        times.millis(given, field="/x", now=NOW)
    assert caught.value.field == "/x"


def test_the_error_of_a_number_of_seconds_says_how_to_write_it() -> None:
    with pytest.raises(err.SchemaError) as caught:
        times.millis("1768471200", field="/x", now=NOW)
    assert caught.value.expected is not None
    assert "@1768471200" in caught.value.expected and str(NOW) in caught.value.expected


@pytest.fixture
def clock() -> Clock:
    return Clock(NOW)


@pytest.fixture
def store(clock: Clock) -> Iterator[og.GrainStore]:
    with og.GrainStore(MemoryStorage(), Settings(clock=clock)) as store:
        store.put_many([reading(n) for n in range(10)])
        yield store


def reading(n: int) -> dict[str, Any]:
    """A reading of ``n`` hours and half an hour ago."""
    return {
        "type": "observation",
        "observer_id": "lidar-3",
        "observer_type": "lidar",
        "object": {"metres": n},
        "namespace": "plant:7",
        "created_at": NOW - n * HOUR - HOUR // 2,
    }


def metres(page: Any) -> list[int]:
    return [grain["object"]["metres"] for grain in page]


@pytest.mark.parametrize("age", ["3h", timedelta(hours=3), "0d3h", NOW - 3 * HOUR])
def test_every_question_takes_an_age(store: og.GrainStore, age: Any) -> None:
    assert metres(hit.grain for hit in store.query(created_after=age)) == [0, 1, 2]
    assert metres(store.iter_query(created_after=age)) == [0, 1, 2]
    assert len(store.query(created_before=age)) == 7
    assert len(store.query(namespace="plant:7", known_at=age)) == 7
    assert len(store.search("lidar", created_after=age, wait=True)) == 3


def test_pages_of_an_age_go_on_while_time_passes(store: og.GrainStore, clock: Clock) -> None:
    first = store.query(created_after="5h", limit=2)
    clock.now += 1_000
    second = store.query(created_after=timedelta(hours=5), limit=2, cursor=first.next_cursor)
    assert [metres(hit.grain for hit in page) for page in (first, second)] == [[0, 1], [2, 3]]
    with pytest.raises(err.SchemaError) as caught:
        store.query(created_after="4h", limit=2, cursor=first.next_cursor)
    assert caught.value.field == "/cursor"
    fixed = store.query(created_after=NOW - 5 * HOUR, limit=2)
    assert fixed.next_cursor != first.next_cursor


def test_an_age_counts_from_the_clock_that_is_given() -> None:
    assert conditions({"created_after": "1h"}, lambda: NOW).low == NOW - HOUR
    assert conditions({"known_at": "1h"}, lambda: NOW).known_at == NOW - HOUR
    assert conditions({"created_after": "9999999w"}, lambda: NOW).low == 0


def test_commands_take_ages(shell: Shell, tmp_path: Path) -> None:
    path = tmp_path / "s.omsg"
    with og.open(path) as store:
        now = times.now()
        store.put_many([{**reading(0), "created_at": now - n * HOUR} for n in (0, 2, 4)])
    assert len(shell.json("query", path, "--after", "1h")["results"]) == 1
    assert len(shell.json("query", path, "--before", "3h")["results"]) == 1
    page = shell.json("query", path, "--after", "1d", "--limit", "2")
    rest = ("query", path, "--after", "1d", "--limit", "2", "--cursor", page["next_cursor"])
    assert len(shell.json(*rest)["results"]) == 1
    assert shell("query", path, "--after", "1768471200") == USAGE
    assert b"--after" in shell.err and b"@1768471200" in shell.err


@pytest.mark.parametrize("text", ["7d", "1d12h", "90s", "100ms", "14d1h1m1s1ms", "0s"])
def test_an_age_is_spelled_as_it_is_read(text: str) -> None:
    ms = times.age(text)
    assert ms is not None and times.age(spelled := times.spell_age(ms)) == ms
    assert spelled == {"90s": "1m30s"}.get(text, text)
