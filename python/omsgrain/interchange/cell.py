# SPDX-License-Identifier: Apache-2.0
"""The value of a cell, of CSV, JSON or Parquet, as a value of a grain's field."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime, time, timezone
from decimal import Decimal
from functools import partial
from typing import Any, Final, TypeAlias
from uuid import UUID

from omsgrain import _core
from omsgrain.errors import OmsError, RangeError, SchemaError

UNITS: Final = {"s": 1_000, "ms": 1, "us": 1e-3, "ns": 1e-6}
"""Units of times since 1970, in milliseconds."""
UTC: Final = "utc"
"""The unit of times as text without a zone, which are in UTC."""
TYPES: Final = ("text", "number", "decimal_comma", "int", "bool", "time", "json")
"""The types of values that a mapping can name."""

CellReader: TypeAlias = Callable[[Any], Any]

_DIGITS: Final = 20  # of a 64-bit integer, with a sign
_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_WITH_COMMA: Final = re.compile(
    "-?(?:0|[1-9][0-9]{0,2}(?:[. \u00a0\u202f][0-9]{3})+|[1-9][0-9]*)(?:,([0-9]+))?"
)
_FINE: Final = re.compile(r":[0-9]{2}[.,][0-9]{3}[0-9]*[1-9]")
_BOOLS: Final = {"true": True, "false": False, "1": True, "0": False}
_OF_KIND: Final = {
    "string": "text",
    "did": "text",
    "address": "text",
    "float64": "number",
    "int": "int",
    "int64": "int",
    "uint8": "int",
    "bool": "bool",
    "datetime": "time",
}


def type_of(kind: str) -> str | None:
    """Return the type of the cells of a kind of field; None if any will do."""
    return _OF_KIND.get(kind)


def has_float(value: Any) -> bool:
    """Whether a float has all digits of a number; of text, all digits of an integer."""
    if isinstance(value, str):
        return not value.lstrip("-").isdigit() or _is_same(float(value), Decimal(value))
    return isinstance(value, float) or _is_same(float(value), value)


def is_int64(value: Any) -> bool:
    """Whether a number is an integer of 64 bits."""
    number = Decimal(str(value))
    return _is_whole(number) and -(1 << 63) <= number < 1 << 63


def is_time(value: Any, unit: str | None) -> bool:
    """Whether a cell is a time of a unit."""
    try:
        _time(value, unit)
    except OmsError:
        return False
    return True


def is_fine_time(value: Any, unit: str | None) -> bool:
    """Whether a time has digits after its milliseconds, which a grain's time has not."""
    if isinstance(value, datetime):
        return value.microsecond % 1_000 != 0
    if is_number(value):
        return unit in UNITS and not _is_whole(Decimal(str(value)) * Decimal(str(UNITS[unit])))
    return isinstance(value, str) and _FINE.search(value) is not None


def _is_whole(number: Decimal) -> bool:
    return number == number.to_integral_value()


def is_number(value: Any) -> bool:
    """Whether a cell is a number, or text that looks like a number of JSON."""
    if isinstance(value, str):
        return _NUMBER.fullmatch(value) is not None
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def decimals(value: Any) -> int | None:
    """Return how many digits are after the decimal comma of a number; None if it is none."""
    found = _WITH_COMMA.fullmatch(value.strip()) if isinstance(value, str) else None
    return None if found is None else len(found[1] or "")


def reader(type: str | None, kind: str, unit: str | None) -> CellReader:
    """Return the function that reads a value of a row as a type."""
    if type == "time":
        return partial(_time, unit=unit)
    if type is not None:
        return _READERS[type]
    return _list if kind == "array[string]" else _any


