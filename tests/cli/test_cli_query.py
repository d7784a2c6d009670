# SPDX-License-Identifier: Apache-2.0
"""Queries on the command line: the envelope, pages, the table, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.cli.query import query
from omsgrain.errors import BY_CODE
from omsgrain.query.filters import FILTERS
from omsgrain.storage.records import GrainStatus
from support.query_stores import set_state
from support.shell import USAGE, Shell, belief

TIME = 1_768_471_200_000  # 2026-01-15T10:00:00Z
ORIGIN = b'{"f":"example","k":"note","id":"urn:example:7"}'


def grains() -> list[dict[str, Any]]:
    """Seven beliefs, one second apart, and an event."""
    made = [
        belief(
            n % 3,
            relation="mg:likes" if n % 2 else "mg:knows",
            object={"level": n} if n == 4 else f"o{n}",
            created_at=TIME + 1000 * n,
            namespace="lab" if n < 5 else "home",
            user_id=f"u{n % 2}",
            run_id=f"r{n}",
            structural_tags=["odd"] if n % 2 else ["even", "pii:x"],
            x_src=ORIGIN if n == 5 else None,
        )
        for n in range(7)
    ]
    event = {"type": "event", "content": "b\u202eo\x1b[31m\nx", "session_id": "z"}
    return [*made, event | {"created_at": TIME + 9000}]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "memory.omsg"
    with og.open(path) as into:
        into.put_many(grains())
    return path


def numbers(found: Any) -> list[int]:
    """Which of the grains were found, by the seconds of their times."""
    return [(row["grain"]["created_at"] - TIME) // 1000 for row in found["results"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [9, 6, 5, 4, 3, 2, 1, 0]),
        (["--order", "oldest"], [0, 1, 2, 3, 4, 5, 6, 9]),
        (["--type", "event"], [9]),
        (["--type", "fact", "--limit", "1"], [6]),
        (["--type", "2"], [9]),
        (["--namespace", "home"], [6, 5]),
        (["--subject", "s1"], [4, 1]),
        (["--relation", "mg:likes"], [5, 3, 1]),
        (["--subject", "s1", "--relation", "mg:likes"], [1]),
        (["--object", "o3"], [3]),
        (["--object-json", '{"level": 4}'], [4]),
        (["--object-json", '"o3"'], [3]),
        (["--object-json", '{"level": 4.0}'], []),
        (["--user", "u1", "--namespace", "lab"], [3, 1]),
        (["--session", "z"], [9]),
        (["--run", "r2"], [2]),
        (["--origin", "urn:example:7"], [5]),
        (["--tag", "pii:x", "--subject", "s0"], [6, 0]),
        (["--after", "2026-01-15T10:00:05Z"], [9, 6, 5]),
        (["--after", str(TIME + 4000), "--before", "2026-01-15T11:00:06+01:00"], [5, 4]),
        (["--before", "0"], []),
        (["--subject", "nobody"], []),
        (["--namespace", "plant:*"], []),
        (["--min-confidence", "0", "--after", "0", "--scan"], [6, 5, 4, 3, 2, 1, 0]),
        (["--current", "--namespace", "home"], [6, 5]),
        (["--namespace", "lab", "--where", '{"object.level": {"gte": 4}}'], [4]),
        (["--namespace", "lab", "--where", '{"object": {"lt": "o2"}}'], [1, 0]),
        (["--past"], []),
        (["--all", "--namespace", "home"], [6, 5]),
    ],
)
def test_filters(shell: Shell, store: Path, options: list[str], expected: list[int]) -> None:
    found = shell.json("query", store, *options)
    assert numbers(found) == expected
    assert (found["total"], found["plan"]) == (None, None)
    assert shell("query", store, *options) == 0


def test_the_envelope(shell: Shell, store: Path) -> None:
    found = shell.json(
        "query", store, "--subject", "s0", "--tag", "even", "--count", "--explain", "--limit", 1
    )
    assert found.keys() == {"results", "total", "next_cursor", "plan"}
    (row,) = found["results"]
    assert row.keys() == {"grain", "score", "matched_fields", "content_address"}
    with og.open(store, readonly=True) as grains:
        assert row["grain"] == grains.get(row["content_address"]).to_dict()
        assert {hit.score for hit in grains.query().results} == {None}
    assert row["score"] == 1.0
    scores = [row["score"] for row in shell.json("query", store, "--type", "belief")["results"]]
    assert scores == sorted(scores, reverse=True)
    assert (scores[0], scores[-1]) == (1.0, 0.0)
    assert row["matched_fields"] == ["subject", "tag"]
    assert found["total"] == 2
    assert found["plan"].keys() == {"index", "looked_up", "tested", "estimate", "rows", "blobs"}
    assert (found["plan"]["index"], found["plan"]["looked_up"]) == ("subject", ["tag"])


@pytest.fixture
def aged(tmp_path: Path) -> Path:
    """Six beliefs, some of them no longer what they were."""
    path = tmp_path / "aged.omsg"
    new = "ab" * 32
    states = {
        1: GrainStatus(superseded_by=new, successors=(new,), system_valid_to=TIME + 4_000),
        2: GrainStatus(verification_status="retracted"),
        3: GrainStatus(verification_status="contested"),
        4: GrainStatus(restricted=True),
    }
    with og.open(path) as into:
        for n in range(6):
            fields = belief(
                n,
                created_at=TIME + 1000 * n,
                confidence=n / 10,
                namespace=f"plant:{n % 2}:hall",
                valid_from=TIME - 1000 * n,
            )
            address = into.put(fields)
            if n in states:
                set_state(into, address, states[n])
    return path


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ([], [5, 3, 0]),
        (["--current"], [5, 3, 0]),
        (["--past"], [4, 2, 1]),
        (["--all"], [5, 4, 3, 2, 1, 0]),
        (["--namespace", "plant:*"], [5, 3, 0]),
        (["--namespace", "plant:1:*", "--all"], [5, 3, 1]),
        (["--known-at", str(TIME + 3000), "--scan"], [3, 1, 0]),
        (["--known-at", "2026-01-15T10:00:04Z", "--type", "belief"], [3, 0]),
        (["--valid-at", str(TIME - 3000), "--all", "--scan"], [5, 4, 3]),
        (["--status", "retracted", "--scan"], [2]),
        (["--status", "contested", "--type", "belief"], [3]),
        (["--min-confidence", "0.3", "--type", "belief"], [5, 3]),
    ],
)
def test_states_of_grains(
    shell: Shell, aged: Path, options: list[str], expected: list[int]
) -> None:
    found = shell.json("query", aged, *options)
    assert numbers(found) == expected
    asked = {"--past", "--all", "--known-at", "--status"} & set(options)
    assert all(("state" in row) == bool(asked) for row in found["results"])
    assert shell("query", aged, *options) == 0
    assert (b"state" in shell.out.splitlines()[0]) == bool(asked)


def test_states_of_results(shell: Shell, aged: Path) -> None:
    found = shell.json("query", aged, "--all", "--order", "oldest")
    states = [row["state"] for row in found["results"]]
    assert states[1]["superseded_by"] == states[1]["successors"][0] == "ab" * 32
    assert states[1]["system_valid_to"] == TIME + 4000
    statuses = ["unverified", "unverified", "retracted", "contested", "unverified", "unverified"]
    assert [state["verification_status"] for state in states] == statuses
    assert [state["restricted"] for state in states] == [False] * 4 + [True, False]
    assert shell("query", aged, "--all", "--order", "oldest") == 0
    shown = [line.split()[3] for line in shell.out.decode().splitlines()[1:]]
    words = ["current", "superseded", "retracted", "contested", "restricted", "current"]
    assert shown == words


@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_pages(shell: Shell, store: Path, order: str) -> None:
    whole = numbers(shell.json("query", store, "--order", order))
    seen: list[int] = []
    more: list[str] = []
    for _ in range(3):
        page = shell.json("query", store, "--order", order, "--limit", 3, *more)
        seen += numbers(page)
        more = ["--cursor", page["next_cursor"]]
    assert page["next_cursor"] is None
    assert seen == whole


def test_bytes_in_a_grain(shell: Shell, store: Path) -> None:
    with og.open(store) as grains:
        grains.put(belief(8, object={"raw": b"\x00\xff"}))
    found = shell.json("query", store, "--object-json", '{"raw": {"$bytes": "AP8="}}')
    assert [row["grain"]["object"] for row in found["results"]] == [{"raw": {"$bytes": "AP8="}}]


def test_the_table(shell: Shell, store: Path) -> None:
    """A line a grain, whatever it says; and nothing that drives a terminal."""
    assert shell("query", store, "--count", "--explain") == 0
    lines = shell.out.decode().splitlines()
    assert len(lines) == 1 + 8
    with og.open(store, readonly=True) as grains:
        newest = [hit.address for hit in grains.query().results]
    assert [line.split()[0] for line in lines[1:]] == [address[:12] for address in newest]
    assert b"\x1b" not in shell.out
    assert "\u202e" not in shell.out.decode()
    assert len(shell.err.splitlines()) == 2  # how many; the plan
    assert shell("query", store, "--full", "--limit", 1) == 0
    assert newest[0].encode() in shell.out
    assert shell("query", store, "--subject", "nobody") == 0
    assert shell.out == b""


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--type", "nonsense"], "ERR_SCHEMA"),
        (["--type", "0"], "ERR_SCHEMA"),
        (["--type", "256"], "ERR_SCHEMA"),
        (["--limit", "0"], "ERR_RANGE"),
        (["--limit", "10001"], "ERR_RANGE"),
        (["--cursor", "nonsense"], "ERR_SCHEMA"),
        (["--after", "yesterday"], "USAGE"),
        (["--before", "2026"], "USAGE"),  # a year, not 2026 ms
        (["--after", "2026-01-15T10:00:00"], "USAGE"),
        (["--subject", "\udcff"], "ERR_SCHEMA"),
        (["--object-json", '{"$float": "nan"}'], "ERR_FLOAT_INVALID"),
        (["--order", "random"], "USAGE"),
        (["--limit", "many"], "USAGE"),
        (["--object", "o", "--object-json", "1"], "USAGE"),
        (["--object-json", "null"], "USAGE"),
        (["--object-json", "{"], "USAGE"),
        (["--object-json", "NaN"], "USAGE"),
        (["--object-json", "[" * 100_000], "USAGE"),
        (["--object-json", '{"$bytes": "§"}'], "USAGE"),
        (["--object-json", '{"level": 4, "level": 5}'], "ERR_CORRUPT"),
        (["--object-json", '[{"$float": "nan", "$float": "1"}]'], "ERR_CORRUPT"),
        (["--where", "null"], "USAGE"),
        (["--where", '{"object.level": {"over": 1}}', "--scan"], "ERR_SCHEMA"),
        (["--where", '{"object.level": 4}'], "ERR_UNSUPPORTED"),
        (["--nonsense"], "USAGE"),
        (["--min-confidence", "0.5"], "ERR_UNSUPPORTED"),
        (["--min-confidence", "1.5", "--scan"], "ERR_RANGE"),
        (["--min-confidence", "nan", "--scan"], "ERR_RANGE"),
        (["--min-confidence", "much"], "USAGE"),
        (["--valid-at", "2026", "--scan"], "USAGE"),
        (["--known-at", "yesterday", "--scan"], "USAGE"),
        (["--past", "--known-at", "0", "--scan"], "ERR_SCHEMA"),
        (["--status", "certain"], "USAGE"),
        (["--latest-per", "observer_id"], "ERR_UNSUPPORTED"),
        (["--latest-per", ""], "ERR_SCHEMA"),
        (["--past", "--all"], "USAGE"),
        (["--current", "--past"], "USAGE"),
    ],
)
def test_invalid_queries(shell: Shell, store: Path, options: list[str], code: str) -> None:
    exit_code, error = shell.error("query", store, *options)
    assert error["code"] == code
    assert exit_code == (USAGE if code == "USAGE" else BY_CODE[code].exit_code)
    assert (error.get("field") or options[0]).split()[0] == options[0]
    assert shell.out == b""


def test_each_filter_is_an_option_of_its_name() -> None:
    short = {
        "user_id": "--user",
        "session_id": "--session",
        "run_id": "--run",
        "created_after": "--after",
        "created_before": "--before",
        "verification_status": "--status",
    }
    options = {param.name: param.opts for param in query.params}
    for name in FILTERS.keys() - {"current", "sealed"}:  # --past and --all; --no-sealed
        assert options[name] == [short.get(name, "--" + name.replace("_", "-"))]


def test_a_cursor_of_another_query(shell: Shell, store: Path) -> None:
    cursor = shell.json("query", store, "--limit", 1)["next_cursor"]
    assert shell.error("query", store, "--cursor", cursor, "--type", "belief")[0] == 20
    assert shell.error("query", store, "--cursor", cursor, "--order", "oldest")[0] == 20


def test_not_a_store(shell: Shell, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    assert shell.error("query", empty)[1]["code"] == "ERR_STORE"
    assert list(empty.iterdir()) == []
    assert shell("query", tmp_path / "nowhere") == USAGE


def test_a_new_grain_is_found(shell: Shell, store: Path) -> None:
    with og.open(store) as grains:
        address = grains.put(belief(99))
        found = shell.json("query", store, "--subject", "s99")
    assert [row["content_address"] for row in found["results"]] == [address]
    assert json.loads(shell.out) == found
