# SPDX-License-Identifier: Apache-2.0
"""The decompressed bytes of the grains: from the file, or frame by frame.

A small frame that states its content size is decompressed whole. Any other frame is decompressed
piece by piece: memory does not grow with it, but reading backwards starts again at its beginning.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import accumulate
from mmap import mmap
from operator import sub
from struct import Struct
from threading import Lock
from typing import Any

from omsgrain import _core
from omsgrain.container.layout import (
    AT_MANIFEST,
    BATCH,
    CODECS,
    ENTRY_SIZE,
    FOOTER_SIZE,
    HEADER_SIZE,
    MAP_HEADS,
    MAX_BYTES,
    MAX_GRAIN,
    MIN_GRAIN,
    BrokenContainer,
    ContainerHeader,
    ContainerProblem,
    check_size,
    is_sealed,
    likely_after,
    located,
    measure,
    problem,
    unpack_manifest,
)
from omsgrain.errors import CorruptError, StoreError, TooLargeError

DIGEST = 32


@dataclass(frozen=True, slots=True)
class Block:
    data: bytes  # their bytes
    sizes: array[int]  # the size of each; type code "I"
    digests: bytes | None = None  # their addresses, 32 bytes each, if they are known

    @classmethod
    def of(cls, grains: list[bytes]) -> Block:
        return cls(b"".join(grains), array("I", map(len, grains)))

    def __len__(self) -> int:
        return len(self.sizes)

    def grains(self) -> list[bytes]:
        return _core.split_block(self.data, self.sizes.tobytes())

    def cut(self, count: int) -> tuple[Block, Block]:
        at, known = sum(self.sizes[:count]), self.digests
        return (
            Block(self.data[:at], self.sizes[:count], known and known[: count * DIGEST]),
            Block(self.data[at:], self.sizes[count:], known and known[count * DIGEST :]),
        )


def digest(digests: bytes, number: int) -> bytes:
    return digests[number * DIGEST : (number + 1) * DIGEST]


def even(blocks: Iterable[Block]) -> Iterator[Block]:
    """Yield the same grains in blocks of at least `BATCH` bytes, except the last."""
    held: list[Block] = []
    size = 0
    for block in blocks:
        rest = block
        while size + len(rest.data) >= BATCH:
            ends = list(accumulate(rest.sizes, initial=size))
            full, rest = rest.cut(bisect_left(ends, BATCH))
            yield _joined([*held, full])
            held, size = [], 0
        if rest:
            held.append(rest)
            size += len(rest.data)
    if held:
        yield _joined(held)


def _joined(blocks: list[Block]) -> Block:
    if len(blocks) == 1:
        return blocks[0]
    sizes = array("I")
    for block in blocks:
        sizes.extend(block.sizes)
    known = [block.digests for block in blocks if block.digests is not None]
    digests = b"".join(known) if len(known) == len(blocks) else None
    return Block(b"".join(block.data for block in blocks), sizes, digests)


#: Most frames take less: incompressible data grows by less than this.
_LIKELY = BATCH + (BATCH >> 4)
#: How many decompressed frames are cached: several threads may read, each in another frame.
_KEPT = 4
#: How many pieces of a long frame are cached: one read lies in these, wherever it begins.
_PIECES = (BATCH + MAX_GRAIN) // BATCH + 3
#: The head of a frame shows whether it is long.
_HEAD = 18
#: Offsets are u32, and the last grain begins at an offset.
_LONGEST = MAX_BYTES + MAX_GRAIN


class PlainRegion:
    """Grains that are stored uncompressed; no grain ends after the limit."""

    def __init__(self, file: mmap, limit: int) -> None:
        self._file = file
        self._limit = limit

    def find(self, position: int) -> int:
        return self._limit

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from start to end, as far as they exist."""
        return self._file[start : min(end, self._limit)]

    def stop(self, start: int) -> int:
        """Return where a read of several grains ends, if the first begins at `start`."""
        return min(start + BATCH, self._limit)

    def after(self, number: int) -> int:
        """Return where the frame ends: there are no frames."""
        return self._limit

    def forget(self) -> None:
        """Do nothing: nothing is cached."""


