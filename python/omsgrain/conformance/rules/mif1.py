# SPDX-License-Identifier: Apache-2.0
"""MIF 1.0: what a document is, in which layouts, sealed or not."""

from __future__ import annotations

from typing import Final

from omsgrain.conformance.edits import GONE
from omsgrain.conformance.rule import Table
from omsgrain.conformance.rules.documents import MIF1, Case, case, judged
from omsgrain.formats.mif1 import document

_rule: Final = Table("mif1")
RULES: Final = _rule.rules

M = "/memories/0"
T = "/todos/0"
G = "/graph/edges/0"


def judge(data: bytes) -> list[str]:
    """What is wrong with a document, and after a ``~`` what is told of it."""
    found = document.validate(data)
    said = [f"{one.rule} {one.pointer}".strip() for one in (*found.faults, *found.problems)]
    return said + [f"~{one.rule} {one.pointer}".strip() for one in found.warnings]


def _add(id: str, section: str, text: str, *cases: Case, must: bool = True) -> None:
    _rule.add(id, section, text, judged(judge, MIF1, *cases), must=must)


# fmt: off
# §9: what an importer must do first
_add("version.checked", "9", "mif_version is checked, and must be there",
     case("/mif_version", GONE, "missing_field"), case("/mif_version", None,
                                                       "unsupported_version"),
     case("/mif_version", True, "unsupported_version"))
_add("version.major", "9", "Another major version is refused",
     *(case("/mif_version", text, "unsupported_version") for text in ("2.0", "10.0", "0.9", "1.x",
                                                                      2.0)))
_add("version.minor", "9", "A later minor version is taken, and told",
     case("/mif_version", "1.3", "~later_version"))
_add("unknown.ignored", "9", "Members that nobody knows are ignored, at every level",
     case("/x_new", [1]), case(f"{M}/x_new", None), case(f"{M}/source/x_new", 1),
     case(f"{T}/x_new", {}), case(f"{G}/x_new", 1), case("/consent/x_new", "x"))
# §2
_add("document.memories", "2", "memories is an array of objects",
     case("/memories", {}, "invalid_type"), case(M, 7, "not_object"), case(M, "x", "not_object"))
_add("document.todos", "2", "todos, if it is there, is an array",
     case("/todos", "x", "invalid_type"),
     Case({"/todos": GONE, "/metadata": GONE}))
_add("document.graph", "2", "graph, if it is there, is an object",
     case("/graph", [], "invalid_type"), case("/graph", GONE))
_add("document.metadata", "7", "metadata, if it is there, is an object; it may be absent",
     case("/metadata", GONE), case("/metadata", [], "~invalid_type"))
_add("document.export", "2", "export is an object", case("/export", "x", "invalid_type"))
_add("export.members", "2", "export has an id, created_at and user_id; else it is told",
     *(case(f"/export/{name}", GONE, "~missing_field") for name in ("id", "created_at",
                                                                    "user_id")),
     must=False)
_add("export.checksum", "2", "A checksum is sha256: and 64 hex digits; another is told",
     case("/export/checksum", "sha256:abcdef1234567890...", "~invalid_checksum"),
     case("/export/checksum", "sha256:" + "0a" * 32, "~unknown_checksum"), must=False)
_add("document.generator", "2", "generator has a name and a version; else it is told",
     case("/generator", "shodh", "~invalid_type"), case("/generator", GONE), must=False)
# §3
for _name in ("id", "content", "type", "created_at"):
    _add(f"memory.{_name}", "3", f"{_name} is required, a string",
         case(f"{M}/{_name}", GONE, "missing_field"), case(f"{M}/{_name}", 7, "invalid_type"))
_add("memory.id.form", "3", "id is mem_ and hex digits or dashes; another is taken, and told",
     case("/memories/1/id", "mem_e5f6g7h8", "~id_form"), must=False)
_add("memory.created.form", "3", "created_at is an ISO 8601 time",
     case(f"{M}/created_at", "yesterday", "invalid_timestamp"))
_add("memory.times", "3", "updated_at and accessed_at are times; others are told",
     case(f"{M}/updated_at", "soon", "~invalid_timestamp"),
     case(f"{M}/accessed_at", "soon", "~invalid_timestamp"), must=False)
_add("memory.access-count", "3", "access_count is an integer from 0",
     case(f"{M}/access_count", True, "invalid_type"), case(f"{M}/access_count", "7",
                                                           "invalid_type"),
     case(f"{M}/access_count", -1, "~out_of_range"))
_add("memory.tags", "3", "tags is an array of strings",
     case(f"{M}/tags", "lmdb", "invalid_type"), case(f"{M}/tags/1", 7, "invalid_type"),
     case(f"{M}/tags", []), case(f"{M}/tags", ["a,b", "c"]))
_add("memory.source", "3", "source is an object of strings",
     case(f"{M}/source", "chat", "invalid_type"), case(f"{M}/source/agent", 7, "invalid_type"),
     case(f"{M}/source/session_id", 7, "invalid_type"), case(f"{M}/source", GONE))
_add("memory.source.type", "3", "A source of another type is taken, and told",
     case(f"{M}/source/type", "dream", "~unknown_value"), must=False)
