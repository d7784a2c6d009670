# SPDX-License-Identifier: Apache-2.0
"""The front matter of a text, between two lines of three dashes, and what comes after it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_markdown", "joined", "split"]

_HEAD: Final = 64 << 10
_BOM: Final = "\ufeff"
_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?---[ \t]*\r?\n")
_END = re.compile(r"^---[ \t]*\r?$", re.MULTILINE)
_KEYS = re.compile(
    rb"^(?:\"?)(?:id|@id|type|memoryType|memory_type|conceptType|created)(?:\"?):", re.MULTILINE
)
_OTHERS = re.compile(rb"^[\"']?mif_version[\"']?[ \t]*:", re.MULTILINE)


def is_markdown(data: bytes) -> bool:
    """Whether a file begins as a memory in Markdown does."""
    head = data[:_HEAD]
    return (
        _BEGIN.match(head) is not None
        and _KEYS.search(head) is not None
        and _OTHERS.search(head) is None
    )


def split(text: str) -> tuple[str, str] | None:
    """The front matter and the rest of a text; None if it has no front matter."""
    text = text.removeprefix(_BOM)
    begin = _END.match(text)
    if begin is None:
        return None
    end = _END.search(text, begin.end() + 1)
    if end is None:
        return None
    return text[begin.end() + 1 : end.start()], text[end.end() + 1 :]


def joined(front: str, body: str) -> str:
    """A text of both."""
    return f"---\n{front}---\n\n{body}\n"
