# SPDX-License-Identifier: Apache-2.0
"""Where in a container everything is. What cannot be right raises `Broken`, naming the part."""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from functools import cached_property
from mmap import mmap
from operator import sub
from struct import Struct
from typing import Any

from omsgrain import _core
from omsgrain.container.block import Block
from omsgrain.container.layout import (
    AT_MANIFEST,
    CODECS,
    ENTRY_SIZE,
    FOOTER_SIZE,
    HEADER_SIZE,
    MAX_GRAIN,
    MIN_GRAIN,
    ContainerHeader,
    is_sealed,
)
from omsgrain.container.manifest import check_size, unpack_manifest
from omsgrain.container.problem import Broken, Problem, problem
from omsgrain.container.region import Frames, Plain
from omsgrain.errors import CorruptError, OmsError, StoreError

_BLOCK = 1024  # grains read at once at the most: more would not stay in the processor's caches
_TWO = Struct(">II")


class Inside:
    """The parts of a memory-mapped container.

    Attributes:
        header: its first 16 bytes.
        limit: where the footer begins.
    """

    def __init__(self, file: mmap, header: ContainerHeader) -> None:
        self._file = file
        self.header = header
        self.limit = len(file) - FOOTER_SIZE
        self._region: Plain | Frames = Plain(file, self.limit)
        if header.packed:
            codec = CODECS.index(header.codec)
            self._region = Frames(
                file, codec, header.grains_at, self.limit, has_manifest=header.has_manifest
            )

    @property
    def data(self) -> mmap:
        """The bytes of the file.

        Raises:
            StoreError: the container is closed.
        """
        if self._file.closed:
            raise StoreError("the container is closed")
        return self._file

    def close(self) -> None:
        """Let go of the file."""
        self._region.forget()
        self._file.close()

    def get(self, number: int) -> bytes:
        """One grain."""
        header = self.header
        if not header.packed and number + 1 < header.count:
            start, end = _TWO.unpack_from(self.data, HEADER_SIZE + ENTRY_SIZE * number)
            # The first one has to begin where the index ends, and `_read` says so if it does not.
            if number and header.grains_at <= start <= end - MIN_GRAIN:
                if end - start <= MAX_GRAIN and end <= self.limit:
                    return self._file[start:end]
        return self._read(number, self.span(number)).data

    def span(self, number: int) -> list[int]:
        """Where a grain begins and ends, by the index."""
        offsets = self._entries(number, number + 2)
        return offsets if len(offsets) == 2 else [*offsets, self.end]

    def blocks(self, first: int = 0) -> Iterator[tuple[int, list[int], Block]]:
        """Grains in turn, about 1 MiB or one frame at a time: number of the first, offsets, bytes.

        There is one offset more than grains: where the last one ends.
        """
        while first < self.header.count:
            offsets = self._entries(first, first + _BLOCK + 1)
            if first + len(offsets) == self.header.count:
                try:
                    offsets.append(self.end)
                except Broken:
                    if len(offsets) == 1:
                        raise  # what comes before the last grain was given already
            cut = bisect_left(offsets, self._region.stop(offsets[0]), 1, len(offsets) - 1)
            offsets = offsets[: cut + 1]
            block = self._read(first, offsets)
            yield first, offsets, block
            first += len(block)

    def extent(self, start: int) -> int | None:
        """How long the grain is that begins at this offset; None if it is sealed.

        Raises:
            OmsError: none begins there.
        """
        return _core.extent(self.slice(start, start + MAX_GRAIN))

    def slice(self, start: int, end: int) -> bytes:
        """The bytes between two offsets, as far as there are any, and at most one grain's."""
        return self._region.read(start, min(end, start + MAX_GRAIN))

    @cached_property
    def end(self) -> int:
        """The offset at which the last grain ends."""
        if isinstance(self._region, Frames):
            return self._region.all()[0]
        if not self.header.has_manifest:
            return self.limit
        number = self.header.count - 1
        (start,) = self._entries(number, self.header.count)
        if not self.header.grains_at <= start < self.limit:
            raise _misplaced(number)
        try:
            length = self.extent(start)
        except OmsError as error:
            raise Broken(problem("grain", number, error, start=start)) from None
        if length is not None:
            return start + length
        if self.header.manifest_at - start < MIN_GRAIN:
            raise _no_manifest_there()
        return self.header.manifest_at

    @cached_property
    def rest_at(self) -> int:
        """Where in the file the grains stop, and the manifest or else the footer begins."""
        place = len(self.data) - FOOTER_SIZE
        if isinstance(self._region, Frames):
            _, place = self._region.all()
        elif self.header.count:
            place = self.end
        if not self.header.count and place != self.header.grains_at:
            error = CorruptError("there are bytes, but no grains", offset=self.header.grains_at)
            raise Broken(problem("header", None, error))
        if self.header.has_manifest:
            (start,) = self._entries(self.header.count - 1, self.header.count)
            sealed = is_sealed(self.slice(start, start + MIN_GRAIN))
            if self.header.manifest_at != (place if sealed else 0):
                raise _no_manifest_there()
        return place

    @cached_property
    def states(self) -> dict[str, dict[str, Any]]:
        """What the manifest says, if there is one."""
        if not self.header.has_manifest:
            return {}
        at = self.rest_at
        try:
            check_size(self.limit - at, self.header.count)
            return unpack_manifest(self.data[at : self.limit], self.header.count)
        except OmsError as error:
            raise Broken(problem("manifest", None, error, start=at)) from None

    def after(self, found: Problem) -> int:
        """The first grain behind a problem."""
        if found.number is None:
            return self.header.count
        if found.part != "frame":
            return found.number + 1
        position = self._region.after(found.number)
        low, high = 0, self.header.count
        while low < high:
            middle = (low + high) // 2
            if self._entries(middle, middle + 1)[0] < position:
                low = middle + 1
            else:
                high = middle
        return low

    def _entries(self, first: int, stop: int) -> list[int]:
        """Index entries, up to the last there is."""
        count = self.header.count
        at, end = (HEADER_SIZE + ENTRY_SIZE * min(n, count) for n in (first, stop))
        entries = array("I", self.data[at:end])
        if sys.byteorder == "little":
            entries.byteswap()
        return entries.tolist()

    def _read(self, first: int, offsets: list[int]) -> Block:
        """The grains between these offsets, which are cut where they cannot be right."""
        base, start = offsets[0], self.header.first_offset
        if base < start or (first == 0 and base != start):
            raise _misplaced(first)
        lengths = list(map(sub, offsets[1:], offsets))
        end = self._region.find(offsets[-1] - 1)
        if min(lengths) < MIN_GRAIN or max(lengths) > MAX_GRAIN or offsets[-1] > end:
            # Where entries go back and forth, the search for the end of a block goes astray.
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


def _misplaced(number: int) -> Broken:
    error = CorruptError("no grain can begin here and end where the next begins")
    return Broken(problem("index", number, error, start=HEADER_SIZE + ENTRY_SIZE * number))


def _no_manifest_there() -> Broken:
    error = CorruptError("the manifest is elsewhere", offset=AT_MANIFEST)
    return Broken(problem("header", None, error))
