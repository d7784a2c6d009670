# SPDX-License-Identifier: Apache-2.0
"""A stream of grains in zstd frames, as it goes over a network. Spec: OMS §11.6.

Unpacked it is ``u32 length ++ grain``, ended by u32 0. Each frame states what it unpacks to, so
that nothing is unpacked which is too large. A grain that we write stands whole in one frame: of a
stream that was cut, all frames that came are of use. Other bytes may stand before the grains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO, cast

from omsgrain import _core
from omsgrain.container.frame import likely_after, measure
from omsgrain.container.layout import MAX_GRAIN
from omsgrain.container.stream import END, read_stream
from omsgrain.errors import CorruptError, TooLargeError

__all__ = ["Unpacked", "pack_stream"]

_ZSTD = 1
_LENGTH = 4
#: Bytes of grains in a frame: enough to pack well, and little to lose when a line breaks.
_FRAME = 128 << 10
_BEFORE = 1 << 20
#: Most frames take less.
_LIKELY = _FRAME + (_FRAME >> 4)


def pack_stream(grains: Iterable[bytes], before: bytes = b"") -> Iterator[bytes]:
    """The frames of a stream of grains, one after the other.

    Args:
        grains: blobs and envelopes that are known to be good.
        before: what stands before the first of them.
    """
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
    """What frames unpack to, read as a file; one of them is held.

    Args:
        data: the frames.
        limit: bytes that they may unpack to, all together.
    """

    def __init__(self, data: bytes, limit: int) -> None:
        self._data = data
        self._at = 0
        self._left = limit
        self._limit = limit
        self._likely = _LIKELY
        self._frame = memoryview(b"")

    def grains(self) -> Iterator[bytes]:
        """The grains from here on, as far as they came whole.

        That each is one grain, and no more, is seen; the rest is not verified.

        Raises:
            CorruptError: the stream was cut, does not end with its mark, or is none; after the
                grains that came before.
            TooLargeError: it unpacks to more than the limit, or a length that no grain has.
            TooShortError: a length that no grain has.
        """
        yield from read_stream(cast("BinaryIO", self), max_grain=MAX_GRAIN)
        if self._frame or self._at < len(self._data):
            raise CorruptError("bytes follow the end mark of the stream", offset=self._at)

    def exactly(self, size: int) -> bytes:
        """So many bytes.

        Raises:
            CorruptError: there are not so many.
            TooLargeError: the frames unpack to more than the limit.
        """
        found = bytearray()
        while len(found) < size:
            piece = self.read(size - len(found))
            if not piece:
                raise CorruptError("the stream ends too early", offset=self._at)
            found += piece
        return bytes(found)

    def read(self, size: int) -> bytes:
        """At most so many bytes; none at the end. Errors are those of ``exactly``."""
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
            says = "the stream unpacks to more than is taken"
            raise TooLargeError(says, offset=self._at, expected=expected)
        end, self._likely = self._at + length, likely_after(length, _LIKELY)
        try:
            self._frame = memoryview(_core.unpack_frame(_ZSTD, self._data[self._at : end]))
        except CorruptError as error:
            raise CorruptError(error.message, offset=self._at) from None
        self._at, self._left = end, self._left - size

    def _measured(self) -> tuple[int, int]:
        """The length of the next frame, and of what it unpacks to."""
        try:
            found = measure(_ZSTD, self._data, self._at, len(self._data), likely=self._likely)
        except TooLargeError as error:
            raise TooLargeError(error.message, offset=self._at) from None
        except CorruptError:
            raise CorruptError("a frame that is cut or broken", offset=self._at) from None
        if found is None:
            raise CorruptError("no zstd frame begins here", offset=self._at)
        return found
