# SPDX-License-Identifier: Apache-2.0
"""Times as questions give them: points in time, and ages, which are spans before now."""

from __future__ import annotations

import re
import time
from datetime import datetime, timedelta
from typing import Final, TypeAlias

from omsgrain import _core
from omsgrain.errors import OmsError, RangeError, SchemaError

Timestamp: TypeAlias = int | datetime | str
"""A point in time as a grain takes it: ms since 1970, an aware datetime, or RFC 3339."""
Time: TypeAlias = Timestamp | timedelta
"""Ms since 1970, an aware datetime, or an age as a timedelta; or text: RFC 3339, a date (in UTC),
ms, seconds since 1970 as ``@1768471200``, or an age such as ``90s``, ``15m``, ``1d12h``."""

EXPECTED: Final = (
    "RFC 3339 such as 2026-01-15T10:00:00Z, a date, milliseconds since 1970, "
    "seconds since 1970 as @1768471200, or an age such as 1h or 7d"
)

_DURATION: Final = "a text such as 90m, 36h or 7d, or a timedelta"
_SECOND: Final = 1_000_000_000
_UNITS: Final = {
    "w": 604_800 * _SECOND,
    "d": 86_400 * _SECOND,
    "h": 3_600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    "ms": 1_000_000,
    "us": 1_000,
    "ns": 1,
}
_SPAN: Final = re.compile("".join(f"(?:([0-9]{{1,9}}){unit})?" for unit in _UNITS))
_SECONDS: Final = re.compile(r"@(-?[0-9]{1,12})(?:\.([0-9]{1,9}))?")
_MS: Final = re.compile("0|-?[0-9]{5,18}")  # four digits alone look like a year
_LIKE_SECONDS: Final = range(100_000_000, 100_000_000_000)  # of 1973 to 5138; as ms before 1973
_LIKE_MICROSECONDS: Final = 100_000_000_000_000  # as ms the year 5138
_DATE: Final = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MICROSECOND: Final = timedelta(microseconds=1)


def nanoseconds(value: object) -> int | None:
    """Return a span of time, a timedelta or text such as ``1d12h``, in ns; None if it is none."""
    if isinstance(value, timedelta):
        return value // _MICROSECOND * 1_000
    text = value.strip() if isinstance(value, str) else ""
    found = _SPAN.fullmatch(text)
    if found is None or not text:
        return None
    parts = zip(found.groups("0"), _UNITS.values(), strict=True)
    return sum(int(count) * unit for count, unit in parts)


def age(value: object) -> int | None:
    """Return an age in ms; None if a value is none."""
    found = nanoseconds(value)
    return None if found is None else found // 1_000_000


def spell_age(ms: int) -> str:
    """Return an age as text that ``age`` reads, such as 7d or 1d12h."""
    left, text = ms * 1_000_000, ""
    for unit, size in list(_UNITS.items())[1:]:  # without weeks
        count, left = divmod(left, size)
        text += f"{count}{unit}" if count else ""
    return text or "0s"


def duration(value: object, *, field: str) -> int:
    """Return a length of time in ms, which is not negative."""
    found = age(value)
    if found is None:
        raise SchemaError("not a length of time", field=field, expected=_DURATION)
    if found < 0:
        raise RangeError("the length of time is negative", field=field, expected=_DURATION)
    return found


def now() -> int:
    """Return the time in ms since 1970."""
    return time.time_ns() // 1_000_000


def spelled(value: Time | None, *, field: str, now: int) -> str | None:
    """Return a time as RFC 3339; text that is neither an age nor a number as it is."""
    if isinstance(value, str):
        text = value.strip()
        if age(text) is None and not _SECONDS.fullmatch(text) and not _MS.fullmatch(text):
            return value
    return None if value is None else _core.spell_time(max(0, millis(value, field=field, now=now)))


def millis(value: Time, *, field: str, now: int, ahead: bool = False) -> int:
    """Return a time in ms since 1970; with ``ahead``, spans count from now on, and not before."""
    span = age(value)
    if span is not None:
        return now + span if ahead else now - span
    try:
        if not isinstance(value, str):
            return _core.millis(value)
        text = value.strip()
        if found := _SECONDS.fullmatch(text):
            sign = -1 if text.startswith("@-") else 1
            return int(found[1]) * 1_000 + sign * int((found[2] or "0")[:3].ljust(3, "0"))
        if not _MS.fullmatch(text):
            return _core.millis(text + "T00:00:00Z" if _DATE.fullmatch(text) else text)
        ms = int(text)
    except OmsError as error:
        error.field, error.expected = field, EXPECTED
        raise
    if ms in _LIKE_SECONDS:
        expected = f"@{ms} for seconds, or {ms}000 for milliseconds"
        raise SchemaError("the number looks like seconds", field=field, expected=expected)
    if ms > _LIKE_MICROSECONDS:
        raise SchemaError("the number is no time in ms", field=field, expected=EXPECTED)
    return ms
