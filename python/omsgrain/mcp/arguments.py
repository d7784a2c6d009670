# SPDX-License-Identifier: Apache-2.0
"""The arguments of a tool or a prompt: their schema, and the check of given ones."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from omsgrain.mcp.service import Json, refuse

Kind = Literal["string", "boolean", "integer", "number", "strings", "object", "document"]
LONGEST: Final = 4_096
"""Characters of a string argument."""
_ANY: Final = -1  # a string of any length
_NAMED: Final = 64  # characters of an unknown argument that its error names
_JSON: Final[dict[Kind, Json]] = {
    "strings": {"type": "array", "items": {"type": "string"}},
    "document": {"type": ["string", "object"]},
}


@dataclass(frozen=True, slots=True)
class ToolArgument:
    name: str
    kind: Kind = "string"  # its type. A ``document`` is text, or an object of JSON
    says: str | None = None  # its description; empty where a published schema has none
    choices: tuple[str, ...] = ()  # its allowed values; empty: any
    default: Any = None
    required: bool = False
    format: str | None = None  # the format of a string, such as ``date-time``
    low: float | None = None  # the least number
    high: float | None = None  # the greatest number; for ``strings`` the most strings
    longest: int = LONGEST  # the most characters of a string; below zero any number

    @classmethod
    def text(cls, name: str, says: str, *, longest: int = _ANY) -> ToolArgument:
        """Make a required string argument, by default of any length."""
        return cls(name, says=says, required=True, longest=longest)


def schema(arguments: Sequence[ToolArgument], *, closed: bool = True) -> Json:
    """Return the JSON Schema of a tool's arguments."""
    required = [one.name for one in arguments if one.required]
    made: Json = {"type": "object", "properties": {one.name: _schema(one) for one in arguments}}
    if required:
        made["required"] = required
    return made | {"additionalProperties": False} if closed else made


def _schema(one: ToolArgument) -> Json:
    made: Json = dict(_JSON.get(one.kind, {"type": one.kind}))
    known = {
        "enum": list(one.choices) or None,
        "format": one.format,
        "minimum": one.low,
        "maxItems" if one.kind == "strings" else "maximum": one.high,
        "default": one.default,
        "description": one.says,
    }
    return made | {name: value for name, value in known.items() if value is not None}


def read(arguments: Sequence[ToolArgument], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check given arguments, and add defaults. Null counts as not given."""
    known = {one.name: one for one in arguments}
    found: dict[str, Any] = {one.name: one.default for one in arguments}
    for name, value in (given or {}).items():
        if name not in known:
            field = f"/{name[:_NAMED]}"
            raise refuse("unknown_argument", field=field, expected=", ".join(known))
        if value is not None:
            _check(known[name], value)
            found[name] = value
    for one in arguments:
        if one.required and found[one.name] is None:
            raise refuse("missing_argument", field=f"/{one.name}")
    return found


def _check(one: ToolArgument, value: Any) -> None:
    if one.kind == "boolean":
        good, expected = isinstance(value, bool), "true or false"
    elif one.kind in ("integer", "number"):
        good, expected = _is_number(one, value), _bounds(one)
    elif one.kind == "strings":
        most = one.high or math.inf
        good = isinstance(value, list) and len(value) <= most
        good = good and all(isinstance(item, str) and _fits(one, item) for item in value)
        expected = f"an array of at most {most:g} strings, of 1 to {one.longest} characters"
    elif one.kind == "object":
        good, expected = isinstance(value, dict), "an object"
    elif one.kind == "document":
        good, expected = isinstance(value, dict | str) and bool(value), "a text or an object"
    elif one.choices:
        good, expected = value in one.choices, ", ".join(one.choices)
    else:
        good, expected = isinstance(value, str) and _fits(one, value), "a string, not empty"
        if one.longest > 0:
            expected += f", of at most {one.longest} characters"
    if not good:
        raise refuse(
            "invalid_argument",
            field=f"/{one.name}",
            expected=expected,
            found=type(value).__name__,
        )


def _fits(one: ToolArgument, text: str) -> bool:
    return bool(text.strip()) and not 0 < one.longest < len(text)


def _is_number(one: ToolArgument, value: Any) -> bool:
    kinds = int if one.kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    low = -math.inf if one.low is None else one.low
    return low <= value <= (math.inf if one.high is None else one.high)  # excludes NaN


def _bounds(one: ToolArgument) -> str:
    word = "a whole number" if one.kind == "integer" else "a number"
    return word if one.low is None else f"{word}, {one.low:g} to {one.high:g}"
