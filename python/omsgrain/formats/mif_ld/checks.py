# SPDX-License-Identifier: Apache-2.0
"""Forms of texts, as the schemas name them, and patterns as ECMAScript reads them.

Spec: RFC 3339 §5.6, RFC 3986, ISO 8601, ECMA-262 §22.2
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final

__all__ = ["FORMATS", "date", "date_time", "duration", "pattern", "uri"]

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

    Args:
        source: one of our schemas; not one of a stranger, which could take ages.
    """
    inside, parts = False, []
    for token in _TOKEN.findall(source):
        if token in ("[", "]"):
            inside = token == "["
        parts.append(token if inside else _AS_PYTHON.get(token, token))
    return re.compile("".join(parts), re.ASCII)
