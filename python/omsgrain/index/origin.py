# SPDX-License-Identifier: Apache-2.0
"""What a grain was called in the document that it came from, as the index has it."""

from __future__ import annotations

import json
import unicodedata

from omsgrain.formats.source import KEY
from omsgrain.grain import Grain

__all__ = ["origin"]


def origin(grain: Grain) -> str | None:
    """The ``id`` of the side channel; None if there is none (``rust/core/src/origin.rs``)."""
    value = grain.get(KEY)
    if not isinstance(value, bytes):
        return None
    try:
        read = json.loads(value)
    except (ValueError, RecursionError):
        return None
    found = read.get("id") if isinstance(read, dict) else None
    return unicodedata.normalize("NFC", found) if isinstance(found, str) else None
