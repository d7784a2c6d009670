# SPDX-License-Identifier: Apache-2.0
"""Times of a bundle: ISO 8601 in UTC, of any precision, compared as instants. Spec: AIMEM §2.1."""

from __future__ import annotations

import re
from calendar import timegm
from datetime import datetime, timezone
from typing import NamedTuple

__all__ = ["Instant", "parse", "spell"]

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,32}))?)?(?:[Zz]|[+-]00:?00)"
)


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
        return self.seconds * 1000 + int(self.fraction[:3].ljust(3, "0"))


def parse(text: str) -> Instant | None:
    """Read a time; None if it is none, or not in UTC."""
    # `\d` takes the digits of every script.
    found = _TIME.fullmatch(text) if text.isascii() else None
    if found is None:
        return None
    year, month, day, hour, minute = (int(part) for part in found.groups()[:5])
    second = int(found[6] or 0)
    if second > 60:
        return None
    try:
        datetime(year, month, day, hour, minute)
    except ValueError:
        return None
    # A leap second is the first of the next minute, as in POSIX.
    seconds = timegm((year, month, day, hour, minute, 0)) + second
    return Instant(seconds, (found[7] or "").rstrip("0"))


def spell(millis: int) -> str:
    """Write a time: in whole seconds where it is, else with three digits behind the point."""
    seconds, rest = divmod(millis, 1000)
    whole = datetime.fromtimestamp(seconds, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    if len(whole) < 19:  # years before 1000: strftime does not fill them up
        whole = whole.zfill(19)
    return f"{whole}.{rest:03}Z" if rest else f"{whole}Z"
