# SPDX-License-Identifier: Apache-2.0
"""Which format a document is of, by its content: names of files say little."""

from __future__ import annotations

import json
from typing import Final

from omsgrain.errors import UnsupportedError
from omsgrain.formats.aimem.fields import FORMAT, LEGACY_FORMAT

__all__ = ["FORMATS", "sniff"]

FORMATS: Final = ("aimem",)


def sniff(data: bytes) -> str:
    """Name the format of a document.

    Raises:
        UnsupportedError: none that is known.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and document.get("format") in (FORMAT, LEGACY_FORMAT):
        return "aimem"
    raise UnsupportedError("a document of no format that is known", expected=", ".join(FORMATS))
