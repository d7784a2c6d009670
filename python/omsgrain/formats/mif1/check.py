# SPDX-License-Identifier: Apache-2.0
"""Checks a MIF 1.0 document and its records, and reports each defect once.

Spec: MIF 1.0 §2 to §7, §9
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from string import ascii_letters, digits, hexdigits
from typing import Any, Final, Literal, TypeAlias

from omsgrain.formats.document import RecordItem
from omsgrain.formats.json_text import RULES as READING
from omsgrain.formats.json_text import JsonLimits, kind_of
from omsgrain.formats.records import instant
from omsgrain.formats.schema import ANY, DocumentChecker, Form, SchemaField, Shapes, needed
from omsgrain.formats.yaml import RULES as YAML

CONTENT = 100_000
"""Code points of a memory's content that the published schema allows; the SEP has no limit."""
TASK = 10_000
"""Code points of a todo's content that the published schema allows; the SEP has no limit."""


@dataclass(frozen=True, slots=True)
class Mif1Limits(JsonLimits):
    """The limits of a reader. Spec: MIF 1.0, Security Considerations 5."""

    line: int = 16 << 20  # bytes of one line of JSON lines
    aliases: int = 10_000  # values that all YAML aliases expand to
    memory_kib: int = 1 << 20  # memory to derive an envelope's key, in KiB
    iterations: int = 16  # iterations to derive an envelope's key
    parallelism: int = 16  # lanes to derive an envelope's key


LIMITS = Mif1Limits()


Kind: TypeAlias = Literal["memory", "todo", "node", "edge", "consent"]
Layout: TypeAlias = Literal["json", "yaml", "jsonl"]

FORMAT: Final = "mif1"
VERSION: Final = "1.0"
"""The version that omsgrain writes. It reads every 1.x."""
SCHEMA: Final = "https://shodh-memory.dev/schemas/mif-v1.json"
EXTENSIONS: Final[dict[Layout, str]] = {
    "json": ".mif.json",
    "yaml": ".mif.yaml",
    "jsonl": ".mif.jsonl",
}
"""File name suffixes. Spec: MIF 1.0 §1"""

ARRAYS: Final[dict[str, Kind]] = {
    "/memories": "memory",
    "/todos": "todo",
    "/graph/nodes": "node",
    "/graph/edges": "edge",
}
"""The arrays of records, in reading order."""
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
"""For each kind: the members that hold ids, and the kind that each id refers to."""
CONSENT: Final = "/consent"
"""The pointer of the only record that is not in an array."""

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


def _also(name: str, kind: str, says: str, **more: Any) -> SchemaField:
    """A field that the SEP does not have."""
    return SchemaField(name, kind, says, own=False, **more)


def _rate(name: str, says: str, **more: Any) -> SchemaField:
    return SchemaField(name, "number", says, least=0, most=1, **more)


