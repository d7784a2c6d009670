# SPDX-License-Identifier: Apache-2.0
"""How large a document may be; the format itself sets no limits."""

from __future__ import annotations

from dataclasses import dataclass

from omsgrain.formats.reading import VALUES

__all__ = ["LIMITS", "TEXT", "VECTOR", "Limits"]

TEXT = 65_536
"""Code points of a text that are searched; all of a longer one is kept."""
VECTOR = 16_384
"""Numbers of a vector that stands packed in a grain; a longer one is kept as text."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader takes. Whatever is larger is refused before it is parsed.

    Attributes:
        document: bytes of a document.
        values: values of it, keys not counted.
        depth: objects and arrays inside one another.
    """

    document: int = 100 << 20
    values: int = VALUES
    depth: int = 128


LIMITS = Limits()
