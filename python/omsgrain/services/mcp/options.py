# SPDX-License-Identifier: Apache-2.0
"""How a server behaves, and how much it takes and gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Options"]


@dataclass(frozen=True, slots=True)
class Options:
    """How a server behaves.

    Attributes:
        user: whose memory it is.
        root: the directory below which documents are read and written; None: nowhere.
        readonly: nothing changes, neither the store nor a file.
        document: bytes of a document that is imported.
        answer: bytes of a document that is given back as text; larger ones go to a file.
        line: bytes of one message.
        at_work: calls that work at once.
    """

    user: str
    root: Path | None = None
    readonly: bool = False
    document: int = 100 << 20
    answer: int = 16 << 20
    line: int = 256 << 20
    at_work: int = 8
