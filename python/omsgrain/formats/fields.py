# SPDX-License-Identifier: Apache-2.0
"""What a grain makes of fields, and whether records are the same."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

from omsgrain.formats.source import difference, same

__all__ = ["Fields", "composed", "is_equal", "stripped"]

Fields = dict[str, Any]


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