def kept(value: Any) -> Any:
    """Return a value without a rule as a grain can have it."""
    if isinstance(value, dict):
        return {key: kept(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [kept(inner) for inner in value]
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        number = float(value)
        return number if _is_same(number, value) else str(value)
    return str(value) if isinstance(value, UUID) else value


def _is_same(number: float, value: int | Decimal) -> bool:
    """Whether a float has all digits of a number."""
    return number == value or Decimal(repr(number)) == value


def _any(value: Any) -> Any:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        return _number(value)
    return _json(value)


def _list(value: Any) -> Any:
    if isinstance(value, str):
        return _json(value) if value.startswith("[") else [value]
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | UUID):
        raise _wrong("a text", value)
    return str(value)


def _number(value: Any) -> int | float:
    """Return a number; text without point and exponent is an integer."""
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            raise _wrong("a number, such as 21.5", value)
        if text.lstrip("-").isdigit():
            if len(text) > _DIGITS:
                raise RangeError("the integer is too large", expected="64 bits")
            return int(text)
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _wrong("a number", value)
    if not isinstance(value, int) and not math.isfinite(value):
        raise RangeError("the number is not finite", expected="a finite number")
    return _exact(value) if isinstance(value, Decimal) else value


def _float(value: Any) -> float:
    number = _number(value)
    return number if isinstance(number, float) else _exact(number)


def _exact(value: int | Decimal) -> float:
    """Return a number as a float; one that would lose digits is refused."""
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not _is_same(number, value):
        expected = "at most 15 digits; type int keeps 64 bits, and text all"
        raise RangeError("the number has too many digits", expected=expected)
    return number


def _decimal_comma(value: Any) -> float:
    """Return a number; a text has a decimal comma, and may have points between thousands."""
    if isinstance(value, str):
        if decimals(value) is None:
            raise _wrong("a number with a decimal comma, such as 1.234,5", value)
        whole, _, fraction = value.strip().partition(",")
        value = re.sub("[^-0-9]", "", whole) + (f".{fraction}" if fraction else "")
    return _float(value)


def _int(value: Any) -> int:
    if isinstance(value, Decimal) and value.is_finite() and _is_whole(value):
        return int(value)
    number = _number(value)
    if isinstance(number, float) and not number.is_integer():
        raise _wrong("an integer", value)
    return int(number)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    found = _BOOLS.get(str(value).strip().casefold())
    if found is None:
        raise _wrong("true, false, 1 or 0", value)
    return found


def _json(value: Any) -> Any:
    """Return a value as JSON has it; text that begins as an array or object is parsed."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            raise _wrong("JSON", value) from None
    if isinstance(value, datetime | Decimal | bytes):
        raise _wrong("a value of JSON; name its type", value)
    return kept(value)


def _time(value: Any, unit: str | None) -> int:
    """Return a time in milliseconds since 1970."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            if unit != UTC:
                raise SchemaError("a time without a zone", expected="unit utc, or a zone")
            value = value.replace(tzinfo=timezone.utc)
        return _core.millis(value)
    if isinstance(value, str) and not _NUMBER.fullmatch(value.strip()):
        text = value.strip()
        return _utc(text) if unit == UTC else _core.millis(text)
    number = _number(value)
    if unit not in UNITS:
        raise SchemaError("a time without a unit", expected="unit s, ms, us or ns")
    try:
        return round(number * UNITS[unit])
    except OverflowError:  # of a float, whose product is infinite, or of an integer of any length
        raise RangeError("the time is too far away", expected="milliseconds of 64 bits") from None


def _utc(text: str) -> int:
    """Return a time in milliseconds since 1970: without a zone, it is in UTC."""
    for spelled in (f"{text}Z", text):
        with suppress(OmsError):
            return _core.millis(spelled)
    try:
        moment = datetime.fromisoformat(text)  # such as a date
    except ValueError:
        raise _wrong("a time such as 2026-01-15 10:00:00", text) from None
    return _core.millis(moment.replace(tzinfo=moment.tzinfo or timezone.utc))


_READERS: Final[dict[str, CellReader]] = {
    "text": _text,
    "number": _float,
    "decimal_comma": _decimal_comma,
    "int": _int,
    "bool": _bool,
    "json": _json,
}


def _wrong(expected: str, value: Any) -> SchemaError:
    found = "text" if isinstance(value, str) else type(value).__name__
    return SchemaError("not of the type of the field", expected=expected, found=found)
