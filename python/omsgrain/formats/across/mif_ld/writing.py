# SPDX-License-Identifier: Apache-2.0
"""Items of the model as memories of MIF in JSON-LD, of either shape."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from omsgrain.formats import model
from omsgrain.formats.across.content import Content, Written
from omsgrain.formats.across.mif_ld.words import (
    ARRAY,
    ENTITIES,
    NAMED,
    SAID_SO,
    TYPES,
    base_of,
    plural,
    relation_of_kind,
    urn_of,
)  # fmt: skip
from omsgrain.formats.across.shaping import Record
from omsgrain.formats.across.spelling import count, date_time, rate
from omsgrain.formats.mif_ld.fields import CONTEXT
from omsgrain.formats.mif_ld.layouts import corpus
from omsgrain.formats.mif_ld.records import is_memory
from omsgrain.formats.mif_ld.shape import SHAPES, Shape
from omsgrain.formats.mif_ld.volatile import together

__all__ = ["adapt", "tree", "write"]

_EPOCH: Final = "1970-01-01T00:00:00Z"
_WORD: Final = re.compile(r"[a-z][a-z0-9_]*")
_ENTITY_TYPE: Final = re.compile(r"[a-z][a-z0-9-]*")


def tree(envelope: Mapping[str, Any], arrays: Mapping[str, list[Record]]) -> dict[str, Any]:
    """A file, before it is spelled: its entry, and the documents in it, with their counters."""
    values = [
        one["value"] if not is_memory(one) and one.keys() == {"value"} else one
        for one in arrays.get(ARRAY, ())
    ]
    values = list(together(values, envelope.get("volatile") or {}))
    files = list(envelope.get("files", ()))
    if len(files) == 1 and files[0].get("count") != len(values):
        first = files[0] | {"count": len(values)}
        if "runs" in first:
            first["runs"] = corpus(values)["runs"]
        files = [first]
    return {"files": files, "memories": values}


def adapt(item: model.Item) -> model.Item | None:
    """The item as this format has it; None if it has nothing like it."""
    if isinstance(item, model.Todo | model.Reminder):
        item = model.Memory(id=item.id, content=item.content, type="intention", tags=item.tags,
                            created_at=item.created_at)  # fmt: skip
    if isinstance(item, model.Memory):
        if not item.content:
            return None
        times: dict[str, Any] = {
            name: date_time(getattr(item, name)) for name in ("updated_at", "accessed_at")
        }
        made = date_time(item.created_at) or times["updated_at"] or _EPOCH
        return replace(item, created_at=made, **times)
    if not isinstance(item, model.Relation):
        return None
    if all(relation_of_kind(item.type, shape) is None for shape in SHAPES):
        return None
    if (item.source_kind, item.target_kind) != ("memory", "memory"):
        return None
    return replace(item, weight=rate(item.weight))


def write(content: Content, *, strict: bool, shape: Shape = "0.1") -> Written:
    """A corpus of items that were adapted.

    Args:
        content: what it is to say; ids are those of this format.
        strict: the same for corpora: extensions are the format's own.
        shape: of its memories.
    """
    written: list[tuple[Record, int]] = []
    by_id: dict[str, Record] = {}
    for item, at in content.found:
        if isinstance(item, model.Memory):
            record = _record(item, shape)
            written.append((record, at))
            by_id.setdefault(item.id, record)
    for item, _ in content.found:
        if isinstance(item, model.Relation) and (found := by_id.get(item.source)) is not None:
            name = relation_of_kind(item.type, shape)
            if name is None:
                continue  # the other shape has such a word
            one = _relationship(name, item.target, shape)
            if item.weight is not None:
                one["strength"] = item.weight
            found.setdefault("relationships", []).append(one)
    return Written({"files": [corpus([record for record, _ in written])]}, {ARRAY: written})


def _record(item: model.Memory, shape: Shape) -> Record:
    base = base_of(item.type)
    cls, kind = ("Concept", "conceptType") if shape == "1.x" else ("Memory", "memoryType")
    record: Record = {"@context": CONTEXT, "@type": cls, "@id": item.id, kind: base,
                      "content": item.content, "created": item.created_at}  # fmt: skip
    if item.updated_at:
        record["modified"] = item.updated_at
    if item.type and item.type not in TYPES and _WORD.fullmatch(item.type):
        record["namespace"] = f"_{base}/{plural(item.type)}"
    if item.tags:
        record["tags"] = list(item.tags)
    if entities := [_mention(one) for one in item.entities]:
        record["entities"] = entities
    named = [("part_of", item.parent)] if item.parent else []
    named += [("related_to", one) for one in item.related]
    related = [_relationship(name, target, shape) for kind, target in named
               if (name := relation_of_kind(kind, shape)) is not None]  # fmt: skip
    if related:
        record["relationships"] = related
    temporal: Record = {}
    if (accesses := count(item.access_count, 0)) is not None:
        temporal["accessCount"] = accesses
    if item.accessed_at:
        temporal["lastAccessed"] = item.accessed_at
    if temporal:
        record["temporal"] = temporal
    if provenance := _provenance(item):
        record["provenance"] = provenance
    if item.embedding is not None and (vector := _vector(item.embedding)):
        record["embedding"] = vector
    return record


def _relationship(name: str, target: str, shape: Shape) -> Record:
    if shape == "1.x":
        return {"type": name, "target": target}
    return {"@type": "Relationship", "relationshipType": name, "target": {"@id": target}}


def _mention(one: model.Mention) -> Record:
    kind = None if one.type is None else NAMED.get(one.type, one.type)
    urn = urn_of(one.name, one.type) if one.of is None else one.of
    record: Record = {"@type": "EntityReference", "entity": {"@id": urn}}
    if kind in ENTITIES or _ENTITY_TYPE.fullmatch(kind or ""):
        record["entityType"] = kind
    return record | {"name": one.name}


def _provenance(item: model.Memory) -> Record:
    origin = item.origin
    record: Record = {}
    if origin is not None and origin.type:
        known = origin.type in ("user_implicit",)
        if (source := origin.type if known else SAID_SO.get(origin.type)) is not None:
            record["sourceType"] = source
    agent = (origin.agent if origin is not None else None) or None
    return record | {"agent": agent} if agent else record


def _vector(said: model.Embedding) -> Record:
    record: Record = {"@type": "EmbeddingReference"}
    if isinstance(said.model, str):
        record["model"] = said.model
    dimensions = count(said.dimensions, 1) or len(said.vector)
    if dimensions:
        record["dimensions"] = dimensions
    if said.normalized is not None:
        record["normalized"] = said.normalized
    return record if len(record) > 1 else {}
