# SPDX-License-Identifier: Apache-2.0
"""Kinds and shapes of MIF JSON-LD documents; converts memories to grains and back.

A grain's fields are for queries and need not hold all of a memory: the table of records keeps the
rest beside them. Relationships stay URNs there, because two memories can name each other, which
addresses cannot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from omsgrain.formats import times
from omsgrain.formats.json_text import JsonLimits
from omsgrain.formats.records import (
    Fields,
    Record,
    RecordShape,
    RecordTable,
    created_at_of,
    instant,
    object_of,
    objects_at,
    objects_of,
    other_fields,
    other_record,
    short_name,
    value_text,
)

FORMAT: Final = "mif-ld"
CONTEXT: Final = "https://mif-spec.dev/schema/context.jsonld"
"""The context that most documents name. It is never fetched."""
LOCAL: Final = "_local"
"""The root of namespaces that are not exported."""
TYPES: Final = {"semantic": "belief", "episodic": "event", "procedural": "workflow"}
"""Memory type -> grain type."""


ORDER: Final = (
    "@context", "@type", "@id", "memoryType", "conceptType", "content", "created", "title",
    "modified", "timestamp", "description", "namespace", "tags", "aliases", "properties",
    "ontology", "entity", "entities", "relationships", "temporal", "provenance", "embedding",
    "citations", "documents", "summary", "compressedAt", "blocks", "extensions",
)  # fmt: skip
"""The members, in writing order."""

VOLATILE: Final[dict[tuple[str, ...], tuple[str, ...]]] = {
    ("temporal",): ("accessCount", "lastAccessed", "reinforcementHistory"),
    ("temporal", "decay"): ("currentStrength", "strength", "lastReinforced"),
}
"""Path of an object -> its members that a recall changes; they are not part of a grain."""


Shape = Literal["0.1", "1.x"]
Kind = Literal["memory", "citation", "entity-reference", "ontology", "corpus"]
SHAPES: Final[tuple[Shape, ...]] = get_args(Shape)
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)

_BY_TYPE: Final[dict[str, Kind]] = {
    "MemoryCorpus": "corpus",
    "Memory": "memory",
    "Concept": "memory",
    "Citation": "citation",
    "EntityReference": "entity-reference",
    "mif:Ontology": "ontology",
}
_OF_MEMORY: Final = ("@id", "memoryType", "conceptType", "content", "created")
_OF_ONTOLOGY: Final = ("ontology", "entity_types", "namespaces", "traits", "discovery")


def kind_of(document: Any) -> Kind | None:
    if not isinstance(document, dict):
        return None
    said = document.get("@type")
    for one in said if isinstance(said, list) else [said]:
        if isinstance(one, str) and one in _BY_TYPE:
            return _BY_TYPE[one]
    if "citationType" in document or "citationRole" in document:
        return "citation"
    if not document.keys().isdisjoint(_OF_MEMORY):
        return "memory"
    if not document.keys().isdisjoint(_OF_ONTOLOGY):
        return "ontology"
    if "entityType" in document or "@id" in object_of(document, "entity"):
        return "entity-reference"
    return None


def shape_of(document: dict[str, Any]) -> Shape:
    """Return the shape of a memory; with members of both, the first one decides."""
    for shape, _ in telling(document):
        return shape
    return "1.x" if "conceptType" in document else "0.1"


def telling(document: dict[str, Any]) -> Iterator[tuple[Shape, tuple[str | int, ...]]]:
    """Yield the members that only one shape can have: the shape, and the member's path."""
    old, new = "memoryType" in document, "conceptType" in document
    if old != new:
        yield ("0.1", ("memoryType",)) if old else ("1.x", ("conceptType",))
    said = document.get("@type")
    names = said if isinstance(said, list) else [said]
    if "Concept" in names and "Memory" not in names:
        yield "1.x", ("@type",)
    elif isinstance(said, list) and "Memory" in said and "Concept" not in said:
        yield "0.1", ("@type",)
    for at, one in objects_at(document, "relationships"):
        if (shape := _of_relationship(one)) is not None:
            yield shape, ("relationships", at)


def _of_relationship(one: dict[str, Any]) -> Shape | None:
    old = "relationshipType" in one or one.get("@type") == "Relationship"
    new = "type" in one
    if old != new:
        return "0.1" if old else "1.x"
    target = one.get("target")
    if isinstance(target, dict):
        return "0.1"
    return "1.x" if isinstance(target, str) else None


