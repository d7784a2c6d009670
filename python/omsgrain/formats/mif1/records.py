# SPDX-License-Identifier: Apache-2.0
"""Converts records of MIF 1.0 to grains and back.

Memories and todos become the same grains as in MIF 2.0. A grain's fields are for queries and need
not hold all of a record: the table of records keeps the rest beside them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from omsgrain.formats.mif1.check import FORMAT, MEMORY_TYPES
from omsgrain.formats.mif2 import records
from omsgrain.formats.records import (
    Fields,
    Record,
    RecordShape,
    RecordTable,
    belief_fields,
    grain_fields,
    id_of,
    short_name,
    value_text,
)
from omsgrain.json_values import spell_millis

_fields = partial(grain_fields, namespace=FORMAT)
_about = partial(belief_fields, namespace=FORMAT)

CONSENT: Final = "mif:consent"
NODE: Final = "mif:node"
RELATION: Final = "mif:"
"""The prefix of an edge's type, so that it never equals one of our relations."""
ASSOCIATION: Final = "semantic_association"
WEIGHT: Final = 0.5
"""The weight of an edge without one, as in the reference implementation."""

TYPES: Final = {
    one: "".join(f"_{c.lower()}" if c.isupper() else c for c in one)[1:] for one in MEMORY_TYPES
}
"""Memory type -> its name in MIF 2.0."""
_TYPES_OF = {snake: pascal for pascal, snake in TYPES.items()}

_MARKS = {"!!!": 1, "!!": 2, "!": 3}
"""Priorities that the reference implementation can write."""


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
    fields = records.to_fields(other, owner) | {"namespace": FORMAT}
    if (importance := record.get("importance")) is not None:
        fields["importance"] = float(importance) + 0.0  # grains do not allow -0.0
    return fields


def _to_memory(fields: Mapping[str, Any], id: str) -> Record:
    other = records.from_fields(fields, id)
    what = other["memory_type"]
    record = {"id": id, "content": other["content"], "type": _TYPES_OF.get(what, what)}
    if "importance" in fields:
        record["importance"] = fields["importance"]
    record |= records.when(fields, spell_millis)
    return record | {"tags": other["tags"]} if "tags" in other else record


# -- todos ----------------------------------------------------------------------------------------


def _of_todo(record: Record, owner: str | None) -> Fields:
    fields = records.todo_fields(record, owner) | {"namespace": FORMAT}
    if (level := _MARKS.get(record.get("priority") or "")) is not None:
        fields["priority"] = level
    return fields


# -- the graph ------------------------------------------------------------------------------------


def _of_node(record: Record, owner: str | None) -> Fields:
    about = {key: record[key] for key in ("type", "entity_type") if short_name(record.get(key))}
    return _about(record, owner, record["id"], NODE, about)


def _to_node(fields: Mapping[str, Any], id: str) -> Record:
    about = fields["object"]
    return {"id": id} | {key: about[key] for key in ("type", "entity_type") if key in about}


def _of_edge(record: Record, owner: str | None) -> Fields:
    relation = RELATION + (short_name(record.get("type")) or ASSOCIATION)
    fields = _about(record, owner, record["source"], relation, value_text(record["target"]))
    weight = record.get("weight")
    # Grains do not allow a confidence above 1, or -0.0.
    within = isinstance(weight, int | float) and 0 <= weight <= 1
    fields["confidence"] = float(weight or 0) + 0.0 if within else WEIGHT
    return fields


def _to_edge(fields: Mapping[str, Any], id: str) -> Record:
    return {
        "source": fields["subject"],
        "target": fields["object"],
        "weight": fields["confidence"],
        "type": fields["relation"].removeprefix(RELATION),
        **records.when(fields, spell_millis),
    }


# -- the consent, and the table -------------------------------------------------------------------


def _of_consent(record: Record, owner: str | None) -> Fields:
    """Make a state grain: the grain type consent needs two DIDs."""
    fields = _fields("state", {"created_at": record.get("timestamp")}, owner)
    kept = ("exported_by", "purpose", "retention_days", "sharing_allowed", "gdpr_basis")
    context = {key: record[key] for key in kept if _is_plain(record.get(key))}
    fields["context"] = {"kind": CONSENT, **context}
    if basis := short_name(record.get("gdpr_basis")):
        fields["processing_basis"] = basis
    return fields


def _to_consent(fields: Mapping[str, Any], id: str) -> Record:
    record = {key: value for key, value in fields["context"].items() if key != "kind"}
    created_at = fields["created_at"]
    return record | {"timestamp": spell_millis(created_at)} if created_at else record


def _is_plain(value: Any) -> bool:
    if isinstance(value, str):
        return short_name(value) is not None
    return isinstance(value, bool) or (type(value) is int and value < 1 << 53)


def _ends(record: Record) -> str:
    """Identify an edge by its ends and type, because edges have no ids."""
    return f"{record['source']} {record['target']} {record.get('type') or ASSOCIATION}"


_TODO = RecordShape(
    _of_todo, partial(records.todo_record, spell=spell_millis), id_of, embedding="embedding"
)

TABLE: Final = RecordTable(
    FORMAT,
    {
        "memory": RecordShape(
            _of_memory, _to_memory, id_of, records.text_of, embedding="embedding"
        ),
        "todo": _TODO,
        "node": RecordShape(_of_node, _to_node, id_of),
        "edge": RecordShape(_of_edge, _to_edge, _ends),
        "consent": RecordShape(_of_consent, _to_consent, lambda record: "consent"),
    },
    ordered=True,
)
