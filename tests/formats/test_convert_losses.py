# SPDX-License-Identifier: Apache-2.0
"""Strict conversions: values not reported as lost can be read again, without our extensions.

The test knows nothing of how losses are found: it converts back, and compares records.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.formats import Loss
from support.conversion_pairs import (
    DOCUMENTS,
    EXAMPLES,
    FEWER,
    converted,
    load,
    records,
    sealed,
    unsummed,
)
from support.conversion_pairs import PAIRS as ALL_PAIRS

#: What memories of MIF in JSON-LD lose, which have another shape then, is asked elsewhere.
PAIRS = [(one, other) for one, other in ALL_PAIRS if one != "mif-ld"]
#: What is made of other members, or says nothing.
DERIVED = {"content_hash", "subtask_ids", "id"}
#: Names what has an id of its own, which is told there.
NAMING = {"project", "project_id", "parent_id", "related_memory_ids", "relations",
          "source_entity_id", "target_entity_id", "source_id", "target_id",
          "blocked_by"}  # fmt: skip


#: Ids that every format has in it, as they are.
UNCHANGED = re.compile(r"^urn:|[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$")


def once(document: dict[str, Any]) -> dict[str, Any]:
    """The document with every id of a record given once, where it has one."""
    whole: dict[str, Any] = json.loads(json.dumps(document))
    seen = set()
    for number, (name, record) in enumerate(records(whole)):
        id = record.get("id")
        if isinstance(id, str) and name not in ("chunks", "entities", "chunk_entities"):
            if id in seen:
                prefix = "mem_" if id.startswith("mem_") else ""
                record["id"] = f"{prefix}{UUID(int=number)}"
            seen.add(record["id"])
    return whole


def told(losses: list[Loss]) -> set[tuple[str, str]]:
    return {(loss.record, loss.field.split("/")[0]) for loss in losses}


def says(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(says, value.values()))
    return value is not None and value != []


def bare(word: Any) -> str:
    """A type, whatever its case."""
    return str(word).lower().replace("_", "")


def alike(one: Any, other: Any) -> bool:
    """Equal, but for nulls, the case of a type of entity, and how the agent is spelled."""
    if isinstance(one, dict) and isinstance(other, dict):
        one = {"agent_name" if key == "agent" else key: value for key, value in one.items()}
        other = {"agent_name" if key == "agent" else key: value for key, value in other.items()}
    if isinstance(one, dict) and isinstance(other, dict):
        return all(
            alike(value, other.get(key))
            if key not in ("type", "entity_type")
            else bare(value) == bare(other.get(key))
            for key, value in one.items()
            if says(value)
        )
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(alike, one, other))
    return bool(one == other)


def differences(
    document: dict[str, Any], again: dict[str, Any], lost: set[tuple[str, str]]
) -> Iterator[tuple[str, str]]:
    """Values that are gone and were not reported."""
    found = {(name, record.get("id")): record for name, record in records(again)}
    for name, record in records(document):
        id = record.get("id")
        if not isinstance(id, str) or (id, "id") in lost or (name, id) not in found:
            continue
        if not UNCHANGED.search(id):
            continue  # what is lost on the way back is told of another id
        for key, value in record.items():
            if says(value) and key not in DERIVED and (id, key) not in lost:
                if key in NAMING:
                    assert says(found[name, id].get(key)), (id, key)
                elif not alike({key: value}, {key: found[name, id].get(key)}):
                    yield id, key


def strict(document: dict[str, Any], one: str, other: str) -> None:
    loaded = load(document, one)
    data, losses = converted(loaded, other, strict=True)
    there = formats.load(data)
    assert (there.format, there.problems) == (other, ())
    assert b"x_omsgrain" not in data or b"x_omsgrain" in json.dumps(document).encode()
    back, more = converted(there, one, strict=True)
    # What is lost only on the way back is of no interest here.
    later = {loss.record.rpartition(":")[2].rpartition("_")[2] for loss in more}
    found = differences(document, json.loads(back), told(losses))
    assert [
        one for one in found if one[0].rpartition(":")[2].rpartition("_")[2] not in later
    ] == []


@pytest.mark.parametrize(("one", "other"), PAIRS)
@FEWER
@given(data=st.data())
def test_conversions_without_losses_are_read_again(
    one: str, other: str, data: st.DataObject
) -> None:
    strict(once(data.draw(DOCUMENTS[one])), one, other)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_examples(one: str, other: str) -> None:
    for document in EXAMPLES[one]:
        strict(once(document), one, other)


def losses_of(document: dict[str, Any], one: str, other: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for loss in converted(load(document, one), other, strict=True)[1]:
        found.setdefault(loss.record, set()).add(loss.field)
    return found


MEMORY = "7c9e6679-7425-70de-944b-e07fc1f90ae7"


def test_what_a_memory_of_1_0_loses_in_2_0() -> None:
    memory = {
        "id": f"mem_{MEMORY}", "content": "Ada likes tea.", "type": "Learning",
        "importance": 0.85, "decay_rate": 0.1, "access_count": 3,
        "created_at": "2026-03-01T08:00:00Z", "updated_at": "2026-03-01T09:00:00+01:00",
        "tags": ["tea", "a,b"], "source": {"type": "conversation", "agent": "helper"},
        "entities": [{"text": "Ada", "type": "PERSON", "confidence": 0.5}],
        "embedding": {"model": "small", "dimensions": 2, "vector": [0.1, 0.2]},
        "relations": {"related_memories": [f"mem_{UUID(int=7)}"], "related_todos": []},
        "redactions": [{"type": "email"}], "colour": "red",
    }  # fmt: skip
    document = {"mif_version": "1.0", "export": {"id": "exp_1"}, "memories": [memory]}
    lost = losses_of(document, "mif1", "mif2")
    assert lost.pop(f"mem_{MEMORY}") == {
        "importance", "decay_rate", "access_count", "redactions", "colour"}  # fmt: skip
    assert lost == {"": {"export/id"}}
    made = json.loads(converted(load(document, "mif1"), "mif2", strict=True)[0])
    assert made["memories"] == [{
        "id": MEMORY, "content": "Ada likes tea.", "memory_type": "learning",
        "created_at": "2026-03-01T08:00:00Z", "updated_at": "2026-03-01T09:00:00+01:00",
        "tags": ["tea", "a,b"],
        "entities": [{"name": "Ada", "entity_type": "person", "confidence": 0.5}],
        "embeddings": {"model": "small", "dimensions": 2, "vector": [0.1, 0.2]},
        "source": {"source_type": "conversation", "agent_name": "helper"},
        "related_memory_ids": [str(UUID(int=7))],
    }]  # fmt: skip


def test_unless_strict_the_importance_can_be_read_by_others() -> None:
    memory = {"id": f"mem_{MEMORY}", "content": "x", "type": "Task", "importance": 0.7,
              "created_at": "2026-03-01T08:00:00Z"}  # fmt: skip
    document = {"mif_version": "1.0", "memories": [memory]}
    made = json.loads(converted(load(document, "mif1"), "mif2")[0])
    place = made["vendor_extensions"]["omsgrain"]["memory_metadata"]
    assert place == {MEMORY: {"importance": 0.7}}


def test_importance_from_vendor_data_is_used() -> None:
    memory = {"id": MEMORY, "content": "x", "created_at": "2026-03-01T08:00:00Z"}
    more = {"memory_metadata": {MEMORY: {"importance": 0.9, "access_count": 4, "tier": "hot"}}}
    document = {"mif_version": "2.0", "memories": [memory],
                "vendor_extensions": {"shodh-memory": more}}  # fmt: skip
    data, losses = converted(load(document, "mif2"), "mif1", strict=True)
    made = json.loads(data)["memories"][0]
    assert (made["importance"], made["access_count"]) == (0.9, 4)
    assert [loss.field for loss in losses] == ["vendor_extensions/shodh-memory"]
    bundle = json.loads(converted(load(document, "mif2"), "aimem", strict=True)[0])
    assert bundle["chunks"][0]["zone"] == "critical"


def test_references_are_those_of_the_new_ids() -> None:
    chunk = {"memory_type": "fact", "created_at": "2026-03-01T08:00:00Z"}
    edge = {"source_id": "urn:aimem:a:1", "target_id": "urn:aimem:a:2", "edge_type": "x-cites",
            "weight": 0.25, "created_at": "2026-03-02T08:00:00Z"}  # fmt: skip
    bundle = {
        "format": "aimem-bundle", "version": "1", "producer": "a", "scope": "FULL",
        "tenant_id": str(UUID(int=1)), "exported_at": "2026-03-03T08:00:00Z",
        "chunks": [{"id": "urn:aimem:a:1", "content": "one"} | chunk,
                   {"id": "urn:aimem:a:2", "content": "two"} | chunk],
        "edges": [edge, edge | {"edge_type": "hebbian"}],
    }  # fmt: skip
    data, losses = converted(load(sealed(bundle), "aimem"), "mif2", strict=True)
    assert {(loss.record, loss.field) for loss in losses} == {("", "producer")}
    made = json.loads(data)
    first, second = made["memories"]
    assert first["external_id"] == "urn:aimem:a:1"
    graph = made["knowledge_graph"]
    assert [entity["id"] for entity in graph["entities"]] == [first["id"], second["id"]]
    assert [(one["source_entity_id"], one["target_entity_id"], one["relation_type"],
             one["confidence"]) for one in graph["relationships"]] == [
        (first["id"], second["id"], "cites", 0.25),
        (first["id"], second["id"], "semantic_association", 0.25),
    ]  # fmt: skip
    back = json.loads(converted(formats.load(data), "aimem", strict=True)[0])
    assert [chunk["id"] for chunk in back["chunks"]] == ["urn:aimem:a:1", "urn:aimem:a:2"]
    assert back["edges"] == bundle["edges"]


NATIVES = [
    og.Belief(subject="Ada", relation="mg:prefers", object="tea", created_at=1, user_id="ada"),
    og.Belief(subject="lamp", relation="mg:perceives", object="on", created_at=2,
              importance=0.5, user_id="ada", structural_tags=["light"]),
    og.Event(content="It rained.", created_at=3, user_id="ada", session_id="s"),
    og.Goal(description="Find the key.", goal_state="active", created_at=4, user_id="ada"),
    og.State(context={"room": "hall"}, created_at=5, user_id="ada"),
]  # fmt: skip


@pytest.mark.parametrize("to", ["mif1", "mif2"])
def test_natives_become_memories_and_come_back(to: str) -> None:
    made = formats.dump(NATIVES, format=to)
    assert made.losses == []
    assert formats.dump(NATIVES, format=to).data == made.data
    back = formats.load(made.data)
    assert {*back.grains} == {*NATIVES}
    assert formats.dump(back, format=to).data == made.data
    document = json.loads(made.data)
    kinds = [one.get("memory_type") or one.get("type") for one in document["memories"]]
    assert [kind.lower() for kind in kinds][2:] == ["conversation", "intention", "context"]
    assert all(UUID(one["id"].removeprefix("mem_")).version == 8 for one in document["memories"])


def test_natives_become_chunks_and_come_back() -> None:
    made = formats.dump(NATIVES, format="aimem", tenant_id="ada")
    assert json.loads(made.data)["tenant_id"] == "urn:omsgrain:user:ada"
    back = formats.load(made.data)
    assert {*back.grains} >= {*NATIVES}
    again = formats.dump(back, format="aimem").data
    assert json.loads(again) == json.loads(made.data)
    assert {*formats.load(formats.dump(back, format="mif2").data).grains} >= {*NATIVES}


def test_a_record_that_was_changed_on_its_way_is_what_it_says() -> None:
    document = json.loads(formats.dump(NATIVES, format="mif2").data)
    document["memories"][0]["content"] = "coffee"
    del document["memories"][2]
    unsummed(document)
    back = formats.load(json.dumps(document).encode())
    kept = [grain for grain in NATIVES if grain in back.grains]
    assert kept == [NATIVES[1], *NATIVES[3:]]
    assert "coffee" in {grain.get("content") for grain in back.grains}
    assert json.loads(formats.dump(back, format="mif2").data) == document


@pytest.mark.parametrize("to", ["mif1", "mif2"])
def test_strict_natives_lose_by_field(to: str) -> None:
    made = formats.dump(NATIVES, format=to, strict=True)
    lost = {(loss.record, loss.field) for loss in made.losses}
    assert (NATIVES[0].address, "subject") not in lost  # the text says it
    assert (NATIVES[3].address, "goal_state") in lost
    assert b"blob" not in made.data and b"grains" not in made.data
    importance = (NATIVES[1].address, "importance") in lost
    assert importance == (to == "mif2")


def test_embeddings_leave_only_if_they_may() -> None:
    vector = [0.125, 0.3333333333333333]
    memory = {"id": MEMORY, "content": "x", "created_at": "2026-03-01T08:00:00Z",
              "embeddings": {"model": "small", "dimensions": 2, "vector": vector}}  # fmt: skip
    document = {"mif_version": "2.0", "memories": [memory]}
    loaded = load(document, "mif2")
    made = formats.dump(loaded, format="mif1", embeddings=False)
    assert [(loss.record, loss.field) for loss in made.losses] == [(MEMORY, "embeddings")]
    assert b"0.333" not in made.data
    back = formats.load(made.data)
    del memory["embeddings"]
    assert json.loads(formats.dump(back, format="mif2").data) == document


def test_grains_of_another_user_are_not_taken() -> None:
    data = formats.dump(NATIVES, format="mif2").data
    assert {*formats.load(data, user_id="ada").grains} == {*NATIVES}
    assert not {*formats.load(data, user_id="bob").grains} & {*NATIVES}


HOSTILE = [
    '{"f":"aimem","k":"chunk","id":"x"}', '{"f":"aimem","k":"edge","id":"x","r":{"=":[]}}',
    '{"f":"mif2","k":"memory","id":"x","r":{"=":{}}}', '{"f":"mif1","k":"todo","id":"x"}',
    '{"f":"aimem","k":"document","id":"x","r":{"=":7}}',
    '{"f":"mif2","k":"memory","id":"x","p":[]}',
    '{"f":"aimem","k":"chunk_entity","id":"x","r":{"-":["chunk_id"]}}',
    '{"f":"mif1","k":"memory","id":"x","p":["' + "0" * 64 + '"]}',
]  # fmt: skip


@pytest.mark.parametrize("source", HOSTILE)
def test_invalid_side_data_does_no_harm(source: str) -> None:
    import base64

    from omsgrain.grain import make

    grain = make({"type": "event", "content": "x", "created_at": 1, "namespace": "n",
                  "x_src": source.encode(), "x_pages": b""})  # fmt: skip
    blob = base64.b64encode(grain.blob).decode()
    memory = {"id": MEMORY, "content": "x", "created_at": "2026-03-01T08:00:00Z"}
    document = {"mif_version": "2.0", "memories": [memory],
                "vendor_extensions": {"omsgrain": {"grains": {grain.address: blob}}}}  # fmt: skip
    found = formats.load(json.dumps(document).encode())
    assert json.loads(formats.dump(found, format="mif2").data) == document


@pytest.mark.parametrize("of", sorted(EXAMPLES))
def test_a_missing_grain_of_a_document_is_an_error(of: str) -> None:
    for document in EXAMPLES[of]:
        read = load(document, of)
        for at in range(len(read.grains) - 1):
            grains = [*read.grains[:at], *read.grains[at + 1 :]]
            with pytest.raises(og.errors.OmsError) as caught:
                formats.dump(grains, format=of)
            assert caught.value.code == "ERR_NOT_FOUND"


def made_up(document: dict[str, Any], one: str, other: str) -> set[tuple[str, str]]:
    dumped = formats.dump(load(document, one), format=other, strict=True, user_id="urn:example:a")
    assert not {type(loss) for loss in dumped.losses} & {type(loss) for loss in dumped.added}
    return {(loss.record.rpartition(":")[2], loss.field) for loss in dumped.added}


BARE = {
    "mif_version": "2.0",
    "export_meta": {"id": MEMORY, "created_at": "2026-03-01T08:00:00Z", "user_id": "ada"},
    "memories": [
        {"id": f"{MEMORY[:-1]}{i}", "content": f"Tea {i}.", "created_at": "2026-03-01T08:00:00Z"}
        for i in (1, 2)
    ],
    "knowledge_graph": {
        "entities": [{"id": f"{MEMORY[:-1]}8", "name": "Tea"}],
        "relationships": [
            {
                "id": f"{MEMORY[:-1]}9",
                "source_entity_id": f"{MEMORY[:-1]}1",
                "target_entity_id": f"{MEMORY[:-1]}2",
                "relation_type": "supports",
            }
        ],
    },
}
"""A document that leaves out all that it may."""


def test_values_that_a_bundle_needs_are_reported_as_added() -> None:
    found = {field for _, field in made_up(BARE, "mif2", "aimem")}
    assert {"created_at", "memory_type", "kind", "weight"} <= found
    (bundle, _) = converted(load(BARE, "mif2"), "aimem", strict=True)
    edge = json.loads(bundle)["edges"][0]
    assert (edge["weight"], edge["created_at"]) == (0.5, "1970-01-01T00:00:00Z")


def test_given_values_are_not_reported_as_added() -> None:
    document = json.loads(json.dumps(BARE))
    for memory in document["memories"]:
        memory["memory_type"] = "decision"
    document["knowledge_graph"]["entities"][0] |= {
        "types": ["drink"], "created_at": "2026-03-01T08:00:00Z"
    }  # fmt: skip
    document["knowledge_graph"]["relationships"][0] |= {
        "confidence": 0.9, "created_at": "2026-03-01T08:00:00Z"
    }  # fmt: skip
    assert made_up(document, "mif2", "aimem") == set()


def test_a_default_type_is_reported_in_other_formats() -> None:
    memory = f"{MEMORY[:-1]}1"
    assert (f"mem_{memory}", "type") in {
        (f"mem_{one.rpartition('_')[2]}", field) for one, field in made_up(BARE, "mif2", "mif1")
    }
    assert (memory, "memoryType") in made_up(BARE, "mif2", "mif-ld")
