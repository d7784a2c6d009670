# SPDX-License-Identifier: Apache-2.0
"""Agent files of Letta: blocks, messages, files, and the older layout."""

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

FILE = DATA / "letta.af"
OLDER: dict[str, Any] = {
    "agent_type": "memgpt_agent",
    "name": "gardener",
    "core_memory": [{"label": "human", "value": "Ada.", "created_at": "2025-01-01T00:00:00Z"}],
    "messages": [{"role": "user", "text": "hello"}, {"role": "system", "text": "be calm"}],
    "tools": [],
}


def memories(document: Any) -> list[dict[str, Any]]:
    found = formats.load(spelled(document), format="letta", user_id=USER)
    listed: list[dict[str, Any]] = json.loads(formats.dump(found, format="mif2").data)["memories"]
    return listed


def changed(**members: Any) -> dict[str, Any]:
    return {**json.loads(FILE.read_bytes()), **members}


def test_blocks_messages_and_files_are_memories() -> None:
    found = {one["content"]: one for one in memories(changed())}
    assert list(found) == [
        "Ada runs the greenhouse. She speaks Spanish.",
        "I am a calm assistant for gardeners.",
        "The pump in bed 7 leaks",
        "I note the leak in bed 7",
        "Bed 7 has tomatoes.",
    ]
    block = found["Ada runs the greenhouse. She speaks Spanish."]
    assert (block["agent_id"], block["tags"]) == ("gardener", ["human"])
    assert block["metadata"]["letta"]["description"] == "About the person"
    said = found["The pump in bed 7 leaks"]
    assert (said["memory_type"], said["metadata"]["role"]) == ("conversation", "user")
    assert said["created_at"] == "2026-10-31T08:01:00+00:00"
    file = found["Bed 7 has tomatoes."]
    assert (file["external_id"], file["created_at"]) == ("beds.txt", "2026-09-01T00:00:00Z")


def test_what_is_no_memory_is_reported() -> None:
    found = formats.load(FILE, user_id=USER)
    assert [(one.pointer, one.message.split(":")[0]) for one in found.dropped] == [
        ("/messages", "messages (system), 1"),
        ("/messages", "messages (tool), 1"),
        ("/messages", "messages (event), 1"),
        ("/agents", "settings of agents, 1"),
        ("/sources", "sources, 1"),
        ("/tools", "tools, 1"),
        ("/blocks/0", "2 memories have no time"),
    ]


def test_a_changed_block_supersedes_whatever_its_id(tmp_path: Path) -> None:
    document = changed()
    document["blocks"][0] |= {"id": "block-9", "value": "Ada runs two greenhouses."}
    document["agents"][0]["block_ids"] = ["block-9", "block-1"]
    later = tmp_path / "later.af"
    later.write_bytes(spelled(document))
    with opened() as store:
        imported(store, FILE)
        assert sorted(fates(imported(store, later))) == ["unchanged"] * 4 + ["updated"]
        assert "Ada runs two greenhouses." in texts(store)


def test_the_older_layout() -> None:
    assert formats.sniff(spelled(OLDER)) == "letta"
    assert [one["content"] for one in memories(OLDER)] == ["Ada.", "hello"]


@pytest.mark.parametrize("document", [{"agents": []}, {"agents": [], "blocks": []}, {}])
def test_other_json_is_no_agent_file(document: Any) -> None:
    with pytest.raises(UnsupportedError):
        formats.sniff(spelled(document))


def test_bad_records_are_skipped() -> None:
    blocks = [7, {"label": "x"}, {"label": "x", "value": " "}, {"label": 1, "value": "y"}]
    agents = [{"name": 3, "messages": {}, "block_ids": 4}, 5,
              {"messages": [1, {"role": "user", "content": {"a": 1}},
                            {"role": "assistant", "content": "[", "tool_calls": [{"function": 1}]},
                            {"role": "user", "content": "{\"type\": 1}"}]}]  # fmt: skip
    found = formats.load(
        spelled(changed(blocks=blocks, agents=agents, files=[{"file_name": "a"}])), user_id=USER
    )
    assert [(one.rule, one.pointer) for one in found.problems] == [
        ("not_record", "/blocks/0"),
        ("not_record", "/blocks/1"),
        ("not_record", "/blocks/3"),
        ("not_record", "/agents/0/messages"),
        ("not_record", "/agents/2/messages/0"),
    ]
    assert sorted(found.pointers.values()) == ["/agents/2/messages/2", "/agents/2/messages/3"]
