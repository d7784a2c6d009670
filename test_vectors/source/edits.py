# SPDX-License-Identifier: Apache-2.0
"""Documents with other values in some places."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from omsgrain.conformance import rule

T = TypeVar("T")

GONE: Final = "\x00gone"
"""As the value of a place: remove it."""


def edited(document: T, places: Mapping[str, Any]) -> T:
    """A copy of the document with other values at some pointers."""
    values = {pointer: value for pointer, value in places.items() if value != GONE}
    removed = [pointer for pointer, value in places.items() if value == GONE]
    return rule.edited(document, {"set": values, "remove": removed})
