# SPDX-License-Identifier: Apache-2.0
"""All formats of documents, and which of them a document is of.

The content decides: file names say little. A document names its format in a member, nearly always
at its beginning, so nothing is parsed for that. A document that is cut short or broken still names
its format.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from omsgrain.container.layout import MAGIC
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.base import HEAD, Format, Said
from omsgrain.formats.mif import Mif
from omsgrain.formats.mif1.format import MIF1
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.mif_ld.format import MIF_LD

FORMATS: Final[dict[str, Format]] = {one.name: one for one in (AIMEM, MIF2, MIF1, MIF_LD)}
"""The formats by their names."""
VERSIONS: Final[dict[str, Mif]] = {
    name: one for name, one in FORMATS.items() if isinstance(one, Mif)
}
"""The versions of MIF."""
OF_DIRECTORIES: Final = next(one for one in FORMATS.values() if one.reads_directories)
"""The format whose documents also stand in the files of a directory."""
CONTAINER: Final = "mg"
"""What holds grains as they are."""
_MOST: Final = 100 << 20
"""Bytes that are read of a document whose beginning does not name its format."""


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
    told = _told(Said(data))
    if told is None:
        raise _unknown()
    return told.name


def sniff_file(path: Path) -> Sniffed:
    """Say what a file is; of what says so at its beginning only that is read."""
    with path.open("rb") as file:
        if not file.seekable():
            raise read_once()
        head = file.read(HEAD)
        if head.startswith(MAGIC):
            return Sniffed(CONTAINER, False)
        said = Said(head)
        told = _told(said)
        if told is None and said.is_object:
            told = _told(Said(head + file.read(_MOST)))
        if told is None:
            raise _unknown()
        return Sniffed(told.name, told.by_lines(file, head))


def sniffed(path: Path) -> Sniffed | None:
    """Say what a file is; None if it is of no known kind, or not there."""
    with suppress(UnsupportedError, FileNotFoundError, IsADirectoryError):
        return sniff_file(path)
    return None


def version(name: str) -> Mif:
    """A version of MIF by its name."""
    if name not in VERSIONS:
        expected = ", ".join(VERSIONS)
        raise SchemaError("not a version of MIF", field="/format", expected=expected)
    return VERSIONS[name]


def _told(said: Said) -> Format | None:
    return next((one for one in FORMATS.values() if one.sniff(said)), None)


def read_once() -> UnsupportedError:
    """The error that a pipe stands where a file is looked into before it is read."""
    says = "a pipe can be read only once"
    return UnsupportedError(says, expected="a file", found="a pipe")


def _unknown() -> UnsupportedError:
    known = ", ".join((*FORMATS, CONTAINER))
    return UnsupportedError("the format of the document is not known", expected=known)
