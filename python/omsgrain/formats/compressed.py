# SPDX-License-Identifier: Apache-2.0
"""Inputs in gzip, read as what is inside, a piece at a time."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from omsgrain.errors import FormatError, UnsupportedError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

SUFFIX: Final = ".gz"
_MAGIC: Final = b"\x1f\x8b"
_BUFFER: Final = 256 << 10


class GzipInput(io.RawIOBase):
    """The bytes inside a gzip stream; a damaged one is a FormatError."""

    def __init__(self, stream: BinaryIO) -> None:
        self._file = gzip.GzipFile(fileobj=stream, mode="rb")

    def readable(self) -> bool:
        return True

    def readall(self) -> bytes:
        """Refuse to read all: its size is not known before."""
        expected = "CSV, TSV or JSON in gzip; unpack other files first"
        raise UnsupportedError("a file of grains in gzip", expected=expected)

    def readinto(self, buffer: WriteableBuffer) -> int:
        try:
            return self._file.readinto(buffer)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise FormatError("the gzip file is damaged, or its end is missing") from None


def opened(stream: BinaryIO, name: str = "") -> tuple[BinaryIO, str]:
    """Return a stream and its name; of gzip the content, and the name without its suffix."""
    if _begin(stream) != _MAGIC:
        return stream, name
    content: Any = io.BufferedReader(GzipInput(stream), _BUFFER)
    return content, name[: -len(SUFFIX)] if name.lower().endswith(SUFFIX) else name


def _begin(stream: BinaryIO) -> bytes:
    """Return the first two bytes, and leave them in the stream."""
    if stream.seekable():
        at = stream.tell()
        head = stream.read(len(_MAGIC))
        stream.seek(at)
        return head
    peek = getattr(stream, "peek", None)  # of a pipe
    return b"" if peek is None else bytes(peek(len(_MAGIC))[: len(_MAGIC)])
