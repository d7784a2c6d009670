# SPDX-License-Identifier: Apache-2.0
"""Whether a document and its records are what the format asks for; all defects, each once.

Spec: MIF 2.0 §1 to §4
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any, Final, Literal, TypeAlias

from omsgrain.formats.document import RecordItem
from omsgrain.formats.json_text import RULES as READING
from omsgrain.formats.json_text import JsonLimits, kind_of
from omsgrain.formats.records import instant
from omsgrain.formats.schema import (
    DocumentChecker,
    Form,
    Problems,
    SchemaField,
    Shapes,
    needed,
    nullable,
)
from omsgrain.formats.times import is_uuid

Kind: TypeAlias = Literal[
    "memory", "entity", "relationship", "episode", "todo", "project", "reminder", "other"
]
"""Kinds of records; other is any value in the place of a record of the dialect."""

FORMAT: Final = "mif2"
VERSION: Final = "2.0"
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
"""Records of the reference implementation. Any other value is kept as it is."""
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

SHAPES: Final[dict[str, tuple[SchemaField, ...]]] = {
    "document": (
        needed("mif_version", "str", f"`{VERSION}`; every 2.x is read"),
        SchemaField("generator", "object", "what wrote the document", of="generator"),
        SchemaField("export_meta", "object", "about the export", of="export_meta"),
        needed("memories", "array", "the memories", "memory"),
        nullable("knowledge_graph", "object", "entities and relationships", "graph"),
        SchemaField("vendor_extensions", "object", "data of other systems, by system name"),
    ),
    "generator": (
        needed("name", "str", "the name of the system"),
        needed("version", "str", "its version"),
    ),
    "export_meta": (
        SchemaField("id", "str", "the id of the export", form="uuid"),
        SchemaField("created_at", "str", "when it was made", form="time"),
        SchemaField("user_id", "str", "the user the memories belong to"),
        SchemaField("checksum", "str", "`sha256:` and hex digits", form="checksum"),
        SchemaField("privacy", "object", "what was done about personal data", of="privacy"),
    ),
    "privacy": (
        SchemaField("pii_detected", "bool", "whether there was personal data"),
        SchemaField("redacted_fields", "array", "the kinds that were redacted", of="str"),
    ),
    "memory": (
        needed("id", "str", "a UUID of any version", form="uuid"),
        needed("content", "str", "the text, which may be empty"),
        needed("created_at", "str", "when it was made", form="time"),
        SchemaField("memory_type", "str", "the memory type in snake_case; any value is kept"),
        SchemaField("updated_at", "str", "when it was changed", form="time"),
        SchemaField("tags", "array", "labels", of="str"),
        SchemaField("entities", "array", "entities in the text", of="entity_ref"),
        SchemaField("metadata", "object", "anything else about it"),
        SchemaField("embeddings", "object", "its vector", of="embeddings"),
        SchemaField("source", "object", "where it came from", of="source"),
        SchemaField("parent_id", "str", "the memory it belongs to", nullable=True, form="uuid"),
        SchemaField(
            "related_memory_ids", "array", "memories it is related to", of="str", form="uuid"
        ),
        SchemaField("agent_id", "str", "the agent that made it", nullable=True),
        SchemaField("external_id", "str", "its id in another system", nullable=True),
        SchemaField("version", "int", "its version, counted from 1", least=1, hard=True),
    ),
    "entity_ref": (
        needed("name", "str", "its name"),
        SchemaField("entity_type", "str", "what kind of thing it is"),
        SchemaField("confidence", "number", "confidence, 0 to 1", least=0, most=1, hard=True),
    ),
    "embeddings": (
        needed("model", "str", "the model that made the vector"),
        needed("dimensions", "int", "the length of the vector", least=1, hard=True),
        needed("vector", "array", "the vector", "number"),
        SchemaField("normalized", "bool", "whether its length is 1"),
    ),
    "source": (
        SchemaField(
            "source_type", "str", "user, system, api, file, web, ai_generated, inferred, ..."
        ),
        SchemaField("session_id", "str", "the session"),
        SchemaField("agent_name", "str", "the agent"),
    ),
    "graph": (
        SchemaField("entities", "array", "the entities", of="entity"),
        SchemaField("relationships", "array", "how they are related", of="relationship"),
    ),
    "entity": (
        needed("id", "str", "its id, of any form"),
        needed("name", "str", "its name"),
        SchemaField("types", "array", "what kinds of thing it is", of="str"),
        SchemaField("attributes", "object", "anything else about it"),
        SchemaField("summary", "str", "what it is, in words"),
        SchemaField("created_at", "str", "when it was first seen", form="time"),
        SchemaField("last_seen_at", "str", "when it was last seen", form="time"),
    ),
    "relationship": (
        needed("id", "str", "its id, of any form"),
        needed("source_entity_id", "str", "the entity it starts from"),
        needed("target_entity_id", "str", "the entity it leads to"),
        needed("relation_type", "str", "how they are related"),
        SchemaField("context", "str", "the text it comes from"),
        SchemaField("confidence", "number", "confidence, 0 to 1", least=0, most=1, hard=True),
        SchemaField("created_at", "str", "when it was first seen", form="time"),
        SchemaField(
            "invalidated_at", "str", "when it stopped being true", nullable=True, form="time"
        ),
    ),
    # -- the dialect of the reference implementation --
    "episode": (
        needed("id", "str", "its id"),
        needed("name", "str", "its name"),
        nullable("content", "str", "what happened"),
        nullable("created_at", "str", "when", form="time"),
        nullable("entity_ids", "array", "entities that took part", "str"),
        nullable("source", "str", "where it came from"),
        nullable("metadata", "object", "anything else about it"),
    ),
    "todo": (
        needed("id", "str", "its id", form="uuid"),
        needed("content", "str", "what is to be done"),
        nullable("status", "str", "backlog, todo, in_progress, blocked, done or cancelled"),
        nullable("priority", "str", "urgent, high, medium, low or none"),
        nullable("created_at", "str", "when it was made", form="time"),
        nullable("updated_at", "str", "when it was changed", form="time"),
        nullable("due_date", "str", "when it is due", form="time"),
        nullable("completed_at", "str", "when it was done", form="time"),
        nullable("project_id", "str", "the project it belongs to"),
        nullable("parent_id", "str", "the todo it is a part of"),
        nullable("tags", "array", "labels", "str"),
        nullable("contexts", "array", "where it can be done", "str"),
        nullable("notes", "str", "anything else about it"),
        nullable("blocked_on", "str", "what it waits for"),
        nullable("recurrence", "str", "how often it repeats"),
        nullable("comments", "array", "comments on it", "comment"),
        nullable("related_memory_ids", "array", "memories it is related to", "str"),
        nullable("external_id", "str", "its id in another system"),
        nullable("blocked_by", "array", "todos it waits for", "str"),
    ),
    "comment": (
        needed("id", "str", "its id"),
        needed("content", "str", "the text"),
        nullable("created_at", "str", "when", form="time"),
        nullable("comment_type", "str", "comment, progress, resolution or activity"),
        nullable("author", "str", "who"),
    ),
    "project": (
        needed("id", "str", "its id"),
        needed("name", "str", "its name"),
        nullable("created_at", "str", "when it was made", form="time"),
        nullable("prefix", "str", "how the short ids of its todos begin"),
        nullable("description", "str", "what it is about"),
        nullable("status", "str", "active, onhold, completed or archived"),
        nullable("color", "str", "how it is shown"),
        nullable("icon", "str", "how it is shown"),
    ),
    "reminder": (
        needed("id", "str", "its id"),
        needed("content", "str", "what to remind of"),
        needed("trigger", "object", "when to remind", "trigger"),
        nullable("status", "str", "pending, triggered, dismissed or expired"),
        nullable("created_at", "str", "when it was made", form="time"),
        nullable("priority", "int", "1 to 5"),
        nullable("tags", "array", "labels", "str"),
        nullable("triggered_at", "str", "when it went off", form="time"),
        nullable("dismissed_at", "str", "when it was dismissed", form="time"),
    ),
    "trigger": (
        needed("type", "str", "time, duration or context"),
        nullable("at", "str", "the time", form="time"),
        nullable("seconds", "number", "how long after `from`"),
        nullable("from", "str", "when the duration begins", form="time"),
        nullable("keywords", "array", "words that set it off", "str"),
        nullable("threshold", "number", "the similarity that the context needs"),
    ),
}


RULES: Final[dict[str, str]] = {
    **READING,
    "not_object": "the value must be an object",
    "checksum_mismatch": "the checksum does not match the document",
    "unsupported_version": "the version is not supported",
    "missing_field": "a required field is missing",
    "invalid_type": "the value has the wrong type",
    "too_many_bad": "the document has too many bad records",
    "out_of_range": "the number is out of range",
}
"""Breaking one of them around the records refuses the document; in a record, that record."""

WARNINGS: Final[dict[str, str]] = {
    "later_version": "the minor version is newer: its new fields are kept, not interpreted",
    "invalid_checksum": "the checksum has the wrong form",
    "invalid_uuid": "the id is not a UUID",
    "invalid_timestamp": "the time is invalid",
    "invalid_memory_type": "the memory type is not in snake_case",
    "times_out_of_order": "`updated_at` is before `created_at`",
    "duplicate_id": "the id appears twice",
    "duplicate_content": "the content appears twice: the record is kept, but not recalled",
    "dimension_mismatch": "the vector has the wrong length: it is kept, but not searched",
    "unknown_entity": "the entity is not in the document",
    "foreign_record": "the record's dialect is unknown: the record is kept, not interpreted",
    "unknown_reference": "the referenced record is not in the document",
    "owner_not_kept": "no grain can hold this user id: the grains have no owner",
}


LIMITS = JsonLimits()

_CHECKSUM = re.compile(r"sha256:[0-9A-Fa-f]+")
_SNAKE = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
_FORMS: Final = {
    "uuid": Form("invalid_uuid", "8-4-4-4-12 hex digits", is_uuid, like="uuid"),
    "time": Form("invalid_timestamp", "such as 2026-03-03T10:00:00Z", instant, like="time"),
    "checksum": Form("invalid_checksum", "sha256: and hex digits", _CHECKSUM.fullmatch),
}
_SHAPES: Final = Shapes(SHAPES, _FORMS, records=frozenset(ARRAYS.values()))

_REFERENCES: Final = {kind: of for kind, of in REFERENCES.items() if kind != "relationship"}
"""Those that are looked at once all records are known; the ends of a relationship have a rule."""


class Mif2Checker(DocumentChecker):
    """Checks one document. It keeps only hashes of ids and contents."""

    shapes = _SHAPES
    rules = RULES
    told = WARNINGS
    references = _REFERENCES

    def document(self, document: Any, line: int | None = None) -> bool:
        self._found = self.faults
        self._whole("", "document", document)
        if type(document) is not dict:
            return False
        version = document.get("mif_version")
        if type(version) is str:
            if not version.startswith(MAJOR):
                self._wrong("unsupported_version", "/mif_version", f'"{MAJOR}x"')
            elif version != VERSION:
                self._warn("later_version", "/mif_version")
        for pointer in (pointer for pointer, kind in ARRAYS.items() if kind in DIALECT):
            *way, name = pointer[1:].split("/")
            holder = document.get(way[0]) if way else document
            # It is no field of the format, so it may be anything, and stays where it is.
            if type(holder) is dict and name in holder and type(holder[name]) is not list:
                self._warn("foreign_record", pointer, "an array", kind_of(holder[name]))
        return True

    def record(
        self, kind: str, record: Any, pointer: str, line: int | None = None
    ) -> RecordItem | None:
        if kind in DIALECT:
            return self._of_dialect(kind, record, pointer)
        if not self._is_good(kind, record, pointer):
            return None
        self._once(kind, record, pointer)
        if kind == "memory":
            self._memory(pointer, record)
            return RecordItem(kind, record, self.first_with(record, pointer))
        if kind == "relationship":
            for name in ("source_entity_id", "target_entity_id"):
                if hash(record[name]) not in self._ids["entity"]:
                    self._warn("unknown_entity", f"{pointer}/{name}")
        return RecordItem(kind, record)

    def _of_dialect(self, kind: str, record: Any, pointer: str) -> RecordItem:
        """The format allows anything here, so an odd record breaks no rule."""
        self._found = odd = Problems()
        self._whole(pointer, kind, record)
        if odd:
            first = odd.found[0]
            self._warn("foreign_record", first.pointer, first.expected, first.found)
            return RecordItem("other", {"value": record})
        self._once(kind, record, pointer)
        return RecordItem(kind, record)

    def _memory(self, pointer: str, record: dict[str, Any]) -> None:
        kind = record.get("memory_type")
        if kind is not None and not _SNAKE.fullmatch(kind):
            self._warn("invalid_memory_type", f"{pointer}/memory_type")
        changed = record.get("updated_at")
        if changed is not None and changed != record["created_at"]:
            made, last = instant(record["created_at"]), instant(changed)
            if made is not None and last is not None and last < made:
                self._warn("times_out_of_order", f"{pointer}/updated_at")
        vector = record.get("embeddings")
        if vector is not None and vector["dimensions"] != len(vector["vector"]):
            length = str(len(vector["vector"]))
            where = f"{pointer}/embeddings/vector"
            self._warn("dimension_mismatch", where, "as many numbers as dimensions", length)


def text() -> str:
    return files("omsgrain.formats.mif2").joinpath("schema.json").read_text("utf-8")
