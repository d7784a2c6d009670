# SPDX-License-Identifier: Apache-2.0
"""Values of a grain as JSON can hold them, and back; and times as a person reads them."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta, timezone
from typing import Any

from omsgrain.grain import plain

__all__ = ["plain", "revive", "time_text"]


def revive(value: Any) -> Any:
    """The value that ``omsgrain.grain.plain`` showed.

    Raises:
        ValueError: bytes that are not base64, or a float that is none.
    """
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
        raise ValueError("a text is expected")
    return value


def time_text(ms: int) -> str | None:
    """The time in RFC 3339; None beyond the year 9999."""
    try:
        time = datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
