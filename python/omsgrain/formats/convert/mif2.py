# SPDX-License-Identifier: Apache-2.0
"""Converts MIF 2.0 to and from the model, with the dialect's todos, projects and reminders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from omsgrain.formats import model
from omsgrain.formats.convert import base
from omsgrain.formats.mif2.check import ARRAYS, SHAPES, VERSION

CARRIED: Final = "omsgrain"
SHODH: Final = "shodh-memory"
METADATA: Final = "memory_metadata"
_KNOWN: Final = {"importance": "importance", "access_count": "access_count",
                 "last_accessed": "accessed_at", "decay_rate": "decay_rate"}  # fmt: skip
"""A vendor's member of a memory -> attribute of the model."""

_MENTION = base.shape(
    model.Mention, SHAPES["entity_ref"],
    {"name": "name", "type": "entity_type", "confidence": "confidence"},
)  # fmt: skip
_EMBEDDING = base.shape(
    model.Embedding, SHAPES["embeddings"],
    {"model": "model", "dimensions": "dimensions", "vector": "vector", "normalized": "normalized"},
    items={"vector": float},
)  # fmt: skip
_SOURCE = base.shape(
    model.Provenance, SHAPES["source"],
    {"type": "source_type", "session": "session_id", "agent": "agent_name"},
)  # fmt: skip
_COMMENT = base.shape(
    model.Comment, SHAPES["comment"],
    {"id": "id", "content": "content", "created_at": "created_at", "type": "comment_type",
     "author": "author"},
)  # fmt: skip

CLASSES: Final[dict[str, base.ClassShape]] = {
    "memory": base.shape(
        model.MemoryItem, SHAPES["memory"],
        {"id": "id", "content": "content", "type": "memory_type", "created_at": "created_at",
         "updated_at": "updated_at", "tags": "tags", "entities": "entities",
         "metadata": "metadata", "embedding": "embeddings", "origin": "source",
         "parent": "parent_id", "related": "related_memory_ids",
         "related_todos": "related_todo_ids", "agent": "agent_id", "external": "external_id",
         "version": "version"},
        inner={"entities": _MENTION, "embedding": _EMBEDDING, "origin": _SOURCE},
        more={"related_todo_ids": "array"},
    ),
    "todo": base.shape(
        model.Todo, SHAPES["todo"],
        {"id": "id", "content": "content", "status": "status", "priority": "priority",
         "created_at": "created_at", "updated_at": "updated_at", "due": "due_date",
         "completed_at": "completed_at", "project": "project_id", "parent": "parent_id",
         "tags": "tags", "contexts": "contexts", "notes": "notes", "blocked_on": "blocked_on",
         "recurrence": "recurrence", "comments": "comments", "related": "related_memory_ids",
         "external": "external_id", "blocked_by": "blocked_by"},
        inner={"comments": _COMMENT},
    ),
    "project": base.shape(
        model.Project, SHAPES["project"],
        {"id": "id", "name": "name", "prefix": "prefix", "description": "description",
         "status": "status", "color": "color", "icon": "icon", "created_at": "created_at"},
    ),
    "reminder": base.shape(
        model.Reminder, SHAPES["reminder"],
        {"id": "id", "content": "content", "trigger": "trigger", "status": "status",
         "created_at": "created_at", "priority": "priority", "tags": "tags",
         "triggered_at": "triggered_at", "dismissed_at": "dismissed_at"},
    ),
    "entity": base.shape(
        model.Entity, SHAPES["entity"],
        {"id": "id", "name": "name", "types": "types", "attributes": "attributes",
         "summary": "summary", "created_at": "created_at", "last_seen_at": "last_seen_at"},
    ),
    "relationship": base.shape(
        model.Relation, SHAPES["relationship"],
        {"id": "id", "source": "source_entity_id", "target": "target_entity_id",
         "type": "relation_type", "context": "context", "weight": "confidence",
         "created_at": "created_at", "valid_at": "valid_at", "invalidated_at": "invalidated_at"},
        more={"valid_at": "str"},
    ),
}  # fmt: skip
LOSS_NAMES: Final = base.LossNames(
    {"accessed_at": "last_accessed", "priority": "importance", "user": "export_meta/user_id",
     "exported_at": "export_meta/created_at", "pii": "export_meta/privacy/pii_detected",
     "secrets": "export_meta/privacy/secrets_detected",
     "redacted": "export_meta/privacy/redacted_fields"},
    frozenset(("of", "subtasks")),
)  # fmt: skip
_KINDS: Final = {shape_.cls: kind for kind, shape_ in CLASSES.items()}
_POINTERS: Final[dict[str, str]] = {kind: pointer for pointer, kind in ARRAYS.items()}


