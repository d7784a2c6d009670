# SPDX-License-Identifier: Apache-2.0
"""Every pair of formats: there and back is the same, and losses are reported."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain import formats
from omsgrain.formats.mif1.document import CHECKSUM as MIF1
from omsgrain.formats.mif2.format import CHECKSUM as MIF2
from support.aimem_strategies import TENANT, embedding, hash_of
from support.conversion_pairs import (
    DOCUMENTS,
    EXAMPLES,
    FEWER,
    PAIRS,
    converted,
    corpus,
    load,
    same_document,
    sealed,
    unsummed,
)


def there_and_back(document: dict[str, Any], one: str, other: str, **options: str) -> None:
    loaded = load(document, one)
    data, losses = converted(loaded, other, **options)
    assert losses == []
    back = formats.load(data)
    assert (back.format, back.problems) == (other, ())
    again = formats.dump(back, format=one, embeddings=True, local=True)
    assert again.losses == []
    assert same_document(json.loads(again.data), document, one)
    assert {grain.address for grain in loaded.grains} <= {grain.address for grain in back.grains}
    # And the document that it was meanwhile comes back too.
    other_again = formats.dump(back, format=other, embeddings=True, local=True)
    assert same_document(json.loads(other_again.data), json.loads(data), other)


@pytest.mark.parametrize(("one", "other"), PAIRS)
@FEWER
@given(data=st.data())
def test_there_and_back(one: str, other: str, data: st.DataObject) -> None:
    there_and_back(data.draw(DOCUMENTS[one]), one, other)


@pytest.mark.parametrize("options", [{}, {"user_id": "urn:example:another"}])
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_examples_there_and_back(one: str, other: str, options: dict[str, str]) -> None:
    for document in EXAMPLES[one]:
        there_and_back(document, one, other, **options)


TIME = "2026-03-01T08:00:00Z"
NAME = "urn:aimem:a:0"
TODO = {"id": "A1B2C3D4-E5F6-1890-1BCD-EF1234567890", "content": "0", "status": "todo",
        "priority": "none", "created_at": TIME, "updated_at": TIME, "=": None}  # fmt: skip
CHUNK = {"id": NAME, "content": "0", "content_hash": hash_of("0"), "memory_type": "fact",
         "created_at": TIME, "embedding": embedding([0.0])}  # fmt: skip
LINKED = {"@context": "https://mif-spec.dev/schema/context.jsonld", "@type": "Memory",
          "content": "0", "memoryType": "semantic", "created": TIME}  # fmt: skip
RELATED = [{"@type": "Relationship", "relationshipType": f"a:{name}",
            "target": {"@id": f"urn:mif:{name}"}} for name in ("one", "two")]  # fmt: skip
#: A chunk and an entity of one name, of which one has an embedding; a todo that stands twice; a
#: memory with two relations, which are records of their own elsewhere.
ODD = [
    ("aimem", sealed({
        "format": "aimem-bundle", "version": "1", "producer": "a", "scope": "FULL",
        "tenant_id": TENANT, "exported_at": TIME, "embedding_dim": 1, "embedding_model": "small",
        "chunks": [CHUNK],
        "entities": [{"id": NAME, "name": "0", "kind": "person", "created_at": TIME}],
        "chunk_entities": [{"chunk_id": NAME, "entity_id": NAME}],
    })),
    ("mif2", {"mif_version": "2.0", "memories": [], "todos": [TODO, TODO]}),
    ("mif-ld", corpus([
        LINKED | {"@id": "urn:mif:one"}, LINKED | {"@id": "urn:mif:two"},
        LINKED | {"@id": "urn:mif:three", "relationships": RELATED},
    ])),
]  # fmt: skip


def test_a_relation_that_was_taken_out_does_not_come_back() -> None:
    """A memory of which one relation is gone is not what it was."""
    document = ODD[2][1]
    bundle = json.loads(converted(load(document, "mif-ld"), "aimem")[0])
    assert len(bundle["edges"]) == 2
    del bundle["edges"][0]
    back = load(sealed(bundle), "aimem")
    assert same_document(
        json.loads(formats.dump(back, format="aimem").data), sealed(bundle), "aimem"
    )
    again = json.loads(formats.dump(back, format="mif-ld", local=True).data)
    ids = {one["payload"]["@id"] for one in again["records"]}
    assert len(ids) == 3 and {"urn:mif:one", "urn:mif:two"} < ids
    assert "a:one" not in json.dumps(again) and "a:two" in json.dumps(again)


OURS = {"name": "omsgrain", "version": og.__version__}
THEIRS = {"name": "other", "version": "1"}
#: Two of each, in the array that a document of the format has for them.
TWO: dict[str, tuple[str, dict[str, Any]]] = {
    "aimem": ("chunks", {
        "format": "aimem-bundle", "version": "1", "producer": "a", "scope": "FULL",
        "tenant_id": TENANT, "exported_at": TIME,
        "chunks": [{"id": f"urn:aimem:a:{name}", "content": name, "memory_type": "fact",
                    "created_at": TIME} for name in ("one", "two")],
    }),
    "mif2": ("memories", {"mif_version": "2.0", "export_meta": {"user_id": TENANT}, "memories": [
        {"id": f"a1b2c3d4-e5f6-4890-abcd-ef123456789{end}", "content": end, "created_at": TIME}
        for end in "12"]}),
    "mif1": ("memories", {"mif_version": "1.0", "export": {"user_id": TENANT}, "memories": [
        {"id": f"mem_{end}", "content": end, "type": "Task", "created_at": TIME}
        for end in "12"]}),
    "mif-ld": ("records", corpus([LINKED | {"@id": f"urn:mif:{end}"} for end in "12"])),
}  # fmt: skip


@pytest.mark.parametrize(("one", "other"), [pair for pair in PAIRS if pair[1] in ("mif1", "mif2")])
@pytest.mark.parametrize("strict", [False, True])
def test_a_conversion_says_what_wrote_it(one: str, other: str, strict: bool) -> None:
    """Where the document that it was made of says nothing of that; or it says what that says."""
    document = TWO[one][1]
    loaded = load(sealed(document) if one == "aimem" else document, one)
    made = json.loads(formats.dump(loaded, format=other, strict=strict).data)
    assert made["generator"] == OURS
    assert list(made).index("generator") == list(made).index("mif_version") + 1
    if one in ("mif1", "mif2"):
        named = load(document | {"generator": THEIRS}, one)
        made = json.loads(formats.dump(named, format=other, strict=strict).data)
        assert made["generator"] == THEIRS


def test_half_a_generator_is_none_where_both_halves_are_needed() -> None:
    loaded = load(TWO["mif1"][1] | {"generator": {"name": "other"}}, "mif1")
    made, losses = converted(loaded, "mif2", strict=True)
    assert json.loads(made)["generator"] == OURS
    assert [loss.field for loss in losses if not loss.record] == ["generator"]


#: No generator, that of this version and of another one; and of a document that somebody changed.
#: MIF 2.0 refuses those that are no object of two texts.
GENERATORS: list[tuple[Any, bool]] = [
    (None, False), (OURS, True), (OURS | {"version": "0.0.1"}, True),
    (THEIRS, False), (OURS | {"x": 1}, False),
]  # fmt: skip
ODD_GENERATORS: list[tuple[Any, bool]] = [("omsgrain", False), (OURS | {"version": 1}, False)]


@pytest.mark.parametrize(
    ("one", "other", "generator", "whole"),
    [(*pair, *case) for pair in PAIRS if pair[1] in ("mif1", "mif2")
     for case in GENERATORS + (ODD_GENERATORS if pair[1] == "mif1" else [])],
)  # fmt: skip
def test_documents_of_all_versions_return(
    one: str, other: str, generator: Any, whole: bool
) -> None:
    document = sealed(TWO[one][1]) if one == "aimem" else TWO[one][1]
    loaded = load(document, one)
    made = json.loads(formats.dump(loaded, format=other, local=True).data)
    made["generator"] = generator
    if generator is None:
        del made["generator"]
    made = (MIF1.sealed if other == "mif1" else MIF2.sealed)(made)
    back = load(made, other)
    assert (
        {one.address for one in back.grains} == {one.address for one in loaded.grains}
    ) is whole
    data = formats.dump(back, format=one, local=True).data
    assert data == formats.dump(loaded, format=one, local=True).data


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_removed_or_broken_records_stop_nothing(one: str, other: str) -> None:
    """The document that the records were of lists one that is not there any more."""
    (array, document), there = TWO[one], TWO[other][0]
    loaded = load(sealed(document) if one == "aimem" else document, one)
    for broken in (False,) if other == "aimem" else (False, True):
        made = json.loads(formats.dump(loaded, format=other, user_id=TENANT).data)
        first = made[there][0]
        if broken:
            del first.get("payload", first)["content"]
        else:
            del made[there][0]
        unsummed(made)
        back = load(sealed(made) if other == "aimem" else made, other)
        assert len(back.problems) == broken
        again = json.loads(formats.dump(back, format=one, user_id=TENANT).data)
        assert len(again[array]) == 1


@pytest.mark.parametrize(("one", "document"), ODD)
def test_odd_ones_there_and_back(one: str, document: dict[str, Any]) -> None:
    for other in (other for here, other in PAIRS if here == one):
        there_and_back(document, one, other)
