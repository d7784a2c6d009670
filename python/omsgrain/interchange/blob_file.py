# SPDX-License-Identifier: Apache-2.0
"""A file that holds one grain."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from omsgrain.container.layout import MAGIC
from omsgrain.errors import UnsupportedError
from omsgrain.formats.table import FORMATS

BLOB_LIMIT: Final = 4 << 20
"""Bytes that are read: four times the largest grain, so that the core can tell its size."""
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_HEAD = 4 << 10


def read_blob(path: Path) -> bytes:
    """Return the content of a file; of one too large for a grain, its beginning."""
    with path.open("rb") as file:
        return file.read(BLOB_LIMIT)


def one_grain(data: bytes) -> bytes:
    """Refuse what is no blob: a container, whose name ends in .mg too, or text."""
    if data.startswith(MAGIC):
        raise UnsupportedError(
            "a container of many grains",
            expected="one grain; import it, and name the grain by its address",
        )
    head = data[:_HEAD]
    if head and not _CONTROL.search(head):  # a blob begins with a version, which is a small number
        is_json = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] in (b"{", b"[")
        raise UnsupportedError(
            "JSON of no known format" if is_json else "a file of no known format",
            expected=f"a grain, or a document: {', '.join(FORMATS)}",
        )
    return data
