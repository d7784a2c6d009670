# SPDX-License-Identifier: Apache-2.0
"""Records of a document as grains.

The fields of a grain are for queries. The table of records keeps beside them whatever they do not
say, so nothing here must be complete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif2.check import FORMAT, SHAPES
from omsgrain.formats.records import (
    NAME,
    Fields,
    Record,
    RecordShape,
    RecordTable,
    belief_fields,
    grain_fields,
    id_of,
    instant,
    other_fields,
    other_record,
    short_name,
    somebody,
    value_text,
)

_fields = partial(grain_fields, namespace=FORMAT)
_about = partial(belief_fields, namespace=FORMAT)

BELIEFS: Final = {
    "decision": "mif:decided",
    "learning": "mg:knows",
    "discovery": "mg:knows",
    "pattern": "mif:pattern",
}
"""Types of memory that are beliefs of the user, and their relations."""
ACTIONS: Final = frozenset({"code_edit", "file_access", "search", "command"})
TYPE: Final = "mif:"
"""Before the type of a memory that is an event, as its first tag."""

_OBSERVERS = {"user": "human", "ai_generated": "llm", "inferred": "llm"}
_SOURCES = {
    "user": "user_explicit",
    "ai_generated": "llm_generated",
    "inferred": "agent_inferred",
    "system": "system",
}
CONTENT: Final = {
    "belief": "object",
    "observation": "object",
    "event": "content",
    "action": "content",
    "goal": "description",
    "state": "context",
}
"""The field with the content, by type of grain; in a context it is the ``text``."""
_NONE: Final[Record] = {}
_DID = re.compile(r"did:[a-z0-9]+:[\x21-\x7e]+")


def text_of(record: Record) -> str | None:
    """The text that identifies duplicates. Spec: MIF 2.0 §6."""
    return str(record["content"])


def agent_of(record: Mapping[str, Any]) -> str | None:
    """Which agent a memory is from, in the spelling of the format or of its reference."""
    source = record.get("source", _NONE)
    for one in (source.get("agent_name"), source.get("agent"), record.get("agent_id")):
        if short_name(one):
            return str(one)
    return None


def to_fields(record: Record, owner: str | None) -> Fields:
    kind, content = record.get("memory_type", "observation"), value_text(record["content"])
    tags, agent = record.get("tags"), agent_of(record)
    if kind == "observation":
        fields = _fields("observation", record, owner)
        said = record.get("source", _NONE).get("source_type")
        # An unknown observer has a name too.
        observer = _OBSERVERS.get(said) or (f"mif:{said}" if short_name(said) else "mif:unknown")
        fields["observer_type"], fields["observer_id"] = observer, agent or owner or "unknown"
        fields["subject"], fields["object"] = somebody(owner), content
    elif kind in BELIEFS:
        fields = _belief(record, owner, kind, content)
    elif kind == "context":
        fields = _fields("state", record, owner)
        fields["context"] = {"text": content}
    elif kind in ACTIONS:
        fields = _fields("action", record, owner)
        fields["tool_name"], fields["input"] = kind, {}
        fields["content"], fields["is_error"] = content, False
    elif kind == "intention":
        fields = _fields("goal", record, owner)
        fields["description"], fields["goal_state"] = content or "-", "active"
    else:
        fields = _fields("event", record, owner)
        fields["content"] = content or "-"
        if len(kind) <= NAME:
            tags = [TYPE + kind, *(tags or ())]
        role = "system" if kind == "error" else record.get("metadata", {}).get("role")
        if short_name(role):
            fields["role"] = role
    if tags:
        fields["structural_tags"] = tags
    if (source := record.get("source")) is not None:
        _origin(fields, source)
    if agent is not None and agent.startswith("did:") and _DID.fullmatch(agent):
        fields["author_did"] = agent
    return fields


def from_fields(fields: Mapping[str, Any], id: str) -> Record:
    """The memory again, as far as the grain's fields say it."""
    kind = fields["type"]
    what, tags = kind, fields.get("structural_tags")
    if kind == "state":
        content, what = fields["context"]["text"], "context"
    else:
        content = fields[CONTENT[kind]]
    if kind == "belief":
        what = _believed(fields)
    elif kind == "action":
        what = fields["tool_name"]
    elif kind == "goal":
        what = "intention"
    elif kind == "event" and tags:
        what, tags = tags[0].removeprefix(TYPE), tags[1:]
    created_at = times.spell(fields["created_at"])
    record = {"id": id, "content": content, "created_at": created_at, "memory_type": what}
    if tags:
        record["tags"] = tags
    return record


def _belief(record: Record, owner: str | None, kind: str, content: str) -> Fields:
    fields = _about(record, owner, None, BELIEFS[kind], content)
    score = record.get("metadata", {}).get("score")
    if kind == "decision" and type(score) in (int, float) and 0 <= score <= 1:
        fields["confidence"] = float(score)
    elif kind == "discovery":
        fields["epistemic_status"] = "derived"
    elif kind == "pattern":
        fields["consolidation_level"] = 2
    return fields


def _believed(fields: Mapping[str, Any]) -> str:
    relation = fields["relation"]
    if relation == BELIEFS["learning"]:
        return "discovery" if "epistemic_status" in fields else "learning"
    return "decision" if relation == BELIEFS["decision"] else "pattern"


def _origin(fields: Fields, source: Record) -> None:
    if said := source.get("source_type"):
        fields["source_type"] = _SOURCES.get(said, "imported")
    if session := short_name(source.get("session_id")):
        fields["session_id"] = session


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


