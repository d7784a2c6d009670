# SPDX-License-Identifier: Apache-2.0
"""Put container files together: their grains first, though the index stands before them."""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_right
from collections.abc import Mapping
from contextlib import ExitStack
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import IO

from omsgrain import _core
from omsgrain.container.check import addresses
from omsgrain.container.files import os_errors, part, spool, sync_directory
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
from omsgrain.errors import NotFoundError, StoreError, TooLargeError

_BLOCK = 65536  # index entries written at once


class Files:
    """The files of one export. They get their names when all are complete and on the disk."""

    def __init__(
        self,
        target: Path,
        codec: int,
        flags: int,
        states: Mapping[str, bytes],
        max_bytes: int,
    ) -> None:
        self._target = target
        self._codec = codec
        self._flags = flags
        self._states = states
        self._max_bytes = max_bytes
        self._room = _room(max_bytes, codec)
        self._missing = set(states)
        self._complete: list[Path] = []
        self.grains = 0
        self._open = ExitStack()
        self._spool = self._open.enter_context(spool(target.parent))
        self._part = _Part(self._spool, codec)

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
            path.unlink(missing_ok=True)

    def add(self, grains: list[bytes]) -> None:
        """Take some more grains.

        Raises:
            TooLargeError: one does not fit into a file.
            StoreError: the disk is full.
        """
        told: list[str | None] = [None] * len(grains)
        if self._states:
            told = [a if a in self._states else None for a in addresses(grains)]
            self._missing.difference_update(a for a in told if a)
        self.grains += len(grains)
        while grains:
            fit, cost = self._fitting(grains, told)
            if not fit and self._part.empty:
                limit, size = f"at most {self._max_bytes} bytes", f"{len(grains[0])} bytes"
                raise TooLargeError("a grain does not fit into a file", expected=limit, found=size)
            with os_errors("write", self._target):
                self._part.add(grains[:fit], told[:fit], cost)
                if fit < len(grains):
                    self._complete_part()
            grains, told = grains[fit:], told[fit:]

    def _fitting(self, grains: list[bytes], told: list[str | None]) -> tuple[int, int]:
        """How many of the grains the part has room for, and what they cost."""
        states = sum(entry_size(self._states[a]) for a in told if a) if self._states else 0
        cost = sum(map(len, grains)) + ENTRY_SIZE * len(grains) + states
        room = self._room - self._part.cost
        if cost <= room:
            return len(grains), cost
        costs = [len(grain) + ENTRY_SIZE for grain in grains]
        for i, address in enumerate(told):
            costs[i] += entry_size(self._states[address]) if address else 0
        ends = list(accumulate(costs, initial=0))
        fit = max(bisect_right(ends, room) - 1, 0)
        return fit, ends[fit]

    def _complete_part(self) -> None:
        partial = self._target.with_name(f"{self._target.name}.{os.urandom(4).hex()}.partial")
        self._complete.append(partial)
        self._part.assemble(partial, self._flags, self._states)
        self._part = _Part(self._spool, self._codec)

    def finish(self) -> tuple[list[Path], int]:
        """Give the files their names. Returns them, and their size.

        Raises:
            NotFoundError: the manifest speaks of a grain that was not given.
            StoreError: the disk is full, or an older export is in the way.
        """
        if self._missing:
            count = str(len(self._missing))
            raise NotFoundError("the manifest speaks of grains that are not here", found=count)
        with os_errors("write", self._target):
            self._complete_part()
            size = sum(path.stat().st_size for path in self._complete)
            paths = [self._target]
            if len(self._complete) > 1:
                paths = [part(self._target, n + 1) for n in range(len(self._complete))]
                self._refuse_leftover(part(self._target, len(paths) + 1))
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

    Attributes:
        cost: what grains, index and manifest take so far, unpacked.
    """

    def __init__(self, spool: IO[bytes], codec: int) -> None:
        spool.seek(0)
        spool.truncate()
        self._spool = spool
        self._codec = codec
        self._offsets = array("I")
        self._size = 0
        self._loose: list[bytes] = []  # not yet in a frame
        self._loose_size = 0
        self._last = b""
        self._told: set[str] = set()
        self.cost = 0

    @property
    def empty(self) -> bool:
        """Whether there are no grains yet."""
        return not self._offsets

    def add(self, grains: list[bytes], told: list[str | None], cost: int) -> None:
        """Take grains, with the addresses of those that the manifest speaks of."""
        if not grains:
            return
        self._offsets.extend(accumulate(map(len, grains[:-1]), initial=self._size))
        size = sum(map(len, grains))
        self._size += size
        self._last = grains[-1]
        self._told.update(a for a in told if a)
        self.cost += cost
        if not self._codec:
            self._spool.write(b"".join(grains))
            return
        self._loose += grains
        self._loose_size += size
        if self._loose_size >= BATCH // 2:
            self._pack()

    def _pack(self) -> None:
        if self._loose:
            self._spool.write(_core.pack_frame(self._codec, b"".join(self._loose)))
        self._loose, self._loose_size = [], 0

    def assemble(self, path: Path, flags: int, states: Mapping[str, bytes]) -> None:
        """Write the file and bring it to the disk."""
        self._pack()
        manifest = pack_manifest({address: states[address] for address in self._told})
        flags |= PACKED * bool(self._codec) | MANIFEST * bool(manifest)
        header = ContainerHeader(flags, len(self._offsets), CODECS[self._codec])
        if manifest and is_sealed(self._last):
            at = header.grains_at + self._spool.tell()
            header = ContainerHeader(flags, header.count, header.codec, at)
        digest = sha256()
        with path.open("xb") as out:

            def put(data: bytes) -> None:
                digest.update(data)
                out.write(data)

            put(header.pack())
            for i in range(0, len(self._offsets), _BLOCK):
                put(_entries(self._offsets[i : i + _BLOCK], header.first_offset))
            self._spool.seek(0)
            while data := self._spool.read(BATCH):
                put(data)
            put(manifest)
            out.write(digest.digest())
            out.flush()
            os.fsync(out.fileno())


def _entries(offsets: array[int], base: int) -> bytes:
    entries = array("I", [base + offset for offset in offsets]) if base else offsets
    if sys.byteorder == "little":
        entries.byteswap()
    return entries.tobytes()
