# SPDX-License-Identifier: Apache-2.0
"""Durations, and the time that is one of them later. Spec: ISO 8601-1 §5.5.2.

Years and months are those of the calendar, so how long they last depends on where they begin.
"""

from __future__ import annotations

import calendar
import re
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Final, NamedTuple

from omsgrain.formats.times import Instant

__all__ = ["Duration", "after", "between", "parse"]

_COUNT: Final = r"([0-9]{1,18}(?:[.,][0-9]{1,18})?)"
_DURATION: Final = re.compile(
    rf"P(?=.)(?:{_COUNT}Y)?(?:{_COUNT}M)?(?:{_COUNT}W)?(?:{_COUNT}D)?"
    rf"(?:T(?=.)(?:{_COUNT}H)?(?:{_COUNT}M)?(?:{_COUNT}S)?)?"
)
_SECONDS: Final = (604_800, 86_400, 3_600, 60, 1)
_EPOCH: Final = datetime(1970, 1, 1)


class Duration(NamedTuple):
    """A duration.

    Attributes:
        months: of the calendar; a year has twelve.
        seconds: the rest; a day has 86,400.
    """

    months: int
    seconds: Fraction


def parse(text: str) -> Duration | None:
    """Read a duration such as ``P90D``; None if it is none. Weeks may stand among the rest."""
    found = _DURATION.fullmatch(text)
    if found is None:
        return None
    counts = [Fraction((part or "0").replace(",", ".")) for part in found.groups()]
    given = [part for part in found.groups() if part is not None]
    if any("." in part or "," in part for part in given[:-1]):
        return None  # only the last may have a fraction
    months = counts[0] * 12 + counts[1]
    if months.denominator != 1:
        return None  # of a month nobody knows how long it is
    pairs = zip(counts[2:], _SECONDS, strict=True)
    return Duration(int(months), sum((count * each for count, each in pairs), Fraction(0)))


def after(start: Instant, duration: Duration) -> Instant | None:
    """The time that is a duration later; None if it is beyond the year 9999.

    A day that the month does not have is its last one.
    """
    try:
        time = _EPOCH + timedelta(seconds=start.seconds)
        months = time.year * 12 + time.month - 1 + duration.months
        year, month = divmod(months, 12)
        day = min(time.day, calendar.monthrange(year, month + 1)[1])
        moved = time.replace(year=year, month=month + 1, day=day)
        whole = (moved - _EPOCH) // timedelta(seconds=1)
        exact = whole + duration.seconds + _fraction(start)
        seconds = exact.numerator // exact.denominator
        _EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError, IndexError):
        return None
    return Instant(seconds, _digits(exact - seconds))


def between(start: Instant, end: Instant) -> Fraction:
    """The seconds from one time to another; less than none, if that is before."""
    return end.seconds - start.seconds + _fraction(end) - _fraction(start)


def _fraction(time: Instant) -> Fraction:
    return Fraction(int(time.fraction or "0"), 10 ** len(time.fraction))


def _digits(part: Fraction) -> str:
    """The digits behind the point, as far as instants have them."""
    return str(part.numerator * 10**32 // part.denominator).rjust(32, "0").rstrip("0")