# -- the graph ------------------------------------------------------------------------------------


def _of_entity(record: Record, owner: str | None) -> Fields:
    about: Fields = {"name": value_text(record["name"])}
    if types := [one for one in record.get("types", ()) if short_name(one)][:64]:
        about["types"] = types
    if summary := record.get("summary"):
        about["summary"] = value_text(summary)
    return _about(record, owner, record["id"], ENTITY, about)


def _to_entity(fields: Mapping[str, Any], id: str) -> Record:
    about = fields["object"]
    record = {"id": id, "name": about["name"]}
    record |= {key: about[key] for key in ("types", "summary") if key in about}
    return record | when(fields)


def _of_relationship(record: Record, owner: str | None) -> Fields:
    relation = RELATION + value_text(record["relation_type"])
    target = value_text(record["target_entity_id"])
    fields = _about(record, owner, record["source_entity_id"], relation, target)
    if "confidence" in record:
        fields["confidence"] = float(record["confidence"])
    if context := record.get("context"):
        fields["context"] = {"text": value_text(context)}
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
    record |= when(fields)
    for field, key in (("valid_from", "valid_at"), ("valid_to", "invalidated_at")):
        if field in fields:
            record[key] = times.spell(fields[field])
    return record


def _of_episode(record: Record, owner: str | None) -> Fields:
    said = value_text(record.get("content") or record["name"]) or "-"
    return _fields("event", record, owner) | {"content": said}


def _to_episode(fields: Mapping[str, Any], id: str) -> Record:
    return {"id": id, "name": fields["content"]} | when(fields)


# -- what is to be done ---------------------------------------------------------------------------


def _goal(record: Record, owner: str | None, what: str, state: str, *tags: str) -> Fields:
    fields = _fields("goal", record, owner)
    fields["description"], fields["goal_state"] = value_text(what) or "-", state
    if labels := [*tags, *(record.get("tags") or ())]:
        fields["structural_tags"] = labels
    return fields


def todo_fields(record: Record, owner: str | None) -> Fields:
    status = record.get("status")
    fields = _goal(record, owner, record["content"], _STATUS.get(status or "", "active"))
    if status == "cancelled":
        fields["state_reason"] = status
    if (level := _PRIORITY.get(record.get("priority") or "")) is not None:
        fields["priority"] = level
    if (due := _millis(record.get("due_date"))) is not None:
        fields["deadline"] = due
    if again := short_name(record.get("recurrence")):
        fields["recurrence"] = again
    return fields


def todo_record(
    fields: Mapping[str, Any], id: str, spell: Callable[[int], str] = times.spell
) -> Record:
    """The todo again, as far as the grain's fields say it."""
    record = {"id": id, "content": fields["description"]}
    record["status"] = _STATUS_OF[fields["goal_state"]]
    if "priority" in fields:
        record["priority"] = _PRIORITY_OF[fields["priority"]]
    record |= when(fields, spell)
    if "deadline" in fields:
        record["due_date"] = spell(fields["deadline"])
    if tags := fields.get("structural_tags"):
        record["tags"] = list(tags)
    if "recurrence" in fields:
        record["recurrence"] = fields["recurrence"]
    return record


def _to_todo(fields: Mapping[str, Any], id: str) -> Record:
    record = todo_record(fields, id)
    record.pop("tags", None)
    return record | _labels(fields)


def _of_project(record: Record, owner: str | None) -> Fields:
    state = _PROJECTS.get((record.get("status") or "").replace("_", ""), "active")
    return _goal(record, owner, record["name"], state, _PROJECT)


def _to_project(fields: Mapping[str, Any], id: str) -> Record:
    status = _PROJECTS_OF[fields["goal_state"]]
    return {"id": id, "name": fields["description"], "status": status} | when(fields)


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
    return record | _labels(fields) | when(fields)


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


def _millis(value: Any) -> int | None:
    found = instant(value) if isinstance(value, str) else None
    return None if found is None else times.of_grain(found)


def when(fields: Mapping[str, Any], spell: Callable[[int], str] = times.spell) -> Record:
    """The member that says when a record was made; none where nothing said it."""
    created_at = fields["created_at"]
    return {"created_at": spell(created_at)} if created_at else {}


def _labels(fields: Mapping[str, Any]) -> Record:
    tags = [tag for tag in fields.get("structural_tags", ()) if tag != _REMINDER]
    return {"tags": tags} if tags else {}


def _order(kind: str) -> tuple[str, ...]:
    return tuple(field.name for field in SHAPES[kind])


def _plain(
    kind: str,
    to_fields: Callable[[Record, str | None], Fields],
    from_fields: Callable[[Mapping[str, Any], str], Record],
) -> RecordShape:
    return RecordShape(to_fields, from_fields, id_of, order=_order(kind))


TABLE: Final = RecordTable(
    FORMAT,
    {
        "memory": RecordShape(
            to_fields,
            from_fields,
            id_of,
            text_of,
            _order("memory"),
            "embeddings",
        ),
        "entity": _plain("entity", _of_entity, _to_entity),
        "relationship": _plain("relationship", _of_relationship, _to_relationship),
        "episode": _plain("episode", _of_episode, _to_episode),
        "todo": _plain("todo", todo_fields, _to_todo),
        "project": _plain("project", _of_project, _to_project),
        "reminder": _plain("reminder", _of_reminder, _to_reminder),
        "other": RecordShape(other_fields, other_record, lambda record: ""),
    },
    ordered=True,
)
"""The kinds of records. Any other value is ``{"value": value}`` here."""
