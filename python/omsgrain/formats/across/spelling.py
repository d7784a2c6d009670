# SPDX-License-Identifier: Apache-2.0
"""Values of one format as another takes them.

A time is the same instant, and the same text where it can be. What the other one refuses is None.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timedelta

from omsgrain.formats import model, times
from omsgrain.formats.aimem import times as utc
from omsgrain.formats.mif_ld import checks

__all__ = ["count", "date_time", "in_utc", "rate", "rfc3339", "whole"]

_RFC3339 = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[+-][0-9]{2}:[0-9]{2})"
)
_EPOCH = datetime(1970, 1, 1)


def rfc3339(text: str | int | None) -> str | None:
    """A time as RFC 3339 has it; None if it is none.

    Args:
        text: in any spelling, or ms since 1970.
    """
    if text is None or isinstance(text, int):
        return None if text is None else times.spell(text)
    instant = times.parse(text, floating=True)
    if instant is None or _RFC3339.fullmatch(text):
        return None if instant is None else text
    return _spelled(instant) or text


def date_time(text: str | None) -> str | None:
    """A time as `rfc3339` has it, whose leap second is one: the last of a day in UTC."""
    spelled = rfc3339(text)
    if spelled is None or checks.date_time(spelled):
        return spelled
    instant = times.parse(spelled, floating=True)
    return None if instant is None else _spelled(instant)


def in_utc(text: str | int | None) -> str | None:
    """A time as AIMEM has it; None if it is none, or none that it can say."""
    spelled = rfc3339(text) if isinstance(text, int) else text
    if spelled is None or utc.parse(spelled) is not None:
        return spelled
    instant = times.parse(spelled, floating=True)
    return None if instant is None else _spelled(instant)


def _spelled(instant: times.Instant) -> str | None:
    try:
        whole = (_EPOCH + timedelta(seconds=instant.seconds)).isoformat()
    except OverflowError:
        return None  # the leap second behind the last year
    return f"{whole}.{instant.fraction}Z" if instant.fraction else f"{whole}Z"


def rate(value: float | None) -> float | None:
    """A number from 0 to 1."""
    return value if value is not None and 0 <= value <= 1 else None


def count(value: float | None, least: int) -> int | None:
    """A whole number that is at least so much."""
    if value is None or value < least or value != int(value):
        return None
    return int(value)


def whole(said: model.Embedding | None) -> model.Embedding | None:
    """An embedding with all that belongs to one."""
    if said is None or not isinstance(said.model, str) or not said.vector:
        return None
    dimensions = count(said.dimensions, 1)
    return replace(said, dimensions=len(said.vector) if dimensions is None else dimensions)
