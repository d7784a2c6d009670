# SPDX-License-Identifier: Apache-2.0
"""How large a file may be; the format itself sets no limits."""

from __future__ import annotations

from dataclasses import dataclass

from omsgrain.formats.reading import VALUES

__all__ = ["LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader takes. Whatever is larger is refused before it is parsed.

    Attributes:
        document: bytes of a file.
        values: values of it, keys not counted.
        depth: objects and arrays inside one another.
        documents: memories in a file; each is judged, so they cost time and not only memory.
        files: files of a directory.
        directory: bytes of all of them.
    """

    document: int = 100 << 20
    values: int = VALUES
    depth: int = 128
    documents: int = 1_000_000
    files: int = 100_000
    directory: int = 1 << 30


LIMITS = Limits()
