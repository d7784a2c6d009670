# SPDX-License-Identifier: Apache-2.0
"""Grains that never were a record of any format, in terms of the model: each one is a memory.

What is told of a grain is its text, what kind of memory it is, and what has a word in the model;
the rest are its other fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from omsgrain.formats import model, times
from omsgrain.formats.across.names import MIF_LD, of_address
from omsgrain.formats.across.words import mif1_memory, snake
from omsgrain.formats.aimem.native import PLAIN, text_of
from omsgrain.grain import Grain

__all__ = ["item", "said_by_type"]

_TYPES: Final = {
    "observation": "observation",
    "state": "context",
    "goal": "intention",
    "workflow": "procedure",
    "action": "task",
    "reasoning": "learning",
    "consensus": "decision",
    "event": "conversation",
}
"""What kind of memory a type of grain is, if it says no better."""
_BELIEFS: Final = {
    "mg:prefers": "preference",
    "mg:avoids": "pitfall",
    "aimem:decided": "decision",
    "aimem:identity": "identity",
    "mif:decided": "decision",
    "mif:pattern": "pattern",
}
_KNOWS: Final = "mg:knows"
_OF_MIF_LD: Final = frozenset((_KNOWS, "mg:prefers", "mif:decided", "aimem:decided"))
_PRIORITIES: Final = {"hot": "critical", "warm": "important", "cold": "standard"}


def said_by_type(format: str) -> frozenset[str]:
    """The relations of beliefs that a type of memory says which the format itself has."""
    if format == MIF_LD:  # by namespace: _semantic/preferences, _semantic/decisions
        return _OF_MIF_LD
    words = (relation for relation, word in _BELIEFS.items() if snake(mif1_memory(word)) == word)
    return frozenset((_KNOWS, *words))


def item(grain: Grain, format: str, owner: str | None) -> model.Memory:
    """A grain as a memory.

    Args:
        grain: any.
        format: in which it is told.
        owner: whose memory the document is; None: of several people.
    """
    content, told = text_of(grain, owner, said_by_type(format))
    plain = PLAIN - {"namespace"}
    rest = {name: grain[name] for name in grain if name not in told and name not in plain}
    importance, session = rest.get("importance"), rest.get("session_id")
    given: dict[str, Any] = {}
    if isinstance(importance, int | float) and 0 <= importance <= 1:
        given["importance"] = rest.pop("importance")
    if isinstance(session, str):
        given["origin"] = model.Provenance(session=rest.pop("session_id"))
    if (priority := _PRIORITIES.get(grain.get("recall_priority", ""))) is not None:
        given["priority"] = priority
    if _locked(grain):
        given["pinned"] = True
        rest.pop("invalidation_policy")
    return model.Memory(
        id=of_address(grain.address),
        content=content,
        type=_type(grain),
        created_at=times.spell(grain["created_at"]),
        tags=tuple(grain.get("structural_tags", ())),
        rest=rest,
        **given,
    )


def _type(grain: Grain) -> str:
    kind = str(grain["type"])
    if kind == "belief":
        derived = grain.get("epistemic_status") == "derived"
        known = "discovery" if derived else "learning"
        return _BELIEFS.get(grain.get("relation", ""), known)
    if kind == "action" and grain.get("tool_name") in ("code_edit", "file_access", "search",
                                                       "command"):  # fmt: skip
        return str(grain["tool_name"])
    if kind == "event" and grain.get("role") == "system":
        return "error"
    return _TYPES.get(kind, "observation")


def _locked(grain: Grain) -> bool:
    """Whether a grain says that it is not to be changed, and no more than that."""
    policy = grain.get("invalidation_policy")
    return isinstance(policy, Mapping) and dict(policy) == {"mode": "soft_locked"}
