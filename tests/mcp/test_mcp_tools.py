# SPDX-License-Identifier: Apache-2.0
"""An agent remembers, recalls, forgets and looks back; it sees one user only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import BY_CODE
from support.mcp_agents import ADA, BOB, NOBODY, NOWHERE, Agent, agent, belief
from support.origins import find_origins

# What MIF 1.0 publishes of its two tools.
EXPORT_MEMORY = {
    "type": "object",
    "properties": {
        "format": {"type": "string", "enum": ["json", "yaml", "jsonl"], "default": "json"},
        "include_embeddings": {"type": "boolean", "default": True},
        "include_graph": {"type": "boolean", "default": True},
        "since": {
            "type": "string",
            "format": "date-time",
            "description": "Export memories created after this date",
        },
        "redact_pii": {"type": "boolean", "default": True},
    },
}
IMPORT_MEMORY = {
    "type": "object",
    "properties": {
        "data": {"type": "string", "description": "MIF JSON string or file path"},
        "merge_strategy": {
            "type": "string",
            "enum": ["skip_duplicates", "overwrite", "rename"],
            "default": "skip_duplicates",
        },
    },
    "required": ["data"],
}
READING = ["recall", "context", "history", "export", "export_memories", "export_memory"]
FILES = {"export", "export_memories"}  # they write a file, if the server has a root
ALL = ["remember", "recall", "context", "update", "forget", "history"]
ALL += ["export", "import", "export_memories", "import_memories", "export_memory", "import_memory"]


@pytest.fixture(scope="module")
def theirs() -> og.Grain:
    return belief("bob's lamp", user=BOB)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, theirs: og.Grain) -> Path:
    path = tmp_path_factory.mktemp("mcp") / "m.omsg"
    with og.open(path) as store:
        store.put_many([theirs, belief("nobody's lamp", user=None)])
        other = og.Event(content="bob met the walrus", user_id=BOB, created_at=1)
        store.supersede(store.put(other), other.to_dict() | {"content": "bob met a seal"})
    return path


@pytest.fixture(scope="module")
def ada(path: Path) -> Iterator[Agent]:
    with agent(path) as one:
        yield one


def test_tools_are_listed_with_their_schemas(ada: Agent) -> None:
    tools = {tool.name: tool for tool in ada.ask("list_tools").tools}
    assert list(tools) == ALL
    assert tools["export_memory"].input_schema == EXPORT_MEMORY
    assert tools["import_memory"].input_schema == IMPORT_MEMORY
    for name in {*tools} - {"export_memory", "import_memory"}:
        assert tools[name].input_schema["additionalProperties"] is False
        assert tools[name].description
    reading = [name for name, tool in tools.items() if tool.annotations.read_only_hint]
    assert reading == READING
    destroys = [name for name, tool in tools.items() if tool.annotations.destructive_hint]
    assert destroys == ["forget", "import", "import_memories", "import_memory"]
    for tool in tools.values():
        assert tool.output_schema["type"] == "object"
        assert tool.annotations.open_world_hint is False


def test_tools_that_can_write_a_file_do_not_only_read(path: Path, tmp_path: Path) -> None:
    for options, reading in (
        (("--root", tmp_path), {*READING} - FILES),
        (("--root", tmp_path, "--readonly"), {*READING}),
    ):
        with agent(path, *options) as one:
            tools = one.ask("list_tools").tools
        found = {tool.name for tool in tools if tool.annotations.read_only_hint}
        assert found == reading


def test_update_and_context(ada: Agent) -> None:
    old = ada.do("remember", content="The tapir sleeps in stall 2", type="context")
    new = ada.do("update", id=old["id"], content="The tapir sleeps in stall 9")
    assert (new["id"], new["type"]) == (old["id"], "context")
    block = ada.do("context", question="tapir stall", budget=200)["context"]
    assert block == ada.text("context", question="tapir stall", budget=200)
    assert block.endswith("The tapir sleeps in stall 9")
    assert block.startswith(f"[{new['content_address'][:8]}]")
    assert ada.do("context", question="tapir", budget=5) == {"context": ""}
    before = ada.do("recall", query="tapir", at="2020-01-01T00:00:00Z")
    assert before == {"memories": []}
    assert ada.error("update", id=NOBODY, content="nothing")["code"] == "ERR_NOT_FOUND"
    assert ada.error("context", question="tapir", budget=0)["field"] == "/budget"


def test_remembered_memories_are_recalled(ada: Agent) -> None:
    made = ada.do(
        "remember",
        content="The zebra prefers oat milk",
        type="decision",
        tags=["drinks", "zoo"],
        importance=0.75,
        metadata={"by": "keeper"},
    )
    assert made["new"]
    assert (made["type"], made["tags"]) == ("decision", ["drinks", "zoo"])
    assert made["importance"] == 0.75
    assert made["metadata"]["by"] == "keeper"
    (found,) = ada.do("recall", query="which milk does a zebra like")["memories"]
    assert found == {name: value for name, value in made.items() if name != "new"}
    for asked in ({"tag": "zoo"}, {"type": "decision"}, {"since": made["created_at"]}):
        assert made["id"] in [one["id"] for one in ada.do("recall", **asked)["memories"]]
    for asked in ({"since": "1h"}, {"since": "2020-01-01"}, {"at": "0s"}, {"until": "0s"}):
        assert made["id"] in [one["id"] for one in ada.do("recall", **asked)["memories"]]
    for asked in ({"tag": "none"}, {"type": "error"}, {"until": "1h"}):
        assert made["id"] not in [one["id"] for one in ada.do("recall", **asked)["memories"]]
    about: list[dict[str, Any]] = [
        {"importance": {"gte": 0.75}},
        {"importance": {"gt": 0.75}},
        {"importance": 0.75, "created_at": {"gt": 0}},
    ]
    for where, is_found in zip(about, (True, False, True), strict=True):
        memories = ada.do("recall", where=where)["memories"]
        assert (made["id"] in [one["id"] for one in memories]) is is_found
    for asked in ({"tag": "none"}, {"type": "error"}, {"until": made["created_at"]}):
        assert made["id"] not in [one["id"] for one in ada.do("recall", **asked)["memories"]]


def test_known_memories_are_not_stored_twice(ada: Agent) -> None:
    first = ada.do("remember", content="The ibex climbs")
    again = ada.do("remember", content="The ibex climbs", tags=["goat"])
    assert (first["new"], again["new"]) == (True, False)
    assert again["id"] == first["id"]
    assert len(ada.do("recall", query="ibex")["memories"]) == 1


def test_a_newer_version_keeps_the_id_and_the_history(ada: Agent) -> None:
    old = ada.do("remember", content="The okapi lives in pen 4", type="context", tags=["pens"])
    new = ada.do("remember", content="The okapi lives in pen 7", replaces=old["id"])
    assert new["id"] == old["id"]
    assert (new["type"], new["tags"]) == ("context", ["pens"])
    third = ada.do("remember", content="The okapi has left", replaces=old["content_address"])
    (found,) = ada.do("recall", query="okapi")["memories"]
    assert found["content"] == "The okapi has left"
    for id in (old["id"], new["content_address"]):
        told = ada.do("history", id=id)["versions"]
        assert [one["content"][-5:] for one in told] == ["pen 4", "pen 7", " left"]
        assert [one["current"] for one in told] == [False, False, True]
        assert told[0]["superseded_by"] == new["content_address"]
    assert third["id"] == old["id"]


def test_forgotten_memories_are_gone(ada: Agent, path: Path) -> None:
    old = ada.do("remember", content="The quokka smiles")
    new = ada.do("remember", content="The quokka frowns", replaces=old["id"])
    done = ada.do("forget", id=new["id"], reason="asked")
    assert (done["id"], done["versions"]) == (new["id"], 2)
    assert {*done["forgotten"]} == {old["content_address"], new["content_address"]}
    assert not ada.do("recall", query="quokka")["memories"]
    for id in (old["id"], old["content_address"], new["content_address"]):
        for tool in ("history", "forget"):
            assert ada.error(tool, id=id)["code"] == "ERR_NOT_FOUND"
    with og.open(path, readonly=True) as store:
        assert not store.exists(new["content_address"])
        assert find_origins(store, [new["id"]], user_id=ADA) == {}
    assert ada.do("remember", content="The quokka smiles")["new"]


def test_nothing_of_others_is_seen(ada: Agent, path: Path, theirs: og.Grain) -> None:
    assert not ada.do("recall", query="lamp walrus seal violet")["memories"]
    recent = ada.do("recall", limit=100)["memories"]
    assert all(one["kind"] == "memory" for one in recent)
    before = og.open(path, readonly=True)
    with before as store:
        known = [hit.address for hit in store.query(user_id=BOB, current=None).results]
        count = len(store.query(user_id=ADA, limit=10_000).results)
        states = [store.status(address) for address in known]
    assert len(known) == 3
    for address in known:
        for tool in ("history", "forget"):
            assert ada.error(tool, id=address) == ada.error(tool, id=NOWHERE)
        refused = ada.error("remember", content="x", replaces=address)
        assert refused == ada.error("remember", content="x", replaces=NOWHERE)
        one, other = (
            ada.refused("read_resource", f"omsgrain://memory/{id}") for id in (address, NOWHERE)
        )
        assert (one.code, one.message, one.data) == (other.code, other.message, other.data)
    assert ada.read("omsgrain://stats")["grains"] == count
    with og.open(path, readonly=True) as store:
        assert [store.status(address) for address in known] == states


def test_grains_of_any_origin_are_recalled(ada: Agent, path: Path) -> None:
    with og.open(path) as store:
        address = store.put(belief("ada's teapot", user=ADA, structural_tags=["kitchen"]))
    (found,) = ada.do("recall", query="teapot")["memories"]
    assert found["id"] == found["content_address"] == address
    assert found["content"] == "ada's teapot is violet"
    assert (found["kind"], found["tags"]) == ("belief", ["kitchen"])
    assert ada.do("forget", id=address)["forgotten"] == [address]


def test_long_memories_are_cut_where_they_are_many(ada: Agent) -> None:
    content = "gnu " + "x" * 90_000
    made = ada.do("remember", content=content)
    (found,) = ada.do("recall", query="gnu")["memories"]
    assert found["cut"]
    assert content.startswith(found["content"])
    assert len(found["content"]) < 10_000
    assert ada.do("history", id=made["id"])["versions"][0]["content"] == content
    assert ada.read(f"omsgrain://memory/{made['id']}")["content"] == content
    assert ada.do("forget", id=made["id"])["versions"] == 1


BAD: list[tuple[str, dict[str, Any], str, str | None]] = [
    ("remember", {}, "ERR_SCHEMA", "missing_argument"),
    ("remember", {"content": " "}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": 7}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "user_id": BOB}, "ERR_SCHEMA", "unknown_argument"),
    ("remember", {"content": "x", "tags": "a"}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "tags": ["a", 1]}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "tags": ["a"] * 65}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "importance": 2}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "importance": True}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "metadata": []}, "ERR_SCHEMA", "invalid_argument"),
    ("remember", {"content": "x", "type": "A b"}, "ERR_SCHEMA", None),
    ("remember", {"content": "x" * 100_001}, "ERR_RANGE", None),
    ("remember", {"content": "x", "metadata": {"a": "b" * 100_000}}, "ERR_RANGE", None),
    ("remember", {"content": "x", "metadata": {"a": 10**400}}, "ERR_FORMAT", None),
    ("remember", {"content": "x", "replaces": NOBODY}, "ERR_NOT_FOUND", None),
    ("recall", {"limit": 0}, "ERR_SCHEMA", "invalid_argument"),
    ("recall", {"limit": 101}, "ERR_SCHEMA", "invalid_argument"),
    ("recall", {"limit": 1.5}, "ERR_SCHEMA", "invalid_argument"),
    ("recall", {"query": "?!"}, "ERR_SCHEMA", None),
    ("recall", {"since": "yesterday"}, "ERR_SCHEMA", None),
    ("recall", {"user": BOB}, "ERR_SCHEMA", "unknown_argument"),
    ("forget", {"id": NOBODY}, "ERR_NOT_FOUND", None),
    ("forget", {"id": "sha256:" + "0" * 64}, "ERR_NOT_FOUND", None),
    ("history", {"id": "x" * 2_000}, "ERR_SCHEMA", "invalid_argument"),
    ("export_memory", {"format": "xml"}, "ERR_SCHEMA", "invalid_argument"),
    ("export_memory", {"format": ["json"]}, "ERR_SCHEMA", "invalid_argument"),
    ("export_memory", {"path": "x.json"}, "ERR_SCHEMA", "unknown_argument"),
    ("import_memory", {"data": "{}", "merge_strategy": "best"}, "ERR_SCHEMA", "invalid_argument"),
    ("import_memory", {"data": {}}, "ERR_SCHEMA", "invalid_argument"),
]


@pytest.mark.parametrize(("tool", "given", "code", "rule"), BAD)
def test_bad_arguments_are_refused(
    ada: Agent, tool: str, given: dict[str, Any], code: str, rule: str | None
) -> None:
    error = ada.error(tool, **given)
    assert (error["code"], error.get("rule")) == (code, rule)
    assert code in BY_CODE


def test_a_tool_that_is_none_is_an_error_of_the_protocol(ada: Agent) -> None:
    assert ada.refused("call_tool", "remember_all", {}).code == -32602


def test_resources(ada: Agent) -> None:
    made = ada.do("remember", content="The newt swims")
    listed = {str(one.uri) for one in ada.ask("list_resources").resources}
    assert listed == {"omsgrain://recent", "omsgrain://stats"}
    (template,) = ada.ask("list_resource_templates").resource_templates
    assert template.uri_template == "omsgrain://memory/{id}"
    assert ada.read("omsgrain://recent")["memories"][0]["id"] == made["id"]
    found = ada.read(f"omsgrain://memory/{made['id']}")
    assert (found["content"], found["current"]) == ("The newt swims", True)
    for uri in ("omsgrain://memory/", "omsgrain://other", "file:///etc/passwd"):
        assert ada.refused("read_resource", uri).data["code"] == "ERR_NOT_FOUND"


def test_a_prompt_brings_memories(ada: Agent) -> None:
    ada.do("remember", content="The heron stands on one leg")
    (prompt,) = ada.ask("list_prompts").prompts
    assert [one.name for one in prompt.arguments] == ["topic"]
    first, second = ada.ask("get_prompt", prompt.name, {"topic": "heron"}).messages
    assert "not as instructions" in first.content.text
    assert "one leg" in second.content.resource.text
    for given in ({}, {"topic": "heron", "user": BOB}, {"topic": ""}):
        assert ada.refused("get_prompt", prompt.name, given).data["code"] == "ERR_SCHEMA"
    assert ada.refused("get_prompt", "all", {"topic": "x"}).code == -32602


def test_held_memories_are_not_forgotten(ada: Agent, path: Path) -> None:
    with og.open(path) as store:
        old = store.put(og.Event(content="a stoat", user_id=ADA, created_at=1))
        new = store.supersede(old, og.Event(content="an ermine", user_id=ADA, created_at=2))
        store.holds.add(old, authority="court", reason_code="litigation")
    assert ada.error("forget", id=new)["code"] == "ERR_INVALIDATION_DENIED"
    assert len(ada.do("history", id=new)["versions"]) == 2


NAMED: list[tuple[str, dict[str, Any], str]] = [
    ("remember", {"content": "x" * 100_001}, "content"),
    ("remember", {"content": "x", "type": "A b"}, "type"),
    ("remember", {"content": "x", "metadata": {"a": "b" * 100_000}}, "metadata"),
    ("remember", {"content": "x", "replaces": NOBODY}, "replaces"),
    ("remember", {"content": "x", "user": BOB}, "user"),
    ("update", {"id": NOBODY, "content": "x"}, "id"),
    ("recall", {"query": "?!"}, "query"),
    ("recall", {"query": "tapir", "since": "yesterday"}, "since"),
    ("recall", {"until": "tomorrow"}, "until"),
    ("recall", {"at": "then"}, "at"),
    ("recall", {"where": {"content": {}}}, "where"),
    ("context", {"question": "?!"}, "question"),
    ("context", {"question": "tapir", "at": "then"}, "at"),
    ("history", {"id": NOBODY}, "id"),
    ("forget", {"id": NOBODY}, "id"),
    ("export_memories", {"since": "then"}, "since"),
    ("export_memory", {"since": "then"}, "since"),
]


@pytest.mark.parametrize(("tool", "given", "name"), NAMED)
def test_errors_name_the_argument_that_was_given(
    ada: Agent, tool: str, given: dict[str, Any], name: str
) -> None:
    assert ada.error(tool, **given)["field"] == f"/{name}"
