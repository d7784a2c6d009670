# SPDX-License-Identifier: Apache-2.0
"""A memory of one shape in the other, and what that does not hold.

It is brought back, and compared: nobody writes down what a shape cannot hold.

What both have in common stays as it is; so do members that only one of them names, where the other
one takes them as unknown ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from omsgrain.formats.mif_ld.markdown.names import KEBAB, PASCAL, URN
from omsgrain.formats.mif_ld.markdown.writing import lost
from omsgrain.formats.mif_ld.shape import Shape, shape_of
from omsgrain.formats.mif_ld.validate import judge
from omsgrain.formats.records import Record

__all__ = ["reshaped"]

_OURS: Final = "omsgrain:"
"""Before a type that shape 0.1 has no word for."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_PREFIXED = re.compile(r"[a-zA-Z][a-zA-Z0-9]*:[a-zA-Z][a-zA-Z0-9-]*")


def reshaped(memory: Record, shape: Shape) -> tuple[Record, list[tuple[str, str, str]]]:
    """Bring a memory into a shape.

    Args:
        memory: one that was judged.
        shape: which it is to have.

    Returns:
        The memory, and what it does not hold: the memory's ``@id``, the member, and why.
    """
    own = shape_of(memory)
    if own == shape:
        return memory, []
    made = _TO[shape](memory)
    for one in judge(made, shape=shape).findings:  # what only the other shape takes
        for key in one.pointer.split("/")[1:2]:
            made.pop(key.replace("~1", "/").replace("~0", "~"), None)
    named = str(memory.get("@id"))
    told = lost(memory, _TO[own](made), "", f"shape {shape}")
    # Which class it is of is what the shape says; others in it stay.
    return made, [(named, *one) for one in told if one[0].split("/")[0] != "@type"]


def _to_1_x(memory: Record) -> Record:
    made: Record = {}
    for name, value in memory.items():
        if name == "memoryType":
            made["conceptType"] = value
        elif name == "relationships" and isinstance(value, list):
            made[name] = [_relationship_1_x(one) for one in value]
        else:
            made[name] = _class(value, "Memory", "Concept") if name == "@type" else value
    return made


def _to_0_1(memory: Record) -> Record:
    made: Record = {}
    for name, value in memory.items():
        if name == "conceptType":
            made["memoryType"] = value
        elif name == "relationships" and isinstance(value, list):
            found = (_relationship_0_1(one) for one in value)
            made[name] = [one for one in found if one is not None]
        elif name == "@type":
            made[name] = _class(value, "Concept", "Memory")
        elif name != "memoryType" or "conceptType" not in memory:
            made[name] = value
    return made


_TO: Final[dict[Shape, Callable[[Record], Record]]] = {"0.1": _to_0_1, "1.x": _to_1_x}


def _class(value: Any, old: str, new: str) -> Any:
    if isinstance(value, list):
        return list(dict.fromkeys(new if one == old else one for one in value))
    return new if value == old else value


def _relationship_1_x(one: Record) -> Record:
    kind, target = str(one.get("relationshipType")), one.get("target")
    if kind not in KEBAB:
        prefix, _, name = kind.removeprefix(_OURS).rpartition(":")
        bare = _HUMP.sub("-", name).lower()
        kind = f"{prefix.lower()}:{bare}" if prefix else bare
    told = {"type": KEBAB.get(kind, kind),
            "target": target.get("@id") if isinstance(target, dict) else target}  # fmt: skip
    return told | {name: one[name] for name in ("strength", "metadata") if name in one}


def _relationship_0_1(one: Record) -> Record | None:
    """None if shape 0.1 has no place for what it leads to, or no word for what it is."""
    kind, target = str(one.get("type")), one.get("target")
    name = PASCAL.get(kind, kind if ":" in kind else _OURS + kind)
    if not isinstance(target, str) or not target.startswith(URN):
        return None
    if kind not in PASCAL and _PREFIXED.fullmatch(name) is None:
        return None
    told = {"@type": "Relationship", "relationshipType": name, "target": {"@id": target}}
    return told | {name: one[name] for name in ("strength", "metadata") if name in one}
