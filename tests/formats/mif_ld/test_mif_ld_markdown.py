# SPDX-License-Identifier: Apache-2.0
"""Memories in Markdown, of both shapes: read, written, and what that does not hold."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given

from omsgrain import formats
from omsgrain.formats.mif_ld import markdown
from omsgrain.formats.mif_ld.format import MIF_LD
from omsgrain.formats.mif_ld.markdown import mirrors
from omsgrain.formats.problems import DocumentError
from support.mif_ld_documents import (
    CITATION,
    FULL,
    FULL_1X,
    MEMORIES_0_1,
    MEMORIES_1_X,
    MINIMAL,
    MINIMAL_1X,
)

OLD = """\
---
id: use-sqlite
type: semantic
created: 2026-01-26T10:00:00Z
namespace: _semantic/decisions
tags: [storage, no, 2026-01-26]
temporal:
  valid_from: 2026-01-26T00:00:00Z
  access_count: 3
  decay:
    model: exponential
    halfLife: P7D
provenance:
  source_type: user_explicit
  trust_level: user_stated
citations:
  - type: article
    role: supports
    title: When to use it
    url: https://example.org/x
---
# Storage

We use SQLite. ^b1

## Relationships

- supersedes [[use-files]]
- created-by [[urn:mif:entity:person:ada]]
- garden:GrowsBeside [[hedge]]

## Entities

- @[[SQLite|Technology]]
- @[[Ada]]
"""


def test_shape_0_1_is_read() -> None:
    document, warnings = markdown.read(OLD)
    assert warnings == ()
    assert document == {
        "@context": MINIMAL["@context"], "@type": "Memory", "@id": "urn:mif:use-sqlite",
        "memoryType": "semantic", "content": "# Storage\n\nWe use SQLite. ^b1",
        "created": "2026-01-26T10:00:00Z", "namespace": "_semantic/decisions",
        "tags": ["storage", "no", "2026-01-26"],
        "temporal": {"validFrom": "2026-01-26T00:00:00Z", "accessCount": 3,
                     "decay": {"model": "exponential", "halfLife": "P7D"}},
        "provenance": {"sourceType": "user_explicit", "trustLevel": "user_stated"},
        "citations": [{"@type": "Citation", "citationType": "article", "citationRole": "supports",
                       "title": "When to use it", "url": "https://example.org/x"}],
        "relationships": [
            _related("Supersedes", "urn:mif:use-files"),
            _related("Created", "urn:mif:entity:person:ada"),
            _related("garden:GrowsBeside", "urn:mif:hedge"),
        ],
        "entities": [
            {"@type": "EntityReference", "entity": {"@id": "urn:mif:entity:technology:sqlite"},
             "entityType": "Technology", "name": "SQLite"},
            {"@type": "EntityReference", "entity": {"@id": "urn:mif:entity:concept:ada"},
             "name": "Ada"},
        ],
    }  # fmt: skip
    loaded = formats.load(OLD.encode())
    assert (loaded.format, loaded.warnings) == ("mif-ld", ())
    assert formats.dump(loaded, format="mif-ld").data.decode() == OLD
    again, losses = markdown.write(document)
    assert losses == []
    assert markdown.read(again)[0] == document


def _related(kind: str, target: str) -> dict[str, Any]:
    return {"@type": "Relationship", "relationshipType": kind, "target": {"@id": target}}


def test_shape_1_x_is_read() -> None:
    text = """\
---
id: urn:mif:water
type: procedural
memoryType: semantic
created: 2026-01-26T10:00:00Z
relationships:
  - type: derived-from
    target: ../talk.md
properties: {cans: 2}
---

1. Fill.

## Relationships

