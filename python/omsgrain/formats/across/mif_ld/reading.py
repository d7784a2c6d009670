# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD as items of the model, of memories in either shape."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from omsgrain.formats import model
from omsgrain.formats.across.content import Content, Found
from omsgrain.formats.across.mif_ld.words import (
    CARRIED,
    ENTITIES,
    ENTITY,
    EXTENSIONS,
    FINER,
    SOURCES,
    TYPES,
    URN,
    base_of,
    kind_of_relation,
    plural,
    singular,
    urn_of,
)  # fmt: skip
from omsgrain.formats.across.shaping import Record
from omsgrain.formats.members import object_of, objects_of, text_of
from omsgrain.formats.mif_ld.fields import CONTEXT
from omsgrain.formats.mif_ld.records import is_memory, type_of
from omsgrain.formats.mif_ld.volatile import together

__all__ = ["member_of", "read"]

_SAID: Final = frozenset(
    ("@id", "memoryType", "conceptType", "content", "created", "modified", "namespace", "tags",
     "entities", "temporal", "relationships", "provenance", "embedding", EXTENSIONS)
)  # fmt: skip


def member_of(record: Mapping[str, Any]) -> Any:
    """The grain that goes along in a memory; None if there is none."""
    place = record.get(EXTENSIONS)
    return place.get(CARRIED) if isinstance(place, dict) else None


def read(records: Sequence[tuple[str, Record]], envelope: Mapping[str, Any]) -> Content:
    """What a file says.

    Args:
        records: with their kinds.
        envelope: what stands around them.
    """
    bare = (record if kind == "memory" else record.get("value") for kind, record in records)
    found = []
    for at, value in enumerate(together(bare, envelope.get("volatile") or {})):
        if not is_memory(value):
            rest = value if isinstance(value, dict) else {"value": value}
            found.append(Found(model.Only(kind="other", rest=rest), at))
            continue
        memory, relations = _memory(value)
        found.append(Found(memory, at))
        found += [Found(one, at) for one in relations]
    return Content(_document(envelope), found)


def _memory(record: Record) -> tuple[model.Memory, list[model.Relation]]:
    rest = dict(_rest(record))
    given: dict[str, Any] = {"updated_at": text_of(record, "modified")}
    kind, namespace = _type(record)
    if namespace is not None:
        rest["namespace"] = namespace
    temporal = object_of(record, "temporal")
    given["accessed_at"] = text_of(temporal, "lastAccessed")
    accesses = temporal.get("accessCount")
    given["access_count"] = accesses if type(accesses) is int else None
    known = {"@type", "accessCount", "lastAccessed"}
    rest |= {f"temporal/{name}": one for name, one in temporal.items() if name not in known}
    parent, related, relations = _relationships(record, rest)
    memory = model.Memory(
        id=record["@id"],
        content=record["content"],
        type=kind,
        created_at=record["created"],
        tags=tuple(one for one in record.get("tags") or () if isinstance(one, str)),
        entities=tuple(_mentions(record)),
        embedding=_embedding(record),
        origin=_origin(record),
        parent=parent,
        related=tuple(related),
        rest=rest,
        **given,
    )
    return memory, relations


def _rest(record: Record) -> Iterator[tuple[str, Any]]:
    plain = {"@context": (CONTEXT,), "@type": ("Memory", "Concept")}
    for name, value in record.items():
        if name not in _SAID and not (isinstance(value, str) and value in plain.get(name, ())):
            yield name, value
    both = record.get("memoryType"), record.get("conceptType")
    if None not in both and both[0] != both[1]:
        yield "memoryType", both[0]
    for name, value in object_of(record, EXTENSIONS).items():
        if name != CARRIED:
            yield f"{EXTENSIONS}/{name}", value


def _type(record: Record) -> tuple[str, str | None]:
    """The type of a memory, and its namespace if that says more."""
    base, namespace = type_of(record) or "semantic", text_of(record, "namespace")
    finer = FINER.fullmatch(namespace or "")
    if finer is not None and finer[1] == base:
        kind = singular(finer[2])
        if kind not in TYPES and base_of(kind) == base and plural(kind) == finer[2]:
            return kind, None
    return base, namespace


def _mentions(record: Record) -> Iterator[model.Mention]:
    for one in objects_of(record, "entities"):
        kind = text_of(one, "entityType")
        rest = {name: one[name] for name in ("role",) if name in one}
        urn = object_of(one, "entity").get("@id")
        type_ = None if kind is None else ENTITIES.get(kind, kind)
        name = text_of(one, "name")
        if urn != urn_of(name or "", type_):
            rest["entity"] = urn
        yield model.Mention(name=name or str(urn).removeprefix(ENTITY), type=type_, rest=rest)


def _embedding(record: Record) -> model.Embedding | None:
    said = object_of(record, "embedding")
    others = ("modelVersion", "sourceText", "vectorUri")
    rest: dict[str, Any] = {name: said[name] for name in others if name in said}
    dimensions, normalized = said.get("dimensions"), said.get("normalized")
    found = model.Embedding(
        model=text_of(said, "model"),
        dimensions=dimensions if type(dimensions) is int else None,
        normalized=normalized if isinstance(normalized, bool) else None,
        rest=rest,
    )
    return None if found == model.Embedding() else found


def _origin(record: Record) -> model.Provenance | None:
    said = object_of(record, "provenance")
    kind = text_of(said, "sourceType")
    rest = {name: one for name, one in said.items()
            if name not in ("sourceType", "agent")
            and (name, one) != ("@type", "prov:Entity")}  # fmt: skip
    found = model.Provenance(type=None if kind is None else SOURCES.get(kind, kind),
                             agent=text_of(said, "agent"), rest=rest)  # fmt: skip
    return None if found == model.Provenance() else found


def _relationships(
    record: Record, rest: dict[str, Any]
) -> tuple[str | None, list[str], list[model.Relation]]:
    parent: str | None = None
    related: list[str] = []
    relations: list[model.Relation] = []
    for at, one in enumerate(objects_of(record, "relationships")):
        target = one.get("target")
        to = target.get("@id") if isinstance(target, dict) else target
        name = text_of(one, "relationshipType") or text_of(one, "type") or ""
        kind = kind_of_relation(name)
        more = one.keys() - {"@type", "relationshipType", "type", "target"}
        if isinstance(target, dict):
            more |= target.keys() - {"@id"}
        if not isinstance(to, str) or not to.startswith(URN):
            rest[f"relationships/{at}"] = one
        elif not more and kind == "related_to":
            related.append(to)
        elif not more and kind == "part_of" and parent is None:
            parent = to
        else:
            strength = one.get("strength")
            others = {key: one[key] for key in ("metadata",) if key in one}
            relations.append(
                model.Relation(
                    id=f"{record['@id']} {to} {kind}", source=record["@id"], target=to,
                    source_kind="memory", target_kind="memory", type=kind,
                    weight=strength if type(strength) in (int, float) else None, rest=others,
                )
            )  # fmt: skip
    return parent, related, relations


def _document(envelope: Mapping[str, Any]) -> model.Document:
    files: Any = envelope.get("files") or ()
    whole = files[0].get("corpus") if len(files) == 1 else None
    rest = dict(whole) if isinstance(whole, dict) else {}
    for name in ("@context", "@type", "records", "memories"):
        rest.pop(name, None)
    if isinstance(extensions := rest.get(EXTENSIONS), dict):
        rest[EXTENSIONS] = {name: v for name, v in extensions.items() if name != CARRIED}
    return model.Document(rest={name: value for name, value in rest.items() if value})
