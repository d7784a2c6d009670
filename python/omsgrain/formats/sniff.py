# SPDX-License-Identifier: Apache-2.0
"""Which format a document is of, by its content: names of files say little."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from omsgrain.container.layout import MAGIC
from omsgrain.errors import OmsError, UnsupportedError
from omsgrain.formats.aimem.checksum import MEMBER, of_document
from omsgrain.formats.aimem.fields import ARRAYS, FORMAT, LEGACY_FORMAT
from omsgrain.formats.aimem.limits import LIMITS

__all__ = ["CONTAINER", "FORMATS", "Sniffed", "sniff", "sniff_file"]

FORMATS: Final = ("aimem", "mif2")
"""Documents of other formats."""
CONTAINER: Final = "mg"
"""What holds grains as they are."""

_HEAD = 64 << 10
_BOM = b"\xef\xbb\xbf"
# A document that is cut short, or else broken, still says what it was to be.
_AIMEM = re.compile(rb'"format"\s*:\s*"(?:%b|%b)"' % (FORMAT.encode(), LEGACY_FORMAT.encode()))

_MIF2 = re.compile(rb'"mif_version"\s*:\s*"2\.')


class Sniffed(NamedTuple):
    """What a file is.

    Attributes:
        format: one of ``FORMATS``, or ``mg``.
        lines: whether its records come by lines.
    """

    format: str
    lines: bool


def sniff(data: bytes) -> str:
    """Name the format of a document.

    Raises:
        UnsupportedError: none that is known.
    """
    document = _json(data)
    if _is_aimem(document) or (document is None and _AIMEM.search(data[:_HEAD])):
        return "aimem"
    if _is_mif2(document) or (document is None and _MIF2.search(data[:_HEAD])):
        return "mif2"
    raise _unknown()


def sniff_file(path: Path) -> Sniffed:
    """Say what a file is; of what comes by lines only the beginning is read.

    Raises:
        UnsupportedError: nothing that is known.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head.startswith(MAGIC):
            return Sniffed(CONTAINER, False)
        if not head.removeprefix(_BOM).lstrip().startswith(b"{"):
            raise _unknown()
        file.seek(0)
        first = file.readline(LIMITS.line + 1)
        document = _json(first)
        if _is_aimem(document):
            return Sniffed("aimem", _by_lines(first, document, file))
        if document is None and _AIMEM.search(head):
            return Sniffed("aimem", False)
        if document is None and _is_aimem(_json(first + file.read(LIMITS.document))):
            return Sniffed("aimem", False)
    raise _unknown()


def _by_lines(first: bytes, document: dict[str, Any], file: IO[bytes]) -> bool:
    """Whether a first line that is an object is all of the document, or its envelope."""
    while line := file.readline(LIMITS.line):
        if line.strip():
            return True
    if not document.keys().isdisjoint(ARRAYS):
        return False
    # Without records and without arrays it could be both; the checksum is of one of them.
    try:
        return of_document(first) != document.get(MEMBER)
    except OmsError:
        return False


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _is_aimem(document: Any) -> bool:
    return isinstance(document, dict) and document.get("format") in (FORMAT, LEGACY_FORMAT)


def _is_mif2(document: Any) -> bool:
    """Whether a document says so; a version that nobody reads is for the format to refuse."""
    version = document.get("mif_version") if isinstance(document, dict) else None
    return isinstance(version, str) and not version.startswith("1.")


def _unknown() -> UnsupportedError:
    known = ", ".join((*FORMATS, CONTAINER))
    return UnsupportedError("a document of no format that is known", expected=known)
