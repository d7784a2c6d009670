# SPDX-License-Identifier: Apache-2.0
"""JSON whose meaning is certain, and no larger than it may be; all else is refused.

What is not certain: a key that stands twice, NaN and infinity, a number beyond the doubles, a
surrogate without the other, anything that is not UTF-8. Spec: RFC 8259, RFC 7493
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, Final

from omsgrain import _core
from omsgrain.errors import PLAIN_NAME, CorruptError, OmsError
from omsgrain.formats.problems import DocumentError, Problem

__all__ = [
    "MARK",
    "RULES",
    "VALUES",
    "bounded",
    "kind_of",
    "looked_into",
    "parse",
    "parse_canonical",
    "refused",
    "shown_key",
    "too_large",
]

RULES: Final[dict[str, str]] = {
    "too_large": "the document is larger than it may be",
    "not_json": "the document is not JSON, or its meaning is not certain",
    "too_deep": "objects and arrays stand too deep inside one another",
}
"""What a document can break before its format is asked."""

VALUES: Final = 8_000_000
"""Values of a document: each becomes an object of Python, many times as large as its text."""
MARK: Final = b"\xef\xbb\xbf"
"""The byte order mark that some editors write before a text; it is skipped. Spec: RFC 8259 §8.1"""
_PLAIN: Final = re.compile("@?" + PLAIN_NAME)  # JSON-LD has keywords
_KINDS: Final[dict[type, str]] = {
    dict: "an object",
    list: "an array",
    str: "a string",
    bool: "a bool",
    int: "a number",
    float: "a number",
    type(None): "null",
}


def parse(
    data: bytes,
    *,
    most: int,
    depth: int,
    values: int = VALUES,
    alive: Callable[[], None] | None = None,
) -> Any:
    """Read one JSON document.

    Args:
        data: its bytes, in UTF-8; a byte order mark is skipped.
        most: how many bytes it may have; looked at first.
        depth: how many objects and arrays may stand inside one another; at most 200 are read.
        values: how many values it may have, keys not counted; looked at before one is made.
        alive: called from time to time while a large one is read; what it raises ends it.

    Raises:
        DocumentError: with the rule ``too_large``, ``not_json`` or ``too_deep``.
    """
    bounded(data, most)
    return _read(data.removeprefix(MARK), most, depth, values, None, alive)[0]


def parse_canonical(
    data: bytes,
    *,
    most: int,
    depth: int,
    without: str,
    values: int = VALUES,
    alive: Callable[[], None] | None = None,
) -> tuple[Any, bytes]:
    """Read one JSON document, and write its canonical text without one of its keys.

    Args:
        data: as for `parse`.
        most: as for `parse`.
        depth: as for `parse`.
        without: the key, of the document itself, that the canonical text is without.
        values: as for `parse`.
        alive: as for `parse`.

    Raises:
        DocumentError: as for `parse`.
    """
    bounded(data, most)
    document, text = _read(data.removeprefix(MARK), most, depth, values, without, alive)
    return document, text or b""


def _read(
    data: bytes,
    most: int,
    depth: int,
    values: int,
    without: str | None,
    alive: Callable[[], None] | None,
) -> tuple[Any, bytes | None]:
    bounded(data, most, values)
    if data.startswith(MARK):
        raise _breach("not_json", "UTF-8 without a byte order mark", "a byte order mark")
    try:
        return _core.parse_json(data, depth, without is not None, without, alive)
    except OmsError as error:
        raise DocumentError([refused(error)]) from None


def looked_into(data: bytes) -> Any:
    """The value of a JSON text of which only the kind or a member is asked.

    None if the text is not JSON, or has more values than a document may have.
    """
    try:
        bounded(data, len(data), VALUES)
        return json.loads(data.removeprefix(MARK))
    except (DocumentError, ValueError, RecursionError):
        return None


def bounded(data: bytes, most: int, values: int | None = None) -> None:
    """Refuse a document that is larger than it may be, before anything is made of it.

    Args:
        data: its bytes; JSON, or JSON by lines, if its values are counted.
        most: how many bytes it may have.
        values: how many values it may have, keys not counted.

    Raises:
        DocumentError: with the rule ``too_large``.
    """
    if len(data) > most:
        raise too_large(f"{most} bytes", f"{len(data)} bytes")
    # A value has a byte at least, and another one behind it.
    if values is not None and len(data) > 2 * values and _core.json_values(data, values) > values:
        raise too_large(f"{values} values", "more")


def too_large(most: str, found: str) -> DocumentError:
    """The error that more is there than may be, both in words."""
    return _breach("too_large", f"at most {most}", found)


def _breach(rule: str, expected: str, found: str) -> DocumentError:
    return DocumentError([Problem(rule, "", RULES[rule], expected, found)])


def refused(error: OmsError, line: int | None = None) -> Problem:
    """What the core refuses to read, as a problem of the document."""
    rule = "too_deep" if isinstance(error, CorruptError) else "not_json"
    where = None if error.offset is None else f"byte {error.offset}"
    return Problem(rule, error.field or "", error.message, error.expected, where, line)


def kind_of(value: Any) -> str:
    """What a JSON value is, in words."""
    return _KINDS[type(value)]


def shown_key(key: str) -> str:
    """A key as a pointer or a message shows it.

    One that does not look like a name may be personal (an e-mail address, say) or of any length;
    it is shown as "…".
    """
    return key if _PLAIN.fullmatch(key) else "…"
