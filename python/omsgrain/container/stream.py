# SPDX-License-Identifier: Apache-2.0
"""Grains over a pipe or a socket: u32 length ++ grain, and u32 0 at the end. Spec: OMS §11.6.

Not for files: a stream has no index and no footer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from omsgrain import _core
from omsgrain.container.layout import MAX_GRAIN, MIN_GRAIN, likely_after, measure
from omsgrain.container.read import Item, check_grain, grain_bytes
from omsgrain.errors import CorruptError, OmsError, StoreError, TooLargeError, TooShortError

_LENGTH = 4
END = bytes(_LENGTH)


def write_stream(file: BinaryIO, items: Iterable[Item]) -> int:
    """Write each grain as it arrives, then the end mark. Return the number of grains.

    The file is neither flushed nor closed.

    Raises:
        OmsError: An item is not a grain. The grains before it were written, the end mark was not.
    """
    count = 0
    for item in items:
        grain = grain_bytes(item)
        check_grain(grain)
        _put(file, len(grain).to_bytes(_LENGTH, "big") + grain)
        count += 1
    _put(file, END)
    return count


def _put(file: BinaryIO, data: bytes) -> None:
    """Write all bytes: an unbuffered file may accept fewer at once."""
    view = memoryview(data)
    while view:
        written = file.write(view)
        if not written:
            raise StoreError("the stream accepts no more", found="a blocking file")
        view = view[written:]


def read_stream(file: BinaryIO, *, max_grain: int = MAX_GRAIN) -> Iterator[bytes]:
    """Yield the grains of a stream, up to its end mark; the bytes after it are not read.

    It checks that each item is exactly one grain; the rest is not verified.

    Args:
        file: A blocking binary file, open for reading.
        max_grain: The longest grain to accept.

    Raises:
        CorruptError: The stream ends without its end mark, or a length is wrong. The offset counts
            from where reading began.
        TooLargeError, TooShortError: No grain has this length.
    """
    offset = 0
    while (length := int.from_bytes(_take(file, _LENGTH, offset), "big")) != 0:
        if length > max_grain:
            expected, found = f"at most {max_grain} bytes", f"{length} bytes"
            raise TooLargeError(
                "the grain is larger than the limit", offset=offset, expected=expected, found=found
            )
        if length < MIN_GRAIN:
            raise TooShortError(
                "the grain is smaller than any grain",
                offset=offset,
                expected=f"at least {MIN_GRAIN} bytes",
            )
        offset += _LENGTH
        grain = _take(file, length, offset)
        try:
            extent = _core.extent(grain)
        except OmsError as error:
            error.offset = offset + (error.offset or 0)
            raise
        if extent not in (None, length):
            raise CorruptError("bytes follow the grain", offset=offset + (extent or 0))
        yield grain
        offset += length


def _take(file: BinaryIO, size: int, offset: int) -> bytes:
    """Read that many bytes: a socket may return fewer at once."""
    pieces, missing = [], size
    while missing:
        piece = file.read(missing)
        if not piece:
            where = offset + size - missing
            raise CorruptError("the stream ends before its end mark", offset=where)
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


_ZSTD = 1
#: Bytes of grains in a frame: enough for good compression, few to lose if a connection breaks.
_FRAME = 128 << 10
_BEFORE = 1 << 20
#: Most frames take less.
_LIKELY = _FRAME + (_FRAME >> 4)


def pack_stream(grains: Iterable[bytes], before: bytes = b"") -> Iterator[bytes]:
    """Yield the frames of a stream of grains."""
    while len(before) > _BEFORE:
        yield _core.pack_frame(_ZSTD, before[:_BEFORE])
        before = before[_BEFORE:]
    parts, size = [before], len(before)
    for grain in grains:
        parts += [len(grain).to_bytes(_LENGTH, "big"), grain]
        size += len(grain)
        if size >= _FRAME:
            yield _core.pack_frame(_ZSTD, b"".join(parts))
            parts, size = [], 0
    yield _core.pack_frame(_ZSTD, b"".join([*parts, END]))


class Unpacked:
    """The decompressed frames, read as a file; one frame is in memory."""

    def __init__(self, data: bytes, limit: int) -> None:
        self._data = data
        self._at = 0
        self._left = limit
        self._limit = limit
        self._likely = _LIKELY
        self._frame = memoryview(b"")

    def grains(self) -> Iterator[bytes]:
        """Yield the grains from here on, as far as they are complete.

        It checks that each item is exactly one grain; the rest is not verified.
        """
        yield from read_stream(cast("BinaryIO", self), max_grain=MAX_GRAIN)
        if self._frame or self._at < len(self._data):
            raise CorruptError("bytes follow the end mark of the stream", offset=self._at)

    def exactly(self, size: int) -> bytes:
        found = bytearray()
        while len(found) < size:
            piece = self.read(size - len(found))
            if not piece:
                raise CorruptError("the stream ends too early", offset=self._at)
            found += piece
        return bytes(found)

    def read(self, size: int) -> bytes:
        """Return at most that many bytes; none at the end. Errors are those of ``exactly``."""
        if not self._frame and self._at < len(self._data):
            self._next()
        taken, self._frame = bytes(self._frame[:size]), self._frame[size:]
        return taken

    def _next(self) -> None:
        length, size = self._measured()
        if not size:
            raise CorruptError("an empty frame", offset=self._at)
        if size > self._left:
            expected = f"at most {self._limit} bytes"
            says = "the stream decompresses to more than the limit"
            raise TooLargeError(says, offset=self._at, expected=expected)
        end, self._likely = self._at + length, likely_after(length, _LIKELY)
        try:
            self._frame = memoryview(_core.unpack_frame(_ZSTD, self._data[self._at : end]))
        except CorruptError as error:
            raise CorruptError(error.message, offset=self._at) from None
        self._at, self._left = end, self._left - size

    def _measured(self) -> tuple[int, int]:
        """Return the length of the next frame, compressed and decompressed."""
        try:
            found = measure(_ZSTD, self._data, self._at, len(self._data), likely=self._likely)
        except TooLargeError as error:
            raise TooLargeError(error.message, offset=self._at) from None
        except CorruptError:
            raise CorruptError("a frame is cut short or broken", offset=self._at) from None
        if found is None:
            raise CorruptError("no zstd frame begins here", offset=self._at)
        return found