SHAPES: Final[dict[str, tuple[SchemaField, ...]]] = {
    "document": (
        SchemaField("$schema", "str", "the published schema"),
        needed("mif_version", "str", "`1.0`; every 1.x is read"),
        SchemaField("generator", "object", "what wrote the document", of="generator"),
        SchemaField("export", "object", "about the export", of="export", expected=True),
        SchemaField("memories", "array", "the memories", of="memory", expected=True),
        SchemaField("todos", "array", "the todos", of="todo"),
        SchemaField("graph", "object", "nodes and edges", of="graph"),
        SchemaField("metadata", "object", "counts and dates of the document", of="metadata"),
        SchemaField("consent", "object", "the person's consent", of="consent"),
    ),
    "generator": (
        SchemaField("name", "str", "the name of the system", expected=True),
        SchemaField("version", "str", "its version", expected=True),
    ),
    "export": (
        SchemaField(
            "id",
            "str",
            "the id of the export, `exp_` and letters and digits",
            form="export",
            expected=True,
        ),
        SchemaField("created_at", "str", "when it was made", form="time", expected=True),
        SchemaField("user_id", "str", "the user the memories belong to", expected=True),
        SchemaField("checksum", "str", "`sha256:` and 64 hex digits", form="checksum"),
    ),
    "memory": (
        needed("id", "str", "`mem_` and a UUID", form="memory"),
        needed("content", "str", "the text", least=1, most=CONTENT),
        needed("type", "str", "the memory type", known=MEMORY_TYPES),
        _rate("importance", "0 to 1: from 0.8 critical, from 0.5 medium", hard=True),
        needed("created_at", "str", "when it was made", form="time"),
        SchemaField("updated_at", "str", "when it was changed", form="time"),
        SchemaField("accessed_at", "str", "when it was last read", form="time"),
        SchemaField("access_count", "int", "how often it was read", least=0),
        _rate("decay_rate", "how fast it fades, 0 to 1", own=False),
        SchemaField("tags", "array", "labels", of="str"),
        SchemaField("source", "object", "where it came from", of="source"),
        SchemaField("entities", "array", "entities in the text", of="entity"),
        SchemaField("embedding", "object", "its vector", of="embedding"),
        _also("relations", "object", "memories and todos it is related to", of="relations"),
        SchemaField("redactions", "array", "parts removed from the text", of="redaction"),
    ),
    "source": (
        SchemaField("type", "str", "where it came from", known=_SOURCES),
        SchemaField("session_id", "str", "the session"),
        SchemaField("agent", "str", "the agent"),
    ),
    "entity": (
        needed("text", "str", "its name in the text"),
        SchemaField("type", "str", "what kind of thing it is", expected=True),
        _rate("confidence", "confidence, 0 to 1"),
    ),
    "embedding": (
        SchemaField("model", "str", "the model that made the vector", expected=True),
        SchemaField("dimensions", "int", "the length of the vector", least=1, expected=True),
        SchemaField("vector", "array", "the vector", expected=True),
        SchemaField("normalized", "bool", "whether its length is 1"),
    ),
    "relations": (
        _also("related_memories", "array", "ids of memories", of="str"),
        _also("related_todos", "array", "ids of todos", of="str"),
    ),
    "redaction": (
        SchemaField("type", "str", "the kind of data"),
        SchemaField("original_length", "int", "length of the removed text", least=0),
        SchemaField("position", "array", "start and end in the text"),
    ),
    "todo": (
        needed("id", "str", "`todo_` and a UUID", form="todo"),
        SchemaField("short_id", "str", "capitals and a number, such as PROJ-123", form="short_id"),
        needed("content", "str", "what is to be done", least=1, most=TASK),
        needed("status", "str", "its progress", known=STATUSES),
        SchemaField("priority", "str", "how urgent it is", known=PRIORITIES),
        needed("created_at", "str", "when it was made", form="time"),
        _also("updated_at", "str", "when it was changed", form="time"),
        SchemaField("due_date", "str", "when it is due", nullable=True, form="time"),
        _also("completed_at", "str", "when it was done", form="time", nullable=True),
        SchemaField("project", "object", "the project it belongs to", nullable=True, of="project"),
        SchemaField("contexts", "array", "where it can be done", of="str"),
        SchemaField("tags", "array", "labels", of="str"),
        _also("notes", "str", "anything else about it", nullable=True),
        _also("parent_id", "str", "the todo it is a part of", nullable=True),
        _also("subtask_ids", "array", "the todos that are a part of it", of="str"),
        _also("blocked_on", "str", "what it waits for", nullable=True),
        _also("recurrence", "str", "how often it repeats", nullable=True, known=RECURRENCES),
        _also("related_memory_ids", "array", "memories it is related to", of="str"),
        _also("embedding", "object", "its vector", of="embedding"),
        _also("comments", "array", "comments on it", of="comment"),
    ),
    "project": (
        SchemaField("id", "str", "its id"),
        SchemaField("name", "str", "its name"),
        _also("prefix", "str", "how the short ids of its todos begin"),
    ),
    "comment": (
        _also("id", "str", "its id"),
        _also("content", "str", "the text"),
        _also("created_at", "str", "when it was written", form="time"),
        _also("type", "str", "what kind of comment"),
    ),
    "graph": (
        SchemaField("format", "str", "`adjacency_list`", known=("adjacency_list",)),
        SchemaField("node_count", "int", "how many nodes there are", least=0),
        SchemaField("edge_count", "int", "how many edges there are", least=0),
        _also("nodes", "array", "what the edges connect", of="node"),
        SchemaField("edges", "array", "the connections", of="edge"),
        SchemaField("hebbian_config", "object", "how weights change", of="hebbian_config"),
    ),
    "node": (
        needed("id", "str", "the memory, the todo or the entity", own=False),
        _also("type", "str", "memory, todo or entity", known=_NODES),
        _also("entity_type", "str", "what kind of thing an entity is"),
    ),
    "edge": (
        needed("source", "str", "the id it starts from"),
        needed("target", "str", "the id it leads to"),
        _rate("weight", "strength, 0 to 1; 0.5 if missing", expected=True),
        SchemaField("type", "str", "the kind of connection", known=EDGE_TYPES, expected=True),
        SchemaField("created_at", "str", "when it was made", form="time"),
        _also("strengthened_count", "int", "how often it was used", least=0),
    ),
    "hebbian_config": (
        SchemaField("learning_rate", "number", "how fast a weight grows"),
        SchemaField("decay_rate", "number", "how fast a weight fades"),
        SchemaField("ltp_threshold", "number", "the weight from which it no longer fades"),
        _also("max_weight", "number", "how large a weight can be"),
    ),
    "metadata": (
        SchemaField("total_memories", "int", "how many memories there are", least=0),
        SchemaField("total_todos", "int", "how many todos there are", least=0),
        SchemaField("date_range", "object", "the times of the memories", of="date_range"),
        SchemaField("memory_types", "object", "how many memories there are of each type"),
        _also("top_entities", "array", "the most frequent entities"),
        _also("projects", "array", "the projects of the todos"),
        SchemaField("privacy", "object", "what was done about personal data", of="privacy"),
    ),
    "date_range": (
        SchemaField("earliest", "str", "time of the oldest memory", form="time"),
        SchemaField("latest", "str", "time of the newest memory", form="time"),
    ),
    "privacy": (
        SchemaField("pii_detected", "bool", "whether there was personal data"),
        SchemaField("secrets_detected", "bool", "whether there were secrets"),
        SchemaField("redacted_fields", "array", "what was redacted", of="str"),
    ),
    "consent": (
        SchemaField("exported_by", "str", "who asked for the export"),
        SchemaField("purpose", "str", "what for"),
        SchemaField(
            "retention_days",
            "int",
            "days to keep it, from `timestamp`",
            least=0,
            hard=True,
        ),
        SchemaField("sharing_allowed", "bool", "whether sharing is allowed"),
        SchemaField("gdpr_basis", "str", "the legal basis"),
        SchemaField("timestamp", "str", "when consent was given", form="time"),
    ),
}
"""The fields of each object. Other members are allowed and kept."""

