# SPDX-License-Identifier: Apache-2.0
"""Exports of mem0: their shapes, ids, times, and fields without a place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.errors import UnsupportedError
from support.foreign_files import DATA, USER, fates, imported, texts
from support.mif2_documents import spelled
from support.mif_imports import opened

FILE = DATA / "mem0.json"
MEMORY: dict[str, Any] = {"id": "m1", "memory": "Ada has two cats", "hash": "00"}


def dropped(document: Any) -> list[tuple[str, str]]:
    found = formats.load(spelled(document), format="mem0", user_id=USER)
    return [(one.rule, one.pointer) for one in (*found.problems, *found.dropped)]


def memories(document: Any) -> list[dict[str, Any]]:
    found = formats.load(spelled(document), user_id=USER)
    listed: list[dict[str, Any]] = json.loads(formats.dump(found, format="mif2").data)["memories"]
    return listed


@pytest.mark.parametrize(
    "document",
    [
        [MEMORY],
        {"results": [MEMORY]},
        {"memories": [MEMORY]},
        {"count": 1, "next": None, "previous": None, "results": [MEMORY]},
    ],
)
def test_shapes(document: Any) -> None:
    assert formats.sniff(spelled(document)) == "mem0"
    assert [one["content"] for one in memories(document)] == ["Ada has two cats"]


@pytest.mark.parametrize(
    "document",
    [[], {"results": []}, [{"memory": "x"}], {"results": [{"id": "x", "memory": 1}]}, [[MEMORY]]],
)
def test_other_json_is_not_mem0(document: Any) -> None:
    with pytest.raises(UnsupportedError):
        formats.sniff(spelled(document))


def test_ids_times_and_fields_are_kept() -> None:
    by_text = {one["content"]: one for one in memories(json.loads(FILE.read_bytes()))}
    tea = by_text["Ada prefers jasmine tea in the morning"]
    assert tea["id"] == tea["external_id"]
    assert (tea["created_at"][:4], tea["updated_at"][:4]) == ("2026", "2026")
    assert tea["metadata"]["mem0"]["metadata"] == {"topic": "drinks", "source": "kitchen log"}
    beds = by_text["The greenhouse has 24 beds"]
    assert (beds["agent_id"], beds["source"]["session_id"]) == ("gardener", "visit-3")
    assert beds["metadata"]["mem0"]["role"] == "user"


def test_a_changed_memory_supersedes_the_old_one(tmp_path: Path) -> None:
    document = json.loads(FILE.read_bytes())
    document["results"][-1] |= {"memory": "Ada prefers mint tea",
                                "updated_at": "2027-01-01T00:00:00+00:00"}  # fmt: skip
    later = tmp_path / "later.json"
    later.write_bytes(spelled(document))
    with opened() as store:
        imported(store, FILE)
        assert sorted(fates(imported(store, later))) == ["unchanged", "unchanged", "updated"]
        assert "Ada prefers mint tea" in texts(store)
        assert "Ada prefers jasmine tea in the morning" not in texts(store)


def test_ids_that_are_no_uuids_are_the_same_each_time() -> None:
    assert memories([MEMORY]) == memories([MEMORY])
    assert memories([MEMORY])[0]["external_id"] == "m1"
    without = {"id": None, "memory": "x"}
    assert memories([MEMORY, without])[1]["id"] == memories([MEMORY, without])[1]["id"]


def test_what_is_no_memory_is_reported() -> None:
    document = {
        "results": [MEMORY | {"score": 0.5, "user_id": "ada"}, 7, {"id": "x"},
                    MEMORY | {"id": "m2", "memory": " ", "user_id": "bob"}],
        "relations": [{"source": "ada", "relationship": "likes", "destination": "tea"}],
        "next": "https://example.org/page=2",
    }  # fmt: skip
    assert dropped(document) == [
        ("not_record", "/results/1"),
        ("not_record", "/results/2"),
        ("no_text", "/results/3"),
        ("left_out", "/relations"),
        ("page_missing", "/next"),
        ("search_only", "/results/0/score"),
        ("several_users", "/results"),
        ("time_missing", "/results/0"),
    ]


def test_categories_become_tags() -> None:
    (memory,) = memories([MEMORY | {"categories": ["pets", "home"]}])
    assert memory["tags"] == ["pets", "home"]
    (memory,) = memories([MEMORY | {"categories": ["pets", 7], "run_id": 8, "agent_id": [1]}])
    assert memory["metadata"]["mem0"]["categories"] == ["pets", 7]
    assert memory["metadata"]["mem0"]["run_id"] == 8
    assert memory["metadata"]["mem0"]["agent_id"] == [1]
