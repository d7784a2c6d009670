# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0 documents to grains and back: every document that the format allows comes back."""

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
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.mif2.records import TABLE
from omsgrain.formats.records import TEXT, is_duplicate
from omsgrain.formats.source import Source
from support.mif2_documents import DIALECT, DOCUMENTS, FULL, MINIMAL, PLACEHOLDERS, spelled

EXAMPLES = [MINIMAL, PLACEHOLDERS, FULL, DIALECT]


def returned(data: bytes) -> bytes:
    """Return the document made from the blobs of its grains alone."""
    loaded = MIF2.load(data)
    assert loaded.problems == ()
    again = formats.dump([og.Grain(grain.blob) for grain in loaded.grains], format="mif2")
    assert again.losses == []
    return again.data


def record_of(record: dict[str, Any], **document: Any) -> og.Grain:
    whole = MINIMAL | {"memories": [MINIMAL["memories"][0] | record]} | document
    return MIF2.load(spelled(whole)).grains[0]


@given(DOCUMENTS)
def test_a_document_comes_back(whole: dict[str, Any]) -> None:
    # The text tells more than ==: 1 from 1.0 and from true, the order of keys, a zero's sign.
    assert json.dumps(json.loads(returned(spelled(whole)))) == json.dumps(whole)


@pytest.mark.parametrize("whole", EXAMPLES)
def test_documents_of_others_come_back(whole: dict[str, Any]) -> None:
    assert json.dumps(json.loads(returned(spelled(whole)))) == json.dumps(whole)


SPELLINGS = st.sampled_from(
    [
        {},
        {"indent": 2},
        {"indent": "\t", "ensure_ascii": False},
        {"separators": (",", ":"), "ensure_ascii": False},
    ]
)


@given(DOCUMENTS, SPELLINGS, st.sampled_from(["", "\n", "\r\n\t "]))
def test_a_document_comes_back_to_the_byte(
    whole: dict[str, Any], spelling: dict[str, Any], end: str
) -> None:
    data = (json.dumps(whole, **spelling) + end).encode()
    loaded = MIF2.load(data, exact=True)
    assert formats.dump(loaded, format="mif2", exact=True).data == data


@pytest.mark.parametrize("text", [
    '{"memories" :[ ],\n"mif_version":"2.0"}',
    '{"mif_version":"2\\u002e0","memories":[],"x":[1E2,1e2,100,1.50,-0,"\\/\\u00E9"]}',
])  # fmt: skip
def test_an_odd_spelling_comes_back_to_the_byte(text: str) -> None:
    loaded = MIF2.load(text.encode(), exact=True)
    assert formats.dump(loaded, format="mif2", exact=True).data == text.encode()
    with pytest.raises(SchemaError):
        formats.dump(MIF2.load(text.encode()), format="mif2", exact=True)


def test_a_change_is_written_although_the_text_was_kept() -> None:
    data = b" " + spelled(MINIMAL)
    loaded = MIF2.load(data, exact=True)
    more = spelled(MINIMAL | {"memories": [*MINIMAL["memories"], 7]})
    assert MIF2.load(more, exact=True).problems[0].pointer == "/memories/1"
    taken = formats.dump(MIF2.load(more, exact=True), format="mif2", exact=True).data
    assert json.loads(taken) == MINIMAL
    assert formats.dump(loaded, format="mif2", exact=True).data == data


def test_the_same_document_is_the_same_grains() -> None:
    for whole in EXAMPLES:
        assert MIF2.load(spelled(whole)) == MIF2.load(spelled(whole))


def test_load_detects_the_format() -> None:
    loaded = formats.load(spelled(FULL))
    assert (loaded.format, formats.sniff(spelled(FULL)[:90])) == ("mif2", "mif2")
    assert json.loads(formats.dump(loaded, format="mif2").data) == FULL


# -- what records are among grains ----------------------------------------------------------------

GRAINS = {
    None: {"type": "observation", "object": "x", "observer_type": "mif:unknown"},
    "observation": {"type": "observation", "object": "x"},
    "decision": {"type": "belief", "relation": "mif:decided", "object": "x"},
    "learning": {"type": "belief", "relation": "mg:knows", "object": "x"},
    "discovery": {"type": "belief", "relation": "mg:knows", "epistemic_status": "derived"},
    "pattern": {"type": "belief", "relation": "mif:pattern", "consolidation_level": 2},
    "error": {"type": "event", "content": "x", "role": "system"},
    "context": {"type": "state", "context": {"text": "x"}},
    "conversation": {"type": "event", "content": "x", "structural_tags": ["mif:conversation"]},
    "command": {"type": "action", "tool_name": "command", "content": "x", "is_error": False},
    "intention": {"type": "goal", "description": "x", "goal_state": "active"},
    "dream": {"type": "event", "content": "x", "structural_tags": ["mif:dream"]},
}


@pytest.mark.parametrize(("kind", "fields"), GRAINS.items())
def test_types_of_memory(kind: str | None, fields: dict[str, Any]) -> None:
    typed = {"content": "x"} | ({} if kind is None else {"memory_type": kind})
    grain = record_of(typed, export_meta={"user_id": "user-1"})
    assert {name: grain.get(name) for name in fields} == fields
    assert (grain["created_at"], grain["user_id"]) == (1_772_352_000_000, "user-1")
    assert not grain.warnings
    source = Source.of(grain)
    # A usual record costs nothing beside its fields.
    assert source is not None and (source.residual is None) == (kind is not None)


