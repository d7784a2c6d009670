# SPDX-License-Identifier: Apache-2.0
"""Values of a grain as JSON can hold them, and back.

Bytes are ``{"$bytes": base64}``, as everywhere in omsgrain. NaN and the infinities, which only a
wrongly written blob or a vector can hold, are ``{"$float": "nan"}``.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from typing import Any


def plain(value: Any) -> Any:
    """The value made of JSON's types alone."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return {"$bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return repr(value)  # an ext type or a tag of a blob that strict reading refuses


def revive(value: Any) -> Any:
    """The value that ``plain`` showed."""
    if isinstance(value, list):
        return [revive(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {"$bytes"}:
        return base64.b64decode(value["$bytes"], validate=True)
    if set(value) == {"$float"}:
        return float(value["$float"])
    return {key: revive(inner) for key, inner in value.items()}


def time_text(ms: int) -> str | None:
    """The time in RFC 3339; None beyond the year 9999."""
    try:
        time = datetime.fromtimestamp(0, timezone.utc) + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
