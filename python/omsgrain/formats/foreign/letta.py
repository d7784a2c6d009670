# SPDX-License-Identifier: Apache-2.0
"""Letta's agent file (``.af``): the blocks, messages and files of agents, as JSON.

The older layout has one agent, with ``core_memory`` and ``messages`` of its own. Each export
numbers the ids of its file again, so a block is known by its agent and its label, and a message by
its agent, its time and its text. Prompts, tools and settings of an agent are no memory.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, Final

from omsgrain.formats.base import Said
from omsgrain.formats.foreign.base import ForeignFormat, Translation, members_of, strings
from omsgrain.formats.records import objects_at, objects_of

_WHOLE: Final = ("agents", "blocks", "tools")
_OLDER: Final = ("agent_type", "core_memory", "messages")
_READ: Final = frozenset(("agents", "blocks", "files", "core_memory", "messages"))
_SAID: Final = frozenset(("id", "label", "value", "created_at", "updated_at"))
_SPOKEN: Final = frozenset(("user", "assistant"))
_WRAPPED: Final = "user_message"
"""The type of a message that a server has wrapped in JSON; other types are its own events."""
_SENT: Final = "send_message"
"""The tool by which older agents speak."""
_WHY: Final = {
    "system": "they are prompts",
    "tool": "they are calls and results of tools",
    "event": "they are events of the server",
}


class Letta(ForeignFormat):
    name = "letta"
    title = "an agent file of Letta"
    suffixes = (".af",)

    def sniff(self, said: Said) -> bool:
        if not said.is_object:
            return False
        found = members_of(said.text, *_WHOLE, *_OLDER).keys()
        return found >= {*_WHOLE} or found >= {*_OLDER}

    def translate(self, data: bytes, into: Translation) -> None:
        document = into.limits.parse(data)
        if not isinstance(document, dict):
            return into.skip("not_record", "")
        older = "core_memory" in document
        agents = [("", document)] if older else [
            (f"/agents/{i}", one) for i, one in objects_at(document, "agents")
        ]  # fmt: skip
        blocks = "core_memory" if older else "blocks"
        owners = {
            id: _name(agent) for _, agent in reversed(agents) for id in strings(
                agent.get("block_ids")
            )
        }  # fmt: skip
        for i, block in enumerate(_listed(document, blocks, into)):
            agent = _name(document) if older else owners.get(str(_get(block, "id")), "")
            _block(block, agent, f"/{blocks}/{i}", into)
        left: Counter[str] = Counter()
        for at, agent_record in agents:
            for i, message in enumerate(_listed(agent_record, "messages", into, at)):
                _message(message, _name(agent_record), f"{at}/messages/{i}", into, left)
        for kind, why in _WHY.items():
            into.left_out(f"messages ({kind})", left[kind], "/messages", why)
        for i, file in objects_at(document, "files"):
            _file(file, f"/files/{i}", into)
        if agents:
            into.left_out("settings of agents", len(agents), "/agents", "they are no memory")
        for key, value in document.items():
            if not older and key not in _READ and isinstance(value, list):
                into.left_out(key, len(value), f"/{key}", "they are no memory")


def _listed(value: dict[str, Any], name: str, into: Translation, at: str = "") -> list[Any]:
    """The values of an array; one that is no array is reported."""
    listed = value.get(name)
    if isinstance(listed, list):
        return listed
    if listed is not None:
        into.skip("not_record", f"{at}/{name}")
    return []


def _get(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _name(agent: dict[str, Any]) -> str:
    name = agent.get("name")
    return name if isinstance(name, str) else ""


def _block(block: Any, agent: str, at: str, into: Translation) -> None:
    label = _get(block, "label")
    if not isinstance(label, str) or not isinstance(block.get("value"), str):
        return into.skip("not_record", at)
    if not block["value"].strip():
        return into.left_out("an empty block", 1, at, "it has no text")
    into.memory(
        ("block", agent, label),
        block["value"],
        at,
        rest={"label": label, **{name: one for name, one in block.items()
                                 if name not in _SAID and one not in (None, {}, [])}},
        created_at=block.get("created_at"),
        updated_at=block.get("updated_at"),
        agent_id=agent or None,
        tags=[label] if label else None,
    )  # fmt: skip


def _message(message: Any, agent: str, at: str, into: Translation, left: Counter[str]) -> None:
    role, said = _get(message, "role"), _spoken(message) if isinstance(message, dict) else ""
    if not isinstance(role, str):
        return into.skip("not_record", at)
    if role not in _SPOKEN or not said:
        left["system" if role == "system" else "tool"] += 1
        return None
    if role == "user" and (wrapped := _unwrapped(said)) is not None:
        if not wrapped:
            left["event"] += 1
            return None
        said = wrapped
    when = message.get("created_at")
    rest = {name: message[name] for name in ("name", "sender_id", "group_id", "model")
            if isinstance(message.get(name), str)}  # fmt: skip
    return into.memory(
        ("message", agent, role, str(when), said),
        said,
        at,
        rest=rest,
        created_at=when,
        memory_type="conversation",
        metadata={"role": role},
        agent_id=agent or None,
    )


def _spoken(message: dict[str, Any]) -> str:
    """The text of a message: its own, or what its calls send to the user."""
    content = message.get("content", message.get("text"))
    if isinstance(content, str):
        text = content
    else:
        parts = objects_of(message, "content")
        text = "\n\n".join(strings([one.get("text") for one in parts]))
    sent = []
    for call in objects_of(message, "tool_calls"):
        function = _get(call, "function")
        if _get(function, "name") == _SENT:
            sent += strings([_get(_json(_get(function, "arguments")), "message")])
    return "\n\n".join(sent) or text.strip()


def _unwrapped(text: str) -> str | None:
    """The text that a server wrapped; an empty one of its own events, None if it wrapped none."""
    value = _json(text) if text.startswith("{") else None
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        return None
    said = value.get("message")
    return said.strip() if value["type"] == _WRAPPED and isinstance(said, str) else ""


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return None


def _file(file: dict[str, Any], at: str, into: Translation) -> None:
    name, text = file.get("file_name"), file.get("content")
    if not isinstance(name, str) or not isinstance(text, str) or not text.strip():
        return into.left_out("a file", 1, at, "its text is not in the agent file")
    into.memory(
        ("file", str(file.get("file_path") or name)),
        text,
        at,
        rest={key: one for key, one in file.items() if key not in ("id", "content")
              and one is not None},
        created_at=file.get("file_creation_date"),
        updated_at=file.get("file_last_modified_date"),
        external_id=name,
    )  # fmt: skip


LETTA: Final = Letta()
