# SPDX-License-Identifier: Apache-2.0
"""The fields of a document and of its records: one table for checks, schema, documents and tests.

Three texts say what they are: the SEP, which is the format; the JSON Schema published beside it,
which knows more fields and is stricter; and the reference implementation. All that one of them
knows is read. What the SEP has is written. Spec: MIF 1.0 §2 to §7
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

from omsgrain.formats.mif1.limits import CONTENT, TASK
from omsgrain.formats.shapes.field import ANY, Field

__all__ = [
    "ARRAYS",
    "CONSENT",
    "EDGE_TYPES",
    "EXTENSIONS",
    "FORMAT",
    "MEDIA_TYPE",
    "MEMORY_TYPES",
    "PRIORITIES",
    "RECURRENCES",
    "REFERENCES",
    "SCHEMA",
    "SHAPES",
    "STATUSES",
    "VERSION",
    "Kind",
    "Layout",
    "is_loose",
]

Kind: TypeAlias = Literal["memory", "todo", "node", "edge", "consent"]
Layout: TypeAlias = Literal["json", "yaml", "jsonl"]

FORMAT: Final = "mif1"
VERSION: Final = "1.0"
"""What is written. Every 1.x is read."""
SCHEMA: Final = "https://shodh-memory.dev/schemas/mif-v1.json"
MEDIA_TYPE: Final = "application/vnd.memory-interchange+json"
EXTENSIONS: Final[dict[Layout, str]] = {
    "json": ".mif.json",
    "yaml": ".mif.yaml",
    "jsonl": ".mif.jsonl",
}
"""Names of files end so. Spec: MIF 1.0 §1"""

ARRAYS: Final[dict[str, Kind]] = {
    "/memories": "memory",
    "/todos": "todo",
    "/graph/nodes": "node",
    "/graph/edges": "edge",
}
"""The arrays whose items are records, in the order in which they are read."""
REFERENCES: Final[dict[str, dict[str, str]]] = {
    "memory": {
        "id": "memory",
        "relations/related_memories": "memory",
        "relations/related_todos": "todo",
        "relations/blocks": "todo",
        "relations/blocked_by": "todo",
    },
    "todo": {
        "id": "todo",
        "parent_id": "todo",
        "subtask_ids": "todo",
        "related_memory_ids": "memory",
    },
    "node": {"id": ANY},
    "edge": {"source": ANY, "target": ANY},
    "consent": {},
}
"""Of each kind the members that hold ids of other records, and of which kind these are."""
CONSENT: Final = "/consent"
"""Where the one record stands that is no item of an array."""

MEMORY_TYPES: Final = (
    "Observation",
    "Decision",
    "Learning",
    "Error",
    "Discovery",
    "Pattern",
    "Context",
    "Task",
    "Conversation",
    # of the schema
    "CodeEdit",
    "FileAccess",
    "Search",
    "Command",
    # of the reference implementation
    "Intention",
)
STATUSES: Final = ("backlog", "todo", "in_progress", "blocked", "done", "cancelled")
PRIORITIES: Final = ("urgent", "high", "medium", "low", "none")
RECURRENCES: Final = ("daily", "weekly", "monthly")
EDGE_TYPES: Final = (
    "semantic_association",
    "entity_mention",
    "temporal_sequence",
    "causal",
    "user_linked",
    # of the schema
    "todo_memory",
)
_SOURCES: Final = ("conversation", "file", "api", "hook", "user")
_NODES: Final = ("memory", "todo", "entity")


def _need(
    name: str, kind: str, says: str, form: str | None = None, of: str | None = None
) -> Field:
    return Field(name, kind, says, required=True, form=form, of=of)


def _also(
    name: str,
    kind: str,
    says: str,
    form: str | None = None,
    of: str | None = None,
    nullable: bool = False,
) -> Field:
    """A field that the SEP does not have."""
    return Field(name, kind, says, nullable=nullable, form=form, of=of, own=False)


SHAPES: Final[dict[str, tuple[Field, ...]]] = {
    "document": (
        Field("$schema", "str", "the published schema"),
        Field("mif_version", "str", "`1.0`; every 1.x is read", required=True),
        Field("generator", "object", "what wrote the document", of="generator"),
        Field("export", "object", "about the export", of="export", expected=True),
        Field("memories", "array", "the memories", of="memory", expected=True),
        Field("todos", "array", "the todos", of="todo"),
        Field("graph", "object", "what belongs together", of="graph"),
        Field("metadata", "object", "what the document says of itself", of="metadata"),
        Field("consent", "object", "what the person allowed", of="consent"),
    ),
    "generator": (
        Field("name", "str", "the name of the system", expected=True),
        Field("version", "str", "its version", expected=True),
    ),
    "export": (
        Field(
            "id",
            "str",
            "the id of the export, `exp_` and letters and digits",
            form="export",
            expected=True,
        ),
        Field("created_at", "str", "when it was made", form="time", expected=True),
        Field("user_id", "str", "whose memories they are", expected=True),
        Field("checksum", "str", "`sha256:` and 64 hex digits", form="checksum"),
    ),
    "memory": (
        _need("id", "str", "`mem_` and a UUID", form="memory"),
        Field("content", "str", "the text", required=True, least=1, most=CONTENT),
        Field("type", "str", "what kind of memory", required=True, known=MEMORY_TYPES),
        Field(
            "importance",
            "number",
            "0 to 1: from 0.8 critical, from 0.5 medium",
            least=0,
            most=1,
            hard=True,
        ),
        _need("created_at", "str", "when it was made", form="time"),
        Field("updated_at", "str", "when it was changed", form="time"),
        Field("accessed_at", "str", "when it was last read", form="time"),
        Field("access_count", "int", "how often it was read", least=0),
        Field("decay_rate", "number", "how fast it fades, 0 to 1", least=0, most=1, own=False),
        Field("tags", "array", "labels", of="str"),
        Field("source", "object", "where it came from", of="source"),
        Field("entities", "array", "what the text names", of="entity"),
        Field("embedding", "object", "its vector", of="embedding"),
        _also("relations", "object", "memories and todos it is related to", of="relations"),
        Field("redactions", "array", "what was taken out of the text", of="redaction"),
    ),
    "source": (
        Field("type", "str", "where it came from", known=_SOURCES),
        Field("session_id", "str", "the session"),
        Field("agent", "str", "the agent"),
    ),
    "entity": (
        _need("text", "str", "its name in the text"),
        Field("type", "str", "what kind of thing it is", expected=True),
        Field("confidence", "number", "how sure that is, 0 to 1", least=0, most=1),
    ),
    "embedding": (
        Field("model", "str", "the model that made the vector", expected=True),
        Field("dimensions", "int", "the length of the vector", least=1, expected=True),
        Field("vector", "array", "the vector", expected=True),
        Field("normalized", "bool", "whether its length is 1"),
    ),
    "relations": (
        Field("related_memories", "array", "ids of memories", of="str", own=False),
        Field("related_todos", "array", "ids of todos", of="str", own=False),
    ),
    "redaction": (
        Field("type", "str", "the kind of data"),
        Field("original_length", "int", "how long it was", least=0),
        Field("position", "array", "where it stood: start and end"),
    ),
    "todo": (
        _need("id", "str", "`todo_` and a UUID", form="todo"),
        Field("short_id", "str", "capitals and a number, such as PROJ-123", form="short_id"),
        Field("content", "str", "what is to be done", required=True, least=1, most=TASK),
        Field("status", "str", "how far it is", required=True, known=STATUSES),
        Field("priority", "str", "how urgent it is", known=PRIORITIES),
        _need("created_at", "str", "when it was made", form="time"),
        _also("updated_at", "str", "when it was changed", form="time"),
        Field("due_date", "str", "by when it must be done", nullable=True, form="time"),
        _also("completed_at", "str", "when it was done", form="time", nullable=True),
        Field("project", "object", "the project it belongs to", nullable=True, of="project"),
        Field("contexts", "array", "where it can be done", of="str"),
        Field("tags", "array", "labels", of="str"),
        _also("notes", "str", "anything else about it", nullable=True),
        _also("parent_id", "str", "the todo it is a part of", nullable=True),
        _also("subtask_ids", "array", "the todos that are a part of it", of="str"),
        _also("blocked_on", "str", "what it waits for", nullable=True),
        Field(
            "recurrence",
            "str",
            "when it comes up again",
            nullable=True,
            known=RECURRENCES,
            own=False,
        ),
        _also("related_memory_ids", "array", "memories it is related to", of="str"),
        _also("embedding", "object", "its vector", of="embedding"),
        _also("comments", "array", "what was said about it", of="comment"),
    ),
    "project": (
        Field("id", "str", "its id"),
        Field("name", "str", "its name"),
        _also("prefix", "str", "how the short ids of its todos begin"),
    ),
    "comment": (
        _also("id", "str", "its id"),
        _also("content", "str", "the text"),
        _also("created_at", "str", "when it was said", form="time"),
        _also("type", "str", "what kind of comment"),
    ),
    "graph": (
        Field("format", "str", "`adjacency_list`", known=("adjacency_list",)),
        Field("node_count", "int", "how many nodes there are", least=0),
        Field("edge_count", "int", "how many edges there are", least=0),
        Field("nodes", "array", "what the edges join", of="node", own=False),
        Field("edges", "array", "what joins two things", of="edge"),
        Field("hebbian_config", "object", "how weights are learnt", of="hebbian_config"),
    ),
    "node": (
        Field("id", "str", "the memory, the todo or the entity", required=True, own=False),
        Field("type", "str", "which of them it is", known=_NODES, own=False),
        _also("entity_type", "str", "what kind of thing an entity is"),
    ),
    "edge": (
        _need("source", "str", "the id it starts from"),
        _need("target", "str", "the id it leads to"),
        Field(
            "weight",
            "number",
            "how strong it is, 0 to 1; 0.5 if not said",
            least=0,
            most=1,
            expected=True,
        ),
        Field("type", "str", "how they are joined", known=EDGE_TYPES, expected=True),
        Field("created_at", "str", "when it was made", form="time"),
        Field("strengthened_count", "int", "how often it was used", least=0, own=False),
    ),
    "hebbian_config": (
        Field("learning_rate", "number", "how fast a weight grows"),
        Field("decay_rate", "number", "how fast a weight fades"),
        Field("ltp_threshold", "number", "from which weight it stays"),
        _also("max_weight", "number", "how large a weight can be"),
    ),
    "metadata": (
        Field("total_memories", "int", "how many memories there are", least=0),
        Field("total_todos", "int", "how many todos there are", least=0),
        Field("date_range", "object", "the times of the memories", of="date_range"),
        Field("memory_types", "object", "how many memories there are of each type"),
        _also("top_entities", "array", "what is named most"),
        _also("projects", "array", "the projects of the todos"),
        Field("privacy", "object", "what was done about personal data", of="privacy"),
    ),
    "date_range": (
        Field("earliest", "str", "of the oldest memory", form="time"),
        Field("latest", "str", "of the newest memory", form="time"),
    ),
    "privacy": (
        Field("pii_detected", "bool", "whether there was personal data"),
        Field("secrets_detected", "bool", "whether there were secrets"),
        Field("redacted_fields", "array", "what was redacted", of="str"),
    ),
    "consent": (
        Field("exported_by", "str", "who asked for the export"),
        Field("purpose", "str", "what for"),
        Field(
            "retention_days",
            "int",
            "how long it may be kept, from `timestamp`",
            least=0,
            hard=True,
        ),
        Field("sharing_allowed", "bool", "whether it may be passed on"),
        Field("gdpr_basis", "str", "the legal basis"),
        Field("timestamp", "str", "when that was said", form="time"),
    ),
}
"""What each object has. All may have more, which is kept."""

_LOOSE: Final = frozenset(
    {"generator", "export", "metadata", "date_range", "privacy", "hebbian_config"}
)
_BEARING: Final = frozenset({"export", "memories", "todos", "graph", "consent", "nodes", "edges"})


def is_loose(shape: str, name: str) -> bool:
    """Whether no record depends on a field, so that what is odd in it is kept, and told."""
    return shape in _LOOSE or (shape in ("document", "graph") and name not in _BEARING)