_add("memory.entities", "3", "An entity has a text, a type and a confidence",
     case(f"{M}/entities/0", "LMDB", "invalid_type"),
     case(f"{M}/entities/0/text", GONE, "missing_field"),
     case(f"{M}/entities/0/text", 7, "invalid_type"))
_add("memory.content.length", "3", "Contents of 1 to 100,000 characters; others are told",
     case(f"{M}/content", "", "~content_length"), case(f"{M}/content", "x" * 100_000),
     case(f"{M}/content", "x" * 100_001, "~content_length"), must=False)
# §3.1
for _type in ("Observation Decision Learning Error Discovery Pattern Context Task "
              "Conversation").split():
    _add(f"type.{_type.lower()}", "3.1", f"The type {_type} is taken",
         Case({f"{M}/type": _type, "/metadata": GONE}))
_add("type.unknown", "3.1", "Another type is taken, and told",
     Case({f"{M}/type": "Dream", "/metadata": GONE}, f"~unknown_value {M}/type"), must=False)
# §3.2
_add("importance.range", "3.2", "importance is a number from 0 to 1",
     *(case(f"{M}/importance", value) for value in (0, 0.0, 0.19, 0.2, 0.5, 0.8, 1)),
     case(f"{M}/importance", 1.1, "out_of_range"), case(f"{M}/importance", -0.1, "out_of_range"),
     case(f"{M}/importance", "high", "invalid_type"))
# §3.3
_V = f"{M}/embedding"
_add("embedding.kinds", "3.3", "An embedding has a model, dimensions, and a vector of numbers",
     case(_V, [], "invalid_type"), case(f"{_V}/vector", "AAAA", "invalid_type"),
     case(f"{_V}/dimensions", 1.5, "invalid_type"), case(_V, GONE))
_add("embedding.length", "3.3", "A vector of another length, or of no numbers, is kept and told",
     Case({f"{_V}/dimensions": 384}, f"~dimension_mismatch {_V}/vector"),
     Case({f"{_V}/vector": [0.5, "..."]}, f"~invalid_vector {_V}/vector"), must=False)
# §4
for _name in ("id", "content", "status", "created_at"):
    _add(f"todo.{_name}", "4", f"A todo has {_name}, a string",
         case(f"{T}/{_name}", GONE, "missing_field"), case(f"{T}/{_name}", 7, "invalid_type"))
_add("todo.statuses", "4", "status: backlog, todo, in_progress, blocked, done, cancelled",
     *(case(f"{T}/status", word) for word in
       "backlog todo in_progress blocked done cancelled".split()),
     case(f"{T}/status", "inprogress", "~unknown_value"))
_add("todo.priorities", "4", "priority: urgent, high, medium, low, none",
     *(case(f"{T}/priority", word) for word in "urgent high medium low none".split()),
     case(f"{T}/priority", "!!!", "~unknown_value"))
_add("todo.project", "4", "A todo's project is an object", case(f"{T}/project", "Garden",
                                                                "invalid_type"),
     case(f"{T}/project", GONE))
# §5
_add("graph.edges", "5", "edges is an array; each has source and target",
     case("/graph/edges", {}, "invalid_type"), case(f"{G}/source", GONE, "missing_field"),
     case(f"{G}/target", GONE, "missing_field"), case(f"{G}/target", 7, "invalid_type"))
_add("graph.weight", "5", "weight is a number; one beyond 0 to 1 is told",
     case(f"{G}/weight", "0.7", "invalid_type"), case(f"{G}/weight", 1.5, "~out_of_range"),
     case(f"{G}/weight", 0), case(f"{G}/weight", 1))
_add("graph.types", "5", "The five types of edges are taken",
     *(case(f"{G}/type", word) for word in
       "semantic_association entity_mention temporal_sequence causal user_linked".split()))
_add("graph.types.unknown", "5", "Another is taken, and told",
     case(f"{G}/type", "rhymes_with", "~unknown_value"), must=False)
_add("graph.ends", "5", "An edge of what is not in the document is told",
     case(f"{G}/target", "mem_ffff", "~unknown_end"), must=False)
_add("graph.counts", "5", "Counts that are not so are told",
     case("/graph/edge_count", 7, "~count_differs"), must=False)
# §6
_add("redaction.span", "6.1",
     "A redaction's position is as long as what was there; else it is told",
     case("/memories/1/redactions/0/position", [11, 44],
          "~redaction_span"), case("/memories/1/redactions", {}, "invalid_type"), must=False)
_add("consent.kinds", "6.3", "A consent says who, what for, how long, and whether it is shared",
     case("/consent", [], "invalid_type"), case("/consent/sharing_allowed", "no", "invalid_type"),
     case("/consent/retention_days", "30", "invalid_type"),
     case("/consent/retention_days", -1, "out_of_range"), case("/consent", GONE),
     case("/consent/retention_days", 0))
# §7
_add("metadata.counts", "7", "Totals that are not so are told",
     case("/metadata/total_memories", 7, "~count_differs"),
     case("/metadata/total_todos", 7, "~count_differs"), must=False)
# fmt: on
