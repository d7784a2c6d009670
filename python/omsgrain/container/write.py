# SPDX-License-Identifier: Apache-2.0
"""Write a .mg file, or several if one is too small for all grains. Spec: OMS §11."""

from __future__ import annotations

import os
import sys
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import IO, TYPE_CHECKING

from omsgrain import _core
from omsgrain.container.layout import (
    BATCH,
    CODECS,
    DEDUPLICATED,
    ENTRY_SIZE,
    FOOTER_SIZE,
    HEAD_SIZE,
    HEADER_SIZE,
    MANIFEST,
    MAX_BYTES,
    PACKED,
    SORTED,
    Codec,
    ContainerHeader,
    Manifest,
    entry_size,
    is_sealed,
    os_errors,
    pack_manifest,
    pack_states,
    part,
    problem,
    spool,
    target_path,
)
from omsgrain.container.read import Item, addressed, created_at, examine, gather
from omsgrain.container.region import Block, digest, even
from omsgrain.counts import counted
from omsgrain.durable import successor, sync_directory
from omsgrain.errors import NotFoundError, SchemaError, StoreError, TooLargeError

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

_ALONE = 4 << 20  # bytes from which a thread is worthwhile
_AHEAD = 8  # the most pieces that wait
PIECE = 1 << 18
"""Bytes added in one call: more would only take memory."""


class Hashing:
    """SHA-256 of pieces in order. Its thread ends with the block."""

    def __init__(self) -> None:
        self._digest = sha256()
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None
        self._waiting: deque[Future[None]] = deque()

    def add(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size < _ALONE:
            self._digest.update(piece)
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor  # slow to import

            self._pool = ThreadPoolExecutor(1, "omsgrain-hashing")
        self._waiting.append(self._pool.submit(self._digest.update, piece))
        if len(self._waiting) > _AHEAD:
            self._waiting.popleft().result()

    def digest(self) -> bytes:
        while self._waiting:
            self._waiting.popleft().result()
        return self._digest.digest()

    def __enter__(self) -> Hashing:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)


_BLOCK = 65536  # index entries written at once
_SYNC = 8 << 20  # bytes after which the disk begins to write, while the rest is hashed
_NONE = Block(b"", array("I"))


@dataclass(frozen=True, slots=True)
class WrittenContainer:
    """The result of a write.

    Attributes:
        paths: The one file, or ``name-0001.mg`` and so on.
        grains: The number of grains in them.
        duplicates: The number of grains left out because their address was written already.
        bytes: The size of all files.
        withheld: The number of chosen grains of a store that were not exported, by reason.
    """

    paths: tuple[Path, ...]
    grains: int
    duplicates: int
    bytes: int
    withheld: dict[str, int] = field(default_factory=dict)

    __repr__ = counted