- it is content here
"""
    document, _ = markdown.read(text)
    assert (document["@id"], document["conceptType"], document["memoryType"]) == (
        "urn:mif:water", "procedural", "semantic",
    )  # fmt: skip
    assert document["content"].endswith("- it is content here")
    assert formats.load(text.encode()).grains[0].type == "workflow"


def test_shape_1_x_in_json_repeats_the_time_and_the_summary() -> None:
    front = 'id: "a"\ntype: "semantic"\nmemoryType: "semantic"\n'
    front += 'created: "2026-01-26T10:00:00Z"\n'
    for more, told in (
        ("", {"timestamp": "2026-01-26T10:00:00Z"}),
        ('modified: "2026-02-01T00:00:00Z"\nsummary: "Short."\n',
         {"timestamp": "2026-02-01T00:00:00Z", "description": "Short."}),
    ):  # fmt: skip
        text = f"---\n{front}{more}---\n\nLong.\n"
        document = json.loads(
            formats.dump(formats.load(text.encode()), format="mif-ld", layout="document").data
        )
        mirrored = ("timestamp", "description")
        assert {name: document[name] for name in mirrored if name in document} == told
        again, losses = markdown.write(document)
        assert (again, losses) == (text, [])
        bare = {name: one for name, one in document.items() if name not in mirrored}
        assert markdown.write(bare) == (text, [])
        # What says something else is lost.
        other = document | {"timestamp": "2020-01-01T00:00:00Z", "description": "Else."}
        assert {field for _, field, _ in markdown.write(other)[1]} == {"timestamp", "description"}


def losses_of(document: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
    text, losses = markdown.write(document)
    shape: Any = "1.x" if "conceptType" in document else "0.1"
    assert {record for record, _, _ in losses} <= {document["@id"]}
    return markdown.read(text, shape)[0], {field for _, field, _ in losses}


#: Names in `entity` have an underscore in both shapes; they do not tell that this is shape 0.1.
WITH_ENTITY: dict[str, Any] = {
    "@context": "a:",
    "@type": "Concept",
    "@id": "urn:mif:m1",
    "conceptType": "semantic",
    "content": "x",
    "created": "2026-04-01T09:30:00Z",
    "entity": {"name": "", "entity_type": "plant"},
}


@given(MEMORIES_0_1)
def test_shape_0_1_without_losses_is_read_again(memory: dict[str, Any]) -> None:
    _read_again(memory, memory)


@example(WITH_ENTITY)
@given(MEMORIES_1_X)
def test_shape_1_x_without_losses_is_read_again(memory: dict[str, Any]) -> None:
    _read_again(memory, mirrors(memory) | memory)


def _read_again(memory: dict[str, Any], expected: dict[str, Any]) -> None:
    again, lost = losses_of(memory)
    top = {field.split("/")[0] for field in lost}
    for name in expected.keys() | again.keys():
        if name not in top:
            assert json.dumps(expected[name], sort_keys=True) == json.dumps(
                again[name], sort_keys=True
            )


def test_entity_names_do_not_decide_the_shape() -> None:
    again, lost = losses_of(WITH_ENTITY)
    assert (again["timestamp"], lost) == (WITH_ENTITY["created"], {"@context"})


def test_what_shape_0_1_loses() -> None:
    _, lost = losses_of(FULL)
    assert lost == {
        "entities", "relationships/0/strength", "relationships/0/metadata",
        "relationships/1/target/name", "relationships/1/strength", "blocks",
    }  # fmt: skip
    _, lost = losses_of(MINIMAL | {"@type": ["Memory"], "@context": "a:b", "content": " x\n"})
    assert lost == {"@type", "@context", "content"}


def test_what_shape_1_x_loses() -> None:
    assert losses_of(FULL_1X)[1] == {"@type"}
    assert losses_of(MINIMAL_1X)[1] == set()


@pytest.mark.parametrize(
    "id", ["urn:mif:a", "urn:mif:urn:mif:a", "urn:mif:", "urn:mif:urn:mif:", "urn:mif:memory:x"]
)
def test_the_prefix_is_there_once(id: str) -> None:
    again, lost = losses_of(MINIMAL | {"@id": id})
    assert (again["@id"], lost) == (id, set())


@pytest.mark.parametrize("target", ["a]]b", "a|b", "", "a\nb", " a", "a\u2028b"])
def test_names_that_no_link_can_hold_are_reported(target: str) -> None:
    whole = MINIMAL | {"relationships": [_related("Uses", f"urn:mif:{target}")]}
    again, lost = losses_of(whole)
    assert lost == {"relationships"} or again["relationships"] == whole["relationships"]


def test_a_content_that_looks_like_a_section() -> None:
    whole = MINIMAL | {"content": "x\n\n## Relationships\n\n- uses [[y]]"}
    again, lost = losses_of(whole)
    assert (again["content"], lost) == ("x", {"content", "relationships"})


@pytest.mark.parametrize("text", [
    "no front matter", "---\nid: a\n", "---\n- a\n---\nx", "---\nid: [\n---\nx",
    "---\nid: &a [*a]\n---\n", "---\nid: a\nid: b\ntype: semantic\n---\nx",
])  # fmt: skip
def test_unreadable_documents_are_refused(text: str) -> None:
    with pytest.raises(DocumentError):
        markdown.read(text)


def test_a_bad_memory_is_refused() -> None:
    with pytest.raises(DocumentError) as caught:
        MIF_LD.load(b"---\nid: a\ntype: fact\ncreated: 2026-01-01T00:00:00Z\n---\nx\n")
    assert caught.value.problems[0].pointer == "/memoryType"
    with pytest.raises(DocumentError):
        MIF_LD.load(b"---\nid: a\ntype: semantic\n---\n\xff")


def test_windows_lines_come_back() -> None:
    data = OLD.replace("\n", "\r\n").encode()
    loaded = MIF_LD.load(data)
    assert formats.dump(loaded, format="mif-ld").data == data
    assert json.loads(formats.dump(loaded, format="mif-ld", layout="document").data)[
        "@id"
    ].endswith("lite")


def test_unknown_members_are_kept_and_reported() -> None:
    loaded = MIF_LD.load(OLD.replace("tags:", "mood: good\ntags:").encode())
    assert [one.pointer for one in loaded.warnings] == ["/mood"]
    assert (
        json.loads(formats.dump(loaded, format="mif-ld", layout="document").data)["mood"] == "good"
    )


def test_an_author_of_several() -> None:
    whole = MINIMAL | {"citations": [CITATION | {"author": [CITATION["author"]]}]}
    assert losses_of(whole) == (whole, set())


def test_a_link_may_say_how_it_is_shown() -> None:
    data = (b"---\nid: a\ntype: semantic\ncreated: 2026-01-01T00:00:00Z\n---\n\nx\n"
            b"\n## Relationships\n\n- uses [[rake|the rake]]\n- uses [[can|]]\n")  # fmt: skip
    loaded = MIF_LD.load(data)
    whole = json.loads(formats.dump(loaded, format="mif-ld", layout="document").data)
    assert [one["target"]["@id"] for one in whole["relationships"]] == [
        "urn:mif:rake", "urn:mif:can"
    ]  # fmt: skip
    assert loaded.warnings == ()
    assert formats.dump(loaded, format="mif-ld").data == data


def test_a_section_that_is_content_is_reported() -> None:
    loaded = MIF_LD.load(b"---\nid: a\ntype: semantic\ncreated: 2026-01-01T00:00:00Z\n---\n\nx\n"
                          b"\n## Relationships\n\nIt uses [[y]], and more.\n")  # fmt: skip
    assert [(one.rule, one.pointer) for one in loaded.warnings] == [("section", "/content")]


@pytest.mark.parametrize("front", ["id: 5", "id: [a]", "id: a\ntags: 5", "id: a\ncitations: x",
                                   "id: a\nentities: {}\nrelationships: 5", "id: a\ntemporal: x",
                                   "id: ~", "id: a\ntitle: {}"])  # fmt: skip
def test_front_matter_of_other_types_is_refused_and_no_crash(front: str) -> None:
    data = f"---\n{front}\ntype: semantic\ncreated: 2026-01-01T00:00:00Z\n---\n\nx\n".encode()
    for mode in ("schema", "lenient", "extra"):
        with pytest.raises(DocumentError):
            MIF_LD.load(data, mode=mode)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"---\nid: x\nid: y\n---\nbody\n", 3),
        (b"---\r\nid: x\r\nid: y\r\n---\r\nbody\r\n", 3),
        (b"---\nid: x\ncreated: [\n---\nbody\n", 4),
        (b"---\nid: x\n---\nbody\n\xff\n", 5),
    ],
)
def test_lines_are_those_of_the_file(text: bytes, line: int) -> None:
    with pytest.raises(DocumentError) as caught:
        MIF_LD.load(text, layout="markdown")
    assert caught.value.problems[0].line == line
