# SPDX-License-Identifier: Apache-2.0
"""Which format a document is of, by its content: names of files say little.

A document says what it is in a member of its own, which nearly always stands at its beginning, so
nothing is parsed for that. One that is cut short, or else broken, still says what it was to be.

Every store that is opened comes by here for one constant of its neighbours, so formats are
imported when there is a document.
"""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from omsgrain import _core
from omsgrain.errors import OmsError, UnsupportedError

FORMATS: Final = ("aimem", "mif1", "mif2", "mif-ld")
"""Documents of other formats."""
CONTAINER: Final = "mg"
"""What holds grains as they are."""

_HEAD: Final = 64 << 10
_BOM: Final = b"\xef\xbb\xbf"
_VERSION: Final = "mif_version"
_ONE = re.compile(r"1(?:\.|$)")
# What a memory of MIF in JSON-LD says of itself, wherever it stands in an array or by lines.
_LD: Final = "mif-ld"
_LD_MEMBERS: Final = ["@type", "@id", "memoryType", "conceptType"]
_SAYS: Final = ["format", _VERSION]
_NAMES: Final = [*_SAYS, "encryption", "$schema", *_LD_MEMBERS]
_LD_SAID = re.compile(
    rb'"(?:memoryType|conceptType|citationType)"[ \t\r\n]*:|"@id"[ \t\r\n]*:[ \t\r\n]*"urn:mif:'
    rb'|"@type"[ \t\r\n]*:[ \t\r\n]*(?:\[[^\]]{0,200})?'
    rb'"(?:MemoryCorpus|Memory|Concept|Citation|EntityReference)"'
)


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
    told = _told(data)
    if told is None:
        raise _unknown()
    return told


def sniff_file(path: Path) -> Sniffed:
    """Say what a file is; of what says so at its beginning only that is read."""
    from omsgrain.container.layout import MAGIC
    from omsgrain.formats.aimem.fields import LIMITS
    from omsgrain.formats.json_text import looked_into
    from omsgrain.formats.mif1.check import LIMITS as MIF_LIMITS
    from omsgrain.formats.mif1.document import layout_of

    with path.open("rb") as file:
        if not file.seekable():
            raise read_once()
        head = file.read(_HEAD)
        if head.startswith(MAGIC):
            return Sniffed(CONTAINER, False)
        told = _told(head)
        if told is None and _is_object(head):
            told = _told(head + file.read(MIF_LIMITS.document))
        if told is None:
            raise _unknown()
        if told != "aimem":
            return Sniffed(told, told == "mif1" and layout_of(head) == "jsonl")
        file.seek(0)
        first = file.readline(LIMITS.line + 1)
        document = looked_into(first)
        alone = not isinstance(document, dict) or _of(document.get("format"), None) is None
        return Sniffed(told, not alone and _by_lines(first, document, file))


def sniffed(path: Path) -> Sniffed | None:
    """Say what a file is; None if it is nothing that is known, or not there."""
    with suppress(UnsupportedError, FileNotFoundError, IsADirectoryError):
        return sniff_file(path)
    return None


def _by_lines(first: bytes, document: dict[str, Any], file: IO[bytes]) -> bool:
    """Whether a first line that is an object is all of the document, or its envelope."""
    from omsgrain.formats.aimem.checksum import MEMBER, of_document
    from omsgrain.formats.aimem.fields import ARRAYS, LIMITS

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


def _told(data: bytes) -> str | None:
    """What a document says of itself, or its beginning."""
    from omsgrain.formats.json_text import looked_into
    from omsgrain.formats.mif1.check import SCHEMA
    from omsgrain.formats.mif1.document import looks_like_yaml
    from omsgrain.formats.mif_ld.markdown import is_markdown

    if not _is_object(data[:_HEAD]):
        if is_markdown(data) or (_is_array(data[:_HEAD]) and _LD_SAID.search(data)):
            return _LD
        return "mif1" if looks_like_yaml(data) else None
    text = data.removeprefix(_BOM)
    found = dict(_core.json_members(text, _NAMES, _SAYS))
    if (told := _of(found.get("format"), None)) is not None:
        return told
    if "format" in found:
        found = dict(_core.json_members(text, _NAMES, [_VERSION]))
    if _VERSION in found:
        value: Any = found[_VERSION]
        if value is None:
            document = looked_into(text)  # a number, say
            value = document.get(_VERSION) if isinstance(document, dict) else None
        if (told := _of(None, value)) is not None:
            return told
        found = dict(_core.json_members(text, _NAMES, []))
    # An envelope as the SEP draws it says nothing else.
    if found.get("encryption", "") is None or found.get("$schema") == SCHEMA:
        return "mif1"
    alike = not found.keys().isdisjoint(_LD_MEMBERS)
    return _LD if alike and _LD_SAID.search(text) else None


def _of(format: Any, version: Any) -> str | None:
    """The format by its own name, or by its version: one that nobody reads is for it to refuse."""
    from omsgrain.formats.aimem.fields import FORMAT, LEGACY_FORMAT

    if format in (FORMAT, LEGACY_FORMAT):
        return "aimem"
    if isinstance(version, bool) or not isinstance(version, str | int | float):
        return None
    return "mif1" if _ONE.match(str(version)) else "mif2"


def _is_object(head: bytes) -> bool:
    return head.removeprefix(_BOM).lstrip().startswith(b"{")


def _is_array(head: bytes) -> bool:
    return head.removeprefix(_BOM).lstrip().startswith(b"[")


def read_once() -> UnsupportedError:
    """The error that a pipe stands where a file is looked into before it is read."""
    says = "what is read once cannot be looked into before"
    return UnsupportedError(says, expected="a file", found="a pipe")


def _unknown() -> UnsupportedError:
    known = ", ".join((*FORMATS, CONTAINER))
    return UnsupportedError("a document of no format that is known", expected=known)