class ExportFiles:
    """The files of one export. They get their names when all are complete and on the disk."""

    def __init__(
        self,
        target: Path,
        codec: Codec,
        flags: int,
        states: Mapping[str, bytes],
        max_bytes: int,
        *,
        seekable: bool,
    ) -> None:
        self._target = target
        self._codec = CODECS.index(codec)
        self._flags = flags
        self._states = states
        self._max_bytes = max_bytes
        self._room = _room(max_bytes, self._codec)
        self._names = {bytes.fromhex(address): address for address in states}
        self._missing = set(states)
        self._complete: list[Path] = []
        self.grains = 0
        self._open = ExitStack()
        self._spool = self._open.enter_context(spool(target.parent))
        self._frame: IO[bytes] | None = None
        if self._codec and not seekable:
            self._frame = self._open.enter_context(spool(target.parent))
        self._part = _Part(self._spool, self._frame, self._codec)

    def __enter__(self) -> ExportFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        for path in self._complete:
            with suppress(OSError):  # raise the first error
                path.unlink(missing_ok=True)

    def add(self, block: Block) -> None:
        listed = self._listed_in(block)
        self._missing.difference_update(listed.values())
        self.grains += len(block)
        while block:
            fit, cost = self._fitting(block, listed)
            if not fit and self._part.empty:
                limit, size = f"at most {self._max_bytes} bytes", f"{block.sizes[0]} bytes"
                raise TooLargeError(
                    "the grain does not fit into a file", expected=limit, found=size
                )
            here, rest = (block, _NONE) if fit == len(block) else block.cut(fit)
            with os_errors("write", self._target):
                self._part.add(here, {a for i, a in listed.items() if i < fit}, cost)
                if rest:
                    self._complete_part()
            listed = {i - fit: address for i, address in listed.items() if i >= fit}
            block = rest

    def _listed_in(self, block: Block) -> dict[int, str]:
        """Return the addresses of the grains that the manifest names, by position."""
        if not self._states:
            return {}
        found = addressed(block)
        names = (self._names.get(digest(found, i)) for i in range(len(block)))
        return {i: name for i, name in enumerate(names) if name is not None}

    def _fitting(self, block: Block, listed: Mapping[int, str]) -> tuple[int, int]:
        """Return how many of the grains fit into the part, and their size."""
        states = {i: entry_size(self._states[address]) for i, address in listed.items()}
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
        """Check that all grains of the manifest were added."""
        if self._missing:
            count = str(len(self._missing))
            raise NotFoundError(
                "the manifest names grains that are not among the items", found=count
            )

    def add_all(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self.add(block)

    def finish(self) -> WrittenContainer:
        """Rename the files to their names."""
        with os_errors("write", self._target):
            self._complete_part()
            size = sum(path.stat().st_size for path in self._complete)
            paths = [self._target]
            if len(self._complete) > 1:
                paths = [part(self._target, n + 1) for n in range(len(self._complete))]
            beyond = len(paths) + 1 if len(paths) > 1 else 1
            if (
                leftover := part(self._target, beyond)
            ).exists():  # it would seem to belong to this
                raise StoreError(f"{str(leftover)!r} of an older export exists; remove it")
            for partial, path in zip(list(self._complete), paths, strict=True):
                os.replace(partial, path)
            if len(paths) > 1:
                self._target.unlink(missing_ok=True)
            sync_directory(self._target.parent)
        self._complete.clear()
        return WrittenContainer(tuple(paths), self.grains, 0, size)


def _room(max_bytes: int, codec: int) -> int:
    """Return the room for grains, index and manifest; random data grows by less than 1%."""
    room = max_bytes - HEADER_SIZE - FOOTER_SIZE - HEAD_SIZE
    return (room - 256) * 100 // 101 if codec else room


class _Part:
    def __init__(self, spool: IO[bytes], frame: IO[bytes] | None, codec: int) -> None:
        _empty(spool)
        self._spool = spool
        self._frame = frame
        self._codec = codec
        self._sizes = array("I")
        self._loose: list[bytes] = []  # not yet in a frame
        self._loose_size = 0
        self._last = b""
        self._listed: set[str] = set()
        self.cost = 0  # size of grains, index and manifest so far, uncompressed

    @property
    def empty(self) -> bool:
        return not self._sizes

    def add(self, block: Block, listed: set[str], cost: int) -> None:
        """Add grains, with the addresses of those that the manifest names."""
        if not block:
            return
        self._sizes.extend(block.sizes)
        self._last = block.data[-block.sizes[-1] :]
        self._listed |= listed
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
        """Return the grains as written to the file, up to its position."""
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
        """Write the file, with the mode of an old one, and sync it."""
        region = self._region()
        manifest = pack_manifest({address: states[address] for address in self._listed})
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


def by_time(blocks: Iterable[Block], directory: Path) -> Iterator[Block]:
    """Yield the same grains, sorted by created_at; those of the same second keep their order."""
    with spool(directory) as file:
        starts, times = array("Q", [0]), array("I")
        for block in blocks:
            times.extend(map(created_at, block.grains()))
            starts.extend(accumulate(block.sizes, initial=starts.pop()))
            with os_errors("write to", directory):
                file.write(block.data)
        if not times:
            return
        with os_errors("write to", directory):
            file.flush()
            mapped = mmap(file.fileno(), 0, access=ACCESS_READ)
        with mapped:
            order = sorted(range(len(times)), key=times.__getitem__)
            yield from gather(mapped[starts[i] : starts[i + 1]] for i in order)


def write(
    path: str | os.PathLike[str],
    items: Iterable[Item],
    *,
    manifest: Manifest | None = None,
    codec: Codec = "none",
    seekable: bool = False,
    sort: bool = False,
    dedupe: bool = False,
    check: bool = True,
    max_bytes: int = MAX_BYTES,
) -> WrittenContainer:
    """Write grains to a .mg file. Spec: OMS §11.

    It reads the items one by one. Memory does not grow with them except for 4 bytes a grain, 50
    with `sort` and about 120 with `dedupe`. An existing file is replaced when the new one is
    complete and on the disk, and keeps its mode. After an error the old file is unchanged, and no
    other file is left (a killed process leaves a file ending in ``.partial``).

    Args:
        path: The file. If it would exceed `max_bytes`, ``name-0001.mg`` and so on replace it, each
            complete by itself. They are replaced one by one: after a power cut some may be new and
            some old.
        items: Blobs, grains, or the envelopes of signed grains.
        manifest: State by address, with the fields superseded_by, system_valid_to,
            verification_status, access_count and last_accessed_at.
        codec: "none", "zstd" or "lz4". The grains are packed into one frame, which any decoder of
            the codec decompresses in one call.
        seekable: Pack them into frames of about 1 MiB instead, so that reading one grain
            decompresses one frame. Other decoders may stop after the first frame without an error.
        sort: By the created_at of the headers, which is 0 for sealed grains; else in the given
            order.
        dedupe: Leave out a grain whose address was written already.
        check: Check each grain in full. Use False only for grains that were just verified: a file
            of other grains may not be readable.
        max_bytes: The most bytes of one file. 4 GiB is the limit of the format.

    Raises:
        SchemaError: An option, or the manifest, is not valid.
        NotFoundError: The manifest names a grain that is not among the items, or the directory
            does not exist.
        TooLargeError: One grain alone is too large.
        StoreError: The disk is full, the directory is not writable, or a part of an older export
            would seem to belong to this one.
        OmsError: An item is not a grain.
    """
    target = target_path(path)
    _check_codec(codec)
    if not HEADER_SIZE + FOOTER_SIZE <= max_bytes <= MAX_BYTES:
        raise SchemaError("max_bytes is out of range", expected=f"48 to {MAX_BYTES}")
    states = pack_states(manifest or {})
    new = _BlockFilter(check, dedupe)
    blocks, flags = new.blocks(items), DEDUPLICATED * dedupe
    if sort:
        blocks, flags = by_time(blocks, target.parent), flags | SORTED
    with ExportFiles(target, codec, flags, states, max_bytes, seekable=seekable) as files:
        files.add_all(blocks)
        files.refuse_missing()
        return replace(files.finish(), duplicates=new.duplicates)


def write_blocks(
    path: str | os.PathLike[str],
    blocks: Iterable[Block],
    manifest: Manifest,
    *,
    codec: Codec,
    seekable: bool,
    sort: bool,
) -> WrittenContainer:
    """Write verified grains; see `write`.

    The manifest leaves out grains that were removed since it was made.
    """
    _check_codec(codec)
    target, states = target_path(path), pack_states(manifest)
    if sort:
        blocks = by_time(blocks, target.parent)
    elif seekable:
        blocks = even(blocks)  # each becomes a frame
    with ExportFiles(target, codec, SORTED * sort, states, MAX_BYTES, seekable=seekable) as files:
        files.add_all(blocks)
        return files.finish()


def _check_codec(codec: Codec) -> None:
    if codec not in CODECS:
        raise SchemaError("unknown codec", expected='"none", "zstd" or "lz4"')


class _BlockFilter:
    def __init__(self, check: bool, dedupe: bool) -> None:
        self._check = check
        self._dedupe = dedupe
        self._seen: set[bytes] = set()
        self.duplicates = 0

    def blocks(self, items: Iterable[Item]) -> Iterator[Block]:
        first = 0
        for block in gather(items):
            if self._check:
                digests, bad = examine(block)
                if bad:
                    raise problem("grain", first + bad[0][0], bad[0][1]).error
                block = Block(block.data, block.sizes, digests)
            first += len(block)
            yield self._new(block) if self._dedupe else block

    def _new(self, block: Block) -> Block:
        found = addressed(block)
        kept = []
        for number in range(len(block)):
            address = digest(found, number)
            if address not in self._seen:
                self._seen.add(address)
                kept.append(number)
        self.duplicates += len(block) - len(kept)
        if len(kept) == len(block):
            return block
        grains = block.grains()
        return Block.of([grains[number] for number in kept])
