# SPDX-License-Identifier: Apache-2.0
"""Converts MIF in JSON-LD, in either shape, to and from the model."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from omsgrain.formats import model
from omsgrain.formats.convert import base
from omsgrain.formats.mif_ld import defects
from omsgrain.formats.mif_ld.document import corpus, together
from omsgrain.formats.mif_ld.markdown import KEBAB, slug
from omsgrain.formats.mif_ld.records import CONTEXT, SHAPES, Shape, is_memory, type_of
from omsgrain.formats.records import object_of, objects_of, text_of

ARRAY: Final = "/memories"
SHAPE: Final = "shape"
"""The envelope's member for the shape of memories made of carried grains."""
CARRIED: Final = "omsgrain"
EXTENSIONS: Final = "extensions"
ENTITY_URN: Final = f"{base.URN}{base.ENTITY}"
TYPES: Final = frozenset(("semantic", "episodic", "procedural"))
_SEMANTIC: Final = frozenset(
    ("fact", "observation", "learning", "discovery", "pattern", "decision", "preference",
     "identity", "pitfall", "context", "intention")
)  # fmt: skip
FINER = re.compile(r"_(semantic|episodic|procedural)/([a-z][a-z0-9_]*)")
_KEBAB = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_PREFIXED = re.compile(r"[a-zA-Z][a-zA-Z0-9]*:[a-zA-Z][a-zA-Z0-9-]*")
_TOKEN = re.compile(r"[a-z0-9][a-z0-9-]*(:[a-z0-9][a-z0-9-]*)?")
_REFERENCE: Final = "related_to"

SOURCES: Final = {
    "user_explicit": "user",
    "agent_inferred": "inferred",
    "system_generated": "system",
    "external_import": "imported",
}
"""Source type -> name in the model."""
SAID_SO: Final = {own: name for name, own in SOURCES.items()} | {"ai_generated": "agent_inferred"}
ENTITIES: Final = {name: name.lower() for name in defects.ENTITIES}
NAMED: Final = {own: name for name, own in ENTITIES.items()}
_RELATED: Final = {name: kebab.replace("-", "_") for name, kebab in KEBAB.items()} | {
    "RelatesTo": _REFERENCE
}
"""Relationship type -> name in the model."""
_RELATES: Final = {own: name for name, own in _RELATED.items()} | {"created": "Created"}

CLASSES: Final[dict[str, base.ClassShape]] = {
    "memory": base.named(
        model.MemoryItem,
        {"id": "@id", "content": "content", "type": "memoryType", "created_at": "created",
         "updated_at": "modified", "tags": "tags", "entities": "entities",
         "embedding": "embedding", "origin": "provenance", "parent": "relationships",
         "related": "relationships"},
    ),
    "relationship": base.named(
        model.Relation,
        {"type": "relationshipType", "source": "@id", "target": "target", "weight": "strength"},
    ),
}  # fmt: skip
LOSS_NAMES: Final = base.LossNames(
    {"accessed_at": "temporal/lastAccessed", "access_count": "temporal/accessCount"},
    frozenset(("of",)),
)


SAID_BY_TYPE: Final = frozenset((base.KNOWS, "mg:prefers", "mif:decided", "aimem:decided"))
"""The relations of beliefs that a namespace implies, such as _semantic/preferences."""


def base_of(kind: str | None) -> str:
    if kind in TYPES:
        return str(kind)
    if not kind or kind in _SEMANTIC:
        return "semantic"
    return "procedural" if kind == "procedure" else "episodic"


def plural(kind: str) -> str:
    """Return the namespace's name for a finer type, such as decisions."""
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def singular(name: str) -> str:
    """The inverse of `plural`, if there is one."""
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def urn_of(name: str, kind: str | None) -> str:
    return f"{ENTITY_URN}{slug(kind or 'concept')}:{slug(name)}"


def kind_of_relation(name: str) -> str:
    if name in _RELATED:
        return _RELATED[name]
    bare = name.removeprefix(f"{CARRIED}:")
    if bare != name or ":" not in name:
        snake = bare.replace("-", "_")
        return _REFERENCE if snake == "relates_to" else snake
    return name