def test_the_dialect_among_grains() -> None:
    loaded = MIF2.load(spelled(DIALECT))
    assert (loaded.warnings, loaded.problems) == ((), ())
    goals = [grain for grain in loaded.grains if grain["type"] == "goal"]
    assert [
        (goal["goal_state"], goal.get("priority"), goal.get("deadline")) for goal in goals
    ] == [
        ("active", None, None),  # an intention
        ("active", 2, 1_772_697_600_000),
        ("failed", None, None),
        ("suspended", None, None),
    ]
    kinds = [source.kind for grain in loaded.grains if (source := Source.of(grain)) is not None]
    assert kinds == ["memory"] * 3 + ["todo"] * 2 + ["project", "document"]
    agents = {grain.get("author_did") for grain in loaded.grains[:3]}
    assert agents == {"did:key:z6MkAgent"}


def test_a_graph_among_grains() -> None:
    loaded = MIF2.load(spelled(FULL))
    related = next(grain for grain in loaded.grains if grain.get("relation") == "mif:uses")
    assert (related["subject"], related["object"]) == ("ent-002", "ent-001")
    assert (related["confidence"], related["context"]) == (0.9, {"text": "notes"})
    entity = next(grain for grain in loaded.grains if grain.get("subject") == "ent-001")
    assert entity["object"]["name"] == "LMDB"


def test_the_user_of_the_grains() -> None:
    named = MINIMAL | {"export_meta": {"user_id": "user-1"}}
    owners = [
        {grain.get("user_id") for grain in MIF2.load(spelled(whole), user_id=given).grains}
        for whole, given in ((MINIMAL, None), (named, None), (named, "user-2"))
    ]
    assert owners == [{None}, {"user-1"}, {"user-2"}]
    for name in ("\ufeffuser", "u" * 5_000):
        loaded = MIF2.load(spelled(MINIMAL | {"export_meta": {"user_id": name}}))
        assert [warning.rule for warning in loaded.warnings] == ["owner_not_kept"]
        assert {grain.get("user_id") for grain in loaded.grains} == {None}


def test_a_repeated_content_is_stored_once() -> None:
    memory = MINIMAL["memories"][0]
    again = [memory, memory | {"id": "other"}, memory, memory | {"content": "another"}]
    loaded = MIF2.load(spelled(MINIMAL | {"memories": again}))
    told = [(one.rule, one.pointer) for one in loaded.warnings if one.rule == "duplicate_content"]
    assert [pointer for _, pointer in told] == ["/memories/1/content", "/memories/2/content"]
    hidden = [grain for grain in loaded.grains if is_duplicate(grain)]
    assert [grain["context"]["of"] for grain in hidden] == [memory["id"]] * 2
    assert {key for grain in hidden for key in grain} == {
        "type", "context", "created_at", "namespace", "x_src",
    }  # fmt: skip
    assert json.loads(formats.dump(loaded, format="mif2").data)["memories"] == again


# -- vectors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("vector", "dimensions", "found"), [
    ([0.5, -1.0], 2, [0.5, -1.0]),
    ([0.1, 1], 2, [0.1, 1.0]),
    ([0.1], 384, None),
    ([1e300], 1, None),
    ([2**80], 1, [2.0**80]),
])  # fmt: skip
def test_vectors(vector: list[float], dimensions: int, found: list[float] | None) -> None:
    told = {"model": "m", "dimensions": dimensions, "vector": vector, "normalized": False}
    whole = copy.deepcopy(MINIMAL)
    whole["memories"][0]["embeddings"] = told
    loaded = MIF2.load(spelled(whole))
    made = [(one.model, one.data) for one in loaded.vectors.values()]
    expected = [] if found is None else [("m", struct.pack(f"<{len(found)}f", *found))]
    assert made == expected
    assert json.dumps(json.loads(formats.dump(loaded, format="mif2").data)) == json.dumps(whole)
    without = formats.dump(loaded, format="mif2", embeddings=False)
    assert [(loss.record, loss.field) for loss in without.losses] == [
        (whole["memories"][0]["id"], "embeddings")
    ]
    assert json.loads(without.data) == MINIMAL


def test_records_too_large_for_a_grain() -> None:
    whole = copy.deepcopy(MINIMAL)
    record = whole["memories"][0]
    record["content"], record["memory_type"] = "word " * 200_000, "\u00e9" * 100_000
    record["tags"], record["metadata"] = ["t" * 50_000] * 30, {"k": "v" * 1_200_000}
    record["embeddings"] = {"model": "m", "dimensions": 1, "vector": [0.1] * 100_000}
    whole["vendor_extensions"] = {"other": "x" * 1_200_000}
    assert json.loads(returned(spelled(whole))) == whole
    grain = MIF2.load(spelled(whole)).grains
    assert any(len(one.get("content", "")) == TEXT for one in grain)


def test_grains_that_are_no_whole_document() -> None:
    grains = MIF2.load(spelled(FULL)).grains
    with pytest.raises(NotFoundError):
        formats.dump(grains[1:], format="mif2")
    with pytest.raises(SchemaError):
        formats.dump([*grains, *MIF2.load(spelled(MINIMAL)).grains], format="mif2")


def test_records_are_written_unchanged() -> None:
    assert MIF2.together(*MIF2.apart(FULL)) == FULL
    assert TABLE.name_of("memory", FULL["memories"][0]) == FULL["memories"][0]["id"]