def relations_of(memory: Mapping[str, Any]) -> Iterator[tuple[int, str, str]]:
    """Yield the relationships of a memory of either shape: index, type, and target."""
    for at, one in objects_at(memory, "relationships"):
        name = one.get("relationshipType", one.get("type"))
        target = one.get("target")
        if isinstance(target, dict):
            target = target.get("@id")
        if isinstance(name, str) and isinstance(target, str):
            yield at, name, target


@dataclass(frozen=True, slots=True)
class MifLdLimits(JsonLimits):
    """The limits of a reader of files and directories."""

    documents: int = 1_000_000  # memories in a file; checking each of them takes time
    files: int = 100_000  # files of a directory
    directory: int = 1 << 30  # bytes of all files of a directory


LIMITS = MifLdLimits()


NAMESPACE: Final = "shared"
"""The namespace of a memory that names none."""
_SHAPE: Final = "mif:shape"
_TITLE: Final = "mif:title"
_SUMMARY: Final = "mif:summary"
_1_X: Final = "1.x"
_PROCEDURE: Final = "mif:procedural"
_PREFERENCES: Final = "preferences"
_MOST: Final = 64  # citations and documents in fields; the side channel keeps all

_KINDS: Final = {grain: kind for kind, grain in TYPES.items()}
_SOURCES: Final = {"external_import": "imported", "system_generated": "system"}
_CONFIDENCES: Final = {
    "user_explicit": 0.95,
    "user_implicit": 0.8,
    "agent_inferred": 0.6,
    "external_import": 0.5,
    "system_generated": 0.35,
}
"""The middle of the range that the format gives for each source."""
_ROLES: Final = {
    "supports": "supports",
    "refutes": "refutes",
    "contradicts": "refutes",
    "extends": "extends",
}
_MODALITIES: Final = ("image", "audio", "video")


def is_memory(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and type_of(value) is not None
        and all(isinstance(value.get(key), str) for key in ("@id", "content", "created"))
    )


def type_of(record: Mapping[str, Any]) -> str | None:
    """Return the type of a memory; if two members disagree, that of shape 1.x counts."""
    for key in ("conceptType", "memoryType"):
        kind = record.get(key)
        if isinstance(kind, str) and kind in TYPES:
            return kind
    return None


# -- to fields ------------------------------------------------------------------------------------


def _to_fields(record: Record, owner: str | None) -> Fields:
    kind = TYPES[type_of(record) or "semantic"]
    content, namespace = value_text(record["content"]), short_name(record.get("namespace"))
    fields: Fields = {
        "type": kind,
        "created_at": created_at_of(record["created"]),
        "namespace": namespace or NAMESPACE,
    }
    if owner is not None:
        fields["user_id"] = owner
    said = object_of(record, "provenance")
    if kind == "belief":
        prefers = (namespace or "").rsplit("/", 1)[-1] == _PREFERENCES
        fields["subject"] = _subject(record)
        fields["relation"] = "mg:prefers" if prefers else "mg:knows"
        fields["object"] = content
        fields["confidence"] = _confidence(said)
    elif kind == "event":
        fields["content"] = content
    else:
        fields["steps"] = [content]
        last = (namespace or "").rsplit("/", 1)[-1]
        fields["trigger"] = short_name(record.get("title")) or last or _PROCEDURE
    if tags := record.get("tags"):
        fields["structural_tags"] = tags
    if context := _context(record):
        fields["context"] = context
    if source := short_name(said.get("sourceType")):
        fields["source_type"] = _SOURCES.get(source, source)
    return fields | _times(record) | _references(record)


def _context(record: Record) -> dict[str, str]:
    context = {}
    if "conceptType" in record:
        context[_SHAPE] = _1_X
    for key, member in ((_TITLE, "title"), (_SUMMARY, "summary")):
        if isinstance(said := record.get(member), str) and said:
            context[key] = value_text(said)
    return context


def _subject(record: Record) -> str:
    """Return the subject of a belief: the entity with that role, else the first entity."""
    named = [
        (one.get("role"), urn)
        for one in objects_of(record, "entities")
        if (urn := short_name(object_of(one, "entity").get("@id")))
    ]
    said = (urn for role, urn in named if role == "subject")
    return next(said, named[0][1] if named else value_text(record["@id"])) or "-"


def _confidence(said: Record) -> float:
    given = said.get("confidence")
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1:
        return float(given) + 0.0
    return _CONFIDENCES.get(short_name(said.get("sourceType")) or "", 0.5)


