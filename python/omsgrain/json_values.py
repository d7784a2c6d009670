# SPDX-License-Identifier: Apache-2.0
"""Values of a grain to JSON and back; times as text."""

from __future__ import annotations

import base64
import json
from typing import Any, NoReturn

from omsgrain import _core
from omsgrain.errors import CorruptError


def parsed(text: str | bytes) -> Any:
    """Return the value of a JSON text, with the forms of ``plain`` decoded."""
    return revive(json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant))


def _once(members: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) < len(members):
        raise CorruptError("an object has the same key twice")
    return found


def _no_constant(_: str) -> NoReturn:
    raise ValueError("NaN and infinities are not JSON")


def revive(value: Any) -> Any:
    """Decode the forms of ``omsgrain.grain.plain``."""
    if isinstance(value, list):
        return [revive(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$bytes"}:
        return base64.b64decode(_text(value["$bytes"]), validate=True)
    if set(value) == {"$float"}:
        return float(_text(value["$float"]))
    return {key: revive(inner) for key, inner in value.items()}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("expected a text")
    return value


def time_text(ms: int) -> str | None:
    """Return the time in RFC 3339; None outside of the years 1 to 9999."""
    try:
        return spell_millis(ms)
    except OverflowError:
        return None


def spell_millis(ms: int) -> str:
    """Write a time with three digits after the point; OverflowError outside of those years."""
    text = _core.spell_time(ms)
    return text if "." in text else f"{text[:-1]}.000Z"
