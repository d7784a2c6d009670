# SPDX-License-Identifier: Apache-2.0
"""Records of a document as grains: what each kind of record is among grains.

A memory is the grain that one of MIF 2.0 would be, which has the same types under other names.
What is told here is for queries. Whatever a grain's fields do not say, the table of records keeps
beside them, so nothing here must be complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif1.check import FORMAT, MEMORY_TYPES
from omsgrain.formats.mif2 import records
from omsgrain.formats.mif2.check import (
    base,
    belief,
    name,
    value_text,
)
from omsgrain.formats.records import Fields, Record, RecordShape, RecordTable
from omsgrain.formats.source import Get, packing
from omsgrain.grain import Grain

NAMESPACE: Final = FORMAT
CONSENT: Final = "mif:consent"
NODE: Final = "mif:node"
RELATION: Final = "mif:"
"""Before the type of an edge, so that none is taken for one of ours."""
ASSOCIATION: Final = "semantic_association"
WEIGHT: Final = 0.5
"""Of an edge that does not say its weight, as the reference implementation has it."""

TYPES: Final = {
    one: "".join(f"_{c.lower()}" if c.isupper() else c for c in one)[1:] for one in MEMORY_TYPES
}
"""What MIF 2.0 calls each type of memory."""
_TYPES_OF = {snake: pascal for pascal, snake in TYPES.items()}

_STATUS = {"blocked": "suspended", "done": "satisfied", "cancelled": "failed"}
_STATUS_OF = {"active": "todo", **{state: status for status, state in _STATUS.items()}}
# The reference implementation writes marks for some of them.
_PRIORITY = {"urgent": 1, "!!!": 1, "high": 2, "!!": 2, "medium": 3, "!": 3, "low": 4, "none": 5}
_PRIORITY_OF = {1: "urgent", 2: "high", 3: "medium", 4: "low", 5: "none"}


def from_grain(grain: Grain, get: Get) -> tuple[str, Record] | None:
    """The record that a grain was, with its kind; None if it never was one of this format."""
    return TABLE.from_grain(grain, get)


def spell(millis: int) -> str:
    """Write a time as the SEP does, with its ms."""
    whole = times.spell(millis)
    return whole if len(whole) > 20 else f"{whole[:-1]}.000Z"


# -- memories -------------------------------------------------------------------------------------


def _of_memory(record: Record, owner: str | None) -> Fields:
    what = record["type"]
    other: Record = {
        key: record[key] for key in ("content", "created_at", "tags") if key in record
    }
    other["tags"] = other.get("tags") or []
    other["memory_type"] = TYPES.get(what, what)
    if isinstance(source := record.get("source"), dict):
        other["source"] = {
            "source_type": source.get("type"),
            "session_id": source.get("session_id"),
            "agent": source.get("agent"),
        }
    fields = records.to_fields(other, owner) | {"namespace": NAMESPACE}
    if (importance := record.get("importance")) is not None:
        fields["importance"] = float(importance) + 0.0  # a grain has no -0.0
    return fields


def _to_memory(fields: Mapping[str, Any], id: str) -> Record:
    other = records.from_fields(fields, id)
    what = other["memory_type"]
    record = {"id": id, "content": other["content"], "type": _TYPES_OF.get(what, what)}
    if "importance" in fields:
        record["importance"] = fields["importance"]
    record |= _when(fields)
    return record | {"tags": other["tags"]} if "tags" in other else record


# -- todos ----------------------------------------------------------------------------------------


def _of_todo(record: Record, owner: str | None) -> Fields:
    fields = _base("goal", record, owner)
    status = record["status"]
    fields["description"] = value_text(record["content"]) or "-"
    fields["goal_state"] = _STATUS.get(status, "active")
    if status == "cancelled":
        fields["state_reason"] = status
    if (level := _PRIORITY.get(record.get("priority") or "")) is not None:
        fields["priority"] = level
    if (due := _millis(record.get("due_date"))) is not None:
        fields["deadline"] = due
    if again := name(record.get("recurrence")):
        fields["recurrence"] = again
    if tags := record.get("tags"):
        fields["structural_tags"] = list(tags)
    return fields


def _to_todo(fields: Mapping[str, Any], id: str) -> Record:
    record = {"id": id, "content": fields["description"]}
    record["status"] = _STATUS_OF[fields["goal_state"]]
    if "priority" in fields:
        record["priority"] = _PRIORITY_OF[fields["priority"]]
    record |= _when(fields)
    if "deadline" in fields:
        record["due_date"] = spell(fields["deadline"])
    if "structural_tags" in fields:
        record["tags"] = list(fields["structural_tags"])
    if "recurrence" in fields:
        record["recurrence"] = fields["recurrence"]
    return record


# -- the graph ------------------------------------------------------------------------------------


def _of_node(record: Record, owner: str | None) -> Fields:
    about = {key: record[key] for key in ("type", "entity_type") if name(record.get(key))}
    return _belief(record, owner, record["id"], NODE, about)


def _to_node(fields: Mapping[str, Any], id: str) -> Record:
    about = fields["object"]
    return {"id": id} | {key: about[key] for key in ("type", "entity_type") if key in about}


def _of_edge(record: Record, owner: str | None) -> Fields:
    relation = RELATION + (name(record.get("type")) or ASSOCIATION)
    fields = _belief(record, owner, record["source"], relation, value_text(record["target"]))
    weight = record.get("weight")
    # A grain has no confidence above 1, and no -0.0.
    within = isinstance(weight, int | float) and 0 <= weight <= 1
    fields["confidence"] = float(weight or 0) + 0.0 if within else WEIGHT
    return fields


def _to_edge(fields: Mapping[str, Any], id: str) -> Record:
    return {
        "source": fields["subject"],
        "target": fields["object"],
        "weight": fields["confidence"],
        "type": fields["relation"].removeprefix(RELATION),
        **_when(fields),
    }


# -- the consent, and the table -------------------------------------------------------------------


def _of_consent(record: Record, owner: str | None) -> Fields:
    """No consent grain: that is between two who have DIDs, and here one says what they want."""
    fields = _base("state", {"created_at": record.get("timestamp")}, owner)
    kept = ("exported_by", "purpose", "retention_days", "sharing_allowed", "gdpr_basis")
    context = {key: record[key] for key in kept if _is_plain(record.get(key))}
    fields["context"] = {"kind": CONSENT, **context}
    if basis := name(record.get("gdpr_basis")):
        fields["processing_basis"] = basis
    return fields


def _to_consent(fields: Mapping[str, Any], id: str) -> Record:
    record = {key: value for key, value in fields["context"].items() if key != "kind"}
    created_at = fields["created_at"]
    return record | {"timestamp": spell(created_at)} if created_at else record


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return name(value) is not None
    return isinstance(value, bool) or (type(value) is int and value < 1 << 53)


def _base(kind: str, record: Record, owner: str | None) -> Fields:
    return base(kind, record, owner) | {"namespace": NAMESPACE}


def _belief(
    record: Record, owner: str | None, subject: str, relation: str, object_: Any
) -> Fields:
    return belief(record, owner, subject, relation, object_) | {"namespace": NAMESPACE}


def _millis(value: Any) -> int | None:
    instant = times.parse(value, floating=True) if isinstance(value, str) else None
    return None if instant is None else times.of_grain(instant)


def _when(fields: Mapping[str, Any]) -> Record:
    created_at = fields["created_at"]
    return {"created_at": spell(created_at)} if created_at else {}


def _id(record: Record) -> str:
    return str(record["id"])


def _ends(record: Record) -> str:
    """An edge has no id: it is known by what it joins."""
    return f"{record['source']} {record['target']} {record.get('type') or ASSOCIATION}"


def _consent(record: Record) -> str:
    return "consent"


_APART, _WHOLE = packing("embedding")
_TODO = RecordShape(_of_todo, _to_todo, _id, apart=_APART, whole=_WHOLE)

TABLE: Final = RecordTable(
    FORMAT,
    {
        "memory": RecordShape(_of_memory, _to_memory, _id, records.text_of, _APART, _WHOLE),
        "todo": _TODO,
        "node": RecordShape(_of_node, _to_node, _id),
        "edge": RecordShape(_of_edge, _to_edge, _ends),
        "consent": RecordShape(_of_consent, _to_consent, _consent),
    },
    ordered=True,
)
"""The kinds of records."""
