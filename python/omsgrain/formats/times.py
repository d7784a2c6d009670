# SPDX-License-Identifier: Apache-2.0
"""Times as text, with any offset and of any precision, compared as instants.

Spec: RFC 3339 §5.6, ISO 8601
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from omsgrain import _core

LAST: Final = 0xFFFF_FFFF * 1000
"""The last ms that a grain's header can hold: its seconds have 32 bits."""

# The extended form and the basic one; seconds can be left out, and have a fraction.
_TIME = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})[Tt ]"
    r"([0-9]{2})(:?)([0-9]{2})(?:\6([0-9]{2})(?:[.,]([0-9]{1,32}))?)?"
    r"(?:[Zz]|([+-])([0-9]{2})(?::?([0-9]{2}))?)?"
)
_DATE = re.compile(r"[0-9]{4}(-?)[0-9]{2}\1[0-9]{2}")
_EPOCH = datetime(1970, 1, 1)


class Instant(NamedTuple):
    """A point in time; instants compare in time order."""

    seconds: int  # since 1970; negative before it
    fraction: str  # the digits after the point, without trailing zeros; they count forwards

    @property
    def millis(self) -> int:
        """Whole ms since 1970, rounded down."""
        whole = self.seconds * 1000
        return whole + int(self.fraction[:3].ljust(3, "0")) if self.fraction else whole


def parse(text: str, *, floating: bool = False) -> Instant | None:
    """Read a time; None if it is invalid."""
    if (usual := _core.usual_seconds(text)) is not None:  # nearly all are
        return Instant(usual, "")
    if floating and _DATE.fullmatch(text):
        text += "T00:00Z" if "-" in text else "T0000Z"
    found = _TIME.fullmatch(text)
    if found is None or int(found[8] or 0) > 60:
        return None
    if found[10] is None and not floating and text[-1] not in "Zz":
        return None
    ahead = int(found[11] or 0) * 3600 + int(found[12] or 0) * 60
    if int(found[11] or 0) > 23 or int(found[12] or 0) > 59:
        return None
    try:
        year, month, day, hour, minute = (int(found[part]) for part in (1, 3, 4, 5, 7))
        whole = datetime(year, month, day, hour, minute)
    except ValueError:
        return None
    # A leap second is the first of the next minute, as in POSIX.
    seconds = (
        (whole - _EPOCH) // timedelta(seconds=1)
        + int(found[8] or 0)
        + (ahead if found[10] == "-" else -ahead)
    )
    return Instant(seconds, (found[9] or "").rstrip("0"))


spell = _core.spell_time
"""Write ms since 1970 in whole seconds, or with three digits after the point.

Raises:
    OverflowError: the year is not from 1 to 9999.
"""


def of_grain(instant: Instant | None) -> int:
    """Return the nearest ``created_at`` that a grain can have; 1970 if the time is unknown."""
    return 0 if instant is None else min(max(instant.millis, 0), LAST)


_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")


def is_uuid(text: str) -> bool:
    """Whether a text is a UUID with hyphens, of any version, in either case."""
    return _UUID.fullmatch(text) is not None
