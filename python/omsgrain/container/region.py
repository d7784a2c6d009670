# SPDX-License-Identifier: Apache-2.0
"""The bytes of the grains, as if they stood unpacked: from the file, or frame by frame.

A small frame that states its content size is unpacked whole. Any other is unpacked piece by piece:
memory does not grow with it, but reading backwards begins again at its start.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import deque
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
#: Pieces of a long frame that are kept: what is read at once lies in these, wherever it begins.
_PIECES = (BATCH + MAX_GRAIN) // BATCH + 3
#: The head of a frame says whether it is long.
_HEAD = 18
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


class _Long:
    """A frame that is unpacked piece by piece. The last pieces are kept.

    Raises:
        OmsError: no frame begins there, or its window is too large.
    """

    def __init__(self, file: mmap, codec: int, start: int, end: int) -> None:
        self._given = codec, file, start, end
        self._reader = _core.FrameReader(*self._given)
        self._pieces: deque[tuple[int, bytes]] = deque(maxlen=_PIECES)
        self._at = 0  # of what was unpacked

    def measure(self, most: int) -> tuple[int, int]:
        """Its length, and that of what it unpacks to.

        Raises:
            CorruptError: it is broken.
            TooLargeError: it unpacks to more than `most`.
        """
        while self._next():
            if self._at > most:
                raise TooLargeError(
                    "the frames unpack to more than offsets can reach",
                    expected=f"at most {_LONGEST} bytes",
                )
        return self._reader.taken, self._at

    def read(self, start: int, end: int) -> bytes:
        """The bytes from start to end, of which there are no more than are read at once."""
        if start < (self._pieces[0][0] if self._pieces else self._at):
            self._reader, self._at = _core.FrameReader(*self._given), 0
            self._pieces.clear()
        while self._at < end and self._next():
            pass
        found = (p[max(start - at, 0) : end - at] for at, p in self._pieces if at < end)
        return b"".join(found)

    def _next(self) -> bool:
        piece = self._reader.read(BATCH)
        if piece:
            self._pieces.append((self._at, piece))
            self._at += len(piece)
        return bool(piece)


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
        self._long: dict[int, _Long | None] = {}  # by its number; only the last one is open
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
        head = self._file[place : min(place + _HEAD, self._end)]
        try:
            if _core.is_long_frame(self._codec, head):
                self._measure_long(number, place)
                return
            found = measure(self._codec, self._file, place, self._end, likely=self._likely)
            if found is None:
                self._check_rest(place)
                self._complete = True
                return
            length, size = found
            if self._starts[-1] + size > _LONGEST:
                raise TooLargeError("the frames unpack to more than offsets can reach")
            self._add(length, size)
        except OmsError as error:
            raise Broken(problem("frame", number, error, start=place)) from None
        self._likely = likely_after(length, _LIKELY)

    def _measure_long(self, number: int, place: int) -> None:
        found = _Long(self._file, self._codec, place, self._end)
        self._add(*found.measure(_LONGEST - self._starts[-1]))
        self._keep_open(number, found)

    def _keep_open(self, number: int, frame: _Long) -> _Long:
        """Keep this long frame open, and no other."""
        self._long.update(dict.fromkeys(self._long))
        self._long[number] = frame
        return frame

    def _add(self, length: int, size: int) -> None:
        if not size:
            raise CorruptError("an empty frame")
        self._places.append(self._places[-1] + length)
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
            pieces.append(self._piece(number, start - base, stop - base))
            start = stop
            number += 1
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, number: int, start: int, end: int) -> bytes:
        if number not in self._long:
            return self._unpack(number)[start:end]
        place = self._places[number]
        with self._lock:
            try:
                found = self._long[number] or self._keep_open(
                    number, _Long(self._file, self._codec, place, self._end)
                )
                return found.read(start, end)
            except OmsError as error:
                raise Broken(problem("frame", number, error, start=place)) from None

    def _unpack_frame(self, number: int) -> bytes:
        place, end = self._places[number], self._places[number + 1]
        try:
            return _core.unpack_frame(self._codec, self._file[place:end])
        except OmsError as error:
            raise Broken(problem("frame", number, error, start=place)) from None

    def stop(self, start: int) -> int:
        """The end of the frame in which `start` lies, or of all frames if it is behind them.

        Of a long frame only as much is read at once as of grains that are not packed.
        """
        size = self.find(start)
        if start >= size:
            return size
        number = bisect_right(self._starts, start)
        stop = self._starts[number]
        return min(stop, start + BATCH) if number - 1 in self._long else stop

    def after(self, number: int) -> int:
        """Where the frame ends; behind everything, if that is not known."""
        return self._starts[number + 1] if number + 1 < len(self._starts) else _LONGEST

    def forget(self) -> None:
        """Let go of the unpacked frames."""
        self._unpack.cache_clear()
        self._long.update(dict.fromkeys(self._long))
