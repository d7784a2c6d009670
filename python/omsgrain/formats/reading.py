# SPDX-License-Identifier: Apache-2.0
"""JSON whose meaning is certain, and no larger than it may be; all else is refused.

What is not certain: a key that stands twice, NaN and infinity, a number beyond the doubles, a
surrogate without the other, anything that is not UTF-8. Spec: RFC 8259, RFC 7493
"""

from __future__ import annotations

import json
from typing import Any, Final

from omsgrain import _core
from omsgrain.errors import CorruptError, OmsError
from omsgrain.formats.problems import DocumentError, Problem

__all__ = ["RULES", "kind_of", "parse", "refused"]

RULES: Final[dict[str, str]] = {
    "too_large": "the document is larger than it may be",
    "not_json": "the document is not JSON, or its meaning is not certain",
    "too_deep": "objects and arrays stand too deep inside one another",
}
"""What a document can break before its format is asked."""

_BOM: Final = b"\xef\xbb\xbf"
_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a bool",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def parse(data: bytes, *, most: int, depth: int) -> Any:
    """Read one JSON document.

    Args:
        data: its bytes, in UTF-8 without a byte order mark.
        most: how many bytes it may have; looked at first.
        depth: how many objects and arrays may stand inside one another; at most 128 are read.

    Raises:
        DocumentError: with the rule ``too_large``, ``not_json`` or ``too_deep``.
    """
    if len(data) > most:
        size = f"{len(data)} bytes"
        raise DocumentError(
            [Problem("too_large", "", RULES["too_large"], f"at most {most} bytes", size)]
        )
    if data.startswith(_BOM):
        found = "a byte order mark"
        raise DocumentError([Problem("not_json", "", RULES["not_json"], "UTF-8 without it", found)])
    try:
        _core.canonical_json(data, None, depth)
    except OmsError as error:
        raise DocumentError([refused(error)]) from None
    return json.loads(data)


def refused(error: OmsError, line: int | None = None) -> Problem:
    """What the core refuses to read, as a problem of the document."""
    rule = "too_deep" if isinstance(error, CorruptError) else "not_json"
    where = None if error.offset is None else f"byte {error.offset}"
    return Problem(rule, error.field or "", error.message, error.expected, where, line)


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    return _KINDS[type(value)]
