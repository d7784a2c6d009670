# SPDX-License-Identifier: Apache-2.0
"""The fields of a document and of its records: one table for checks, schema, documents and tests.

The first shapes are the format's. The last ones are records that its reference implementation
writes besides: the format knows nothing of them, so they break no rule.
Spec: MIF 2.0 §1 to §5
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from omsgrain.formats.shapes.field import Field

__all__ = [
    "ARRAYS",
    "DIALECT",
    "FORMAT",
    "MAJOR",
    "REFERENCES",
    "SHAPES",
    "VERSION",
    "Kind",
]

Kind: TypeAlias = Literal[
    "memory", "entity", "relationship", "episode", "todo", "project", "reminder", "other"
]
"""Kinds of records; other is any value that stands where the dialect has a record."""

FORMAT: Final = "mif2"
VERSION: Final = "2.0"
"""What is written."""
MAJOR: Final = "2."
"""How a version begins that is read."""

ARRAYS: Final[dict[str, Kind]] = {
    "/memories": "memory",
    "/knowledge_graph/entities": "entity",
    "/knowledge_graph/relationships": "relationship",
    "/knowledge_graph/episodes": "episode",
    "/todos": "todo",
    "/projects": "project",
    "/reminders": "reminder",
}
"""The arrays whose items are records, in the order in which they are read."""
DIALECT: Final = frozenset({"episode", "todo", "project", "reminder"})
"""Records of the reference implementation. What is none of them is kept as it is."""
REFERENCES: Final[dict[str, dict[str, str]]] = {
    "memory": {
        "id": "memory",
        "parent_id": "memory",
        "related_memory_ids": "memory",
        "related_todo_ids": "todo",
    },
    "entity": {"id": "entity"},
    "relationship": {
        "id": "relationship",
        "source_entity_id": "entity",
        "target_entity_id": "entity",
    },
    "episode": {"id": "episode", "entity_ids": "entity"},
    "todo": {
        "id": "todo",
        "project_id": "project",
        "parent_id": "todo",
        "related_memory_ids": "memory",
        "blocked_by": "todo",
    },
    "project": {"id": "project"},
    "reminder": {"id": "reminder"},
}
"""Of each kind the members that hold ids of other records, and of which kind these are."""


def _need(
    name: str, kind: str, says: str, of: str | None = None, form: str | None = None
) -> Field:
    return Field(name, kind, says, required=True, of=of, form=form)


def _may(name: str, kind: str, says: str, of: str | None = None, form: str | None = None) -> Field:
    """An optional field of the dialect, whose writers spell what is missing as null."""
    return Field(name, kind, says, nullable=True, of=of, form=form)


SHAPES: Final[dict[str, tuple[Field, ...]]] = {
    "document": (
        _need("mif_version", "str", f"`{VERSION}`; every 2.x is read"),
        Field("generator", "object", "what wrote the document", of="generator"),
        Field("export_meta", "object", "about the export", of="export_meta"),
        _need("memories", "array", "the memories", "memory"),
        Field(
            "knowledge_graph", "object", "entities and relationships", nullable=True, of="graph"
        ),
        Field("vendor_extensions", "object", "data of systems, by the name of the system"),
    ),
    "generator": (
        _need("name", "str", "the name of the system"),
        _need("version", "str", "its version"),
    ),
    "export_meta": (
        Field("id", "str", "the id of the export", form="uuid"),
        Field("created_at", "str", "when it was made", form="time"),
        Field("user_id", "str", "whose memories they are"),
        Field("checksum", "str", "`sha256:` and hex digits", form="checksum"),
        Field("privacy", "object", "what was done about personal data", of="privacy"),
    ),
    "privacy": (
        Field("pii_detected", "bool", "whether there was personal data"),
        Field("redacted_fields", "array", "the kinds that were redacted", of="str"),
    ),
    "memory": (
        _need("id", "str", "a UUID of any version", form="uuid"),
        _need("content", "str", "the text, which may be empty"),
        _need("created_at", "str", "when it was made", form="time"),
        Field("memory_type", "str", "what kind of memory, in snake_case; any is kept"),
        Field("updated_at", "str", "when it was changed", form="time"),
        Field("tags", "array", "labels", of="str"),
        Field("entities", "array", "what the text names", of="entity_ref"),
        Field("metadata", "object", "anything else about it"),
        Field("embeddings", "object", "its vector", of="embeddings"),
        Field("source", "object", "where it came from", of="source"),
        Field("parent_id", "str", "the memory it belongs to", nullable=True, form="uuid"),
        Field("related_memory_ids", "array", "memories it is related to", of="str", form="uuid"),
        Field("agent_id", "str", "the agent that made it", nullable=True),
        Field("external_id", "str", "its id in another system", nullable=True),
        Field("version", "int", "how often it was written", least=1, hard=True),
    ),
    "entity_ref": (
        _need("name", "str", "its name"),
        Field("entity_type", "str", "what kind of thing it is"),
        Field("confidence", "number", "how sure that is, 0 to 1", least=0, most=1, hard=True),
    ),
    "embeddings": (
        _need("model", "str", "the model that made the vector"),
        Field("dimensions", "int", "the length of the vector", required=True, least=1, hard=True),
        _need("vector", "array", "the vector", "number"),
        Field("normalized", "bool", "whether its length is 1"),
    ),
    "source": (
        Field("source_type", "str", "user, system, api, file, web, ai_generated, inferred, ..."),
        Field("session_id", "str", "the session"),
        Field("agent_name", "str", "the agent"),
    ),
    "graph": (
        Field("entities", "array", "the entities", of="entity"),
        Field("relationships", "array", "how they are related", of="relationship"),
    ),
    "entity": (
        _need("id", "str", "its id, of any form"),
        _need("name", "str", "its name"),
        Field("types", "array", "what kinds of thing it is", of="str"),
        Field("attributes", "object", "anything else about it"),
        Field("summary", "str", "what it is, in words"),
        Field("created_at", "str", "when it was first seen", form="time"),
        Field("last_seen_at", "str", "when it was last seen", form="time"),
    ),
    "relationship": (
        _need("id", "str", "its id, of any form"),
        _need("source_entity_id", "str", "the entity it starts from"),
        _need("target_entity_id", "str", "the entity it leads to"),
        _need("relation_type", "str", "how they are related"),
        Field("context", "str", "in which text that was said"),
        Field("confidence", "number", "how sure that is, 0 to 1", least=0, most=1, hard=True),
        Field("created_at", "str", "when it was first seen", form="time"),
        Field("invalidated_at", "str", "until when it held", nullable=True, form="time"),
    ),
    # -- the dialect of the reference implementation --
    "episode": (
        _need("id", "str", "its id"),
        _need("name", "str", "its name"),
        _may("content", "str", "what happened"),
        _may("created_at", "str", "when", form="time"),
        _may("entity_ids", "array", "who and what took part", "str"),
        _may("source", "str", "where it came from"),
        _may("metadata", "object", "anything else about it"),
    ),
    "todo": (
        _need("id", "str", "its id", form="uuid"),
        _need("content", "str", "what is to be done"),
        _may("status", "str", "backlog, todo, in_progress, blocked, done or cancelled"),
        _may("priority", "str", "urgent, high, medium, low or none"),
        _may("created_at", "str", "when it was made", form="time"),
        _may("updated_at", "str", "when it was changed", form="time"),
        _may("due_date", "str", "by when it must be done", form="time"),
        _may("completed_at", "str", "when it was done", form="time"),
        _may("project_id", "str", "the project it belongs to"),
        _may("parent_id", "str", "the todo it is a part of"),
        _may("tags", "array", "labels", "str"),
        _may("contexts", "array", "where it can be done", "str"),
        _may("notes", "str", "anything else about it"),
        _may("blocked_on", "str", "what it waits for"),
        _may("recurrence", "str", "when it comes up again"),
        _may("comments", "array", "what was said about it", "comment"),
        _may("related_memory_ids", "array", "memories it is related to", "str"),
        _may("external_id", "str", "its id in another system"),
        _may("blocked_by", "array", "todos it waits for", "str"),
    ),
    "comment": (
        _need("id", "str", "its id"),
        _need("content", "str", "the text"),
        _may("created_at", "str", "when", form="time"),
        _may("comment_type", "str", "comment, progress, resolution or activity"),
        _may("author", "str", "who"),
    ),
    "project": (
        _need("id", "str", "its id"),
        _need("name", "str", "its name"),
        _may("created_at", "str", "when it was made", form="time"),
        _may("prefix", "str", "how the short ids of its todos begin"),
        _may("description", "str", "what it is about"),
        _may("status", "str", "active, onhold, completed or archived"),
        _may("color", "str", "how it is shown"),
        _may("icon", "str", "how it is shown"),
    ),
    "reminder": (
        _need("id", "str", "its id"),
        _need("content", "str", "of what to remind"),
        _need("trigger", "object", "when to remind", "trigger"),
        _may("status", "str", "pending, triggered, dismissed or expired"),
        _may("created_at", "str", "when it was made", form="time"),
        _may("priority", "int", "1 to 5"),
        _may("tags", "array", "labels", "str"),
        _may("triggered_at", "str", "when it was told", form="time"),
        _may("dismissed_at", "str", "when it was put aside", form="time"),
    ),
    "trigger": (
        _need("type", "str", "time, duration or context"),
        _may("at", "str", "the time", form="time"),
        _may("seconds", "number", "how long after `from`"),
        _may("from", "str", "when the duration begins", form="time"),
        _may("keywords", "array", "words that set it off", "str"),
        _may("threshold", "number", "how near the context must be"),
    ),
}
