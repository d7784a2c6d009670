# SPDX-License-Identifier: Apache-2.0
"""Converts AIMEM to and from the model.

Links from chunks to entities become the mentions of memories. Our own edge types hold related and
parent memories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, unquote

from omsgrain.formats import model
from omsgrain.formats.aimem import fields
from omsgrain.formats.convert import base
from omsgrain.formats.json_text import of_bytes
from omsgrain.formats.source import float32, unpack

CHUNK_TYPES: Final = {name: name for name in fields.MEMORY_TYPES} | {
    "fact": "observation",
    "goal": "intention",
}
"""AIMEM memory type -> name in the model."""
_CHUNKS: Final = {name: own for own, name in CHUNK_TYPES.items()}
_FACTS: Final = frozenset(
    (None, "", "fact", "learning", "discovery", "pattern", "context", "semantic")
)

OWN_EDGES: Final = {name: name for name in fields.EDGE_TYPES} | {
    "hebbian": "semantic_association",
    "temporal": "temporal_sequence",
}
"""AIMEM edge type -> name in the model, which MIF 1.0 has too."""
OWN_KINDS: Final = {name: name for name in fields.ENTITY_KINDS} | {"place": "location"}
"""AIMEM entity kind -> name in the model."""


def aimem_memory(name: str | None) -> str:
    if name == "procedural":
        return "procedure"
    return _CHUNKS.get(name or "") or ("fact" if name in _FACTS else "episodic")


def from_aimem(word: str, words: Mapping[str, str]) -> str:
    """Convert an AIMEM word to the model; words of other vendors keep ``x-``."""
    if word in words:
        return words[word]
    bare = word.removeprefix("x-")
    return word if bare in words.values() or bare.startswith("x-") else bare


def own(name: str | None, words: Mapping[str, str]) -> str:
    """Convert a word of the model to AIMEM; the inverse of `from_aimem`."""
    for word, known in words.items():
        if known == name:
            return word
    if not name or len(name) > fields.NAME - 2:
        return "x-unknown"
    return name if name.startswith("x-") and len(name) > 2 else f"x-{name}"


CARRIED: Final = "x_omsgrain"
_USER: Final = "urn:omsgrain:user:"
_MENTION: Final = "entity_mention"
_REFERENCES: Final = {"parent": "x-parent", "related": "x-related",
                      "related_todos": "x-related-todo"}  # fmt: skip
_TYPES: Final = {type_: name for name, type_ in _REFERENCES.items()}
_KNOWN = frozenset(field.name for field in fields.ENVELOPE)

CLASSES: Final[dict[str, base.ClassShape]] = {
    "chunk": base.shape(
        model.MemoryItem, fields.RECORDS["chunk"],
        {"id": "id", "content": "content", "type": "memory_type", "priority": "zone",
         "pinned": "is_pinned", "created_at": "created_at", "tags": "tags"},
        words={"type": (CHUNK_TYPES.__getitem__, aimem_memory)},
    ),
    "edge": base.shape(
        model.Relation, fields.RECORDS["edge"],
        {"source": "source_id", "target": "target_id", "type": "edge_type", "weight": "weight",
         "created_at": "created_at"},
        words={"type": (lambda word: from_aimem(word, OWN_EDGES),
                        lambda name: own(name, OWN_EDGES))},
    ),
    "entity": base.shape(
        model.Entity, fields.RECORDS["entity"],
        {"id": "id", "name": "name", "created_at": "created_at"},
    ),
}  # fmt: skip
"""The shapes by kind of record. Links are read with their memories."""
LOSS_NAMES: Final = base.LossNames(
    {"entities": "chunk_entities", "types": "kind", "user": "tenant_id", "parent": "edges",
     "related": "edges", "related_todos": "edges"}
)  # fmt: skip


def read(records: Sequence[tuple[str, base.Record]], envelope: Mapping[str, Any]) -> base.Content:
    chunks = {record["id"]: record for kind, record in records if kind == "chunk"}
    entities = {record["id"]: record for kind, record in records if kind == "entity"}
    mentions: dict[str, list[model.Mention]] = {}
    references: dict[str, dict[str, list[str]]] = {}
    found: list[base.SourcedItem] = []
    for at, (kind, record) in enumerate(records):
        item: model.Item | None = None
        if kind == "chunk_entity":
            if record["chunk_id"] in chunks and record["entity_id"] in entities:
                said = _mention(record, entities[record["entity_id"]])
                mentions.setdefault(record["chunk_id"], []).append(said)
            else:
                item = _loose(record)
        elif kind == "edge":
            if (name := _reference(record, chunks)) is not None:
                of = references.setdefault(record["source_id"], {})
                of.setdefault(name, []).append(record["target_id"])
            else:
                item = _edge(record)
        elif kind == "entity":
            item = _entity(record)
        else:
            item = _chunk(record, envelope)
        if item is not None:
            found.append(base.SourcedItem(item, at))
    return base.Content(_document(envelope), [_joined(one, mentions, references) for one in found])


def _joined(
    one: base.SourcedItem,
    mentions: Mapping[str, list[model.Mention]],
    references: Mapping[str, Mapping[str, list[str]]],
) -> base.SourcedItem:
    item = one.item
    if not isinstance(item, model.MemoryItem):
        return one
    more: dict[str, Any] = {n: tuple(ids) for n, ids in references.get(item.id, {}).items()}
    if "parent" in more:
        more["parent"] = more["parent"][0]
    entities = tuple(mentions.get(item.id, ()))
    return base.SourcedItem(replace(item, entities=entities, **more), one.at)


def _chunk(record: base.Record, envelope: Mapping[str, Any]) -> model.MemoryItem:
    item: model.MemoryItem = CLASSES["chunk"].read(record)
    rest = {name: value for name, value in item.rest.items()
            if name not in ("content_hash", "embedding")}  # fmt: skip
    said = record.get("embedding")
    if not isinstance(said, str):
        return replace(item, rest=rest)
    vector = vector_of(fields.decode(said) or b"", envelope.get("embedding_model"))
    return replace(item, rest=rest, embedding=vector)


def vector_of(data: bytes, name: str | None) -> model.Embedding:
    """Make an embedding of float32 bytes; each number gets its shortest decimal form."""
    numbers = tuple(unpack("f" + fields.encode(data)))
    return model.Embedding(model=name, vector=numbers, dimensions=len(numbers))


def _mention(link: base.Record, entity: base.Record) -> model.Mention:
    rest = {k: v for k, v in link.items() if k not in ("chunk_id", "entity_id")}
    type_ = from_aimem(entity["kind"], OWN_KINDS)
    return model.Mention(name=entity["name"], type=type_, of=entity["id"], rest=rest)


def _loose(link: base.Record) -> model.Relation:
    source, target = link["chunk_id"], link["entity_id"]
    return model.Relation(id=f"{source} {target} {_MENTION}", source=source, target=target,
                          source_kind="memory", type=_MENTION)  # fmt: skip


def _reference(edge: base.Record, chunks: Mapping[str, base.Record]) -> str | None:
    """Return the attribute that our edge represents; None if the edge holds more."""
    name, source = _TYPES.get(edge["edge_type"]), chunks.get(edge["source_id"])
    if name is None or source is None or len(edge) != 5 or edge["weight"] != 1:
        return None
    return name if edge["created_at"] == source["created_at"] else None


def _edge(record: base.Record) -> model.Relation:
    name = f"{record['source_id']} {record['target_id']} {record['edge_type']}"
    item: model.Relation = CLASSES["edge"].read(
        record, id=name, source_kind="memory", target_kind="memory"
    )
    return item


def _entity(record: base.Record) -> model.Entity:
    item: model.Entity = CLASSES["entity"].read(record)
    rest = {name: value for name, value in item.rest.items() if name != "kind"}
    types = (from_aimem(record["kind"], OWN_KINDS),)
    return replace(item, types=types, rest=rest)


def _document(envelope: Mapping[str, Any]) -> model.Document:
    tenant = envelope.get("tenant_id")
    user = tenant
    if isinstance(tenant, str) and tenant.startswith(_USER):
        user = unquote(tenant.removeprefix(_USER))
    derived = _KNOWN - {"producer", "scope", "since"}
    rest = {name: value for name, value in envelope.items() if name not in derived}
    said = {name: value for name, value in rest.items() if name not in _KNOWN or value is not None}
    if said.get("scope") == "FULL":
        del said["scope"]
    said.pop(CARRIED, None)
    return model.Document(user=user, exported_at=envelope.get("exported_at"), rest=said)


# -- to bundles -----------------------------------------------------------------------------------


def tenant_of(user: str | None) -> str | None:
    if not user:
        return None
    tenant = user if fields.is_tenant(user) else _USER + quote(user, safe="")
    return tenant if len(tenant) <= fields.NAME else None


def adapt(item: model.Item) -> model.Item | None:
    if isinstance(item, model.Todo | model.Reminder):
        item = _goal(item)
    made = base.in_utc(getattr(item, "created_at", None))
    if isinstance(item, model.MemoryItem):
        if not 1 <= len(item.content) <= fields.LIMITS.content:
            return None
        tags = tuple(tag for tag in item.tags if 1 <= len(tag) <= fields.TAG)
        mentions = tuple(one for one in item.entities if 1 <= len(one.name) <= fields.TEXT)
        created_at = made or base.in_utc(item.updated_at) or base.EPOCH
        return replace(item, tags=tags, entities=mentions, created_at=created_at,
                       embedding=_short(item.embedding),
                       type=item.type or "observation")  # fmt: skip
    if isinstance(item, model.Entity):
        if not 1 <= len(item.name) <= fields.TEXT:
            return None
        return replace(item, created_at=made or base.EPOCH)
    if not isinstance(item, model.Relation) or item.source_kind == "entity":
        return None
    if item.target_kind == "entity" and item.type != _MENTION:
        return None
    weight = item.weight
    good = weight is not None and 0 <= weight <= 1
    return replace(item, weight=weight if good else 0.5, created_at=made or base.EPOCH)


def _short(said: model.Embedding | None) -> model.Embedding | None:
    """Return an embedding if a bundle can hold it, else None."""
    if said is None or not said.model or len(said.model) > fields.NAME:
        return None
    fits = 1 <= len(said.vector) <= fields.LIMITS.dimension
    return said if fits and float32(list(said.vector)) is not None else None


def _goal(item: model.Todo | model.Reminder) -> model.MemoryItem:
    known = model.MemoryItem(id=item.id, content=item.content, type="intention", tags=item.tags,
                         created_at=item.created_at)  # fmt: skip
    if isinstance(item, model.Reminder):
        return known
    return replace(known, parent=item.parent, related=item.related, embedding=item.embedding)


def write(content: base.Content, options: base.BuildOptions) -> base.ConvertedDocument:
    producer = options.producer
    arrays: dict[str, list[tuple[base.Record, int]]] = {
        name: [] for name in ("chunks", "edges", "entities", "chunk_entities")
    }
    chunks = {one.item.id for one in content.found if isinstance(one.item, model.MemoryItem)}
    declared: tuple[str, int] | None = None
    known, linked = _Entities(content, producer), set[tuple[str, str]]()
    for item, at in content.found:
        if isinstance(item, model.MemoryItem):
            record = _record(item)
            if item.embedding is not None and item.embedding.model is not None:
                this = item.embedding.model, len(item.embedding.vector)
                declared = declared or this
                # A bundle has embeddings of only one model.
                if this == declared:
                    data = float32(list(item.embedding.vector)) or b""
                    record["embedding"] = fields.encode(data)
            arrays["chunks"].append((record, at))
            arrays["edges"] += [(edge, -1) for edge in _references(item, chunks)]
            for link in known.links(item):
                linked.add((link["chunk_id"], link["entity_id"]))
                arrays["chunk_entities"].append((link, -1))
        elif isinstance(item, model.Entity):
            kind = own(next(iter(item.types), None), OWN_KINDS)
            entity = CLASSES["entity"].write(item)
            made = entity.pop("created_at")
            arrays["entities"].append((entity | {"kind": kind, "created_at": made}, at))
        elif isinstance(item, model.Relation) and item.source in chunks:
            if item.target_kind == "entity" and item.target in known.ids:
                link = {"chunk_id": item.source, "entity_id": item.target}
                if (item.source, item.target) not in linked:
                    linked.add((item.source, item.target))
                    arrays["chunk_entities"].append((link, at))
            elif item.target_kind != "entity" and item.target in chunks:
                arrays["edges"].append((CLASSES["edge"].write(item), at))
    arrays["entities"] += [(entity, -1) for entity in known.made]
    return base.ConvertedDocument(_envelope(content.document, producer, declared), arrays)


def _record(item: model.MemoryItem) -> base.Record:
    written = CLASSES["chunk"].write(item)
    record: base.Record = {"id": written.pop("id"), "content": item.content}
    record["content_hash"] = of_bytes(item.content.encode())
    return record | written


def _references(item: model.MemoryItem, chunks: set[str]) -> Iterator[base.Record]:
    for name, type_ in _REFERENCES.items():
        value = getattr(item, name)
        for target in (value,) if isinstance(value, str) else value or ():
            if target in chunks:
                yield {"source_id": item.id, "target_id": target, "edge_type": type_,
                       "weight": 1.0, "created_at": item.created_at}  # fmt: skip


class _Entities:
    """The entities of a bundle: the given ones, and those that are only mentioned."""

    def __init__(self, content: base.Content, producer: str) -> None:
        given = [one.item for one in content.found if isinstance(one.item, model.Entity)]
        self.ids = {one.id for one in given}
        self.made: list[base.Record] = []
        self._producer = producer
        self._by_name: dict[tuple[str, str], str] = {}
        for one in given:
            kind = own(next(iter(one.types), None), OWN_KINDS)
            self._by_name.setdefault((one.name, kind), one.id)

    def links(self, item: model.MemoryItem) -> Iterator[base.Record]:
        for mention in item.entities:
            kind = own(mention.type, OWN_KINDS)
            id = mention.of if mention.of in self.ids else self._by_name.get((mention.name, kind))
            if id is None:
                id = fields.urn(self._producer, base.uuid_of("entity", f"{kind} {mention.name}"))
                self._by_name[(mention.name, kind)] = id
                self.made.append({"id": id, "name": mention.name, "kind": kind,
                                  "created_at": item.created_at})  # fmt: skip
            yield {"chunk_id": item.id, "entity_id": id}


def _envelope(
    document: model.Document, producer: str, declared: tuple[str, int] | None
) -> dict[str, Any]:
    envelope: dict[str, Any] = {
        "format": fields.FORMAT,
        "version": fields.VERSION,
        "producer": producer,
        "tenant_id": tenant_of(document.user),
        "exported_at": base.in_utc(document.exported_at) or base.EPOCH,
        "scope": "FULL",
    }
    if declared is not None:
        envelope |= {"embedding_dim": declared[1], "embedding_model": declared[0]}
    return envelope


# -- ids ------------------------------------------------------------------------------------------


def id_of(other: base.OtherId) -> str:
    kind, id, external, _, producer = other
    if fields.parse_urn(id) is not None:
        return id
    if external and fields.parse_urn(external) is not None and base.uuid_of(kind, external) == id:
        return external
    named = fields.urn(producer, id)
    return named if fields.parse_urn(named) else fields.urn(producer, base.uuid_of(kind, id))


HUB: Final = base.Hub(CLASSES, LOSS_NAMES, read, adapt, write, id_of, base.no_export_id)
