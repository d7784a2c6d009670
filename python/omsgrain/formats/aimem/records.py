# SPDX-License-Identifier: Apache-2.0
"""Records of a bundle as grains, and back to the last null.

References stay URNs. An embedding is no part of a grain: the store keeps vectors beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, cast

from omsgrain.errors import NotFoundError, OmsError, StoreError
from omsgrain.formats import raw
from omsgrain.formats.aimem import embedding, times
from omsgrain.formats.aimem.check import Checker
from omsgrain.formats.aimem.fields import DNA, Kind
from omsgrain.formats.aimem.limits import LIMITS, Limits
from omsgrain.formats.checksums import of_bytes
from omsgrain.formats.records import Fields, Record, Shape, Table
from omsgrain.grain import Grain

__all__ = [
    "FORMAT",
    "NAMESPACE",
    "Built",
    "checked",
    "from_grain",
    "name_of",
    "same_record",
    "to_grain",
    "to_grains",
]

FORMAT: Final = "aimem"
NAMESPACE: Final = "aimem"

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


class Built(NamedTuple):
    """A record as a grain.

    Attributes:
        grain: the grain.
        parts: the grains that hold the record whole, if it was too large.
        vector: the bytes of its embedding, float32, little-endian.
    """

    grain: Grain
    parts: Sequence[Grain]
    vector: bytes | None


def name_of(kind: Kind, record: Record) -> str:
    """By what a record is known: its URN, or for what has none the URNs that it joins."""
    return _TABLE.name_of(kind, record)


def to_grain(kind: Kind, record: Record, *, tenant: str) -> Built:
    """Make a grain of a record that was checked.

    Args:
        kind: of what kind it is.
        record: as it stands in the bundle.
        tenant: whose it is.
    """
    bare, vector = _apart(kind, record)
    return Built(*_TABLE.to_grain(kind, bare, owner=tenant), vector)


def to_grains(records: Iterable[tuple[Kind, Record]], *, tenant: str) -> list[Built]:
    """Make grains of many records that were checked, as `to_grain` does, in a few calls.

    Args:
        records: with their kinds, not more than fit in memory.
        tenant: whose they are.
    """
    given, vectors = [], []
    for kind, record in records:
        bare, vector = _apart(kind, record)
        given.append((kind, bare))
        vectors.append(vector)
    built = _TABLE.to_grains(given, owner=tenant)
    return [Built(*one, vector) for one, vector in zip(built, vectors, strict=True)]


def from_grain(grain: Grain, get: raw.Get) -> tuple[Kind, Record] | None:
    """The record that a grain was, without its embedding; None if it never was one.

    Args:
        grain: any.
        get: gives the grains that hold the parts of a large record.

    Raises:
        FormatError: the side channel does not fit the grain.
    """
    return cast("tuple[Kind, Record] | None", _TABLE.from_grain(grain, get))


def checked(grain: Grain, get: raw.Get, limits: Limits = LIMITS) -> tuple[Kind, Record] | None:
    """As `from_grain`, but None if the record is no good one, or a part of it is gone.

    Whoever may put grains can write into one that it was a record of any sort. What is no valid
    record is not one, or it would spoil every bundle from then on.

    Args:
        grain: any.
        get: gives the grains that hold the parts of a large record.
        limits: of values.
    """
    try:
        found = from_grain(grain, get)
    except NotFoundError:
        return None
    except StoreError:
        raise
    except OmsError:
        return None
    if found is None:
        return None
    checker = Checker(limits)
    checker.record(*found, "", ends=False)
    return None if checker.problems else found


def same_record(found: tuple[Kind, Record] | None, record: Record) -> bool:
    """Whether a record came back; the order of its keys says nothing."""
    return _TABLE.is_same(found, record)


def _apart(kind: Kind, record: Record) -> tuple[Record, bytes | None]:
    """The record without its embedding, and that."""
    if kind != "chunk" or not isinstance(record.get("embedding"), str):
        return record, None
    bare = {name: value for name, value in record.items() if name != "embedding"}
    return bare, embedding.decode(record["embedding"])


# -- records to fields --------------------------------------------------------------------------


def _base(kind: str, record: Record, tenant: str | None) -> Fields:
    instant = times.parse(record["created_at"]) if "created_at" in record else None
    millis = times.of_grain(instant)
    return {"type": kind, "created_at": millis, "namespace": NAMESPACE, "user_id": tenant}


def _belief(
    record: Record, tenant: str | None, subject: str | None, relation: str, object_: Any
) -> Fields:
    fields = _base("belief", record, tenant)
    fields["subject"], fields["relation"], fields["object"] = subject, relation, object_
    fields["confidence"] = 1.0
    return fields


def _of_chunk(record: Record, tenant: str | None) -> Fields:
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


def _of_edge(record: Record, tenant: str | None) -> Fields:
    relation = _EDGE + record["edge_type"]
    fields = _belief(record, tenant, record["source_id"], relation, record["target_id"])
    # Canonical JSON has no -0.0.
    return fields | {"confidence": float(record["weight"]) + 0.0}


def _of_entity(record: Record, tenant: str | None) -> Fields:
    about = {"name": record["name"], "kind": record["kind"]}
    return _belief(record, tenant, record["id"], _ENTITY, about)


def _of_link(record: Record, tenant: str | None) -> Fields:
    return _belief(record, tenant, record["chunk_id"], _MENTIONS, record["entity_id"])


# -- fields to records --------------------------------------------------------------------------


def _to_chunk(fields: Mapping[str, Any], name: str) -> Record:
    kind = fields["type"]
    what = _TYPES[fields["relation"]] if kind == "belief" else _KINDS[kind]
    content = fields[_CONTENT[kind]]
    if kind == "workflow":
        content = content[0]
    record: Record = {"id": name, "content": content}
    record["content_hash"] = of_bytes(content.encode())
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


def _id(record: Record) -> str:
    return str(record["id"])


def _ends(record: Record) -> str:
    return f"{record['source_id']} {record['target_id']} {record['edge_type']}"


def _pair(record: Record) -> str:
    return f"{record['chunk_id']} {record['entity_id']}"


_SHAPES: dict[Kind, Shape] = {
    "chunk": Shape(_of_chunk, _to_chunk, _id),
    "edge": Shape(_of_edge, _to_edge, _ends),
    "entity": Shape(_of_entity, _to_entity, _id),
    "chunk_entity": Shape(_of_link, _to_link, _pair),
}
# What a bundle's checksum is made of has its keys sorted, so their order says nothing.
_TABLE: Final = Table(FORMAT, cast("dict[str, Shape]", _SHAPES), ordered=False)
