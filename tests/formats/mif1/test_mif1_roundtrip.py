# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0 documents to grains and back, in each layout: all that is accepted comes back."""

from __future__ import annotations

import copy
import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.errors import NotFoundError, SchemaError
from omsgrain.formats.mif1 import document as layouts
from omsgrain.formats.mif1.check import Layout
from omsgrain.formats.mif1.format import MIF1
from omsgrain.formats.records import is_duplicate
from omsgrain.formats.source import Source
from support.mif1_documents import DOCUMENTS, EXAMPLES, MINIMAL, PUBLISHED, SEP
from support.mif2_documents import spelled

LAYOUTS: list[Layout] = ["json", "yaml", "jsonl"]


def returned(data: bytes, **options: Any) -> bytes:
    """Return the document made from the blobs of its grains alone."""
    loaded = MIF1.load(data)
    assert loaded.problems == ()
    again = formats.dump(
        [og.Grain(grain.blob) for grain in loaded.grains], format="mif1", **options
    )
    assert again.losses == []
    return again.data


def tree(data: bytes) -> str:
    """The text is stricter than ==: 1, 1.0 and true differ, as do key order and a zero's sign."""
    return json.dumps(layouts.parse(data).document)


def record_of(record: dict[str, Any], **document: Any) -> og.Grain:
    whole = MINIMAL | {"memories": [MINIMAL["memories"][0] | record]} | document
    return MIF1.load(spelled(whole)).grains[0]


@given(DOCUMENTS)
def test_a_document_comes_back(whole: dict[str, Any]) -> None:
    assert json.dumps(json.loads(returned(spelled(whole)))) == json.dumps(whole)


def test_a_type_of_its_own_moves_no_array() -> None:
    rest = {name: one for name, one in MINIMAL.items() if name != "memories"}
    first = {"memories": MINIMAL["memories"], "type": None, "todos": None}
    data = layouts.spell(first | rest, "jsonl")
    assert returned(data) == data


@given(DOCUMENTS, st.sampled_from(LAYOUTS))
def test_a_document_comes_back_in_each_layout(whole: dict[str, Any], layout: Layout) -> None:
    data = layouts.spell(whole, layout)
    assert layouts.layout_of(data) == layout
    assert layouts.parse(data).document == whole
    assert returned(data) == data


@given(DOCUMENTS, st.sampled_from(["yaml", "jsonl"]))
def test_a_layout_is_changed_on_the_way(whole: dict[str, Any], layout: Layout) -> None:
    other = returned(spelled(whole), layout=layout)
    back = json.loads(returned(other, layout="json"))
    # A member that a line has for itself comes back, and as the last one.
    if whole.keys().isdisjoint(("type", "x_members")):
        assert json.dumps(back) == json.dumps(whole)
    assert back == whole


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("whole", EXAMPLES)
def test_documents_of_others_come_back(whole: dict[str, Any], layout: Layout) -> None:
    data = layouts.spell(whole, layout)
    assert tree(returned(data)) == json.dumps(whole)


SPELLINGS = st.sampled_from([{}, {"indent": 2}, {"separators": (",", ":"), "ensure_ascii": False}])


@given(DOCUMENTS, SPELLINGS, st.sampled_from(["", "\n"]))
def test_a_document_comes_back_to_the_byte(
    whole: dict[str, Any], spelling: dict[str, Any], end: str
) -> None:
    data = (json.dumps(whole, **spelling) + end).encode()
    loaded = MIF1.load(data, exact=True)
    assert formats.dump(loaded, format="mif1", exact=True).data == data


ODD = [
    b'{"memories" :[ ],\n"mif_version":"1.0"}',
    b"# notes\nmif_version: 1.0\nmemories: []\nx: &a [1, 2]\ny: *a\n",
    b"---\n\"mif_version\": '1.0'\nmemories:\n- {id: m, content: no, type: Task, "
    b"created_at: 2026-01-02T00:00:00Z}\n",
    b'{"type":"header","mif_version":"1.0","export":{}}\n'
    b'{"type": "memory", "data": {"id": "m", "content": "c", "type": "Task", '
    b'"created_at": "2026-01-02T00:00:00Z"}, "seq": 1}\n\n{"type":"footer"}',
]


