# SPDX-License-Identifier: Apache-2.0
"""The bytes of the grains, as if they stood unpacked: from the file, or frame by frame."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from functools import lru_cache
from mmap import mmap
from threading import Lock

from omsgrain import _core
from omsgrain.container.frame import likely_after, measure
from omsgrain.container.layout import BATCH, MAX_BYTES, MAX_GRAIN
from omsgrain.container.manifest import MAP_HEADS
from omsgrain.container.problem import Broken, problem
from omsgrain.errors import CorruptError, OmsError, TooLargeError

#: Most frames take less: what cannot be packed grows by less than this.
_LIKELY = BATCH + (BATCH >> 4)
#: How many unpacked frames are kept: several threads may read, each in a frame of its own.
_KEPT = 4
#: Offsets are u32, and the last grain begins at one.
_LONGEST = MAX_BYTES + MAX_GRAIN


class Plain:
    """Grains that stand in the file as they are; no grain ends behind the limit."""

    def __init__(self, file: mmap, limit: int) -> None:
        self._file = file
        self._limit = limit

    def find(self, position: int) -> int:
        """Up to where grains can be; as much as is known of it."""
        return self._limit

    def read(self, start: int, end: int) -> bytes:
        """The bytes from start to end, as far as there are any."""
        return self._file[start : min(end, self._limit)]

    def stop(self, start: int) -> int:
        """Up to where grains are read at once, if the first begins at `start`."""
        return min(start + BATCH, self._limit)

    def after(self, number: int) -> int:
        """There are no frames."""
        return self._limit

    def forget(self) -> None:
        """Nothing is kept."""


class Frames:
    """Grains in packed frames, each of which stands alone.

    Where a frame begins is known only when those before it were measured, so that is done as far
    as is needed, once: 16 bytes a frame stay in memory.
    """

    def __init__(
        self, file: mmap, codec: int, start: int, end: int, *, has_manifest: bool
    ) -> None:
        self._file = file
        self._codec = codec
        self._end = end
        self._has_manifest = has_manifest
        self._places = array("Q", [start])  # of each frame in the file, and of what follows
        self._starts = array("Q", [0])  # of each frame in the unpacked grains, and their end
        self._complete = False
        self._likely = _LIKELY
        self._lock = Lock()
        # On this object, so that closing one container does not empty the cache of another.
        self._unpack = lru_cache(_KEPT)(self._unpack_frame)

    def find(self, position: int) -> int:
        """The unpacked size of the frames found, which cover the position if there are so many.

        Raises:
            Broken: a frame is broken, or too large.
        """
        with self._lock:
            while self._starts[-1] <= position and not self._complete:
                self._measure_next()
            return self._starts[-1]

    def all(self) -> tuple[int, int]:
        """The unpacked size of all frames, and where in the file they end."""
        return self.find(_LONGEST), self._places[-1]

    def _measure_next(self) -> None:
        number, place = len(self._starts) - 1, self._places[-1]
        try:
            found = measure(self._codec, self._file, place, self._end, likely=self._likely)
            if found is None:
                self._check_rest(place)
                self._complete = True
                return
            length, size = found
            if not size:
                raise CorruptError("an empty frame")
            if self._starts[-1] + size > _LONGEST:
                raise TooLargeError("the frames unpack to more than offsets can reach")
        except OmsError as error:
            raise Broken(problem("frame", number, error, start=place)) from None
        self._likely = likely_after(length, _LIKELY)
        self._places.append(place + length)
        self._starts.append(self._starts[-1] + size)

    def _check_rest(self, place: int) -> None:
        """What is no frame can be the manifest, if there is one, or the end."""
        if not self._has_manifest and place != self._end:
            raise CorruptError("no frame begins here")
        if self._has_manifest and self._file[place] not in MAP_HEADS:
            raise CorruptError("neither a frame nor the manifest begins here")

    def read(self, start: int, end: int) -> bytes:
        """The bytes from start to end, as far as there are any.

        Raises:
            Broken: a frame is broken.
        """
        end = min(end, self.find(end - 1))
        number = bisect_right(self._starts, start) - 1
        pieces = []
        while start < end:
            base, stop = self._starts[number], min(end, self._starts[number + 1])
            pieces.append(self._unpack(number)[start - base : stop - base])
            start = stop
            number += 1
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _unpack_frame(self, number: int) -> bytes:
        place, end = self._places[number], self._places[number + 1]
        try:
            return _core.unpack_frame(self._codec, self._file[place:end])
        except OmsError as error:
            raise Broken(problem("frame", number, error, start=place)) from None

    def stop(self, start: int) -> int:
        """The end of the frame in which `start` lies, or of all frames if it is behind them."""
        size = self.find(start)
        return size if start >= size else self._starts[bisect_right(self._starts, start)]

    def after(self, number: int) -> int:
        """Where the frame ends; behind everything, if that is not known."""
        return self._starts[number + 1] if number + 1 < len(self._starts) else _LONGEST

    def forget(self) -> None:
        """Let go of the unpacked frames."""
        self._unpack.cache_clear()
