# SPDX-License-Identifier: Apache-2.0
"""Canonical JSON once more, in plain Python, from RFC 8785 and ECMAScript's rules of numbers."""

from __future__ import annotations

from decimal import Decimal
from hashlib import sha256
from typing import Any

_SHORT = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def canonical(value: Any) -> str:
    """The canonical text of what `json.loads` gives. Spec: RFC 8785 §3.2"""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return number(float(value))
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return "[" + ",".join(map(canonical, value)) + "]"
    keys = sorted(value, key=lambda key: list(memoryview(key.encode("utf-16-be"))))
    return "{" + ",".join(f"{text(key)}:{canonical(value[key])}" for key in keys) + "}"


def number(value: float) -> str:
    """Number::toString of ECMA-262: the shortest digits, spelled by where the point falls."""
    if value == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    spelled = "".join(map(str, digits))
    count = len(spelled)
    point = count + exponent  # digits before the point
    minus = "-" if sign else ""
    if count <= point <= 21:
        return minus + spelled + "0" * (point - count)
    if 0 < point <= 21:
        return f"{minus}{spelled[:point]}.{spelled[point:]}"
    if -6 < point <= 0:
        return f"{minus}0.{'0' * -point}{spelled}"
    head, tail = spelled[0], spelled[1:]
    return f"{minus}{head}{'.' if tail else ''}{tail}e{'+' if point > 0 else '-'}{abs(point - 1)}"


def text(value: str) -> str:
    """A string: only what must be escaped is."""
    return '"' + "".join(_SHORT.get(c, f"\\u{ord(c):04x}" if c < " " else c) for c in value) + '"'


def checksum(document: dict[str, Any]) -> str:
    """The checksum of a bundle. Spec: AIMEM §2.8"""
    rest = {name: value for name, value in document.items() if name != "checksum"}
    return f"sha256:{sha256(canonical(rest).encode()).hexdigest()}"
