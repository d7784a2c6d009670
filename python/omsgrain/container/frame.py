# SPDX-License-Identifier: Apache-2.0
"""Where a packed frame ends. Its head does not say, so it is looked for, in as few bytes as do."""

from __future__ import annotations

from mmap import mmap

from omsgrain import _core
from omsgrain.errors import CorruptError, TooLargeError

__all__ = ["likely_after", "measure"]

#: None that may be unpacked, to 8 MiB, takes more.
_LONGEST = 9 << 20
_LEAST = 4 << 10


def likely_after(length: int, most: int) -> int:
    """How many bytes to look at for a frame that follows one of some length.

    Frames are mostly alike; and of many tiny ones each would else cost as much as a large one.
    """
    return min(max(2 * length, _LEAST), most)


def measure(
    codec: int, data: bytes | mmap, start: int, end: int, *, likely: int
) -> tuple[int, int] | None:
    """Measure the frame that begins at a place.

    Args:
        codec: its number.
        data: where it stands.
        start: the place.
        end: where the data end.
        likely: bytes that most frames take, no fewer than a head has. Each look copies its bytes.

    Returns:
        Its length, and that of what it unpacks to; None if no frame begins there.

    Raises:
        CorruptError: it is cut or broken.
        TooLargeError: it does not end.
    """
    window = likely
    while True:
        window = min(window, _LONGEST)
        piece = data[start : min(start + window, end)]
        try:
            return _core.measure_frame(codec, piece)
        except CorruptError:
            if len(piece) < window:
                raise
        if window == _LONGEST:
            raise TooLargeError("a frame that does not end")
        window *= 8