_LOOSE: Final = frozenset(
    {"generator", "export", "metadata", "date_range", "privacy", "hebbian_config"}
)
_BEARING: Final = frozenset({"export", "memories", "todos", "graph", "consent", "nodes", "edges"})


def is_loose(shape: str, name: str) -> bool:
    """Whether a defect in a field is only a warning, because no record depends on it."""
    return shape in _LOOSE or (shape in ("document", "graph") and name not in _BEARING)


RULES: Final[dict[str, str]] = {
    **READING,
    "not_yaml": YAML["not_yaml"],
    "not_object": "the value must be an object",
    "missing_field": "a required field is missing",
    "invalid_type": "the value has the wrong type",
    "invalid_timestamp": "the time is invalid",
    "too_many_bad": "the document has too many bad records",
    "out_of_range": "the number is out of range",
    "unsupported_version": "the version is not supported",
    # JSON lines
    "no_header": "the first line is not a header",
    "no_footer": "the last line is not a footer: the document is truncated",
    "count_mismatch": "the number of records differs from the footer's count",
    "checksum_mismatch": "the checksum does not match the document",
    "unknown_line": "the line's kind is unknown",
    # the envelope of encryption
    "encrypted": "the document is encrypted",
    "unknown_algorithm": "the algorithm is not supported",
    "invalid_encryption": "a member of the encryption envelope is invalid",
    "kdf_missing": "the envelope does not say how to derive the key",
    "kdf_too_costly": "deriving the key costs more than the limit allows",
}
"""Errors. In a record, an error drops the record; elsewhere, it rejects the document."""

