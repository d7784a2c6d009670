# SPDX-License-Identifier: Apache-2.0
"""The parameters of a request: each known, each given once, each of its kind."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import unquote_to_bytes

from omsgrain.services.http.problems import Refusal

__all__ = ["Parameter", "read"]

Kind = Literal["text", "integer", "number", "boolean", "time"]
_LONGEST = 4_096
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_INTEGER = re.compile(r"-?[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?([eE][+-]?[0-9]{1,2})?")


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a resource.

    Attributes:
        name: how it is called.
        says: what it asks for.
        kind: of its value. A time is ms since 1970, or RFC 3339 text.
        choices: the values that it can have; any, if there are none.
        low: the least number.
        high: the greatest.
        default: what stands for it when it is not given.
        rule: what a wrong choice breaks.
        required: whether it must be given.
    """

    name: str
    says: str
    kind: Kind = "text"
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    default: Any = None
    rule: str = "invalid_parameter"
    required: bool = False


def read(query: bytes, known: Sequence[Parameter]) -> dict[str, Any]:
    """Read the query string of a request; what is not given has its default.

    Raises:
        Refusal: one is unknown, stands twice, or is not of its kind.
    """
    table = {one.name: one for one in known}
    found: dict[str, Any] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        name, _, value = part.partition(b"=")
        key, text = _text(name), _text(value)
        if key is None or key not in table:
            expected = ", ".join(table) or "none"
            raise Refusal("unknown_parameter", f"known are: {expected}")
        if key in found:
            raise Refusal("invalid_parameter", f"{key} stands twice")
        found[key] = _value(table[key], text)
    for one in known:
        if one.required and one.name not in found:
            raise _wrong(one, one.says)
    return {one.name: one.default for one in known} | found


def _text(raw: bytes) -> str | None:
    try:
        text = unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if len(text) > _LONGEST or "\x00" in text else text


def _value(known: Parameter, text: str | None) -> Any:
    if text is None:
        raise _wrong(known, f"a text in UTF-8, of at most {_LONGEST} letters and without NUL")
    if known.choices and text not in known.choices:
        status = None if known.rule == "invalid_parameter" else 422
        expected = ", ".join(known.choices)
        raise Refusal(known.rule, f"{known.name}: expected {expected}", status=status)
    if known.kind == "boolean":
        if text not in _BOOLEANS:
            raise _wrong(known, "true or false")
        return _BOOLEANS[text]
    if known.kind == "integer" or (known.kind == "time" and _INTEGER.fullmatch(text)):
        if not _INTEGER.fullmatch(text):
            raise _wrong(known, "a whole number")
        return _bounded(known, int(text))
    if known.kind == "number":
        if not _NUMBER.fullmatch(text):
            raise _wrong(known, "a number")
        return _bounded(known, float(text))
    return text


def _bounded(known: Parameter, number: Any) -> Any:
    low, high = known.low, known.high
    if (low is not None and number < low) or (high is not None and number > high):
        raise _wrong(known, f"{low} to {high}" if high is not None else f"at least {low}")
    return number


def _wrong(known: Parameter, expected: str) -> Refusal:
    return Refusal("invalid_parameter", f"{known.name}: expected {expected}")
