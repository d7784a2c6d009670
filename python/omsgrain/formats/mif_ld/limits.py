# SPDX-License-Identifier: Apache-2.0
"""How large a file may be; the format itself sets no limits."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIMITS", "Limits"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader takes. Whatever is larger is refused before it is parsed.

    Attributes:
        document: bytes of a file.
        depth: objects and arrays inside one another.
        files: files of a directory.
    """

    document: int = 100 << 20
    depth: int = 128
    files: int = 100_000


LIMITS = Limits()