class _Long:
    """A frame that is decompressed piece by piece. The last pieces are cached."""

    def __init__(self, file: mmap, codec: int, start: int, end: int) -> None:
        self._given = codec, file, start, end
        self._reader = _core.FrameReader(*self._given)
        self._pieces: deque[tuple[int, bytes]] = deque(maxlen=_PIECES)
        self._at = 0  # of the decompressed frame

    def measure(self, most: int) -> tuple[int, int]:
        while self._next():
            if self._at > most:
                raise TooLargeError(
                    "the frames decompress to more than offsets can address",
                    expected=f"at most {_LONGEST} bytes",
                )
        return self._reader.taken, self._at

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from start to end, at most one read."""
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
    """Grains in frames, each of which decompresses alone.

    A frame's offset is known only when the frames before it were measured. That is done once, as
    far as needed: 16 bytes a frame stay in memory.
    """

    def __init__(
        self, file: mmap, codec: int, start: int, end: int, *, has_manifest: bool
    ) -> None:
        self._file = file
        self._codec = codec
        self._end = end
        self._has_manifest = has_manifest
        self._places = array("Q", [start])  # of each frame in the file, and of the end
        self._starts = array("Q", [0])  # of each frame in the decompressed grains, and the end
        self._complete = False
        self._likely = _LIKELY
        self._lock = Lock()
        self._long: dict[int, _Long | None] = {}  # by its number; only the last one is open
        # Per object, so that closing one container does not empty the cache of another.
        self._unpack = lru_cache(_KEPT)(self._unpack_frame)

    def find(self, position: int) -> int:
        """Return the decompressed size of the frames up to the position, or of all."""
        with self._lock:
            while self._starts[-1] <= position and not self._complete:
                self._measure_next()
            return self._starts[-1]

    def all(self) -> tuple[int, int]:
        """Return the decompressed size of all frames, and where they end in the file."""
        return self.find(_LONGEST), self._places[-1]

    def _measure_next(self) -> None:
        number, place = len(self._starts) - 1, self._places[-1]
        head = self._file[place : min(place + _HEAD, self._end)]
        with located("frame", number, place):
            if _core.is_long_frame(self._codec, head):
                long = _Long(self._file, self._codec, place, self._end)
                self._add(*long.measure(_LONGEST - self._starts[-1]))
                self._keep_open(number, long)
                return
            found = measure(self._codec, self._file, place, self._end, likely=self._likely)
            if found is None:
                self._check_rest(place)
                self._complete = True
                return
            length, size = found
            if self._starts[-1] + size > _LONGEST:
                raise TooLargeError("the frames decompress to more than offsets can address")
            self._add(length, size)
            self._likely = likely_after(length, _LIKELY)

    def _keep_open(self, number: int, frame: _Long) -> _Long:
        """Cache this long frame, and no other."""
        self._long.update(dict.fromkeys(self._long))
        self._long[number] = frame
        return frame

    def _add(self, length: int, size: int) -> None:
        if not size:
            raise CorruptError("an empty frame")
        self._places.append(self._places[-1] + length)
        self._starts.append(self._starts[-1] + size)

    def _check_rest(self, place: int) -> None:
        """Check that the rest begins with the manifest or the footer, where no frame begins."""
        if not self._has_manifest and place != self._end:
            raise CorruptError("no frame begins here")
        if self._has_manifest and self._file[place] not in MAP_HEADS:
            raise CorruptError("neither a frame nor the manifest begins here")

    def read(self, start: int, end: int) -> bytes:
        """Return the bytes from start to end, as far as they exist."""
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
        with self._lock, located("frame", number, place):
            found = self._long[number] or self._keep_open(
                number, _Long(self._file, self._codec, place, self._end)
            )
            return found.read(start, end)

    def _unpack_frame(self, number: int) -> bytes:
        place, end = self._places[number], self._places[number + 1]
        with located("frame", number, place):
            return _core.unpack_frame(self._codec, self._file[place:end])

    def stop(self, start: int) -> int:
        """Return the end of the frame that contains `start`, or of all frames if none does.

        A long frame is read in parts, as large as those of uncompressed grains.
        """
        size = self.find(start)
        if start >= size:
            return size
        number = bisect_right(self._starts, start)
        stop = self._starts[number]
        return min(stop, start + BATCH) if number - 1 in self._long else stop

    def after(self, number: int) -> int:
        """Return where the frame ends; after everything, if that is not known."""
        return self._starts[number + 1] if number + 1 < len(self._starts) else _LONGEST

    def forget(self) -> None:
        self._unpack.cache_clear()
        self._long.update(dict.fromkeys(self._long))


_BLOCK = 1024  # the most grains of one read: more would not stay in the processor's caches
_TWO = Struct(">II")


class Inside:
    def __init__(self, file: mmap, header: ContainerHeader) -> None:
        self._file = file
        self.header = header  # its first 16 bytes
        self.limit = len(file) - FOOTER_SIZE  # offset of the footer
        self._region: PlainRegion | Frames = PlainRegion(file, self.limit)
        if header.packed:
            codec = CODECS.index(header.codec)
            self._region = Frames(
                file, codec, header.grains_at, self.limit, has_manifest=header.has_manifest
            )

    @property
    def data(self) -> mmap:
        if self._file.closed:
            raise StoreError("the container is closed")
        return self._file

    def close(self) -> None:
        self._region.forget()
        self._file.close()

    def get(self, number: int) -> bytes:
        header = self.header
        if not header.packed and number + 1 < header.count:
            start, end = _TWO.unpack_from(self.data, HEADER_SIZE + ENTRY_SIZE * number)
            # The first grain must begin at the end of the index; `_read` refuses others.
            if number and header.grains_at <= start <= end - MIN_GRAIN:
                if end - start <= MAX_GRAIN and end <= self.limit:
                    return self._file[start:end]
        return self._read(number, self.span(number)).data

    def span(self, number: int) -> list[int]:
        """Return where a grain begins and ends, by the index."""
        offsets = self._entries(number, number + 2)
        return offsets if len(offsets) == 2 else [*offsets, self.end]

    def blocks(self, first: int = 0) -> Iterator[tuple[int, list[int], Block]]:
        """Yield grains in order, about 1 MiB or one frame at a time: first number, offsets, bytes.

        There is one more offset than grains: the end of the last one.
        """
        while first < self.header.count:
            offsets = self._entries(first, first + _BLOCK + 1)
            if first + len(offsets) == self.header.count:
                try:
                    offsets.append(self.end)
                except BrokenContainer:
                    if len(offsets) == 1:
                        raise  # the bytes before the last grain were yielded already
            cut = bisect_left(offsets, self._region.stop(offsets[0]), 1, len(offsets) - 1)
            offsets = offsets[: cut + 1]
            block = self._read(first, offsets)
            yield first, offsets, block
            first += len(block)

    def extent(self, start: int) -> int | None:
        """Return the length of the grain at this offset; None if it is sealed."""
        return _core.extent(self.slice(start, start + MAX_GRAIN))

    def slice(self, start: int, end: int) -> bytes:
        """Return the bytes between two offsets, as far as they exist, and at most one grain's."""
        return self._region.read(start, min(end, start + MAX_GRAIN))

    @cached_property
    def end(self) -> int:
        """Return the offset at which the last grain ends."""
        if isinstance(self._region, Frames):
            return self._region.all()[0]
        if not self.header.has_manifest:
            return self.limit
        number = self.header.count - 1
        (start,) = self._entries(number, self.header.count)
        if not self.header.grains_at <= start < self.limit:
            raise _misplaced(number)
        with located("grain", number, start):
            length = self.extent(start)
        if length is not None:
            return start + length
        if self.header.manifest_at - start < MIN_GRAIN:
            raise _no_manifest_there()
        return self.header.manifest_at

    @cached_property
    def rest_at(self) -> int:
        """Return where the grains end in the file, and the manifest or the footer begins."""
        place = len(self.data) - FOOTER_SIZE
        if isinstance(self._region, Frames):
            _, place = self._region.all()
        elif self.header.count:
            place = self.end
        if not self.header.count and place != self.header.grains_at:
            error = CorruptError(
                "the file has grain bytes, but no grains", offset=self.header.grains_at
            )
            raise BrokenContainer(problem("header", None, error))
        if self.header.has_manifest:
            (start,) = self._entries(self.header.count - 1, self.header.count)
            sealed = is_sealed(self.slice(start, start + MIN_GRAIN))
            if self.header.manifest_at != (place if sealed else 0):
                raise _no_manifest_there()
        return place

    @cached_property
    def states(self) -> dict[str, dict[str, Any]]:
        """Return the states of the manifest, if there is one."""
        if not self.header.has_manifest:
            return {}
        at = self.rest_at
        with located("manifest", None, at):
            check_size(self.limit - at, self.header.count)
            return unpack_manifest(self.data[at : self.limit], self.header.count)

    def after(self, found: ContainerProblem) -> int:
        """Return the number of the first grain after a problem."""
        if found.number is None:
            return self.header.count
        if found.part != "frame":
            return found.number + 1
        position = self._region.after(found.number)
        return bisect_left(
            range(self.header.count), position, key=lambda n: self._entries(n, n + 1)[0]
        )

    def _entries(self, first: int, stop: int) -> list[int]:
        """Return index entries, up to the last."""
        count = self.header.count
        at, end = (HEADER_SIZE + ENTRY_SIZE * min(n, count) for n in (first, stop))
        entries = array("I", self.data[at:end])
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tolist()

    def _read(self, first: int, offsets: list[int]) -> Block:
        """Return the grains between these offsets; refuse impossible ones."""
        base, start = offsets[0], self.header.first_offset
        if base < start or (first == 0 and base != start):
            raise _misplaced(first)
        lengths = list(map(sub, offsets[1:], offsets))
        end = self._region.find(offsets[-1] - 1)
        if min(lengths) < MIN_GRAIN or max(lengths) > MAX_GRAIN or offsets[-1] > end:
            # If entries go back and forth, the search for the end of a block fails.
            good, stop = 0, self._region.stop(base)
            while (
                offsets[good] < stop
                and MIN_GRAIN <= lengths[good] <= MAX_GRAIN
                and offsets[good + 1] <= end
            ):
                good += 1
            if not good:
                raise _misplaced(first)
            del offsets[good + 1 :], lengths[good:]
        return Block(self._region.read(base, offsets[-1]), array("I", lengths))


def _misplaced(number: int) -> BrokenContainer:
    error = CorruptError("a grain cannot have these offsets")
    return BrokenContainer(
        problem("index", number, error, start=HEADER_SIZE + ENTRY_SIZE * number)
    )


def _no_manifest_there() -> BrokenContainer:
    error = CorruptError("the manifest is elsewhere", offset=AT_MANIFEST)
    return BrokenContainer(problem("header", None, error))
