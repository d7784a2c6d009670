# SPDX-License-Identifier: Apache-2.0
"""MIF in JSON-LD in terms of the model: memories, whom they name, and what relates them.

The format has three types of memories; what a finer type is called stands in the namespace, as the
format advises: a decision is semantic, and in ``_semantic/decisions``. Memories are read in both
shapes, and written in shape 0.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from omsgrain.formats import model
from omsgrain.formats.across.content import Content, Found, Written
from omsgrain.formats.across.losses import Told
from omsgrain.formats.across.shaping import Attribute, Record, Shape
from omsgrain.formats.across.spelling import count, rate, rfc3339
from omsgrain.formats.mif_ld.fields import CONTEXT
from omsgrain.formats.mif_ld.layouts import corpus
from omsgrain.formats.mif_ld.markdown.names import KEBAB, slug
from omsgrain.formats.mif_ld.records import is_memory, type_of
from omsgrain.formats.mif_ld.volatile import together

__all__ = ["ARRAY", "CARRIED", "CLASSES", "TITLE", "TOLD", "adapt", "member_of", "read", "tree",
           "write"]  # fmt: skip

TITLE: Final = "MIF in JSON-LD"
ARRAY: Final = "/memories"
CARRIED: Final = "omsgrain"
"""Our place in the extensions."""
_EXTENSIONS: Final = "extensions"
_URN: Final = "urn:mif:"
_ENTITY: Final = "urn:mif:entity:"
_EPOCH: Final = "1970-01-01T00:00:00Z"
_TYPES: Final = frozenset(("semantic", "episodic", "procedural"))
_SEMANTIC: Final = frozenset(
    ("fact", "observation", "learning", "discovery", "pattern", "decision", "preference",
     "identity", "pitfall", "context", "intention")
)  # fmt: skip
_FINER = re.compile(r"_(semantic|episodic|procedural)/([a-z][a-z0-9_]*)")
_WORD = re.compile(r"[a-z][a-z0-9_]*")
_KEBAB = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_PREFIXED = re.compile(r"[a-zA-Z][a-zA-Z0-9]*:[a-zA-Z][a-zA-Z0-9-]*")
_ENTITY_TYPE = re.compile(r"[a-z][a-z0-9-]*")

_SOURCES: Final = {
    "user_explicit": "user",
    "agent_inferred": "inferred",
    "system_generated": "system",
    "external_import": "imported",
}
"""Where memories come from, by their names in the model."""
_SAID_SO: Final = {own: name for name, own in _SOURCES.items()} | {"ai_generated": "agent_inferred"}
_ENTITIES: Final = {
    name: name.lower() for name in ("Person", "Organization", "Technology", "Concept", "File")
}
_NAMED: Final = {own: name for name, own in _ENTITIES.items()}
_RELATED: Final = {name: kebab.replace("-", "_") for name, kebab in KEBAB.items()} | {
    "RelatesTo": "related_to"
}
"""Types of relationships by their names in the model."""
_RELATES: Final = {own: name for name, own in _RELATED.items()} | {"created": "Created"}
_REFERENCES: Final = {"PartOf": "parent", "RelatesTo": "related"}
"""Types that are references of the memory, where nothing else is said of them."""

CLASSES: Final[dict[str, Shape]] = {
    "memory": Shape(
        model.Memory,
        tuple(
            Attribute(name, member, (str,))
            for name, member in {
                "id": "@id", "content": "content", "type": "memoryType", "created_at": "created",
                "updated_at": "modified", "tags": "tags", "entities": "entities",
                "embedding": "embedding", "origin": "provenance", "parent": "relationships",
                "related": "relationships",
            }.items()
        ),
    ),
    "relationship": Shape(
        model.Relation,
        tuple(
            Attribute(name, member, (str,))
            for name, member in {"type": "relationshipType", "source": "@id", "target": "target",
                                 "weight": "strength"}.items()
        ),
    ),
}  # fmt: skip
"""What members are called, for what is told of them."""
TOLD: Final = Told(
    {"accessed_at": "temporal/lastAccessed", "access_count": "temporal/accessCount"},
    frozenset(("of",)),
)
"""Where the rest stands."""


def member_of(record: Mapping[str, Any]) -> Any:
    """The grain that goes along in a memory; None if there is none."""
    place = record.get(_EXTENSIONS)
    return place.get(CARRIED) if isinstance(place, dict) else None


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
            first["runs"] = corpus(len(values))["runs"]
        files = [first]
    return {"files": files, "memories": values}


# -- reading --------------------------------------------------------------------------------------


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
    given: dict[str, Any] = {"updated_at": _text(record, "modified")}
    kind, namespace = _type(record)
    if namespace is not None:
        rest["namespace"] = namespace
    temporal = _object(record, "temporal")
    given["accessed_at"] = _text(temporal, "lastAccessed")
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


_SAID: Final = frozenset(
    ("@id", "memoryType", "conceptType", "content", "created", "modified", "namespace", "tags",
     "entities", "temporal", "relationships", "provenance", "embedding", _EXTENSIONS)
)  # fmt: skip


def _rest(record: Record) -> Iterator[tuple[str, Any]]:
    plain = {"@context": (CONTEXT,), "@type": ("Memory", "Concept")}
    for name, value in record.items():
        if name not in _SAID and not (isinstance(value, str) and value in plain.get(name, ())):
            yield name, value
    both = record.get("memoryType"), record.get("conceptType")
    if None not in both and both[0] != both[1]:
        yield "memoryType", both[0]
    for name, value in _object(record, _EXTENSIONS).items():
        if name != CARRIED:
            yield f"{_EXTENSIONS}/{name}", value


def _type(record: Record) -> tuple[str, str | None]:
    """The type of a memory, and its namespace if that says more."""
    base, namespace = type_of(record) or "semantic", _text(record, "namespace")
    finer = _FINER.fullmatch(namespace or "")
    if finer is not None and finer[1] == base:
        kind = _singular(finer[2])
        if kind not in _TYPES and _base(kind) == base and _plural(kind) == finer[2]:
            return kind, None
    return base, namespace


def _base(kind: str | None) -> str:
    """The type that the format has for one of the model."""
    if kind in _TYPES:
        return str(kind)
    if not kind or kind in _SEMANTIC:
        return "semantic"
    return "procedural" if kind == "procedure" else "episodic"


def _plural(kind: str) -> str:
    return f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}s"


def _singular(name: str) -> str:
    return f"{name[:-3]}y" if name.endswith("ies") else name.removesuffix("s")


def _mentions(record: Record) -> Iterator[model.Mention]:
    for one in _objects(record, "entities"):
        kind = _text(one, "entityType")
        rest = {name: one[name] for name in ("role",) if name in one}
        urn = _object(one, "entity").get("@id")
        type_ = None if kind is None else _ENTITIES.get(kind, kind)
        name = _text(one, "name")
        if urn != _urn_of(name or "", type_):
            rest["entity"] = urn
        yield model.Mention(name=name or str(urn).removeprefix(_ENTITY), type=type_, rest=rest)


def _urn_of(name: str, kind: str | None) -> str:
    """The URN of what is only mentioned."""
    return f"{_ENTITY}{slug(kind or 'concept')}:{slug(name)}"


def _embedding(record: Record) -> model.Embedding | None:
    said = _object(record, "embedding")
    rest = {name: said[name] for name in ("modelVersion", "sourceText", "vectorUri")
            if name in said}  # fmt: skip
    dimensions, normalized = said.get("dimensions"), said.get("normalized")
    found = model.Embedding(
        model=_text(said, "model"),
        dimensions=dimensions if type(dimensions) is int else None,
        normalized=normalized if isinstance(normalized, bool) else None,
        rest=rest,
    )
    return None if found == model.Embedding() else found


def _origin(record: Record) -> model.Provenance | None:
    said = _object(record, "provenance")
    kind = _text(said, "sourceType")
    rest = {name: one for name, one in said.items()
            if name not in ("sourceType", "agent") and (name, one) != ("@type", "prov:Entity")}  # fmt: skip
    found = model.Provenance(type=None if kind is None else _SOURCES.get(kind, kind),
                             agent=_text(said, "agent"), rest=rest)  # fmt: skip
    return None if found == model.Provenance() else found


def _relationships(
    record: Record, rest: dict[str, Any]
) -> tuple[str | None, list[str], list[model.Relation]]:
    parent: str | None = None
    related: list[str] = []
    relations: list[model.Relation] = []
    for at, one in enumerate(_objects(record, "relationships")):
        target = one.get("target")
        to = target.get("@id") if isinstance(target, dict) else target
        name = _text(one, "relationshipType") or _text(one, "type") or ""
        kind = _related(name)
        more = one.keys() - {"@type", "relationshipType", "type", "target"}
        if isinstance(target, dict):
            more |= target.keys() - {"@id"}
        if not isinstance(to, str) or not to.startswith(_URN):
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


def _related(name: str) -> str:
    """The type of a relationship in the model, of either shape."""
    if name in _RELATED:
        return _RELATED[name]
    bare = name.removeprefix(f"{CARRIED}:")
    if bare != name or ":" not in name:
        snake = bare.replace("-", "_")
        return "related_to" if snake == "relates_to" else snake
    return name


def _relates(kind: str | None) -> str | None:
    """The way back of `_related`; None if it has none."""
    if not kind or kind in _RELATES:
        return _RELATES.get(kind or "related_to")
    if _PREFIXED.fullmatch(kind):
        return kind
    kebab = kind.replace("_", "-")
    return f"{CARRIED}:{kebab}" if _KEBAB.fullmatch(kebab) else None


def _document(envelope: Mapping[str, Any]) -> model.Document:
    files = envelope.get("files") or ()
    whole = files[0].get("corpus") if len(files) == 1 else None
    rest = dict(whole) if isinstance(whole, dict) else {}
    for name in ("@context", "@type", "records", "memories"):
        rest.pop(name, None)
    if isinstance(extensions := rest.get(_EXTENSIONS), dict):
        rest[_EXTENSIONS] = {name: v for name, v in extensions.items() if name != CARRIED}
    return model.Document(rest={name: value for name, value in rest.items() if value})


def _object(record: Mapping[str, Any], name: str) -> Record:
    value = record.get(name)
    return value if isinstance(value, dict) else {}


def _objects(record: Mapping[str, Any], name: str) -> list[Record]:
    value = record.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(record: Mapping[str, Any], name: str) -> str | None:
    value = record.get(name)
    return value if isinstance(value, str) else None


# -- writing --------------------------------------------------------------------------------------


def adapt(item: model.Item) -> model.Item | None:
    """The item as this format has it; None if it has nothing like it."""
    if isinstance(item, model.Todo | model.Reminder):
        item = model.Memory(id=item.id, content=item.content, type="intention", tags=item.tags,
                            created_at=item.created_at)  # fmt: skip
    if isinstance(item, model.Memory):
        if not item.content:
            return None
        times: dict[str, Any] = {
            name: rfc3339(getattr(item, name)) for name in ("updated_at", "accessed_at")
        }
        made = rfc3339(item.created_at) or times["updated_at"] or _EPOCH
        return replace(item, created_at=made, **times)
    if not isinstance(item, model.Relation) or _relates(item.type) is None:
        return None
    if (item.source_kind, item.target_kind) != ("memory", "memory"):
        return None
    return replace(item, weight=rate(item.weight))


def write(content: Content, *, strict: bool) -> Written:
    """A corpus of items that were adapted.

    Args:
        content: what it is to say; ids are those of this format.
        strict: the same for corpora: extensions are the format's own.
    """
    written: list[tuple[Record, int]] = []
    by_id: dict[str, Record] = {}
    for item, at in content.found:
        if isinstance(item, model.Memory):
            record = _record(item)
            written.append((record, at))
            by_id.setdefault(item.id, record)
    for item, _ in content.found:
        if isinstance(item, model.Relation) and (found := by_id.get(item.source)) is not None:
            one = _relationship(_relates(item.type) or "RelatesTo", item.target)
            if item.weight is not None:
                one["strength"] = item.weight
            found.setdefault("relationships", []).append(one)
    return Written({"files": [corpus(len(written))]}, {ARRAY: written})


def _record(item: model.Memory) -> Record:
    base = _base(item.type)
    record: Record = {"@context": CONTEXT, "@type": "Memory", "@id": item.id, "memoryType": base,
                      "content": item.content, "created": item.created_at}  # fmt: skip
    if item.updated_at:
        record["modified"] = item.updated_at
    if item.type and item.type not in _TYPES and _WORD.fullmatch(item.type):
        record["namespace"] = f"_{base}/{_plural(item.type)}"
    if item.tags:
        record["tags"] = list(item.tags)
    if entities := [_mention(one) for one in item.entities]:
        record["entities"] = entities
    related = [_relationship("PartOf", item.parent)] if item.parent else []
    related += [_relationship("RelatesTo", one) for one in item.related]
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


def _relationship(name: str, target: str) -> Record:
    return {"@type": "Relationship", "relationshipType": name, "target": {"@id": target}}


def _mention(one: model.Mention) -> Record:
    kind = None if one.type is None else _NAMED.get(one.type, one.type)
    urn = _urn_of(one.name, one.type) if one.of is None else one.of
    record: Record = {"@type": "EntityReference", "entity": {"@id": urn}}
    if kind in _ENTITIES or _ENTITY_TYPE.fullmatch(kind or ""):
        record["entityType"] = kind
    return record | {"name": one.name}


def _provenance(item: model.Memory) -> Record:
    origin = item.origin
    record: Record = {}
    if origin is not None and origin.type:
        known = origin.type in ("user_implicit",)
        if (source := origin.type if known else _SAID_SO.get(origin.type)) is not None:
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
