# SPDX-License-Identifier: Apache-2.0
"""Which format a document is of, by its content: names of files say little.

A document says what it is in a member of its own, which nearly always stands at its beginning,
else at its end. So only these are looked at; the whole is parsed where neither tells. A document
that is cut short, or else broken, still says what it was to be.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from omsgrain.container.layout import MAGIC
from omsgrain.errors import OmsError, UnsupportedError
from omsgrain.formats.aimem.checksum import MEMBER, of_document
from omsgrain.formats.aimem.fields import ARRAYS, FORMAT, LEGACY_FORMAT
from omsgrain.formats.aimem.limits import LIMITS
from omsgrain.formats.mif1.fields import SCHEMA
from omsgrain.formats.mif1.layouts import layout_of, looks_like_yaml
from omsgrain.formats.mif1.limits import LIMITS as MIF_LIMITS

__all__ = ["CONTAINER", "FORMATS", "Sniffed", "sniff", "sniff_file"]

FORMATS: Final = ("aimem", "mif1", "mif2")
"""Documents of other formats."""
CONTAINER: Final = "mg"
"""What holds grains as they are."""

_HEAD: Final = 64 << 10
_BOM: Final = b"\xef\xbb\xbf"
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[{}\[\],]|[^\s"{}\[\],:]+', re.DOTALL)
# As bytes in a text, its quotes would be escaped; so what fits is a member, if maybe of an inner
# object.
_LAST = re.compile(rb'(?<!\\)"(?:format|mif_version)"\s*:\s*(?:"[^"\\]*"|[0-9.]+)')
_TELLING: Final = frozenset(("format", "mif_version", "$schema", "export_meta"))


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
    told = _told(data[:_HEAD], data[-_HEAD:])
    if told is None and _is_object(data) and len(data) <= MIF_LIMITS.document:
        told = _format(_json(data))
    if told is None:
        raise _unknown()
    return told


def sniff_file(path: Path) -> Sniffed:
    """Say what a file is; nearly always its beginning and its end are enough.

    Raises:
        UnsupportedError: nothing that is known.
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        head = file.read(_HEAD)
        if head.startswith(MAGIC):
            return Sniffed(CONTAINER, False)
        size = file.seek(0, 2)
        file.seek(max(size - _HEAD, 0))
        told = _told(head, file.read())
        if told is None and _is_object(head) and size <= MIF_LIMITS.document:
            file.seek(0)
            told = _format(_json(file.read()))
        if told is None:
            raise _unknown()
        if told != "aimem":
            return Sniffed(told, told == "mif1" and layout_of(head) == "jsonl")
        file.seek(0)
        first = file.readline(LIMITS.line + 1)
        document = _json(first)
        is_aimem = isinstance(document, dict) and _format(document) == "aimem"
        return Sniffed(told, is_aimem and _by_lines(first, document, file))


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


def _told(head: bytes, tail: bytes) -> str | None:
    """What the beginning of a document says of it, or else its end."""
    if not _is_object(head):
        return "mif1" if looks_like_yaml(head) else None
    members: dict[str, Any] = {}
    for name, value in _members(head):
        if name in _TELLING and name not in members:
            members[name] = value
            if name in ("format", "mif_version") and (told := _format(members)):
                return told
    for found in reversed([*_LAST.finditer(tail)]):
        if _is_outermost(tail[found.end() :]):
            name, _, value = found[0].decode("utf-8", "replace").partition(":")
            members[name.strip('" \t\r\n')] = value.strip('" \t\r\n')
            break
    return _format(members)


def _members(head: bytes) -> Iterator[tuple[str, Any]]:
    """The members of the outermost object, as far as its beginning goes; of an array, nothing."""
    depth, name = 0, None
    for found in _TOKEN.finditer(head.removeprefix(_BOM)):
        token = found[0]
        if token in (b"{", b"["):
            if depth == 1 and name is not None:
                yield name, {}
                name = None
            depth += 1
        elif token in (b"}", b"]"):
            depth -= 1
            if depth == 0:
                return
        elif depth == 1 and token != b",":
            if name is None:
                name = _string(token)
            else:
                yield name, _string(token)
                name = None


def _is_outermost(rest: bytes) -> bool:
    """Whether what follows a member ends the object that it is of, and nothing around that."""
    depth = 0
    for found in _TOKEN.finditer(rest):
        if found[0] in (b"{", b"["):
            depth += 1
        elif found[0] in (b"}", b"]"):
            depth -= 1
            if depth < -1:
                return False
    return depth == -1


def _string(token: bytes) -> str | None:
    try:
        value = json.loads(token)
    except ValueError:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)


def _format(members: Any) -> str | None:
    """What the members of a document say of it."""
    if not isinstance(members, dict):
        return None
    if members.get("format") in (FORMAT, LEGACY_FORMAT):
        return "aimem"
    version = members.get("mif_version")
    if isinstance(version, str | int | float) and not isinstance(version, bool):
        # A version that nobody reads is for the format to refuse.
        return "mif1" if re.match(r"1(?:\.|$)", str(version)) else "mif2"
    if members.get("$schema") == SCHEMA:
        return "mif1"
    return "mif2" if isinstance(members.get("export_meta"), dict) else None


def _is_object(head: bytes) -> bool:
    return head.removeprefix(_BOM).lstrip().startswith(b"{")


def _json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _unknown() -> UnsupportedError:
    known = ", ".join((*FORMATS, CONTAINER))
    return UnsupportedError("a document of no format that is known", expected=known)
