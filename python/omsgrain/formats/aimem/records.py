# SPDX-License-Identifier: Apache-2.0
"""Records of a bundle as grains, and back to the last null.

What a grain's fields can say stands there, so that it is found by queries; what they cannot stands
in the side channel. Every record is built again from its grain before the grain is given away, so
whatever this file forgets is kept as well. References stay URNs: graphs have cycles, and addresses
cannot.

An embedding is no part of a grain: the store keeps vectors beside it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.batch import decode_many, encode_many
from omsgrain.errors import OmsError
from omsgrain.formats import raw
from omsgrain.formats.aimem import embedding, times
from omsgrain.formats.aimem.fields import DNA, RECORDS, Kind
from omsgrain.formats.source import KEY, Source, apply, difference
from omsgrain.grain import Grain, make

__all__ = ["FORMAT", "NAMESPACE", "Built", "from_grain", "name_of", "to_grain", "to_grains"]

FORMAT: Final = "aimem"
NAMESPACE: Final = "aimem"
_LAST = 0xFFFF_FFFF * 1000  # a grain's header holds seconds in 32 bits
_ABSENT: Final = object()
_PLAIN: Final = frozenset(field.name for table in RECORDS.values() for field in table)
_quoted = json.JSONEncoder().encode
_LARGEST = 600_000  # characters of a residual that stands in the grain itself

RELATIONS: Final = {
    "fact": "mg:knows",
    "preference": "mg:prefers",
    "decision": "aimem:decided",
    "identity": "aimem:identity",
    "pitfall": "mg:avoids",
}
"""Kinds of memory that are beliefs about the tenant."""
_TYPES = {relation: name for name, relation in RELATIONS.items()}
_PROCEDURE = "aimem:procedure"
_ENTITY = "aimem:entity"
_MENTIONS = "aimem:mentions"
_EDGE = "aimem:"
PRIORITIES: Final = {"critical": "hot", "important": "warm", "standard": "cold"}
_ZONES = {priority: zone for zone, priority in PRIORITIES.items()}

Fields = dict[str, Any]
Record = dict[str, Any]


class Built(NamedTuple):
    """A record as a grain.

    Attributes:
        grain: the grain.
        parts: the grains that hold the record whole, if it was too large.
        vector: the bytes of its embedding, float32, little-endian.
    """

    grain: Grain
    parts: list[Grain]
    vector: bytes | None


def name_of(kind: Kind, record: Mapping[str, Any]) -> str:
    """By what a record is known: its URN, or for what has none the URNs that it joins."""
    if kind == "edge":
        return f"{record['source_id']} {record['target_id']} {record['edge_type']}"
    if kind == "chunk_entity":
        return f"{record['chunk_id']} {record['entity_id']}"
    return str(record["id"])


def to_grain(kind: Kind, record: Record, *, tenant: str) -> Built:
    """Make a grain of a record that was checked.

    Args:
        kind: of what kind it is.
        record: as it stands in the bundle.
        tenant: whose it is.
    """
    record, vector = _apart(kind, record)
    fields = _composed(_TO[kind](record, tenant))
    for given in (fields, _bare(fields)):
        source = _source(kind, record, given)
        if source is None:
            break
        try:
            grain = make(given | {KEY: source})
        except OmsError:
            continue  # a tag that asks for a profile, say: the residual can hold it
        if same_record(from_grain(grain, _nothing), record):
            return Built(grain, [], vector)
    return _in_parts(kind, record, tenant, vector)


def to_grains(records: Iterable[tuple[Kind, Record]], *, tenant: str) -> list[Built]:
    """Make grains of many records that were checked, as `to_grain` does, in a few calls.

    Args:
        records: with their kinds, not more than fit in memory.
        tenant: whose they are.
    """
    given = list(records)
    made: list[Built | None] = [None] * len(given)
    vectors, fields = [], []
    for kind, record in given:
        bare, vector = _apart(kind, record)
        vectors.append(vector)
        one = _TO[kind](bare, tenant)
        # None does not come back, so what is too large for this is made one by one.
        one[KEY] = _source(kind, bare, one)
        fields.append(one)
    batch = encode_many(fields, errors="collect")
    read = decode_many(batch.blobs).grains
    for at, address, grain in zip(batch.indices, batch.addresses, read, strict=True):
        # The difference was taken from these fields, so where they come back the record does.
        if grain.fields == fields[at]:
            grain._address = address  # known, and not hashed again
            made[at] = Built(grain, [], vectors[at])
    return [
        to_grain(*given[at], tenant=tenant) if one is None else one for at, one in enumerate(made)
    ]


def from_grain(grain: Grain, get: raw.Get) -> tuple[Kind, Record] | None:
    """The record that a grain was, without its embedding; None if it never was one.

    Args:
        grain: any.
        get: gives the grains that hold the parts of a large record.

    Raises:
        FormatError: the side channel does not fit the grain.
    """
    source = Source.of(grain)
    if source is None or source.format != FORMAT or source.kind not in _FROM:
        return None
    kind: Kind = source.kind  # type: ignore[assignment]
    if source.parts:
        return kind, json.loads(raw.gather(source.parts, get))
    return kind, apply(_FROM[kind](grain, source.id), source.residual)


def _apart(kind: Kind, record: Record) -> tuple[Record, bytes | None]:
    """The record without its embedding, and that."""
    if kind != "chunk" or not isinstance(record.get("embedding"), str):
        return record, None
    bare = {name: value for name, value in record.items() if name != "embedding"}
    return bare, embedding.decode(record["embedding"])


def same_record(found: tuple[Kind, Record] | None, record: Record) -> bool:
    """Whether a record came back; the order of its keys says nothing."""
    return found is not None and difference(found[1], record, ordered=False) is None


def _source(kind: Kind, record: Record, fields: Fields) -> bytes | None:
    """The side channel; None if it is too large for a grain."""
    name = name_of(kind, record)
    rebuilt = _FROM[kind](fields, name)
    # Most values are the same ones, and are not worth a call each.
    rest = {}
    for key, value in record.items():
        own = rebuilt.get(key, _ABSENT)
        if own is value or (type(own) is str and own == value):
            del rebuilt[key]
        else:
            rest[key] = value
    if not rebuilt and _PLAIN.issuperset(rest) and all(map(_is_plain, rest.values())):
        # Most records are so; this is what `to_bytes` gives, in a quarter of its time.
        said = _said(tuple(rest.items())) if rest else ""
        return f'{{"f":"{FORMAT}","k":"{kind}","id":{_quoted(name)}{said}}}'.encode("ascii")
    residual = difference(rebuilt, rest, ordered=False)
    source = Source(FORMAT, kind, name, residual).to_bytes()
    return source if len(source) <= _LARGEST else None


def _is_plain(value: Any) -> bool:
    return value is None or value is False  # not `in`: 0 is equal to False


@lru_cache
def _said(more: tuple[tuple[str, bool | None], ...]) -> str:
    return ',"r":' + json.dumps({"+": dict(more)}, separators=(",", ":"))


def _in_parts(kind: Kind, record: Record, tenant: str, vector: bytes | None) -> Built:
    text = json.dumps(record, separators=(",", ":")).encode("ascii")
    fields = _bare(_composed(_TO[kind](record, tenant)))
    created_at = fields["created_at"]
    parts = raw.split(text, created_at=created_at, user_id=tenant)
    addresses = tuple(part.address for part in parts)
    source = Source(FORMAT, kind, name_of(kind, record), None, addresses)
    return Built(make(fields | {KEY: source.to_bytes()}), parts, vector)


def _bare(fields: Fields) -> Fields:
    """The fields without what a grain may refuse."""
    kept = {name: value for name, value in fields.items() if name != "structural_tags"}
    bare: Fields = _each_text(kept, lambda text: text.lstrip("\ufeff") or "-")
    return bare


def _composed(fields: Fields) -> Fields:
    composed: Fields = _each_text(fields, lambda text: unicodedata.normalize("NFC", text))
    return composed


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else change(value)
    if isinstance(value, dict):
        return {name: _each_text(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [_each_text(one, change) for one in value]
    return value


def _nothing(address: str) -> Grain:
    raise OmsError("a record in one piece has no parts")


# -- records to fields --------------------------------------------------------------------------


def _base(kind: str, record: Record, tenant: str) -> Fields:
    instant = times.parse(record["created_at"]) if "created_at" in record else None
    millis = 0 if instant is None else min(max(instant.millis, 0), _LAST)
    return {"type": kind, "created_at": millis, "namespace": NAMESPACE, "user_id": tenant}


def _belief(record: Record, tenant: str, subject: str, relation: str, object_: Any) -> Fields:
    fields = _base("belief", record, tenant)
    fields["subject"], fields["relation"], fields["object"] = subject, relation, object_
    fields["confidence"] = 1.0
    return fields


def _of_chunk(record: Record, tenant: str) -> Fields:
    what, content = record["memory_type"], record["content"]
    if what in RELATIONS:
        fields = _belief(record, tenant, tenant, RELATIONS[what], content)
    elif what == "procedure":
        fields = _base("workflow", record, tenant)
        fields["steps"], fields["trigger"] = [content], _PROCEDURE
    elif what == "goal":
        fields = _base("goal", record, tenant)
        fields["description"], fields["goal_state"] = content, "active"
    else:
        fields = _base("event", record, tenant)
        fields["content"] = content
    if tags := record.get("tags"):
        fields["structural_tags"] = tags
    if (zone := record.get("zone")) in PRIORITIES:
        fields["recall_priority"] = PRIORITIES[zone]
    if what in DNA or record.get("is_pinned") is True:
        fields["invalidation_policy"] = {"mode": "soft_locked"}
    return fields


def _of_edge(record: Record, tenant: str) -> Fields:
    relation = _EDGE + record["edge_type"]
    fields = _belief(record, tenant, record["source_id"], relation, record["target_id"])
    # Canonical JSON has no -0.0.
    return fields | {"confidence": float(record["weight"]) + 0.0}


def _of_entity(record: Record, tenant: str) -> Fields:
    about = {"name": record["name"], "kind": record["kind"]}
    return _belief(record, tenant, record["id"], _ENTITY, about)


def _of_link(record: Record, tenant: str) -> Fields:
    return _belief(record, tenant, record["chunk_id"], _MENTIONS, record["entity_id"])


# -- fields to records --------------------------------------------------------------------------


def _to_chunk(fields: Mapping[str, Any], name: str) -> Record:
    kind = fields["type"]
    what = _TYPES[fields["relation"]] if kind == "belief" else _KINDS[kind]
    content = fields[_CONTENT[kind]]
    if kind == "workflow":
        content = content[0]
    record: Record = {"id": name, "content": content}
    record["content_hash"] = f"sha256:{sha256(content.encode()).hexdigest()}"
    record["memory_type"] = what
    if "recall_priority" in fields:
        record["zone"] = _ZONES[fields["recall_priority"]]
    if "invalidation_policy" in fields and what not in DNA:
        record["is_pinned"] = True
    record["created_at"] = times.spell(fields["created_at"])
    if "structural_tags" in fields:
        record["tags"] = fields["structural_tags"]
    return record


_KINDS = {"workflow": "procedure", "goal": "goal", "event": "episodic"}
_CONTENT = {
    "belief": "object",
    "workflow": "steps",
    "goal": "description",
    "event": "content",
}


def _to_edge(fields: Mapping[str, Any], name: str) -> Record:
    return {
        "source_id": fields["subject"],
        "target_id": fields["object"],
        "edge_type": fields["relation"].removeprefix(_EDGE),
        "weight": fields["confidence"],
        "created_at": times.spell(fields["created_at"]),
    }


def _to_entity(fields: Mapping[str, Any], name: str) -> Record:
    about = fields["object"]
    created = times.spell(fields["created_at"])
    return {"id": name, "name": about["name"], "kind": about["kind"], "created_at": created}


def _to_link(fields: Mapping[str, Any], name: str) -> Record:
    return {"chunk_id": fields["subject"], "entity_id": fields["object"]}


_TO: dict[Kind, Callable[[Record, str], Fields]] = {
    "chunk": _of_chunk,
    "edge": _of_edge,
    "entity": _of_entity,
    "chunk_entity": _of_link,
}
_FROM: dict[str, Callable[[Mapping[str, Any], str], Record]] = {
    "chunk": _to_chunk,
    "edge": _to_edge,
    "entity": _to_entity,
    "chunk_entity": _to_link,
}