def relation_of_kind(kind: str | None, shape: Shape) -> str | None:
    """The inverse of `kind_of_relation` in a shape; None if the shape has no such type."""
    kebab = (kind or _REFERENCE).replace("_", "-")
    if shape == "1.x":
        kebab = "relates-to" if kebab == "related-to" else kebab
        return kebab if _TOKEN.fullmatch(kebab) else None
    if not kind or kind in _RELATES:
        return _RELATES.get(kind or _REFERENCE)
    if _PREFIXED.fullmatch(kind):
        return kind
    return f"{CARRIED}:{kebab}" if _KEBAB.fullmatch(kebab) else None


_SAID: Final = frozenset(
    ("@id", "memoryType", "conceptType", "content", "created", "modified", "namespace", "tags",
     "entities", "temporal", "relationships", "provenance", "embedding", EXTENSIONS)
)  # fmt: skip


def member_of(record: Mapping[str, Any]) -> Any:
    place = record.get(EXTENSIONS)
    return place.get(CARRIED) if isinstance(place, dict) else None


def read(records: Sequence[tuple[str, base.Record]], envelope: Mapping[str, Any]) -> base.Content:
    bare = (record if kind == "memory" else record.get("value") for kind, record in records)
    found = []
    for at, value in enumerate(together(bare, envelope.get("volatile") or {})):
        if not is_memory(value):
            rest = value if isinstance(value, dict) else {"value": value}
            found.append(base.SourcedItem(model.Only(kind="other", rest=rest), at))
            continue
        memory, relations = _memory(value)
        found.append(base.SourcedItem(memory, at))
        found += [base.SourcedItem(one, at) for one in relations]
    return base.Content(_document(envelope), found)


