# SPDX-License-Identifier: Apache-2.0
"""JSON whose meaning is certain, and no larger than it may be; all else is refused.

What is not certain: a key that stands twice, NaN and infinity, a number beyond the doubles, a
surrogate without the other, anything that is not UTF-8. Spec: RFC 8259, RFC 7493
"""

from __future__ import annotations

import re
from typing import Any, Final

from omsgrain import _core
from omsgrain.errors import PLAIN_NAME, CorruptError, OmsError
from omsgrain.formats.problems import DocumentError, Problem

__all__ = [
    "RULES",
    "bounded",
    "kind_of",
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

_BOM: Final = b"\xef\xbb\xbf"
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


def parse(data: bytes, *, most: int, depth: int) -> Any:
    """Read one JSON document.

    Args:
        data: its bytes, in UTF-8 without a byte order mark.
        most: how many bytes it may have; looked at first.
        depth: how many objects and arrays may stand inside one another; at most 200 are read.

    Raises:
        DocumentError: with the rule ``too_large``, ``not_json`` or ``too_deep``.
    """
    return _read(data, most, depth, None)[0]


def parse_canonical(data: bytes, *, most: int, depth: int, without: str) -> tuple[Any, bytes]:
    """Read one JSON document, and write its canonical text without one of its keys.

    Args:
        data: as for `parse`.
        most: as for `parse`.
        depth: as for `parse`.
        without: the key, of the document itself, that the canonical text is without.

    Raises:
        DocumentError: as for `parse`.
    """
    document, text = _read(data, most, depth, without)
    return document, text or b""


def _read(data: bytes, most: int, depth: int, without: str | None) -> tuple[Any, bytes | None]:
    bounded(data, most)
    if data.startswith(_BOM):
        raise _breach("not_json", "UTF-8 without a byte order mark", "a byte order mark")
    try:
        return _core.parse_json(data, depth, without is not None, without)
    except OmsError as error:
        raise DocumentError([refused(error)]) from None


def bounded(data: bytes, most: int) -> None:
    """Refuse a document that is larger than it may be, before it is looked at.

    Raises:
        DocumentError: with the rule ``too_large``.
    """
    if len(data) > most:
        raise too_large(f"{most} bytes", f"{len(data)} bytes")


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
