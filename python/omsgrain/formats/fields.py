# SPDX-License-Identifier: Apache-2.0
"""What a grain makes of fields, and whether they come back from it as they were given."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Mapping
from typing import Any, Final

from omsgrain.formats.source import difference, same

__all__ = ["Fields", "composed", "is_equal", "is_like", "stripped"]

_SIMPLE: Final = frozenset((str, int, bool, bytes))  # equal if they are of one type and ==

Fields = dict[str, Any]


def is_like(read: Mapping[str, Any], given: Fields, ordered: bool) -> bool:
    """Whether fields came back from a grain as they were given."""
    if read != given:
        return False
    for key, value in given.items():
        if type(value) not in _SIMPLE and not _is_typed(read[key], value, ordered):
            return False
        if type(value) is not type(read[key]):
            return False
    return True


def _is_typed(read: Any, given: Any, ordered: bool) -> bool:
    """Whether values that are equal are the same: 1 is equal to 1.0, to True, and 0.0 to -0.0."""
    if type(read) is not type(given):
        return False
    if isinstance(given, float):
        return math.copysign(1.0, read) == math.copysign(1.0, given)
    if isinstance(given, list):
        return all(_is_typed(one, other, ordered) for one, other in zip(read, given, strict=True))
    if isinstance(given, dict):
        if ordered and list(read) != list(given):
            return False
        return all(_is_typed(read[key], value, ordered) for key, value in given.items())
    return True


def is_equal(one: Any, other: Any, ordered: bool) -> bool:
    """Whether two values are the same, and if that counts their keys in the same order."""
    return same(one, other) if ordered else difference(one, other, ordered=False) is None


def stripped(fields: Fields) -> Fields:
    """The fields without what a grain may refuse."""
    kept = {name: value for name, value in fields.items() if name != "structural_tags"}
    stripped: Fields = _each_text(kept, lambda text: text.lstrip("\ufeff") or "-")
    return stripped


def composed(fields: Fields) -> Fields:
    """The fields with their texts in NFC, as a grain has them."""
    composed: Fields = _each_text(fields, lambda text: unicodedata.normalize("NFC", text))
    return composed


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return value if value.isascii() else change(value)
    if isinstance(value, dict):
        return {name: _each_text(one, change) for name, one in value.items()}
    if isinstance(value, list):
        return [_each_text(one, change) for one in value]
    return value