WARNINGS: Final[dict[str, str]] = {
    "later_version": "the minor version is newer: its new fields are kept, not interpreted",
    "version_as_number": "the version is a number and should be a string",
    "missing_field": "the published schema requires a field that is missing",
    "invalid_type": "the value has the wrong type, but no record depends on it",
    "null_value": "the published schema does not allow null here",
    "invalid_timestamp": "the time is invalid",
    "out_of_range": "the number is outside the published schema's range",
    "unknown_value": "the value is unknown: it is kept, not interpreted",
    "id_form": "the id does not have the published schema's form",
    "invalid_checksum": "the checksum has the wrong form",
    "unknown_checksum": "the checksum matches under no known rule",
    "content_length": "the content is empty, or longer than the published schema allows",
    "invalid_vector": "the vector has values that are not numbers: it is kept, but not searched",
    "dimension_mismatch": "the vector has the wrong length: it is kept, but not searched",
    "redaction_span": "the redaction's position and length do not agree",
    "duplicate_id": "the id appears twice",
    "duplicate_content": "the content appears twice: the record is kept, but not recalled",
    "unknown_end": "the edge's end is not in the document",
    "line_member": "a member of the line belongs to no record and is not kept",
    "count_differs": "the count in the document is wrong",
    "unknown_reference": "the referenced record is not in the document",
    "owner_not_kept": "no grain can hold this user id: the grains have no owner",
}


_VERSION = re.compile(r"1(?:\.[0-9]{1,9})*")


def _id(prefix: str, letters: str, says: str) -> Form:
    fits = re.compile(f"{prefix}[{re.escape(letters)}]+").fullmatch
    return Form("id_form", says, fits, like=(prefix, letters))


_FORMS: Final = {
    # Without a readable time, a record would get an invented time.
    "time": Form("invalid_timestamp", "such as 2026-01-03T10:45:00.000Z", instant, True, "time"),
    "checksum": Form(
        "invalid_checksum",
        "sha256: and 64 hex digits",
        re.compile("sha256:[0-9A-Fa-f]{64}").fullmatch,
    ),
    "export": _id("exp_", digits + ascii_letters, "exp_ and letters and digits"),
    "memory": _id("mem_", hexdigits + "-", "mem_ and a UUID"),
    "todo": _id("todo_", hexdigits + "-", "todo_ and a UUID"),
    "short_id": Form("id_form", "such as PROJ-123", re.compile("[A-Z]+-[0-9]+").fullmatch),
}
_SHAPES: Final = Shapes(
    # `Mif1Checker.document` checks the version itself, first.
    {
        name: [field for field in shape if field.name != "mif_version"]
        for name, shape in SHAPES.items()
    },
    _FORMS,
    records=frozenset(ARRAYS.values()),
    more=("embedding", "redaction"),
    loose=is_loose,
    nulls=True,
)


def is_version(version: Any) -> bool:
    """Whether a ``mif_version`` is supported; in YAML it can be a number."""
    if type(version) is str:
        return _VERSION.fullmatch(version) is not None
    return type(version) in (int, float) and 1 <= version < 2


def is_encrypted(document: dict[str, Any]) -> bool:
    """Whether a document is an encryption envelope. Spec: MIF 1.0 §6.2."""
    return isinstance(document.get("encryption"), dict) and "memories" not in document


