# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD to every other format and back: nothing is lost silently."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain import formats
from omsgrain.errors import NotFoundError
from omsgrain.grain import make
from support.conversion_pairs import DOCUMENTS, FEWER, NOBODY, converted
from support.mif_ld_documents import FULL, FULL_1X, MEMORIES, MINIMAL, spelled

LD = "mif-ld"
OTHERS = tuple(name for name in DOCUMENTS if name != LD)
CORPORA = st.lists(MEMORIES, max_size=3)


def test_a_repeated_memory_comes_back_twice() -> None:
    whole = [FULL, FULL_1X, FULL]
    for other in ("mif1", "mif2"):
        data, losses = converted(formats.load(spelled(whole)), other)
        again, more = converted(formats.load(data), LD)
        assert (losses, more, json.loads(again)) == ([], [], whole)


@pytest.mark.parametrize("one", OTHERS)
@FEWER
@given(data=st.data())
def test_written_documents_are_valid(one: str, data: st.DataObject) -> None:
    loaded = formats.load(spelled(data.draw(DOCUMENTS[one])), format=one)
    for strict in (True, False):
        there = formats.load(converted(loaded, LD, strict=strict)[0])
        assert (there.format, there.problems) == (LD, ())


@pytest.mark.parametrize("other", OTHERS)
@FEWER
@given(data=st.data())
def test_strict_losses_are_reported(other: str, data: st.DataObject) -> None:
    """A returned document differs only in members that a report lists as lost."""
    whole = {one["@id"]: one for one in data.draw(CORPORA)}
    loaded = formats.load(spelled(list(whole.values())), format=LD)
    there, losses = converted(loaded, other, strict=True)
    assert b"x_omsgrain" not in there
    back, _ = converted(formats.load(there), LD, strict=True)
    made = [one["payload"] for one in json.loads(back)["records"]]
    told: dict[str, set[str]] = {}
    for loss in losses:
        told.setdefault(loss.record, set()).add(loss.field.split("/")[0])
    for one in made:
        was = whole.get(one["@id"])
        if was is not None and "id" not in told.get(one["@id"], ()):
            if one["content"] != was["content"]:
                assert "content" in told[one["@id"]]
            if was.get("title"):
                assert "title" in told[one["@id"]]


def test_what_a_memory_loses_in_2_0() -> None:
    made, losses = converted(formats.load(spelled(FULL)), "mif2", strict=True)
    assert {loss.field for loss in losses if loss.record == FULL["@id"]} == {
        "title", "namespace", "aliases", "ontology", "entity", "entities/0/role",
        "entities/1/entity", "entities/2/entity", "embedding", "summary",
        "compressedAt", "blocks", "citations", "x-unknown", "temporal/validFrom",
        "temporal/validUntil", "temporal/recordedAt", "temporal/ttl", "temporal/decay",
        "temporal/accessCount", "temporal/lastAccessed", "extensions/some-memory",
        "extensions/flat:key", "provenance/confidence", "provenance/trustLevel",
        "provenance/prov:wasGeneratedBy",
    }  # fmt: skip
    memory = json.loads(made)["memories"][0]
    assert (memory["memory_type"], memory["content"]) == ("semantic", FULL["content"])
    relations = json.loads(made)["knowledge_graph"]["relationships"]
    assert [one["relation_type"] for one in relations] == ["derived_from", "garden:GrowsBeside"]