def _times(record: Record) -> Fields:
    """Return the times when a memory is valid and known; its ttl does not count."""
    temporal = object_of(record, "temporal")
    texts = {"valid_from": temporal.get("validFrom"), "valid_to": temporal.get("validUntil"),
             "system_valid_from": temporal.get("recordedAt", _revised(record))}  # fmt: skip
    fields: Fields = {}
    for field, said in texts.items():
        found = instant(said) if isinstance(said, str) else None
        if found is not None:
            fields[field] = found.millis
    if "valid_from" in fields and fields["valid_from"] > fields.get("valid_to", math.inf):
        del fields["valid_to"]  # a warning reports it; else no query finds the grain
    return fields


def _revised(record: Record) -> str | None:
    """Return when a memory was modified. An earlier version can be stored too."""
    said = record.get("modified")
    made = instant(record["created"])
    changed = instant(said) if isinstance(said, str) else None
    return said if made is not None and changed is not None and changed > made else None


def _references(record: Record) -> Fields:
    fields: Fields = {}
    if refs := [*_cited(record), *_attached(record)][:_MOST]:
        fields["content_refs"] = refs
    vector = object_of(record, "embedding")
    uri, model = short_name(vector.get("vectorUri")), short_name(vector.get("model"))
    dimensions = vector.get("dimensions")
    if uri and model and type(dimensions) is int and 0 < dimensions < 1 << 31:
        fields["embedding_refs"] = [
            {"vector_id": uri, "model": model, "dimensions": dimensions, "modality_source": "text"}
        ]
    return fields


def _cited(record: Record) -> Iterator[Fields]:
    for one in objects_of(record, "citations"):
        if (url := short_name(one.get("url"))) is None:
            continue
        ref: Fields = {
            "uri": url, "modality": "document", "citation_type": "url", "identifier": url
        }  # fmt: skip
        said = one.get("accessed")
        at = times.parse(said, floating=True) if isinstance(said, str) else None
        if at is not None:
            ref["retrieved_at"] = at.millis
        if (role := _ROLES.get(short_name(one.get("citationRole")) or "")) is not None:
            ref["citation_role"] = role
        yield ref


def _attached(record: Record) -> Iterator[Fields]:
    for one in objects_of(record, "documents"):
        uri = short_name(one.get("url")) or short_name(one.get("id"))
        if uri is None:
            continue
        kind = one.get("documentType")
        ref: Fields = {"uri": uri, "modality": kind if kind in _MODALITIES else "document"}
        if mime := short_name(one.get("contentType")):
            ref["mime_type"] = mime
        size = one.get("byteLength")
        if type(size) is int and 0 <= size < 1 << 53:
            ref["size_bytes"] = size
        hash_ = object_of(one, "hash")
        if hash_.get("algorithm") == "sha256" and short_name(hash_.get("value")):
            ref["checksum"] = f"sha256:{hash_['value']}"
        yield ref


# -- to memories ----------------------------------------------------------------------------------


def _from_fields(fields: Mapping[str, Any], id: str) -> Record:
    kind, context = fields["type"], fields.get("context", {})
    later = context.get(_SHAPE) == _1_X
    record: Record = {"@context": CONTEXT, "@type": "Concept" if later else "Memory", "@id": id}
    record["conceptType" if later else "memoryType"] = _KINDS[kind]
    if kind == "belief":
        record["content"] = fields["object"]
    else:
        record["content"] = fields["content"] if kind == "event" else fields["steps"][0]
    record["created"] = times.spell(fields["created_at"])
    if (namespace := fields.get("namespace", NAMESPACE)) != NAMESPACE:
        record["namespace"] = namespace
    if "structural_tags" in fields:
        record["tags"] = fields["structural_tags"]
    for key, member in ((_TITLE, "title"), (_SUMMARY, "summary")):
        if key in context:
            record[member] = context[key]
    return record


def _other_id(record: Record) -> str:
    value = record.get("value")
    id = value.get("@id") if isinstance(value, dict) else None
    return id if isinstance(id, str) else ""


TABLE: Final = RecordTable(
    FORMAT,
    {
        "memory": RecordShape(
            _to_fields, _from_fields, lambda record: str(record["@id"]), order=ORDER
        ),
        "other": RecordShape(other_fields, other_record, _other_id),
    },
    ordered=True,
)
"""Memories and other values; another value is ``{"value": value}``."""
