# SPDX-License-Identifier: Apache-2.0
"""Grains over a pipe or a socket: u32 length ++ grain, ended by u32 0. Spec: OMS §11.6.

Not for files: a stream has no index and no footer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import BinaryIO

from omsgrain import _core
from omsgrain.container.check import Item, check_grain, grain_bytes
from omsgrain.container.layout import MAX_GRAIN, MIN_GRAIN
from omsgrain.errors import CorruptError, OmsError, StoreError, TooLargeError, TooShortError

_LENGTH = 4
END = bytes(_LENGTH)


def write_stream(file: BinaryIO, items: Iterable[Item]) -> int:
    """Write each grain as it comes, then the end mark. Returns how many there were.

    The file is neither flushed nor closed.

    Raises:
        OmsError: an item is not a grain. What came before it was written, the end mark is not.
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
    """Write all of it: an unbuffered file may take less at once."""
    view = memoryview(data)
    while view:
        written = file.write(view)
        if not written:
            raise StoreError("the stream takes no more", found="a file that does not wait")
        view = view[written:]


def read_stream(file: BinaryIO, *, max_grain: int = MAX_GRAIN) -> Iterator[bytes]:
    """The grains of a stream, up to its end mark; what follows it is not read.

    That each is one grain, and no more, is seen; the rest is not verified.

    Args:
        file: open for reading bytes, and waiting for them.
        max_grain: the longest grain that is taken.

    Raises:
        CorruptError: the stream ends without its end mark, or a length is wrong; the offset counts
            from where reading began.
        TooLargeError, TooShortError: a length that no grain has.
    """
    offset = 0
    while (length := int.from_bytes(_take(file, _LENGTH, offset), "big")) != 0:
        if length > max_grain:
            expected, found = f"at most {max_grain} bytes", f"{length} bytes"
            raise TooLargeError(
                "larger than a grain may be", offset=offset, expected=expected, found=found
            )
        if length < MIN_GRAIN:
            raise TooShortError(
                "smaller than any grain", offset=offset, expected=f"at least {MIN_GRAIN} bytes"
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
    """That many bytes: a socket may give less at once."""
    pieces, missing = [], size
    while missing:
        piece = file.read(missing)
        if not piece:
            where = offset + size - missing
            raise CorruptError("the stream ends before its end mark", offset=where)
        pieces.append(piece)
        missing -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)
