# SPDX-License-Identifier: Apache-2.0
"""Put container files together: their grains first, though the index stands before them."""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO

from omsgrain import _core
from omsgrain.container.block import Block, digest
from omsgrain.container.check import addressed
from omsgrain.container.files import os_errors, part, spool
from omsgrain.container.hashing import PIECE, Hashing
from omsgrain.container.layout import (
    BATCH,
    CODECS,
    ENTRY_SIZE,
    FOOTER_SIZE,
    HEADER_SIZE,
    MANIFEST,
    PACKED,
    ContainerHeader,
    is_sealed,
)
from omsgrain.container.manifest import HEAD_SIZE, entry_size, pack_manifest
from omsgrain.durable import successor, sync_directory
from omsgrain.errors import NotFoundError, StoreError, TooLargeError

_BLOCK = 65536  # index entries written at once
_SYNC = 8 << 20  # bytes after which the disk begins to write: while the rest is hashed
_NONE = Block(b"", array("I"))


class Files:
    """The files of one export. They get their names when all are complete and on the disk."""

    def __init__(
        self,
        target: Path,
        codec: int,
        flags: int,
        states: Mapping[str, bytes],
        max_bytes: int,
        *,
        seekable: bool,
    ) -> None:
        self._target = target
        self._codec = codec
        self._flags = flags
        self._states = states
        self._max_bytes = max_bytes
        self._room = _room(max_bytes, codec)
        self._names = {bytes.fromhex(address): address for address in states}
        self._missing = set(states)
        self._complete: list[Path] = []
        self.grains = 0
        self._open = ExitStack()
        self._spool = self._open.enter_context(spool(target.parent))
        self._frame: IO[bytes] | None = None
        if codec and not seekable:
            self._frame = self._open.enter_context(spool(target.parent))
        self._part = _Part(self._spool, self._frame, codec)

    def __enter__(self) -> Files:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()
        for path in self._complete:
            with suppress(OSError):  # what happened first is to be told
                path.unlink(missing_ok=True)

    def add(self, block: Block) -> None:
        """Take some more grains.

        Raises:
            TooLargeError: one does not fit into a file.
            StoreError: the disk is full.
        """
        told = self._told_of(block)
        self._missing.difference_update(told.values())
        self.grains += len(block)
        while block:
            fit, cost = self._fitting(block, told)
            if not fit and self._part.empty:
                limit, size = f"at most {self._max_bytes} bytes", f"{block.sizes[0]} bytes"
                raise TooLargeError("a grain does not fit into a file", expected=limit, found=size)
            here, rest = (block, _NONE) if fit == len(block) else block.cut(fit)
            with os_errors("write", self._target):
                self._part.add(here, {a for i, a in told.items() if i < fit}, cost)
                if rest:
                    self._complete_part()
            told = {i - fit: address for i, address in told.items() if i >= fit}
            block = rest

    def _told_of(self, block: Block) -> dict[int, str]:
        """By position, the addresses of those grains that the manifest speaks of."""
        if not self._states:
            return {}
        found = addressed(block)
        names = (self._names.get(digest(found, i)) for i in range(len(block)))
        return {i: name for i, name in enumerate(names) if name is not None}

    def _fitting(self, block: Block, told: Mapping[int, str]) -> tuple[int, int]:
        """How many of the grains the part has room for, and what they cost."""
        states = {i: entry_size(self._states[address]) for i, address in told.items()}
        cost = len(block.data) + ENTRY_SIZE * len(block) + sum(states.values())
        room = self._room - self._part.cost
        if cost <= room:
            return len(block), cost
        costs = [size + ENTRY_SIZE + states.get(i, 0) for i, size in enumerate(block.sizes)]
        ends = list(accumulate(costs, initial=0))
        fit = max(bisect_right(ends, room) - 1, 0)
        return fit, ends[fit]

    def _complete_part(self) -> None:
        partial = self._target.with_name(f"{self._target.name}.{os.urandom(4).hex()}.partial")
        self._complete.append(partial)
        first = part(self._target, 1)
        old = self._target if self._target.exists() or not first.exists() else first
        self._part.assemble(partial, old, self._flags, self._states)
        self._part = _Part(self._spool, self._frame, self._codec)

    def refuse_missing(self) -> None:
        """See that all grains were given that the manifest speaks of.

        Raises:
            NotFoundError: one was not.
        """
        if self._missing:
            count = str(len(self._missing))
            raise NotFoundError("the manifest speaks of grains that are not here", found=count)

    def finish(self) -> tuple[list[Path], int]:
        """Give the files their names. Returns them, and their size.

        Raises:
            StoreError: the disk is full, or an older export is in the way.
        """
        with os_errors("write", self._target):
            self._complete_part()
            size = sum(path.stat().st_size for path in self._complete)
            paths = [self._target]
            if len(self._complete) > 1:
                paths = [part(self._target, n + 1) for n in range(len(self._complete))]
            beyond = len(paths) + 1 if len(paths) > 1 else 1
            self._refuse_leftover(part(self._target, beyond))
            for partial, path in zip(list(self._complete), paths, strict=True):
                os.replace(partial, path)
            if len(paths) > 1:
                self._target.unlink(missing_ok=True)
            sync_directory(self._target.parent)
        self._complete.clear()
        return paths, size

    def _refuse_leftover(self, path: Path) -> None:
        """A further part of an older export would seem to belong to this one."""
        if path.exists():
            raise StoreError(f"{str(path)!r}, of an older export, is in the way")