_REFERENCES: Final = {kind: of for kind, of in REFERENCES.items() if kind != "edge"}
"""References to check once all records are known. Edges have their own rule."""


class Mif1Checker(DocumentChecker):
    """Checks one document, and keeps only hashes of what it has seen."""

    shapes = _SHAPES
    rules = RULES
    told = WARNINGS
    references = _REFERENCES

    def document(self, document: Any, line: int | None = None) -> bool:
        self._found, self._line = self.faults, line
        if type(document) is not dict:
            self._wrong("not_object", "", "an object", kind_of(document))
            return False
        version = document.get("mif_version")
        if "mif_version" not in document:
            self._wrong("missing_field", "/mif_version", f'"{VERSION}"')
        elif not is_version(version):
            self._wrong("unsupported_version", "/mif_version", '"1.x"')
        elif type(version) is not str:
            self._warn("version_as_number", "/mif_version", f'"{VERSION}"')
        elif version != VERSION:
            self._warn("later_version", "/mif_version")
        if is_encrypted(document):
            self._wrong("encrypted", "/encryption", "a passphrase")
        else:
            self._object("", "document", document)
        return not self.faults

    def record(
        self, kind: str, record: Any, pointer: str, line: int | None = None
    ) -> RecordItem | None:
        if kind == "consent":
            return RecordItem(kind, record)  # `document` has checked it
        self._line = line
        if not self._is_good(kind, record, pointer):
            return None
        if kind == "edge":
            for name in ("source", "target"):
                mark = hash(record[name])
                if not any(mark in ids for ids in self._ids.values()):
                    self._warn("unknown_end", f"{pointer}/{name}")
        else:
            self._once(kind, record, pointer)
        of = self.first_with(record, pointer) if kind == "memory" else None
        return RecordItem(kind, record, of)

    def counts(self, document: dict[str, Any]) -> None:
        """Warn of each count in the document that differs from its number of records."""
        self._line = None
        graph, metadata = document.get("graph"), document.get("metadata")
        for where, said, name, array in (
            ("/graph", graph, "node_count", graph),
            ("/graph", graph, "edge_count", graph),
            ("/metadata", metadata, "total_memories", document),
            ("/metadata", metadata, "total_todos", document),
        ):
            if not isinstance(said, dict) or not isinstance(array, dict):
                continue
            counted = array.get(_COUNTED[name])
            if isinstance(counted, list) and said.get(name, len(counted)) != len(counted):
                self._warn("count_differs", f"{where}/{name}", str(len(counted)))

    def _more(self, pointer: str, shape: str, value: dict[str, Any]) -> None:
        if shape == "embedding":
            self._vector(pointer, value)
        else:
            self._redaction(pointer, value)

    def _vector(self, pointer: str, embedding: dict[str, Any]) -> None:
        """Check a vector's types and length. Checking thousands of values is too slow."""
        vector = embedding.get("vector")
        if not isinstance(vector, list):
            return
        if not {*map(type, vector)} <= {int, float}:
            self._warn("invalid_vector", f"{pointer}/vector", "numbers")
        elif embedding.get("dimensions", len(vector)) != len(vector):
            found = str(len(vector))
            expected = "as many numbers as dimensions"
            self._warn("dimension_mismatch", f"{pointer}/vector", expected, found)

    def _redaction(self, pointer: str, redaction: dict[str, Any]) -> None:
        position, length = redaction.get("position"), redaction.get("original_length")
        if position is None:
            return
        fits = type(position) is list and [*map(type, position)] == [int, int]
        if not fits or not 0 <= position[0] <= position[1]:
            self._warn("redaction_span", f"{pointer}/position", "start and end")
        elif type(length) is int and position[1] - position[0] != length:
            self._warn("redaction_span", f"{pointer}/position", "as long as original_length")


_COUNTED: Final = {
    "node_count": "nodes",
    "edge_count": "edges",
    "total_memories": "memories",
    "total_todos": "todos",
}