def test_finer_types_are_in_the_namespace() -> None:
    document = {"mif_version": "2.0", "memories": [
        {"id": "7c9e6679-7425-40de-944b-e07fc1f90ae7", "content": "x", "memory_type": kind,
         "created_at": "2026-03-01T08:00:00Z"}
        for kind in ("decision", "discovery", "procedure", "error")
    ]}  # fmt: skip
    for memory, number in zip(document["memories"], range(4), strict=True):
        memory["id"] = f"7c9e6679-7425-40de-944b-e07fc1f90ae{number}"  # type: ignore[index]
        memory["content"] = f"text {number}"  # type: ignore[index]
    data, _ = converted(formats.load(spelled(document)), LD, strict=True)
    made = [one["payload"] for one in json.loads(data)["records"]]
    assert [(one["memoryType"], one["namespace"]) for one in made] == [
        ("semantic", "_semantic/decisions"), ("semantic", "_semantic/discoveries"),
        ("procedural", "_procedural/procedures"), ("episodic", "_episodic/errors"),
    ]  # fmt: skip
    assert made[0]["@id"] == "urn:mif:7c9e6679-7425-40de-944b-e07fc1f90ae0"
    back = json.loads(converted(formats.load(data), "mif2", strict=True)[0])
    assert [one["memory_type"] for one in back["memories"]] == [
        "decision", "discovery", "procedure", "error"
    ]  # fmt: skip


def test_local_memories_leave_in_no_format() -> None:
    private = MINIMAL | {
        "@id": "urn:mif:private",
        "namespace": "_local/x",
        "content": "secret" * 200_000,
    }
    loaded = formats.load(spelled([private, MINIMAL]))
    for other in OTHERS:
        made = formats.dump(loaded, format=other, user_id=NOBODY)
        assert b"secret" not in made.data
        assert b"private" not in made.data
        lost = [(loss.record, loss.field) for loss in made.losses]
        assert lost == [("urn:mif:private", "memory"), ("", "document")]


def test_grains_that_never_were_a_record() -> None:
    grain = make({"type": "event", "content": "It rained.", "created_at": 1})
    made = formats.dump([grain], format=LD)
    assert [one.address for one in formats.load(made.data).grains] == [grain.address]
    payload = json.loads(made.data)["records"][0]["payload"]
    assert (payload["memoryType"], payload["content"]) == ("episodic", "It rained.")
    alone = formats.dump([grain], format=LD, layout="markdown")
    assert formats.load(alone.data).format == LD


@pytest.mark.parametrize("other", DOCUMENTS)
def test_a_document_of_which_something_is_missing(other: str) -> None:
    local = MINIMAL | {"@id": "urn:mif:private", "namespace": "_local"}
    loaded = formats.load(spelled([MINIMAL, local]))
    pages = {one.address for one in loaded.grains if "x_addresses" in one}
    assert pages
    with pytest.raises(NotFoundError):
        formats.dump([one for one in loaded.grains if one.address not in pages], format=other)


UUID = "550e8400-e29b-41d4-a716-446655440000"


@pytest.mark.parametrize(
    ("said", "created"),
    [
        ("2026-06-30T23:59:60Z", "2026-06-30T23:59:60Z"),
        ("2026-01-01T10:00:60Z", "2026-01-01T10:01:00Z"),
        ("9999-12-31T23:59:60-14:00", "1970-01-01T00:00:00Z"),
    ],
)
def test_a_leap_second_is_the_last_of_a_day(said: str, created: str) -> None:
    memory = {"id": UUID, "content": "tea", "created_at": said}
    document = spelled({"mif_version": "2.0", "memories": [memory]})
    data, losses = converted(formats.load(document), LD, strict=True)
    loaded = formats.load(data)
    assert loaded.problems == ()
    (record,) = json.loads(data)["records"]
    assert record["payload"]["created"] == created
    assert ("created_at" in {one.field for one in losses}) is (said != created)


@pytest.mark.parametrize("id", ["urn:mif:x", "urn:mif:entity:x", "urn:mif:", "x"])
def test_an_entity_has_a_urn_of_entities(id: str) -> None:
    memory = {"id": UUID, "content": "tea", "created_at": "2026-01-01T10:00:00Z",
              "entities": [{"name": "Ada"}]}  # fmt: skip
    graph = {"entities": [{"id": id, "name": "Ada"}], "relationships": []}
    document = {"mif_version": "2.0", "memories": [memory], "knowledge_graph": graph}
    loaded = formats.load(spelled(document))
    data, _ = converted(loaded, LD)
    back = formats.load(data)
    assert back.problems == ()
    assert json.loads(formats.dump(back, format="mif2", local=True).data) == document
