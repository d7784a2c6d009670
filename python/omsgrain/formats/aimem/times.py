# SPDX-License-Identifier: Apache-2.0
"""Times of a bundle: ISO 8601 in UTC, of any precision, compared as instants. Spec: AIMEM §2.1."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import NamedTuple

__all__ = ["Instant", "parse", "spell"]

_USUAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
# The extended form and the basic one; seconds can be left out, and have a fraction.
_TIME = re.compile(
    r"([0-9]{4})(-?)([0-9]{2})\2([0-9]{2})[Tt]"
    r"([0-9]{2})(:?)([0-9]{2})(?:\6([0-9]{2})(?:[.,]([0-9]{1,32}))?)?(?:[Zz]|[+-]00(?::?00)?)"
)
_EPOCH = datetime(1970, 1, 1)


class Instant(NamedTuple):
    """A point in time; instants compare as they came about.

    Attributes:
        seconds: since 1970.
        fraction: the digits behind the point, without zeros at their end.
    """

    seconds: int
    fraction: str

    @property
    def millis(self) -> int:
        """Whole ms since 1970, rounded down."""
        whole = self.seconds * 1000
        return whole + int(self.fraction[:3].ljust(3, "0")) if self.fraction else whole


def parse(text: str) -> Instant | None:
    """Read a time; None if it is none, or not in UTC."""
    if _USUAL.fullmatch(text):  # nearly all are
        try:
            return Instant(_seconds(datetime.fromisoformat(text[:19])), "")
        except ValueError:
            pass  # the 60th second
    found = _TIME.fullmatch(text)
    if found is None or int(found[8] or 0) > 60:
        return None
    try:
        year, month, day, hour, minute = (int(found[part]) for part in (1, 3, 4, 5, 7))
        whole = datetime(year, month, day, hour, minute)
    except ValueError:
        return None
    # A leap second is the first of the next minute, as in POSIX.
    return Instant(_seconds(whole) + int(found[8] or 0), (found[9] or "").rstrip("0"))


def spell(millis: int) -> str:
    """Write a time: in whole seconds where it is, else with three digits behind the point."""
    seconds, rest = divmod(millis, 1000)
    whole = (_EPOCH + timedelta(seconds=seconds)).isoformat()
    return f"{whole}.{rest:03}Z" if rest else f"{whole}Z"


def _seconds(time: datetime) -> int:
    since = time - _EPOCH
    return since.days * 86_400 + since.seconds
