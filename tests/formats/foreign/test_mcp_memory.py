# SPDX-License-Identifier: Apache-2.0
"""The file of MCP's memory server: entities, relations and observations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from omsgrain import formats
from omsgrain.formats.foreign.base import EPOCH
from support.foreign_files import DATA, USER, fates, imported, texts
from support.mif_imports import opened

FILE = DATA / "memory.jsonl"


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def entity(name: str, *observations: Any, **more: Any) -> dict[str, Any]:
    head = {"type": "entity", "name": name, "entityType": "person"}
    return {**head, "observations": [*observations], **more}


def relation(start: str, kind: str, end: str, **more: Any) -> dict[str, Any]:
    return {"type": "relation", "from": start, "to": end, "relationType": kind, **more}


def rules(data: bytes) -> list[tuple[str, str, int | None]]:
    found = formats.load(data, format="mcp-memory")
    return [(one.rule, one.pointer, one.line) for one in (*found.problems, *found.dropped)]


def test_an_observation_says_of_whom_it_is() -> None:
    with opened() as store:
        imported(store, FILE)
        assert "Ada: Likes green tea" in texts(store)
        assert "Bob: Likes green tea" in texts(store)
        (hit,) = store.search("Spanish").results
        assert hit.grain["observer_type"] == "mif:mcp-memory"
        assert hit.grain["source_type"] == "imported"


def test_entities_and_relations_are_found_by_their_names() -> None:
    with opened() as store:
        imported(store, FILE)
        said = {(one.grain["relation"], str(one.grain["object"])[:12])
                for one in store.query(subject="Ada").results}  # fmt: skip
        assert ("mif:works in", "Greenhouse 4") in said
        assert ("mif:knows", "Bob") in said
        assert len(said) == 3


def test_the_observation_itself_is_kept() -> None:
    document = json.loads(formats.dump(formats.load(FILE), format="mif2").data)
    memory = document["memories"][0]
    assert memory["metadata"] == {
        "mcp-memory": {"entity": "Ada", "observation": "Speaks fluent Spanish"}
    }
    assert memory["entities"] == [{"name": "Ada", "entity_type": "person"}]
    assert memory["created_at"] == EPOCH


def test_a_later_file_adds_only_what_is_new(tmp_path: Path) -> None:
    later = tmp_path / "memory.jsonl"
    later.write_bytes(FILE.read_bytes() + b"\n" + lines(entity("Cy", "Repairs pumps")))
    with opened() as store:
        imported(store, FILE)
        assert sorted(set(fates(imported(store, later)))) == ["imported", "unchanged"]
        assert "Cy: Repairs pumps" in texts(store)


def test_bad_lines_are_skipped_with_their_numbers() -> None:
    data = lines(entity("Ada", "x", 7, " "), {"type": "thing"}, [1], relation("Ada", "", "Bob"))
    data += b'{"type": "entity"\n' + lines(entity("", "x"), entity("Bob") | {"observations": 1})
    assert rules(data) == [
        ("no_text", "/0/observations/1", 1),
        ("no_text", "/0/observations/2", 1),
        ("unknown_kind", "/1", 2),
        ("not_lines", "/2", 3),
        ("missing_field", "/3", 4),
        ("not_json", "/4", 5),
        ("missing_field", "/5", 6),
        ("missing_field", "/6/observations", 7),
        ("time_missing", "/0/observations/0", 1),
    ]


def test_other_members_are_kept_or_reported() -> None:
    data = lines(entity("Ada", mood="calm"), relation("Ada", "knows", "Ada", since=2019))
    found = formats.load(data, format="mcp-memory")
    assert [(one.rule, one.pointer) for one in found.dropped] == [("unknown_member", "/1/since")]
    document = json.loads(formats.dump(found, format="mif2").data)
    assert document["knowledge_graph"]["entities"][0]["attributes"] == {"mood": "calm"}


def test_an_unknown_end_of_a_relation_is_a_warning() -> None:
    found = formats.load(lines(relation("Ada", "knows", "Bob")), user_id=USER)
    assert {(one.rule, one.pointer, one.line) for one in found.warnings} == {
        ("unknown_entity", "/0", 1)
    }


@pytest.mark.parametrize("data", [b"", b"\n\n"])
def test_an_empty_file_has_nothing(data: bytes) -> None:
    assert formats.load(data, format="mcp-memory").pointers == {}
