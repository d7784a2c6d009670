# SPDX-License-Identifier: Apache-2.0
"""Times of a bundle: ISO 8601 in UTC, of any precision, compared as instants. Spec: AIMEM §2.1."""

from __future__ import annotations

import re

from omsgrain.formats import times
from omsgrain.formats.times import Instant, of_grain, spell

__all__ = ["Instant", "of_grain", "parse", "spell"]

_UTC = re.compile(r"(?:[Zz]|[+-]00(?::?00)?)\Z")


def parse(text: str) -> Instant | None:
    """Read a time; None if it is none, or not in UTC."""
    utc = text.endswith(("Z", "z")) or _UTC.search(text) is not None
    return times.parse(text) if utc and " " not in text else None
