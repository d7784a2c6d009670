# SPDX-License-Identifier: Apache-2.0
"""Arguments of tools: one table is their JSON Schema, and what checks them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from omsgrain.services.mcp.problems import Json, refuse

__all__ = ["LONGEST", "Argument", "read", "schema"]

Kind = Literal["string", "boolean", "integer", "number", "strings", "object", "document"]
LONGEST: Final = 4_096
"""Characters of a string that may not be of any length."""
_ANY: Final = -1
_JSON: Final[dict[Kind, Json]] = {
    "strings": {"type": "array", "items": {"type": "string"}},
    "document": {"type": ["string", "object"]},
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool.

    Attributes:
        name: how it is called.
        kind: of its value. A ``document`` is text, or an object of JSON.
        says: what it asks for; nothing, where a published schema says nothing.
        choices: the values that it can have; any, if there are none.
        default: what stands for it when it is not given.
        required: whether it must be given.
        format: of a string, such as ``date-time``.
        low: the least number.
        high: the greatest; of ``strings`` how many.
        longest: characters of a string; below zero any number.
    """

    name: str
    kind: Kind = "string"
    says: str | None = None
    choices: tuple[str, ...] = ()
    default: Any = None
    required: bool = False
    format: str | None = None
    low: float | None = None
    high: float | None = None
    longest: int = LONGEST

    @classmethod
    def text(cls, name: str, says: str, *, longest: int = _ANY) -> Argument:
        """A string that must be given, of any length unless that is said."""
        return cls(name, says=says, required=True, longest=longest)


def schema(arguments: Sequence[Argument], *, closed: bool = True) -> Json:
    """The JSON Schema of a tool's arguments.

    Args:
        arguments: of the tool.
        closed: say that there are no others; a published schema may not say it, though it is so.
    """
    required = [one.name for one in arguments if one.required]
    made: Json = {"type": "object", "properties": {one.name: _schema(one) for one in arguments}}
    if required:
        made["required"] = required
    return made | {"additionalProperties": False} if closed else made


def _schema(one: Argument) -> Json:
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


def read(arguments: Sequence[Argument], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Check what is given to a tool; what is not given has its default. Null is not given.

    Raises:
        SchemaError: an argument is unknown, missing, or not of its kind.
    """
    known = {one.name: one for one in arguments}
    found: dict[str, Any] = {one.name: one.default for one in arguments}
    for name, value in (given or {}).items():
        if name not in known:
            raise refuse("unknown_argument", expected=", ".join(known))
        if value is not None:
            _check(known[name], value)
            found[name] = value
    for one in arguments:
        if one.required and found[one.name] is None:
            raise refuse("missing_argument", field=f"/{one.name}")
    return found


def _check(one: Argument, value: Any) -> None:
    """Refuse a value that is not one of the argument's."""
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


def _fits(one: Argument, text: str) -> bool:
    return bool(text.strip()) and not 0 < one.longest < len(text)


def _is_number(one: Argument, value: Any) -> bool:
    kinds = int if one.kind == "integer" else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return False
    low = -math.inf if one.low is None else one.low
    return low <= value <= (math.inf if one.high is None else one.high)  # NaN neither


def _bounds(one: Argument) -> str:
    word = "a whole number" if one.kind == "integer" else "a number"
    return word if one.low is None else f"{word}, {one.low:g} to {one.high:g}"