def _room(max_bytes: int, codec: int) -> int:
    """What grains, index and manifest may take. What cannot be packed grows by less than 1%."""
    room = max_bytes - HEADER_SIZE - FOOTER_SIZE - HEAD_SIZE
    return (room - 256) * 100 // 101 if codec else room


class _Part:
    """One file in the making.

    Args:
        spool: for its grains, as they come or in many frames.
        frame: for the one frame of all its grains. Its head states how much there is in it, so it
            is made when all grains are there. None: they are not packed, or in many frames.
        codec: the number of the codec.

    Attributes:
        cost: what grains, index and manifest take so far, unpacked.
    """

    def __init__(self, spool: IO[bytes], frame: IO[bytes] | None, codec: int) -> None:
        _empty(spool)
        self._spool = spool
        self._frame = frame
        self._codec = codec
        self._sizes = array("I")
        self._loose: list[bytes] = []  # not yet in a frame
        self._loose_size = 0
        self._last = b""
        self._told: set[str] = set()
        self.cost = 0

    @property
    def empty(self) -> bool:
        """Whether there are no grains yet."""
        return not self._sizes

    def add(self, block: Block, told: set[str], cost: int) -> None:
        """Take grains, with the addresses of those that the manifest speaks of."""
        if not block:
            return
        self._sizes.extend(block.sizes)
        self._last = block.data[-block.sizes[-1] :]
        self._told |= told
        self.cost += cost
        if not self._codec or self._frame is not None:
            self._spool.write(block.data)
            return
        self._loose.append(block.data)
        self._loose_size += len(block.data)
        if self._loose_size >= BATCH // 2:
            self._pack()

    def _pack(self) -> None:
        if self._loose:
            self._spool.write(_core.pack_frame(self._codec, b"".join(self._loose)))
        self._loose, self._loose_size = [], 0

    def _region(self) -> IO[bytes]:
        """The grains as they stand in the file, up to where it is."""
        self._pack()
        if self._frame is None or not self._sizes:
            return self._spool
        _empty(self._frame)
        packer = _core.FramePacker(self._codec, self._spool.tell())
        self._spool.seek(0)
        while data := self._spool.read(BATCH):
            self._frame.write(packer.add(data))
        self._frame.write(packer.finish())
        _empty(self._spool)
        return self._frame

    def assemble(self, path: Path, old: Path, flags: int, states: Mapping[str, bytes]) -> None:
        """Write the file, for those who may read an old one, and bring it to the disk."""
        region = self._region()
        manifest = pack_manifest({address: states[address] for address in self._told})
        flags |= PACKED * bool(self._codec) | MANIFEST * bool(manifest)
        header = ContainerHeader(flags, len(self._sizes), CODECS[self._codec])
        if manifest and is_sealed(self._last):
            at = header.grains_at + region.tell()
            header = ContainerHeader(flags, header.count, header.codec, at)
        with successor(path, old) as out, Hashing() as hashing:
            unsynced = 0
            for data in self._pieces(header, region, manifest):
                hashing.add(data)
                unsynced += out.write(data)
                if unsynced >= _SYNC:
                    _sync(out)
                    unsynced = 0
            out.write(hashing.digest())
            _sync(out)

    def _pieces(
        self, header: ContainerHeader, region: IO[bytes], manifest: bytes
    ) -> Iterator[bytes]:
        """All bytes before the footer."""
        yield header.pack()
        at = header.first_offset
        for i in range(0, len(self._sizes), _BLOCK):
            *starts, at = accumulate(self._sizes[i : i + _BLOCK], initial=at)
            yield _entries(starts)
        region.seek(0)
        while data := region.read(PIECE):
            yield data
        yield manifest


def _empty(file: IO[bytes]) -> None:
    file.seek(0)
    file.truncate()


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _entries(offsets: list[int]) -> bytes:
    entries = array("I", offsets)
    if sys.byteorder == "little":
        entries.byteswap()
    return entries.tobytes()