def read(records: Sequence[tuple[str, base.Record]], envelope: Mapping[str, Any]) -> base.Content:
    ids: dict[model.Kind, set[str]] = {"todo": set(), "memory": set()}
    for own, of in ids.items():
        of.update(record["id"] for kind, record in records if kind == own)
    entity = [record for kind, record in records if kind == "entity"]
    kinds = {id: kind for kind, of in ids.items() for id in of}
    kinds |= {record["id"]: "entity" for record in entity}
    kinds |= {record["id"]: node for record in entity if (node := _node(record, ids))}
    entities = base.near(
        (record["id"], record["name"], next(iter(record.get("types") or ()), None))
        for record in entity if _node(record, ids) is None
    )  # fmt: skip
    extensions = about(envelope)
    found = []
    for at, (kind, record) in enumerate(records):
        if kind not in CLASSES:
            found.append(base.SourcedItem(_only(kind, record), at))
        elif kind == "entity" and _node(record, ids) is not None:
            continue  # it only represents a memory or todo in the graph
        else:
            item = _item(kind, record, kinds, entities, extensions)
            found.append(base.SourcedItem(item, at))
    return base.Content(_document(envelope), _with_subtasks(found))


def _item(
    kind: str,
    record: base.Record,
    kinds: Mapping[str, model.Kind],
    entities: Mapping[tuple[str, str | None], str],
    extensions: Mapping[str, Mapping[str, Any]],
) -> model.Item:
    item: Any = CLASSES[kind].read(record)
    if isinstance(item, model.MemoryItem):
        more = extensions.get(item.id, {})
        known: dict[str, Any] = {attribute: more.get(name) for name, attribute in _KNOWN.items()}
        priority = base.priority_of(known["importance"])
        mentions = tuple(replace(m, of=entities.get((m.name, m.type))) for m in item.entities)
        return replace(_agent(item), **known, priority=priority, entities=mentions)
    if isinstance(item, model.Relation):
        source, target = (kinds.get(id, "entity") for id in (item.source, item.target))
        return replace(item, source_kind=source, target_kind=target)
    assert isinstance(item, model.Item)
    return item


def _agent(item: model.MemoryItem) -> model.MemoryItem:
    """Read the agent's name from ``agent``, where the reference implementation has it."""
    origin = item.origin
    spelled = None if origin is None else origin.rest.get("agent")
    if origin is None or origin.agent is not None or not isinstance(spelled, str):
        return item
    rest = {name: value for name, value in origin.rest.items() if name != "agent"}
    return replace(item, origin=replace(origin, agent=spelled, rest=rest))


def _node(record: base.Record, ids: Mapping[model.Kind, set[str]]) -> model.Kind | None:
    """Return the kind of record that an entity represents, if it has no data of its own."""
    if record.keys() != {"id", "name", "types"}:
        return None
    same = (kind for kind, of in ids.items() if record["types"] == [kind] and record["id"] in of)
    return next(same, None)


def _only(kind: str, record: base.Record) -> model.Only:
    if kind == "other":
        value = record.get("value")
        return model.Only(kind=kind, rest=value if isinstance(value, dict) else record)
    rest = {name: value for name, value in record.items() if value is not None}
    return model.Only(id=str(record.get("id", "")), kind=kind, rest=rest)


