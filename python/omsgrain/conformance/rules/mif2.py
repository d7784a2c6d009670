# SPDX-License-Identifier: Apache-2.0
"""MIF 2.0: what a document is, what becomes of it, and what a memory server offers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from omsgrain import formats
from omsgrain.conformance.bench import Bench
from omsgrain.conformance.edits import GONE
from omsgrain.conformance.rule import Table, Tried
from omsgrain.conformance.rules.documents import MIF2, Case, case, judged, spelled
from omsgrain.formats.mif2 import document

_rule: Final = Table("mif2")
RULES: Final = _rule.rules

MINIMAL: Final = {"mif_version": "2.0", "memories": []}
UUID: Final = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
OTHER: Final = "b2c3d4e5-f6a7-4901-acde-f12345678901"
"""The id of the second memory of the good document."""
M = "/memories/0"
X = "/export_meta"
E = "/knowledge_graph/entities/0"
R = "/knowledge_graph/relationships/0"


def judge(data: bytes) -> list[str]:
    """What is wrong with a document, and after a ``~`` what is told of it."""
    found = document.validate(data)
    said = [f"{one.rule} {one.pointer}".strip() for one in (*found.faults, *found.problems)]
    return said + [f"~{one.rule} {one.pointer}".strip() for one in found.warnings]


def _add(id: str, section: str, text: str, *cases: Case, must: bool = True) -> None:
    _rule.add(id, section, text, judged(judge, MIF2, *cases), must=must)


def _typed(
    id: str, section: str, text: str, pointer: str, good: list[Any], *bad: Any, must: bool = True
) -> None:
    """A member that may be absent, its good values, and those of a wrong type."""
    _add(
        id,
        section,
        text,
        *(case(pointer, value) for value in [GONE, *good]),
        *(case(pointer, value, "invalid_type") for value in bad),
        must=must,
    )


# fmt: off
# §1
_add("document.version", "1", "mif_version is required, a string",
     case("/mif_version", GONE, "missing_field"), case("/mif_version", 2.0, "invalid_type"),
     case("/mif_version", None, "invalid_type"))
_add("document.memories", "1", "memories is required, an array",
     case("/memories", GONE, "missing_field"), case("/memories", {}, "invalid_type"),
     case("/memories", None, "invalid_type"), case("/memories", []))
_add("document.generator", "1", "generator, if it is there, has a name and a version",
     case("/generator", GONE), case("/generator", [], "invalid_type"),
     case("/generator/name", GONE, "missing_field"),
     case("/generator/version", GONE, "missing_field"))
_typed("document.export-meta", "1", "export_meta is an object", X, [{}], "x", [], 7)
_typed("export.id", "1", "export_meta.id is a string", f"{X}/id", [UUID], 7, None)
_typed("export.created", "1", "export_meta.created_at is a string",
       f"{X}/created_at", ["2026-03-03T10:00:00Z"], 7)
_typed("export.user", "1", "export_meta.user_id is a string", f"{X}/user_id", ["user-1"], 7, None)
_typed("export.checksum", "1", "export_meta.checksum is a string",
       f"{X}/checksum", ["sha256:" + "AB" * 32], 7)
_add("export.checksum.any", "1", "A checksum is not judged: no text says what it is made of",
     case(f"{X}/checksum", "sha256:" + "00" * 32),
     case(f"{X}/checksum", "sha256:abc123...", "~invalid_checksum"))
_typed("privacy.detected", "5", "privacy.pii_detected is a boolean",
       f"{X}/privacy/pii_detected", [True, False], "no", 1)
_typed("privacy.fields", "5", "privacy.redacted_fields is an array of strings",
       f"{X}/privacy/redacted_fields", [[], ["email", "phone"]], "email")
_typed("document.graph", "3", "knowledge_graph is an object, or null",
       "/knowledge_graph", [None, {}], [], "x")
_typed("document.vendors", "4", "vendor_extensions is an object",
       "/vendor_extensions", [{}, {"shodh-memory": {"x": [1, None]}}], [], "x")
_add("document.unknown", "6", "Members that nobody knows are ignored, at every level",
     case("/x_new", {"a": [1]}), case(f"{M}/x_new", 1), case(f"{M}/source/x_new", None),
     case(f"{M}/entities/0/x_new", "x"), case(f"{E}/x_new", 7), case(f"{X}/x_new", []))
# fmt: on


@_rule("document.json", "1", "A document is a JSON object")
def _json(_: Bench) -> Iterator[Tried]:
    for text, rule in (
        (b"", "not_json"),
        (b"[]", "not_object"),
        (b"null", "not_object"),
        (b'{"mif_version":"2.0","memories":[', "not_json"),
        (b'{"mif_version":"2.0","memories":[],"x":NaN}', "not_json"),
        (b'{"mif_version":"2.0","memories":[],"memories":[]}', "not_json"),
        (b'{"mif_version":"2.0","memories":[],"x":"\\ud800"}', "not_json"),
    ):
        yield Tried(text.decode() or "nothing", [rule], [said.split()[0] for said in judge(text)])


@_rule("document.minimal", "1", "mif_version and memories alone are a document")
def _minimal(_: Bench) -> Iterator[Tried]:
    yield Tried('{"mif_version": "2.0", "memories": []}', [], judge(spelled(MINIMAL)))
    found = formats.load(spelled(MINIMAL))
    yield Tried("loaded", "mif2", found.format)


@_rule("document.depth", "1", "What is nested too deep is refused, whatever its size", must=False)
def _deep(_: Bench) -> Iterator[Tried]:
    for count in (1_000, 100_000):
        text = b'{"mif_version":"2.0","memories":[],"x":' + b"[" * count + b"]" * count + b"}"
        yield Tried(f"{count} arrays", ["too_deep"], judge(text))


# fmt: off
# §2
for _name in ("id", "content", "created_at"):
    _add(f"memory.{_name}", "2", f"{_name} is required, a string",
         case(f"{M}/{_name}", GONE, "missing_field"), case(f"{M}/{_name}", 7, "invalid_type"),
         case(f"{M}/{_name}", None, "invalid_type"))
_add("memory.object", "2", "A memory is an object", case(M, 7, "not_object"),
     case(M, None, "not_object"), case(M, [], "not_object"))
_add("memory.id.uuid", "2", "An id that is no UUID is taken, and told",
     case(f"{M}/id", "mem-1", "~invalid_uuid"), must=False)
_add("memory.created.form", "2", "A time that is none is taken as it is, and told",
     case(f"{M}/created_at", "today", "~invalid_timestamp"), must=False)
_typed("memory.type", "2", "memory_type is a string", f"{M}/memory_type", ["decision"], None, 7,
       [])
_typed("memory.updated", "2", "updated_at is a string",
       f"{M}/updated_at", ["2026-02-21T09:15:00Z"], 7, None)
_add("memory.updated.order", "2", "Changed before it was made is told",
     case(f"{M}/updated_at", "2026-02-20T10:14:59+01:00", "~times_out_of_order"), must=False)
_typed("memory.tags", "2", "tags is an array of strings", f"{M}/tags", [[], ["a", "a"]], "a", {})
_add("memory.tags.each", "2", "Each tag is a string", case(f"{M}/tags/1", 7, "invalid_type"),
     case(f"{M}/tags/0", None, "invalid_type"))
_typed("memory.entities", "2", "entities is an array", f"{M}/entities", [[]], {}, "x")
_typed("memory.metadata", "2", "metadata is an object of anything",
       f"{M}/metadata", [{}, {"a": [1, None, {"b": 1e300}]}], [], "x")
_typed("memory.embeddings", "2", "embeddings is an object", f"{M}/embeddings", [], None, [], "x")
_typed("memory.source", "2", "source is an object", f"{M}/source", [{}], None, "x", [])
_typed("memory.parent", "2", "parent_id is a string or null", f"{M}/parent_id", [None, OTHER],
       7)
_typed("memory.related", "2", "related_memory_ids is an array of strings",
       f"{M}/related_memory_ids", [[], [OTHER]], "x", {})
_add("memory.reference", "2", "A reference to a memory that is not there is taken, and told",
     case(f"{M}/parent_id", UUID, "~unknown_reference"),
     case(f"{M}/related_memory_ids/0", UUID, "~unknown_reference"), must=False)
_add("memory.related.each", "2", "Each related id is a string",
     case(f"{M}/related_memory_ids/0", None, "invalid_type"))
_typed("memory.agent", "2", "agent_id is a string or null", f"{M}/agent_id", [None, "a"], 7)
_typed("memory.external", "2", "external_id is a string or null", f"{M}/external_id", [None, "x"],
       7)
_typed("memory.version", "2", "version is an integer", f"{M}/version", [1, 2**40], "1", True, 1.5)
_add("memory.version.least", "2", "version is 1 at the least",
     case(f"{M}/version", 0, "out_of_range"), case(f"{M}/version", -1, "out_of_range"))
for _type in "observation decision learning error context conversation".split():
    _add(f"type.{_type}", "2.1", f"The type {_type} is taken", case(f"{M}/memory_type", _type))
_add("type.unknown", "2.1", "Types that nobody knows are taken", case(f"{M}/memory_type", "dream"),
     case(f"{M}/memory_type", "half_remembered_song"))
_add("type.spelling", "2.1", "A type that is not in snake_case is taken, and told",
     case(f"{M}/memory_type", "Dream State", "~invalid_memory_type"), must=False)
_add("entity-ref.name", "2.2", "A reference has a name, a string",
     case(f"{M}/entities/0/name", GONE, "missing_field"), case(f"{M}/entities/0", "x",
                                                               "invalid_type"),
     case(f"{M}/entities/0/name", 7, "invalid_type"))
_add("entity-ref.type", "2.2", "entity_type is a string, of any words",
     *(case(f"{M}/entities/0/entity_type", word) for word in
       "person organization location technology concept event product unknown robot".split()),
     case(f"{M}/entities/0/entity_type", 7, "invalid_type"))
_add("entity-ref.confidence", "2.2", "confidence is a number from 0 to 1",
     case(f"{M}/entities/0/confidence", 0), case(f"{M}/entities/0/confidence", 1),
     case(f"{M}/entities/0/confidence", 1.5, "out_of_range"),
     case(f"{M}/entities/0/confidence", -0.1, "out_of_range"),
     case(f"{M}/entities/0/confidence", "high", "invalid_type"))
_V = f"{M}/embeddings"
_add("embedding.members", "2.3", "An embedding has model, dimensions and vector",
     *(case(f"{_V}/{name}", GONE, "missing_field") for name in ("model", "dimensions", "vector")),
     case(f"{_V}/normalized", GONE))
_add("embedding.kinds", "2.3", "model is a string, dimensions an integer, vector numbers",
     case(f"{_V}/model", 7, "invalid_type"), case(f"{_V}/dimensions", 1.5, "invalid_type"),
     case(f"{_V}/vector/1", "0.1", "invalid_type"), case(f"{_V}/vector/1", True, "invalid_type"),
     case(f"{_V}/normalized", 1, "invalid_type"), case(f"{_V}/dimensions", 0, "out_of_range"))
_add("embedding.length", "2.3", "dimensions equals the length of the vector, else it is told",
     Case({f"{_V}/dimensions": 384}, f"~dimension_mismatch {_V}/vector"),
     Case({f"{_V}/vector": [0.5]}, f"~dimension_mismatch {_V}/vector"))
for _name in ("source_type", "session_id", "agent_name"):
    _typed(f"source.{_name}", "2", f"source.{_name} is a string", f"{M}/source/{_name}", ["x"], 7)

# §3
_add("graph.entity", "3", "An entity has an id and a name",
     case(f"{E}/id", GONE, "missing_field"), case(f"{E}/name", GONE, "missing_field"),
     case(f"{E}/id", 7, "invalid_type"), case(E, [], "not_object"))
_add("graph.entity.kinds", "3", "types is an array of strings, attributes an object, summary text",
     case(f"{E}/types", "x", "invalid_type"), case(f"{E}/attributes", [], "invalid_type"),
     case(f"{E}/summary", 7, "invalid_type"), case(f"{E}/attributes", {"n": 7, "deep": [None]}))
for _name in ("id", "source_entity_id", "target_entity_id", "relation_type"):
    _add(f"graph.relationship.{_name}", "3", f"A relationship has {_name}, a string",
         case(f"{R}/{_name}", GONE, "missing_field"), case(f"{R}/{_name}", 7, "invalid_type"))
_add("graph.relationship.confidence", "3", "confidence is a number from 0 to 1",
     case(f"{R}/confidence", 1), case(f"{R}/confidence", -0.1, "out_of_range"),
     case(f"{R}/confidence", "x", "invalid_type"))
_add("graph.relationship.ends", "3", "An end that is no entity of the document is told",
     case(f"{R}/target_entity_id", "ent-009", "~unknown_entity"), must=False)

# §8
_add("version.later", "8", "Any 2.x is taken", case("/mif_version", "2.7", "~later_version"),
     case("/mif_version", "2.10", "~later_version"))
_add("version.other", "8", "Another major version is refused",
     *(case("/mif_version", text, "unsupported_version") for text in
       ("3.0", "1.0", "20.1", "2", "", "v2.0")))
# fmt: on
