# SPDX-License-Identifier: Apache-2.0
"""Memories as grains: which type of grain each type of memory is. Spec: MIF 2.0 §2."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats import times
from omsgrain.formats.mif2.values import base, belief, name, somebody, text
from omsgrain.formats.records import NAME, Fields, Record

__all__ = [
    "ACTIONS",
    "BELIEFS",
    "CONTENT",
    "TYPE",
    "agent_of",
    "from_fields",
    "text_of",
    "to_fields",
]

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
"""Where the content stands, by type of grain; in a context it is the ``text``."""
_NONE: Final[Record] = {}
_DID = re.compile(r"did:[a-z0-9]+:[\x21-\x7e]+")


def text_of(record: Record) -> str | None:
    """The text by which a memory is told from others. Spec: MIF 2.0 §6."""
    return str(record["content"])


def agent_of(record: Mapping[str, Any]) -> str | None:
    """Which agent a memory is from, in the spelling of the format or of its reference."""
    source = record.get("source", _NONE)
    for one in (source.get("agent_name"), source.get("agent"), record.get("agent_id")):
        if name(one):
            return str(one)
    return None


def to_fields(record: Record, owner: str | None) -> Fields:
    """The grain of a memory."""
    kind, content = record.get("memory_type", "observation"), text(record["content"])
    tags, agent = record.get("tags"), agent_of(record)
    if kind == "observation":
        fields = base("observation", record, owner)
        said = record.get("source", _NONE).get("source_type")
        # An observer who is nobody is called so.
        observer = _OBSERVERS.get(said) or (f"mif:{said}" if name(said) else "mif:unknown")
        fields["observer_type"], fields["observer_id"] = observer, agent or owner or "unknown"
        fields["subject"], fields["object"] = somebody(owner), content
    elif kind in BELIEFS:
        fields = _belief(record, owner, kind, content)
    elif kind == "context":
        fields = base("state", record, owner)
        fields["context"] = {"text": content}
    elif kind in ACTIONS:
        fields = base("action", record, owner)
        fields["tool_name"], fields["input"] = kind, {}
        fields["content"], fields["is_error"] = content, False
    elif kind == "intention":
        fields = base("goal", record, owner)
        fields["description"], fields["goal_state"] = content or "-", "active"
    else:
        fields = base("event", record, owner)
        fields["content"] = content or "-"
        if len(kind) <= NAME:
            tags = [TYPE + kind, *(tags or ())]
        role = "system" if kind == "error" else record.get("metadata", {}).get("role")
        if name(role):
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
    fields = belief(record, owner, None, BELIEFS[kind], content)
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
    if session := name(source.get("session_id")):
        fields["session_id"] = session
