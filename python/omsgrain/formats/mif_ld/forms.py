# SPDX-License-Identifier: Apache-2.0
"""Forms of texts, as the schemas name them, and patterns as ECMAScript reads them.

Spec: RFC 3339 §5.6, RFC 3986, ISO 8601, ECMA-262 §22.2
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Final, NamedTuple

from omsgrain.formats.json_text import VALUES
from omsgrain.formats.times import Instant

_DAY: Final = r"([0-9]{4})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TO_23: Final = r"([01][0-9]|2[0-3])"
_TO_59: Final = r"([0-5][0-9])"
_DATE: Final = re.compile(_DAY)
_TIME: Final = re.compile(
    rf"{_DAY}[Tt]{_TO_23}:{_TO_59}:([0-5][0-9]|60)(?:\.[0-9]+)?(?:[Zz]|([+-]){_TO_23}:{_TO_59})"
)
_DAYS: Final = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_COUNT: Final = r"[0-9]+(?:[.,][0-9]+)?"
_DURATION: Final = re.compile(
    rf"P(?=.)(?:{_COUNT}W|(?:{_COUNT}Y)?(?:{_COUNT}M)?(?:{_COUNT}D)?"
    rf"(?:T(?=.)(?:{_COUNT}H)?(?:{_COUNT}M)?(?:{_COUNT}S)?)?)"
)
_FRACTION: Final = re.compile(r"[.,][0-9]+[YMWDHS](?=.)")
_OCTET: Final = r"(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_IPV4: Final = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_PIECE: Final = r"[0-9A-Fa-f]{1,4}"
_LAST: Final = rf"(?:{_PIECE}:{_PIECE}|{_IPV4})"
# Each form of an IPv6 address has its number of pieces before and behind the ``::``.
_IPV6: Final = "|".join(
    [rf"(?:{_PIECE}:){{6}}{_LAST}", rf"::(?:{_PIECE}:){{5}}{_LAST}"]
    + [
        rf"(?:(?:{_PIECE}:){{0,{6 - behind - 2}}}{_PIECE})?::(?:{_PIECE}:){{{behind}}}{_LAST}"
        for behind in (4, 3, 2, 1, 0)
    ]
    + [rf"(?:(?:{_PIECE}:){{0,5}}{_PIECE})?::{_PIECE}", rf"(?:(?:{_PIECE}:){{0,6}}{_PIECE})?::"]
)
_ESCAPED: Final = r"%[0-9A-Fa-f]{2}"
_PLAIN: Final = r"A-Za-z0-9._~!$&'()*+,;=\-"
_NAMED: Final = rf"(?:[{_PLAIN}]|{_ESCAPED})*"
_USER: Final = rf"(?:[{_PLAIN}:]|{_ESCAPED})*"
_PATH: Final = rf"(?:[{_PLAIN}:@]|{_ESCAPED})"
_URI: Final = re.compile(
    rf"[A-Za-z][A-Za-z0-9+.\-]*:"
    rf"(?://(?:{_USER}@)?(?:\[(?:{_IPV6}|[vV][0-9A-Fa-f]+\.[{_PLAIN}:]+)\]|{_NAMED})(?::[0-9]*)?"
    rf"(?:/{_PATH}*)*|/(?:{_PATH}+(?:/{_PATH}*)*)?|{_PATH}+(?:/{_PATH}*)*|)"
    rf"(?:\?(?:[{_PLAIN}:@/?]|{_ESCAPED})*)?(?:#(?:[{_PLAIN}:@/?]|{_ESCAPED})*)?"
)
_TOKEN: Final = re.compile(r"\\.|\[|\]|\$|\.|[^\\\[\]$.]+", re.DOTALL)
_AS_PYTHON: Final = {"$": r"\Z", ".": r"[^\n\r\u2028\u2029]", r"\d": "[0-9]"}


def date(text: str) -> bool:
    """Whether it is a day: ``2026-01-26``."""
    found = _DATE.fullmatch(text)
    return found is not None and (found[3] < "29" or _is_day(found))


def date_time(text: str) -> bool:
    """Whether it is a time with its offset: ``2026-01-26T00:00:00Z``. A space is no ``T``."""
    found = _TIME.fullmatch(text)
    if found is None or (found[3] > "28" and not _is_day(found)):
        return False
    if found[6] != "60":
        return True
    # A leap second is the last one of a day in UTC.
    ahead = int(found[8] or 0) * 60 + int(found[9] or 0)
    utc = int(found[4]) * 60 + int(found[5]) + (ahead if found[7] == "-" else -ahead)
    return utc % 1440 == 1439


def _is_day(found: re.Match[str]) -> bool:
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    if day > _DAYS[month - 1]:
        return False
    return day < 29 or month != 2 or (year % 4 == 0 and (year % 100 != 0 or year % 400 == 0))


def uri(text: str) -> bool:
    """Whether it is a URI with a scheme."""
    return _URI.fullmatch(text) is not None


def duration(text: str) -> bool:
    """Whether it is a duration; only its last count may have a fraction."""
    return _DURATION.fullmatch(text) is not None and _FRACTION.search(text) is None


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": date,
    "date-time": date_time,
    "uri": uri,
}
"""The check of each format that the schemas name."""


@lru_cache(maxsize=256)
def pattern(source: str) -> re.Pattern[str]:
    r"""A pattern of ECMAScript as one of Python; to be searched for.

    Of what the two read differently: ``$`` is the end, not also before a newline there; ``\d``
    has ten digits; ``.`` is no line end of any sort.
    """
    inside, parts = False, []
    for token in _TOKEN.findall(source):
        if token in ("[", "]"):
            inside = token == "["
        parts.append(token if inside else _AS_PYTHON.get(token, token))
    return re.compile("".join(parts), re.ASCII)


_DURATION_COUNT: Final = r"([0-9]{1,18}(?:[.,][0-9]{1,18})?)"
_DURATION_FORM: Final = re.compile(
    rf"P(?=.)(?:{_DURATION_COUNT}Y)?(?:{_DURATION_COUNT}M)?(?:{_DURATION_COUNT}W)?(?:{_DURATION_COUNT}D)?"
    rf"(?:T(?=.)(?:{_DURATION_COUNT}H)?(?:{_DURATION_COUNT}M)?(?:{_DURATION_COUNT}S)?)?"
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
    found = _DURATION_FORM.fullmatch(text)
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


@dataclass(frozen=True, slots=True)
class MifLdLimits:
    """What a reader takes. Whatever is larger is refused before it is parsed.

    Attributes:
        document: bytes of a file.
        values: values of it, keys not counted.
        depth: objects and arrays inside one another.
        documents: memories in a file; each is judged, so they cost time and not only memory.
        files: files of a directory.
        directory: bytes of all of them.
    """

    document: int = 100 << 20
    values: int = VALUES
    depth: int = 128
    documents: int = 1_000_000
    files: int = 100_000
    directory: int = 1 << 30


LIMITS = MifLdLimits()