@pytest.mark.parametrize("data", ODD)
def test_an_odd_spelling_comes_back_to_the_byte(data: bytes) -> None:
    loaded = MIF1.load(data, exact=True)
    assert loaded.problems == ()
    assert formats.dump(loaded, format="mif1", exact=True).data == data
    with pytest.raises(SchemaError):
        formats.dump(MIF1.load(data), format="mif1", exact=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_our_own_spelling_comes_back_to_the_byte(layout: Layout) -> None:
    data = layouts.spell(SEP, layout)
    loaded = MIF1.load(data, exact=True)
    assert formats.dump(loaded, format="mif1", exact=True).data == data
    other: Layout = "yaml" if layout == "json" else "json"
    with pytest.raises(SchemaError):
        formats.dump(loaded, format="mif1", exact=True, layout=other)


def test_the_same_document_is_the_same_grains() -> None:
    for whole in EXAMPLES:
        loaded = MIF1.load(spelled(whole))
        assert loaded == MIF1.load(spelled(whole))
        by_lines = MIF1.load(layouts.spell(whole, "jsonl"))
        # All but the manifest, which knows its layout.
        assert by_lines.grains[:-1] == loaded.grains[:-1]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_load_detects_the_format(layout: Layout) -> None:
    data = layouts.spell(SEP, layout)
    loaded = formats.load(data)
    assert (loaded.format, formats.sniff(data[:300])) == ("mif1", "mif1")
    assert formats.dump(loaded, format="mif1").data == data


def test_grains_are_written_as_one_document() -> None:
    loaded = MIF1.load(spelled(MINIMAL))
    other = MIF1.load(spelled(SEP))
    with pytest.raises(SchemaError):
        formats.dump([*loaded.grains, *other.grains], format="mif1")
    with pytest.raises(SchemaError):
        formats.dump(loaded, format="mif1", layout="xml")


# -- what records are among grains ----------------------------------------------------------------

GRAINS = {
    "Observation": {"type": "observation", "object": "x", "observer_type": "mif:unknown"},
    "Decision": {"type": "belief", "relation": "mif:decided", "object": "x"},
    "Learning": {"type": "belief", "relation": "mg:knows", "object": "x"},
    "Discovery": {"type": "belief", "relation": "mg:knows", "epistemic_status": "derived"},
    "Pattern": {"type": "belief", "relation": "mif:pattern", "consolidation_level": 2},
    "Error": {"type": "event", "content": "x", "role": "system"},
    "Context": {"type": "state", "context": {"text": "x"}},
    "Conversation": {"type": "event", "content": "x"},
    "Task": {"type": "event", "content": "x"},
    "FileAccess": {"type": "action", "tool_name": "file_access", "content": "x"},
    "Intention": {"type": "goal", "description": "x", "goal_state": "active"},
    "Dream": {"type": "event", "content": "x", "structural_tags": ["mif:Dream"]},
}


@pytest.mark.parametrize(("kind", "fields"), GRAINS.items())
def test_types_of_memory(kind: str, fields: dict[str, Any]) -> None:
    grain = record_of({"content": "x", "type": kind})
    assert {name: grain.get(name) for name in fields} == fields
    assert (grain["created_at"], grain["user_id"]) == (1_772_352_000_000, "user-7")
    assert not grain.warnings
    source = Source.of(grain)
    # A usual record costs nothing beside its fields.
    assert source is not None and source.residual is None


def test_a_memory_becomes_fields() -> None:
    grain = record_of(
        {"importance": 0.5, "tags": ["a"], "source": {"session_id": "s", "agent": "x"}}
    )
    assert (grain["importance"], grain["structural_tags"], grain["session_id"]) == (
        0.5,
        ["a"],
        "s",
    )


def test_todos_and_the_graph_among_grains() -> None:
    grains = MIF1.load(spelled(SEP)).grains + MIF1.load(spelled(PUBLISHED)).grains
    goals = [grain for grain in grains if grain["type"] == "goal"]
    assert [
        (goal["goal_state"], goal.get("priority"), goal.get("deadline")) for goal in goals
    ] == [
        ("active", 2, 1_770_310_800_000),
        ("satisfied", None, None),
    ]
    edges = [grain for grain in grains if grain.get("relation") == "mif:semantic_association"]
    ends = [(edge["subject"], edge["object"], edge["confidence"]) for edge in edges]
    assert ends == [("mem_b2c3d4e5...", "mem_e5f6g7h8...", 0.72)]
    node = next(grain for grain in grains if grain.get("subject") == "ent_rust")
    assert (node["relation"], node["object"]["entity_type"]) == ("mif:node", "TECHNOLOGY")
    consent = next(grain for grain in grains if grain.get("processing_basis") == "user_request")
    assert consent["context"]["sharing_allowed"] is False


def test_a_repeated_content_is_stored_once() -> None:
    memory = MINIMAL["memories"][0]
    again = [memory, memory | {"id": "other"}, memory | {"content": "another"}]
    loaded = MIF1.load(spelled(MINIMAL | {"memories": again}))
    told = [one.pointer for one in loaded.warnings if one.rule == "duplicate_content"]
    assert told == ["/memories/1/content"]
    hidden = [grain for grain in loaded.grains if is_duplicate(grain)]
    assert [grain["context"]["of"] for grain in hidden] == [memory["id"]]
    assert json.loads(formats.dump(loaded, format="mif1").data)["memories"] == again


# -- vectors and large records --------------------------------------------------------------------


@pytest.mark.parametrize(("vector", "dimensions", "found"), [
    ([0.5, -1.0], 2, [0.5, -1.0]),
    ([0.1, 1], None, [0.1, 1.0]),
    ([0.1], 384, None),
    ([0.1, "..."], 2, None),
    ([1e300], 1, None),
])  # fmt: skip
def test_vectors(vector: list[Any], dimensions: int | None, found: list[float] | None) -> None:
    told = {"model": "m", "dimensions": dimensions, "vector": vector}
    told = {name: value for name, value in told.items() if value is not None}
    whole = copy.deepcopy(MINIMAL)
    whole["memories"][0]["embedding"] = told
    loaded = MIF1.load(spelled(whole))
    made = [(one.model, one.data) for one in loaded.vectors.values()]
    assert made == ([] if found is None else [("m", struct.pack(f"<{len(found)}f", *found))])
    assert json.dumps(json.loads(formats.dump(loaded, format="mif1").data)) == json.dumps(whole)
    without = formats.dump(loaded, format="mif1", embeddings=False)
    assert [(loss.record, loss.field) for loss in without.losses] == [
        (whole["memories"][0]["id"], "embedding")
    ]
    assert json.loads(without.data) == MINIMAL


@pytest.mark.parametrize("layout", LAYOUTS)
def test_records_too_large_for_a_grain(layout: Layout) -> None:
    whole = copy.deepcopy(MINIMAL)
    record = whole["memories"][0]
    record["content"], record["type"] = "word " * 400_000, "\u00e9" * 3_000
    record["tags"], record["x"] = ["t" * 50_000] * 30, {"k" * 3_000: "v" * 2_000_000}
    record["embedding"] = {"model": "m", "dimensions": 1, "vector": [0.1] * 5_000}
    whole["metadata"] = {"x": "x" * 2_000_000}
    assert layouts.parse(returned(layouts.spell(whole, layout))).document == whole


def test_records_are_written_unchanged() -> None:
    assert MIF1.together(*MIF1.apart(SEP)) == SEP


def test_a_grain_that_is_missing() -> None:
    grains = MIF1.load(spelled(MINIMAL)).grains
    with pytest.raises(NotFoundError):
        formats.dump(grains[1:], format="mif1")