def _with_subtasks(found: list[base.SourcedItem]) -> list[base.SourcedItem]:
    """Add subtasks to todos. The format only names a todo's parent."""
    below: dict[str, list[str]] = {}
    for item, _ in found:
        if isinstance(item, model.Todo) and item.parent is not None:
            below.setdefault(item.parent, []).append(item.id)
    return [
        base.SourcedItem(replace(one.item, subtasks=tuple(below[one.item.id])), one.at)
        if isinstance(one.item, model.Todo) and one.item.id in below
        else one
        for one in found
    ]


def about(envelope: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return attributes of memories from the vendor extensions, by the memory's id."""
    vendors = envelope.get("vendor_extensions")
    found: dict[str, Mapping[str, Any]] = {}
    for vendor in (SHODH, CARRIED):
        place = vendors.get(vendor) if isinstance(vendors, dict) else None
        of = place.get(METADATA) if isinstance(place, dict) else None
        for id, values in of.items() if isinstance(of, dict) else ():
            if isinstance(values, dict):
                found[id] = {name: values[name] for name in _KNOWN if _is(name, values.get(name))}
    return found


def _is(name: str, value: Any) -> bool:
    if name == "last_accessed":
        return isinstance(value, str)
    if name == "access_count":
        return type(value) is int and value >= 0
    return type(value) in (int, float) and 0 <= value <= 1


def _document(envelope: Mapping[str, Any]) -> model.Document:
    meta = envelope.get("export_meta") or {}
    privacy = meta.get("privacy") or {}
    rest = dict(base.left(envelope, _PLACES))
    vendors = envelope.get("vendor_extensions") or {}
    rest |= {f"vendor_extensions/{k}": v for k, v in vendors.items() if not _is_ours(k, v)}
    secrets = privacy.get("secrets_detected")
    return model.Document(
        id=meta.get("id", ""),
        user=meta.get("user_id"),
        exported_at=meta.get("created_at"),
        generator=envelope.get("generator", {}),
        pii=privacy.get("pii_detected"),
        secrets=secrets if isinstance(secrets, bool) else None,
        redacted=tuple(privacy.get("redacted_fields", ())),
        rest=rest,
    )


def _is_ours(vendor: str, place: Any) -> bool:
    return vendor == CARRIED and isinstance(place, dict) and place.keys() <= _OURS


_OURS = frozenset(("grains", METADATA))
_PLACES: Final[dict[str, dict[str, type]]] = {
    "": {
        "mif_version": object, "generator": dict, "export_meta": dict, "knowledge_graph": dict,
        "vendor_extensions": dict, "memories": list, "todos": list, "projects": list,
        "reminders": list,
    },
    "/export_meta": {
        "id": str, "created_at": str, "user_id": str, "checksum": object, "checksum_of": object,
        "privacy": dict,
    },
    "/export_meta/privacy": base.PRIVACY,
    "/knowledge_graph": {"entities": list, "relationships": list, "episodes": list},
}  # fmt: skip
"""The members of the envelope that are known, by the pointer of their object."""


# -- to documents ---------------------------------------------------------------------------------


def adapt(item: model.Item) -> model.Item | None:
    if isinstance(item, model.MemoryItem):
        made = item.created_at or item.updated_at
        return replace(
            item,
            **base.converted(item, base.rfc3339, "updated_at", "accessed_at"),
            created_at=base.rfc3339(made) or base.EPOCH,
            entities=tuple(
                replace(one, confidence=base.rate(one.confidence)) for one in item.entities
            ),
            embedding=base.whole(item.embedding),
            version=base.count(item.version, 1),
            importance=base.importance_of(item),
        )
    if isinstance(item, model.Todo):
        times = base.converted(item, base.rfc3339, "updated_at", "due", "completed_at")
        created_at = base.rfc3339(item.created_at) or base.EPOCH
        comments = tuple(
            replace(
                one,
                id=one.id or base.uuid_of("todo", f"{item.id} {i}"),
                content=one.content or "",
            )
            for i, one in enumerate(item.comments)
        )
        return replace(
            item,
            **times | {"updated_at": times["updated_at"] or created_at},
            created_at=created_at,
            status=item.status or "todo",
            priority=item.priority or "none",
            comments=comments,
        )
    if isinstance(item, model.Project):
        made = base.rfc3339(item.created_at) or base.EPOCH
        return replace(item, name=item.name or item.id, created_at=made)
    if isinstance(item, model.Relation):
        return replace(
            item,
            **base.converted(item, base.rfc3339, "created_at", "valid_at", "invalidated_at"),
            type=item.type or "related_to",
            weight=base.rate(item.weight),
        )
    if isinstance(item, model.Entity):
        return replace(item, **base.converted(item, base.rfc3339, "created_at", "last_seen_at"))
    return item if isinstance(item, model.Reminder) else None


def write(content: base.Content, options: base.BuildOptions) -> base.ConvertedDocument:
    arrays: dict[str, list[tuple[base.Record, int]]] = {"/memories": []}
    more: dict[str, dict[str, Any]] = {}
    nodes: dict[str, base.Record] = {}
    for item, at in content.found:
        kind = _KINDS[type(item)]
        record = CLASSES[kind].write(item)
        arrays.setdefault(_POINTERS[kind], []).append((record, at))
        if isinstance(item, model.MemoryItem):
            known = {name: getattr(item, attribute) for name, attribute in _KNOWN.items()}
            if known := {name: value for name, value in known.items() if value is not None}:
                more[item.id] = known
        if isinstance(item, model.Relation):
            for id, of in ((item.source, item.source_kind), (item.target, item.target_kind)):
                if of in ("memory", "todo"):
                    nodes[id] = {"id": id, "name": id, "types": [of]}
    graph = [_POINTERS["entity"], _POINTERS["relationship"]]
    if nodes or any(pointer in arrays for pointer in graph):
        entities = [*arrays.get(graph[0], []), *((node, -1) for node in nodes.values())]
        arrays |= {graph[0]: entities, graph[1]: arrays.get(graph[1], [])}
    envelope = _envelope(content.document, arrays)
    if more and not options.strict:
        envelope["vendor_extensions"] = {CARRIED: {METADATA: more}}
    return base.ConvertedDocument(
        envelope, {pointer: arrays[pointer] for pointer in _POINTERS.values() if pointer in arrays}
    )


def _envelope(document: model.Document, arrays: Mapping[str, Any]) -> dict[str, Any]:
    envelope: dict[str, Any] = {"mif_version": VERSION}
    if document.generator:
        envelope["generator"] = dict(document.generator)
    made = base.rfc3339(document.exported_at)
    meta = {"id": document.id, "created_at": made, "user_id": document.user}
    meta = {name: value for name, value in meta.items() if value}
    privacy = {"pii_detected": document.pii, "secrets_detected": document.secrets,
               "redacted_fields": list(document.redacted)}  # fmt: skip
    known = document.pii is not None or document.secrets is not None or document.redacted
    kept = {name: value for name, value in privacy.items() if value is not None} if known else {}
    envelope["export_meta"] = {**meta, **({"privacy": kept} if known else {})}
    envelope["memories"] = []
    if _POINTERS["entity"] in arrays:
        envelope["knowledge_graph"] = {"entities": [], "relationships": []}
    envelope |= {name: [] for name in ("todos", "projects", "reminders") if f"/{name}" in arrays}
    return envelope


# -- ids ------------------------------------------------------------------------------------------


def id_of(other: base.OtherId) -> str:
    """Convert an id to a UUID; an entity's id can be any text."""
    kind, id = other[:2]
    if kind == "entity" and (bare := base.bare_id(id)) != id:
        return bare
    return base.uuid_of(kind, id)


def export_id(id: str) -> tuple[str, bool]:
    bare = id.removeprefix(base.EXPORT)
    if id != bare and len(bare) == 32:
        try:
            return str(UUID(bare)), bare == bare.lower()
        except ValueError:
            pass
    made = base.uuid_of("memory", id) if id else ""
    return made, made == id


HUB: Final = base.Hub(CLASSES, LOSS_NAMES, read, adapt, write, id_of, export_id)
