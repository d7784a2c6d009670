# SPDX-License-Identifier: Apache-2.0
"""Converts MIF 1.0 to and from the model."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from omsgrain.formats import model
from omsgrain.formats.convert import base
from omsgrain.formats.mif1 import check
from omsgrain.formats.records import object_of, text_of

NEAREST_PASCAL: Final = {
    "preference": "Pattern",
    "pitfall": "Error",
    "procedure": "Learning",
    "episodic": "Conversation",
    "procedural": "Learning",
}
"""Memory type of the model -> nearest type in MIF 1.0; others become Observation."""


def mif1_memory(name: str | None) -> str:
    pascal = _pascal(name or "")
    if pascal in check.MEMORY_TYPES:
        return pascal
    return NEAREST_PASCAL.get(name or "", "Observation")


def snake(word: str) -> str:
    """Convert ``CodeEdit`` to ``code_edit``; any other spelling stays."""
    split = re.sub(r"(?<!^)(?=[A-Z])", "_", word).lower()
    return split if _pascal(split) == word else word


def _pascal(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def cased(word: str) -> str:
    """Convert ``PERSON`` to ``person``; any other spelling stays."""
    return word.lower() if word.lower().upper() == word else word


def shown(name: str) -> str:
    """The inverse of `cased`."""
    return name.upper() if name.upper().lower() == name else name


SAID_BY_TYPE: Final = frozenset(
    (
        base.KNOWS,
        *(name for name, word in base.BELIEFS.items() if snake(mif1_memory(word)) == word),
    )
)
"""The relations of beliefs that a memory type implies."""


CARRIED: Final = "x_omsgrain"
_DONE = {"dismissed": "done", "expired": "cancelled"}

_MENTION = base.shape(
    model.Mention, check.SHAPES["entity"],
    {"name": "text", "type": "type", "confidence": "confidence"},
    words={"type": (cased, shown)},
)  # fmt: skip
_EMBEDDING = base.shape(
    model.Embedding, check.SHAPES["embedding"],
    {"model": "model", "dimensions": "dimensions", "vector": "vector", "normalized": "normalized"},
    items={"vector": float},
)  # fmt: skip
_SOURCE = base.shape(
    model.Provenance, check.SHAPES["source"],
    {"type": "type", "session": "session_id", "agent": "agent"},
)  # fmt: skip
_COMMENT = base.shape(
    model.Comment, check.SHAPES["comment"],
    {"id": "id", "content": "content", "created_at": "created_at", "type": "type"},
)  # fmt: skip
_PROJECT = base.shape(
    model.Project, check.SHAPES["project"], {"id": "id", "name": "name", "prefix": "prefix"}
)

CLASSES: Final[dict[str, base.ClassShape]] = {
    "memory": base.shape(
        model.MemoryItem, check.SHAPES["memory"],
        {"id": "id", "content": "content", "type": "type", "importance": "importance",
         "created_at": "created_at", "updated_at": "updated_at", "accessed_at": "accessed_at",
         "access_count": "access_count", "decay_rate": "decay_rate", "tags": "tags",
         "origin": "source", "entities": "entities", "embedding": "embedding",
         "redactions": "redactions"},
        inner={"entities": _MENTION, "embedding": _EMBEDDING, "origin": _SOURCE},
        items={"redactions": object},
        words={"type": (snake, mif1_memory)},
    ),
    "todo": base.shape(
        model.Todo, check.SHAPES["todo"],
        {"id": "id", "short_id": "short_id", "content": "content", "status": "status",
         "priority": "priority", "created_at": "created_at", "updated_at": "updated_at",
         "due": "due_date", "completed_at": "completed_at", "contexts": "contexts",
         "tags": "tags", "notes": "notes", "parent": "parent_id", "subtasks": "subtask_ids",
         "blocked_on": "blocked_on", "recurrence": "recurrence",
         "related": "related_memory_ids", "embedding": "embedding", "comments": "comments"},
        inner={"comments": _COMMENT, "embedding": _EMBEDDING},
    ),
    "node": base.shape(model.Entity, check.SHAPES["node"], {"id": "id"}),
    "edge": base.shape(
        model.Relation, check.SHAPES["edge"],
        {"source": "source", "target": "target", "weight": "weight", "type": "type",
         "created_at": "created_at", "strengthened": "strengthened_count"},
    ),
    "project": _PROJECT,
}  # fmt: skip
LOSS_NAMES: Final = base.LossNames(
    {"related": "relations/related_memories", "related_todos": "relations/related_todos",
     "priority": "importance", "types": "entity_type", "name": "id", "user": "export/user_id",
     "exported_at": "export/created_at", "pii": "metadata/privacy/pii_detected",
     "secrets": "metadata/privacy/secrets_detected",
     "redacted": "metadata/privacy/redacted_fields"},
    frozenset(("of",)),
)  # fmt: skip
_KINDS: Final = {shape_.cls: kind for kind, shape_ in CLASSES.items()}
_POINTERS: Final[dict[str, str]] = {kind: pointer for pointer, kind in check.ARRAYS.items()}
_PREFIXES: Final[dict[str, model.Kind]] = {"mem_": "memory", "todo_": "todo"}


def read(records: Sequence[tuple[str, base.Record]], envelope: Mapping[str, Any]) -> base.Content:
    nodes = {record["id"]: record for kind, record in records if kind == "node"}
    kinds: dict[str, model.Kind] = {id: _kind(node) for id, node in nodes.items()}
    for kind, record in records:
        if kind in ("memory", "todo"):
            kinds[record["id"]] = "memory" if kind == "memory" else "todo"
    entities = base.near(
        (id, id.removeprefix(base.ENTITY), _type(node)) for id, node in nodes.items()
        if _kind(node) == "entity"
    )  # fmt: skip
    found: list[base.SourcedItem] = []
    projects: dict[str, model.Project] = {}
    for at, (kind, record) in enumerate(records):
        item: model.Item
        if kind == "memory":
            item = _memory(record, entities)
        elif kind == "todo":
            item = _todo(record, projects)
        elif kind == "edge":
            ends = {f"{end}_kind": _end(record[end], kinds) for end in ("source", "target")}
            name = f"{record['source']} {record['target']} {record.get('type')}"
            item = CLASSES["edge"].read(record, id=name, **ends)
        elif kind == "node" and _kind(record) == "entity":
            item = _entity(record)
        else:
            rest = {name: value for name, value in record.items() if value is not None}
            if kind == "node" and rest.keys() <= {"id", "type"}:
                continue  # a memory's node repeats its edges
            id = record["id"] if kind == "node" else kind
            item = model.Only(id=id, kind=kind, rest=rest)
        found.append(base.SourcedItem(item, at))
    # Projects come before their todos.
    own = [base.SourcedItem(project, -1) for project in projects.values()]
    return base.Content(_document(envelope), [*own, *found])


def _memory(
    record: base.Record, entities: Mapping[tuple[str, str | None], str]
) -> model.MemoryItem:
    relations, more = record.get("relations"), {}
    if isinstance(relations, dict):
        more = {"related": relations.get("related_memories") or [],
                "related_todos": relations.get("related_todos") or []}  # fmt: skip
        if not all(_texts(value) for value in more.values()):
            more = {}
    bare = record if relations is not None else {k: v for k, v in record.items()
                                                 if k != "relations"}  # fmt: skip
    item: model.MemoryItem = CLASSES["memory"].read(
        bare, **{name: tuple(value) for name, value in more.items()}
    )
    rest = dict(item.rest)
    if more and isinstance(relations, dict):
        del rest["relations"]
        known = ("related_memories", "related_todos")
        rest |= {f"relations/{k}": v for k, v in relations.items() if k not in known}
    mentions = tuple(replace(one, of=entities.get((one.name, one.type))) for one in item.entities)
    priority = base.priority_of(item.importance)
    return replace(item, rest=rest, entities=mentions, priority=priority)


def _todo(record: base.Record, projects: dict[str, model.Project]) -> model.Todo:
    project = record.get("project")
    if not isinstance(project, dict) or not isinstance(project.get("id"), str):
        item: model.Todo = CLASSES["todo"].read(record)
        if project is None:
            item = replace(item, rest={k: v for k, v in item.rest.items() if k != "project"})
        return item
    said: model.Project = _PROJECT.read(project)
    first = projects.setdefault(said.id, said)
    item = CLASSES["todo"].read(record, project=said.id)
    rest = dict(item.rest)
    if first == said:
        del rest["project"]
    return replace(item, rest=rest)


def _entity(record: base.Record) -> model.Entity:
    id = record["id"]
    type_ = _type(record)
    types = () if type_ is None else (type_,)
    item: model.Entity = CLASSES["node"].read(
        record, name=id.removeprefix(base.ENTITY), types=types
    )
    known = {"type", *(("entity_type",) if type_ is not None else ())}
    known |= {name for name in ("entity_type",) if record.get(name) is None}
    return replace(item, rest={k: v for k, v in item.rest.items() if k not in known})


def _kind(node: base.Record) -> model.Kind:
    return {"memory": "memory", "todo": "todo"}.get(str(node.get("type")), "entity")  # type: ignore[return-value]


def _type(node: base.Record) -> str | None:
    said = node.get("entity_type")
    return cased(said) if isinstance(said, str) else None


def _end(id: str, kinds: Mapping[str, model.Kind]) -> model.Kind:
    if id in kinds:
        return kinds[id]
    return next((kind for prefix, kind in _PREFIXES.items() if id.startswith(prefix)), "entity")


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _document(envelope: Mapping[str, Any]) -> model.Document:
    export = object_of(envelope, "export")
    privacy = object_of(object_of(envelope, "metadata"), "privacy")
    redacted = privacy.get("redacted_fields")
    return model.Document(
        id=text_of(export, "id") or "",
        user=text_of(export, "user_id"),
        exported_at=text_of(export, "created_at"),
        generator=object_of(envelope, "generator"),
        pii=_flag(privacy.get("pii_detected")),
        secrets=_flag(privacy.get("secrets_detected")),
        redacted=tuple(redacted or ()) if _texts(redacted) else (),
        rest=dict(base.left(envelope, _PLACES)),
    )


def _flag(value: Any) -> bool | None:
    return value if isinstance(value, bool) else None


_PLACES: Final[dict[str, dict[str, type]]] = {
    "": {
        "$schema": object, "mif_version": object, "generator": dict, "export": dict,
        "memories": list, "todos": list, "graph": dict, "metadata": dict, "consent": dict,
        CARRIED: dict,
    },
    "/export": {
        "id": str, "created_at": str, "user_id": str, "checksum": object, "checksum_of": object,
    },
    "/metadata": {
        "total_memories": object, "total_todos": object, "date_range": object,
        "memory_types": object, "top_entities": object, "projects": object, "privacy": dict,
    },
    "/metadata/privacy": base.PRIVACY,
    "/graph": {
        "format": object, "node_count": object, "edge_count": object, "nodes": list,
        "edges": list,
    },
}  # fmt: skip
"""The members of the envelope that are known, by the pointer of their object."""


# -- to documents ---------------------------------------------------------------------------------


def adapt(item: model.Item) -> model.Item | None:
    if isinstance(item, model.Reminder):
        item = _task(item)
    if isinstance(item, model.MemoryItem):
        times = base.converted(item, base.rfc3339, "updated_at", "accessed_at")
        made = base.rfc3339(item.created_at) or times["updated_at"] or base.EPOCH
        mentions = tuple(
            replace(one, type=one.type or "unknown", confidence=base.rate(one.confidence))
            for one in item.entities
        )
        return replace(
            item,
            **times,
            created_at=made,
            entities=mentions,
            importance=base.rate(base.importance_of(item)),
            decay_rate=base.rate(item.decay_rate),
            access_count=base.count(item.access_count, 0),
            embedding=base.whole(item.embedding),
            type=item.type or "observation",
        )
    if isinstance(item, model.Todo):
        return replace(
            item,
            **base.converted(item, base.rfc3339, "updated_at", "due", "completed_at"),
            created_at=base.rfc3339(item.created_at) or base.EPOCH,
            status=item.status if item.status in check.STATUSES else "todo",
            priority=item.priority if item.priority in check.PRIORITIES else None,
            embedding=base.whole(item.embedding),
            recurrence=item.recurrence if item.recurrence in check.RECURRENCES else None,
        )
    if isinstance(item, model.Relation):
        type_ = item.type if item.type in check.EDGE_TYPES else check.EDGE_TYPES[0]
        weight = 0.5 if base.rate(item.weight) is None else item.weight
        created_at = base.rfc3339(item.created_at)
        return replace(item, type=type_, created_at=created_at, weight=weight)
    return item if isinstance(item, model.Entity | model.Project) else None


def _task(item: model.Reminder) -> model.Todo:
    at = item.trigger.get("at") if item.trigger.get("type") == "time" else None
    return model.Todo(
        id=item.id,
        content=item.content,
        status=_DONE.get(item.status or "", "todo"),
        created_at=item.created_at,
        due=at if isinstance(at, str) else None,
        completed_at=item.dismissed_at,
        tags=item.tags,
    )


def write(content: base.Content, options: base.BuildOptions) -> base.ConvertedDocument:
    arrays: dict[str, list[tuple[base.Record, int]]] = {pointer: [] for pointer in check.ARRAYS}
    projects = {one.item.id: one.item for one in content.found
                if isinstance(one.item, model.Project)}  # fmt: skip
    nodes: dict[str, base.Record] = {}
    for item, at in content.found:
        if isinstance(item, model.Project):
            continue
        record = CLASSES[_KINDS[type(item)]].write(item)
        if isinstance(item, model.MemoryItem) and (item.related or item.related_todos):
            related = {"related_memories": list(item.related),
                       "related_todos": list(item.related_todos)}  # fmt: skip
            record["relations"] = {name: ids for name, ids in related.items() if ids}
        elif isinstance(item, model.Todo) and item.project is not None:
            known = projects.get(item.project) or model.Project(id=item.project, name=item.project)
            record["project"] = _PROJECT.write(known)
        elif isinstance(item, model.Relation):
            for id, of in ((item.source, item.source_kind), (item.target, item.target_kind)):
                if of in ("memory", "todo"):
                    nodes[id] = {"id": id, "type": of}
        elif isinstance(item, model.Entity):
            record["type"] = "entity"
            if item.types:
                record["entity_type"] = shown(item.types[0])
        arrays[_POINTERS[_KINDS[type(item)]]].append((record, at))
    arrays["/graph/nodes"] += [(node, -1) for node in nodes.values()]
    return base.ConvertedDocument(_envelope(content.document, arrays), _there(arrays))


def _there(
    arrays: dict[str, list[tuple[base.Record, int]]],
) -> dict[str, list[tuple[base.Record, int]]]:
    graph = any(arrays[pointer] for pointer in arrays if pointer.startswith("/graph"))
    return {
        pointer: array
        for pointer, array in arrays.items()
        if array or pointer == "/memories" or (graph and pointer.startswith("/graph"))
    }


def _envelope(
    document: model.Document, arrays: Mapping[str, list[tuple[base.Record, int]]]
) -> dict[str, Any]:
    from omsgrain.formats.mif1.document import Metadata

    counted = Metadata()
    for pointer, array in arrays.items():
        for record, _ in array:
            counted.add(check.ARRAYS[pointer], record)
    envelope: dict[str, Any] = {"$schema": check.SCHEMA, "mif_version": check.VERSION}
    if document.generator:
        envelope["generator"] = dict(document.generator)
    export = {"id": document.id, "created_at": base.rfc3339(document.exported_at),
              "user_id": document.user}  # fmt: skip
    envelope["export"] = {name: value for name, value in export.items() if value is not None}
    there = _there(dict(arrays))
    envelope["memories"] = []
    if "/todos" in there:
        envelope["todos"] = []
    if "/graph/nodes" in there:
        envelope["graph"] = counted.graph() | {"nodes": [], "edges": []}
    privacy = {"pii_detected": document.pii, "secrets_detected": document.secrets,
               "redacted_fields": list(document.redacted) or None}  # fmt: skip
    # Without a search for personal data, the document does not claim that there is none.
    said = {name: value for name, value in privacy.items() if value is not None}
    envelope["metadata"] = counted.metadata() | ({"privacy": said} if said else {})
    return envelope


# -- ids ------------------------------------------------------------------------------------------


SPACES: Final[dict[model.Kind, model.Kind]] = {"reminder": "todo"}
"""Kinds that become another kind share that kind's ids."""


def id_of(other: base.OtherId) -> str:
    """Convert an id; those of memories and todos get the prefix of their kind."""
    kind, id, external, name, _ = other
    if kind == "relation":
        return base.uuid_of(kind, id)
    if kind == "entity":
        return f"{base.ENTITY}{name}"
    bare = base.bare_id(id)
    if kind == "project":
        return bare
    kind = SPACES.get(kind, kind)
    prefix = base.PREFIXES[kind]
    for text in (bare, external or ""):
        if text.startswith(prefix) and (text != external or base.uuid_of(kind, text) == id):
            return text
    return prefix + base.uuid_of(kind, id)


def export_id(id: str) -> tuple[str, bool]:
    if not id or id.startswith(base.EXPORT):
        return id, True
    bare = base.uuid_of("memory", id)
    return base.EXPORT + bare.replace("-", ""), bare == id and id == id.lower()


HUB: Final = base.Hub(CLASSES, LOSS_NAMES, read, adapt, write, id_of, export_id)
