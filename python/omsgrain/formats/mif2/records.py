# SPDX-License-Identifier: Apache-2.0
"""Records of a document as grains: what each kind of record is among grains.

What is told here is for queries. Whatever a grain's fields do not say, the table of records keeps
beside them, so nothing here must be complete.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif2 import memories
from omsgrain.formats.mif2.fields import FORMAT, SHAPES
from omsgrain.formats.mif2.values import NAMESPACE, base, belief, instant, name, text
from omsgrain.formats.packed import packing
from omsgrain.formats.raw import OTHER, Get
from omsgrain.formats.records import Fields, Record, Shape, Table
from omsgrain.grain import Grain

__all__ = ["NAMESPACE", "RELATION", "TABLE", "from_grain"]

ENTITY: Final = "mif:entity"
RELATION: Final = "mif:"
"""Before the type of a relationship, so that none is taken for one of ours."""
_PROJECT: Final = "mif:project"
_REMINDER: Final = "mif:reminder"

_STATUS = {"blocked": "suspended", "done": "satisfied", "cancelled": "failed"}
_STATUS_OF = {"active": "todo", **{state: status for status, state in _STATUS.items()}}
_PRIORITY = {"urgent": 1, "high": 2, "medium": 3, "low": 4, "none": 5}
_PRIORITY_OF = {level: name for name, level in _PRIORITY.items()}
_PROJECTS = {"archived": "suspended", "onhold": "suspended", "completed": "satisfied"}
_PROJECTS_OF = {"active": "active", **{state: status for status, state in _PROJECTS.items()}}
_REMINDERS = {"dismissed": "satisfied", "expired": "failed"}
_REMINDERS_OF = {"active": "pending", **{state: status for status, state in _REMINDERS.items()}}


def from_grain(grain: Grain, get: Get) -> tuple[str, Record] | None:
    """The record that a grain was, with its kind; None if it never was one of this format.

    Args:
        grain: any.
        get: gives the grains that hold the parts of a large record.

    Raises:
        FormatError: the side channel does not fit the grain.
    """
    return TABLE.from_grain(grain, get)


# -- the graph ------------------------------------------------------------------------------------


def _of_entity(record: Record, owner: str | None) -> Fields:
    about: Fields = {"name": text(record["name"])}
    if types := [one for one in record.get("types", ()) if name(one)][:64]:
        about["types"] = types
    if summary := record.get("summary"):
        about["summary"] = text(summary)
    return belief(record, owner, record["id"], ENTITY, about)


def _to_entity(fields: Mapping[str, Any], id: str) -> Record:
    about = fields["object"]
    record = {"id": id, "name": about["name"]}
    record |= {key: about[key] for key in ("types", "summary") if key in about}
    return record | _when(fields)


def _of_relationship(record: Record, owner: str | None) -> Fields:
    relation = RELATION + text(record["relation_type"])
    target = text(record["target_entity_id"])
    fields = belief(record, owner, record["source_entity_id"], relation, target)
    if "confidence" in record:
        fields["confidence"] = float(record["confidence"])
    if context := record.get("context"):
        fields["context"] = {"text": text(context)}
    for field, key in (("valid_from", "valid_at"), ("valid_to", "invalidated_at")):
        if (at := _millis(record.get(key))) is not None:
            fields[field] = at
    return fields


def _to_relationship(fields: Mapping[str, Any], id: str) -> Record:
    record = {
        "id": id,
        "source_entity_id": fields["subject"],
        "target_entity_id": fields["object"],
        "relation_type": fields["relation"].removeprefix(RELATION),
    }
    if "context" in fields:
        record["context"] = fields["context"]["text"]
    record["confidence"] = fields["confidence"]
    record |= _when(fields)
    for field, key in (("valid_from", "valid_at"), ("valid_to", "invalidated_at")):
        if field in fields:
            record[key] = times.spell(fields[field])
    return record


def _of_episode(record: Record, owner: str | None) -> Fields:
    said = text(record.get("content") or record["name"]) or "-"
    return base("event", record, owner) | {"content": said}


def _to_episode(fields: Mapping[str, Any], id: str) -> Record:
    return {"id": id, "name": fields["content"]} | _when(fields)


# -- what is to be done ---------------------------------------------------------------------------


def _goal(record: Record, owner: str | None, what: str, state: str, *tags: str) -> Fields:
    fields = base("goal", record, owner)
    fields["description"], fields["goal_state"] = text(what) or "-", state
    if labels := [*tags, *(record.get("tags") or ())]:
        fields["structural_tags"] = labels
    return fields


def _of_todo(record: Record, owner: str | None) -> Fields:
    status = record.get("status")
    fields = _goal(record, owner, record["content"], _STATUS.get(status or "", "active"))
    if status == "cancelled":
        fields["state_reason"] = status
    if (level := _PRIORITY.get(record.get("priority") or "")) is not None:
        fields["priority"] = level
    if (due := _millis(record.get("due_date"))) is not None:
        fields["deadline"] = due
    if again := name(record.get("recurrence")):
        fields["recurrence"] = again
    return fields


def _to_todo(fields: Mapping[str, Any], id: str) -> Record:
    record = {"id": id, "content": fields["description"]}
    record["status"] = _STATUS_OF[fields["goal_state"]]
    if "priority" in fields:
        record["priority"] = _PRIORITY_OF[fields["priority"]]
    record |= _when(fields)
    if "deadline" in fields:
        record["due_date"] = times.spell(fields["deadline"])
    if "recurrence" in fields:
        record["recurrence"] = fields["recurrence"]
    return record | _labels(fields)


def _of_project(record: Record, owner: str | None) -> Fields:
    state = _PROJECTS.get((record.get("status") or "").replace("_", ""), "active")
    return _goal(record, owner, record["name"], state, _PROJECT)


def _to_project(fields: Mapping[str, Any], id: str) -> Record:
    status = _PROJECTS_OF[fields["goal_state"]]
    return {"id": id, "name": fields["description"], "status": status} | _when(fields)


def _of_reminder(record: Record, owner: str | None) -> Fields:
    state = _REMINDERS.get(record.get("status") or "", "active")
    fields = _goal(record, owner, record["content"], state, _REMINDER)
    if (at := _due(record["trigger"])) is not None:
        fields["deadline"] = at
    level = record.get("priority")
    if level is not None and 1 <= level <= 5:
        fields["priority"] = int(level)
    return fields


def _to_reminder(fields: Mapping[str, Any], id: str) -> Record:
    record: Record = {"id": id, "content": fields["description"]}
    record["status"] = _REMINDERS_OF[fields["goal_state"]]
    if "priority" in fields:
        record["priority"] = fields["priority"]
    return record | _labels(fields) | _when(fields)


def _due(trigger: Record) -> int | None:
    """When a reminder comes by itself; one that waits for a context never does."""
    if trigger["type"] == "time":
        return _millis(trigger.get("at"))
    start, seconds = _millis(trigger.get("from")), trigger.get("seconds")
    if trigger["type"] != "duration" or start is None or seconds is None:
        return None
    end = start + seconds * 1000
    return int(end) if 0 <= end <= times.LAST else None


# -- any other value, and the table ---------------------------------------------------------------


def _of_other(record: Record, owner: str | None) -> Fields:
    return base("state", record, owner) | {"namespace": OTHER, "context": {"kind": OTHER}}


def _to_other(fields: Mapping[str, Any], id: str) -> Record:
    return {}


def _no_name(record: Record) -> str:
    return ""


def _id(record: Record) -> str:
    return str(record["id"])


def _millis(value: Any) -> int | None:
    found = instant(value) if isinstance(value, str) else None
    return None if found is None else times.of_grain(found)


def _when(fields: Mapping[str, Any]) -> Record:
    created_at = fields["created_at"]
    return {"created_at": times.spell(created_at)} if created_at else {}


def _labels(fields: Mapping[str, Any]) -> Record:
    tags = [tag for tag in fields.get("structural_tags", ()) if tag != _REMINDER]
    return {"tags": tags} if tags else {}


def _order(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in SHAPES[kind])


def _plain(
    kind: str,
    to_fields: Callable[[Record, str | None], Fields],
    from_fields: Callable[[Mapping[str, Any], str], Record],
) -> Shape:
    return Shape(to_fields, from_fields, _id, order=_order(kind))


TABLE: Final = Table(
    FORMAT,
    {
        "memory": Shape(
            memories.to_fields,
            memories.from_fields,
            _id,
            memories.text_of,
            *packing("embeddings"),
            _order("memory"),
        ),
        "entity": _plain("entity", _of_entity, _to_entity),
        "relationship": _plain("relationship", _of_relationship, _to_relationship),
        "episode": _plain("episode", _of_episode, _to_episode),
        "todo": _plain("todo", _of_todo, _to_todo),
        "project": _plain("project", _of_project, _to_project),
        "reminder": _plain("reminder", _of_reminder, _to_reminder),
        "other": Shape(_of_other, _to_other, _no_name),
    },
    ordered=True,
)
"""The kinds of records. Any other value is ``{"value": value}`` here."""