def _memory(record: base.Record) -> tuple[model.MemoryItem, list[model.Relation]]:
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
    memory = model.MemoryItem(
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


def _rest(record: base.Record) -> Iterator[tuple[str, Any]]:
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


def _type(record: base.Record) -> tuple[str, str | None]:
    """Return the type of a memory, and its namespace if that adds information."""
    own, namespace = type_of(record) or "semantic", text_of(record, "namespace")
    finer = FINER.fullmatch(namespace or "")
    if finer is not None and finer[1] == own:
        kind = singular(finer[2])
        if kind not in TYPES and base_of(kind) == own and plural(kind) == finer[2]:
            return kind, None
    return own, namespace


def _mentions(record: base.Record) -> Iterator[model.Mention]:
    for one in objects_of(record, "entities"):
        kind = text_of(one, "entityType")
        rest = {name: one[name] for name in ("role",) if name in one}
        urn = object_of(one, "entity").get("@id")
        type_ = None if kind is None else ENTITIES.get(kind, kind)
        name = text_of(one, "name")
        if urn != urn_of(name or "", type_):
            rest["entity"] = urn
        yield model.Mention(name=name or str(urn).removeprefix(ENTITY_URN), type=type_, rest=rest)


def _embedding(record: base.Record) -> model.Embedding | None:
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


def _origin(record: base.Record) -> model.Provenance | None:
    said = object_of(record, "provenance")
    kind = text_of(said, "sourceType")
    rest = {name: one for name, one in said.items()
            if name not in ("sourceType", "agent")
            and (name, one) != ("@type", "prov:Entity")}  # fmt: skip
    found = model.Provenance(type=None if kind is None else SOURCES.get(kind, kind),
                             agent=text_of(said, "agent"), rest=rest)  # fmt: skip
    return None if found == model.Provenance() else found


def _relationships(
    record: base.Record, rest: dict[str, Any]
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
        if not isinstance(to, str) or not to.startswith(base.URN):
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


_WORD: Final = re.compile(r"[a-z][a-z0-9_]*")
_ENTITY_TYPE: Final = re.compile(r"[a-z][a-z0-9-]*")


def tree(envelope: Mapping[str, Any], arrays: Mapping[str, list[base.Record]]) -> dict[str, Any]:
    values = list(together(arrays.get(ARRAY, ()), envelope.get("volatile") or {}))
    files = list(envelope.get("files", ()))
    if len(files) == 1 and files[0].get("count") != len(values):
        first = files[0] | {"count": len(values)}
        if "runs" in first:
            first["runs"] = corpus(values)["runs"]
        files = [first]
    return {"files": files, "memories": values}


def adapt(item: model.Item) -> model.Item | None:
    if isinstance(item, model.Todo | model.Reminder):
        item = model.MemoryItem(id=item.id, content=item.content, type="intention", tags=item.tags,
                            created_at=item.created_at)  # fmt: skip
    if isinstance(item, model.MemoryItem):
        if not item.content:
            return None
        times = base.converted(item, base.date_time, "updated_at", "accessed_at")
        made = base.date_time(item.created_at) or times["updated_at"] or base.EPOCH
        return replace(item, **times, created_at=made)
    if not isinstance(item, model.Relation):
        return None
    if all(relation_of_kind(item.type, shape) is None for shape in SHAPES):
        return None
    if (item.source_kind, item.target_kind) != ("memory", "memory"):
        return None
    return replace(item, weight=base.rate(item.weight))


def write(content: base.Content, options: base.BuildOptions) -> base.ConvertedDocument:
    shape = options.shape or "0.1"
    written: list[tuple[base.Record, int]] = []
    by_id: dict[str, base.Record] = {}
    for item, at in content.found:
        if isinstance(item, model.MemoryItem):
            record = _record(item, shape)
            written.append((record, at))
            by_id.setdefault(item.id, record)
    for item, _ in content.found:
        if isinstance(item, model.Relation) and (found := by_id.get(item.source)) is not None:
            name = relation_of_kind(item.type, shape)
            if name is None:
                continue  # only the other shape has this type
            one = _relationship(name, item.target, shape)
            if item.weight is not None:
                one["strength"] = item.weight
            found.setdefault("relationships", []).append(one)
    return base.ConvertedDocument(
        {"files": [corpus([record for record, _ in written])]}, {ARRAY: written}
    )


def _record(item: model.MemoryItem, shape: Shape) -> base.Record:
    own = base_of(item.type)
    cls, kind = ("Concept", "conceptType") if shape == "1.x" else ("Memory", "memoryType")
    record: base.Record = {"@context": CONTEXT, "@type": cls, "@id": item.id, kind: own,
                      "content": item.content, "created": item.created_at}  # fmt: skip
    if item.updated_at:
        record["modified"] = item.updated_at
    if item.type and item.type not in TYPES and _WORD.fullmatch(item.type):
        record["namespace"] = f"_{own}/{plural(item.type)}"
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
    temporal: base.Record = {}
    if (accesses := base.count(item.access_count, 0)) is not None:
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


def _relationship(name: str, target: str, shape: Shape) -> base.Record:
    if shape == "1.x":
        return {"type": name, "target": target}
    return {"@type": "Relationship", "relationshipType": name, "target": {"@id": target}}


def _mention(one: model.Mention) -> base.Record:
    kind = None if one.type is None else NAMED.get(one.type, one.type)
    urn = urn_of(one.name, one.type) if one.of is None else one.of
    record: base.Record = {"@type": "EntityReference", "entity": {"@id": urn}}
    if kind in ENTITIES or _ENTITY_TYPE.fullmatch(kind or ""):
        record["entityType"] = kind
    return record | {"name": one.name}


def _provenance(item: model.MemoryItem) -> base.Record:
    origin = item.origin
    record: base.Record = {}
    if origin is not None and origin.type:
        known = origin.type in ("user_implicit",)
        if (source := origin.type if known else SAID_SO.get(origin.type)) is not None:
            record["sourceType"] = source
    agent = (origin.agent if origin is not None else None) or None
    return record | {"agent": agent} if agent else record


def _vector(said: model.Embedding) -> base.Record:
    record: base.Record = {"@type": "EmbeddingReference"}
    if isinstance(said.model, str):
        record["model"] = said.model
    dimensions = base.count(said.dimensions, 1) or len(said.vector)
    if dimensions:
        record["dimensions"] = dimensions
    if said.normalized is not None:
        record["normalized"] = said.normalized
    return record if len(record) > 1 else {}


# -- ids ------------------------------------------------------------------------------------------


def id_of(other: base.OtherId) -> str:
    kind, id, external = other[:3]
    if kind == "relation":
        return id
    if external and external.startswith(base.URN) and base.uuid_of(kind, external) == id:
        return external
    prefix = ENTITY_URN if kind == "entity" else base.URN
    local = base.local_id(id)
    return local if local.startswith(prefix) else prefix + local


HUB: Final = base.Hub(CLASSES, LOSS_NAMES, read, adapt, write, id_of, base.no_export_id)
