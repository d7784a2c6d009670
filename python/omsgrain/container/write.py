# SPDX-License-Identifier: Apache-2.0
"""Write a .mg file, or several if one cannot hold it all. Spec: OMS §11."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from omsgrain.container.assemble import Files
from omsgrain.container.block import Block, digest, even
from omsgrain.container.check import Item, addressed, examine, gather
from omsgrain.container.files import target_path
from omsgrain.container.layout import (
    CODECS,
    DEDUPLICATED,
    FOOTER_SIZE,
    HEADER_SIZE,
    MAX_BYTES,
    SORTED,
    Codec,
)
from omsgrain.container.manifest import Manifest, pack_states
from omsgrain.container.order import by_time
from omsgrain.container.problem import problem
from omsgrain.counts import counted
from omsgrain.errors import SchemaError


@dataclass(frozen=True, slots=True)
class Written:
    """What was written.

    Attributes:
        paths: the one file, or ``name-0001.mg`` and those that follow.
        grains: how many are in them.
        duplicates: how many were left out because their address was there already.
        bytes: the size of all files.
        withheld: how many grains of a store were chosen and did not leave, by reason.
    """

    paths: tuple[Path, ...]
    grains: int
    duplicates: int
    bytes: int
    withheld: dict[str, int] = field(default_factory=dict)

    __repr__ = counted


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
) -> Written:
    """Write grains to a .mg file. Spec: OMS §11.

    They are taken one after the other and not kept: memory does not grow with them but for 4 bytes
    a grain, 50 with `sort` and about 120 with `dedupe`. A file that was there is replaced when
    all is written and on the disk, and its mode kept; if anything goes wrong, it stays as it was,
    and nothing is left beside it (but by a killed process: a file ending in ``.partial``).

    Args:
        path: the file; where its parts would exceed `max_bytes`, ``name-0001.mg`` and so on stand
            in its stead, each complete by itself (replaced one by one: a power cut may leave some
            of them new and some old).
        items: blobs, grains, or the envelopes of signed grains.
        manifest: state by address, with the fields superseded_by, system_valid_to,
            verification_status, access_count and last_accessed_at.
        codec: "none", "zstd" or "lz4". The grains are packed into one frame, which any decoder of
            the codec unpacks in one call.
        seekable: pack them into frames of about 1 MiB instead, so that reading one grain unpacks
            one frame. Other decoders may stop after the first frame without an error.
        sort: by the created_at of the headers, which is 0 for sealed grains; else in the order
            given.
        dedupe: leave out a grain whose address was there already.
        check: look at each grain in full. False only for grains that were just verified: a file of
            others may not be readable.
        max_bytes: the most that one file may have. 4 GiB is the limit of the format.

    Raises:
        SchemaError: an option, or the manifest, is not what it must be.
        NotFoundError: the manifest speaks of a grain that is not among the items, or there is no
            such directory.
        TooLargeError: one grain alone is too large.
        StoreError: the disk is full, the directory is not writable, or a part of an older export
            would seem to belong to this one.
        OmsError: an item is not a grain.
    """
    target = target_path(path)
    _check_codec(codec)
    if not HEADER_SIZE + FOOTER_SIZE <= max_bytes <= MAX_BYTES:
        raise SchemaError("max_bytes is out of range", expected=f"48 to {MAX_BYTES}")
    states = pack_states(manifest or {})
    intake = _Intake(check, dedupe)
    flags = SORTED * sort | DEDUPLICATED * dedupe
    blocks = intake.blocks(items)
    if sort:
        blocks = by_time(blocks, target.parent)
    number = CODECS.index(codec)
    with Files(target, number, flags, states, max_bytes, seekable=seekable) as files:
        written = _written(files, blocks, whole=True)
    return replace(written, duplicates=intake.duplicates)


def write_blocks(
    path: str | os.PathLike[str],
    blocks: Iterable[Block],
    manifest: Manifest,
    *,
    codec: Codec,
    seekable: bool,
    sort: bool,
) -> Written:
    """Write grains that are known to be good; see `write`.

    What the manifest says of others stays out: they were removed since it was made.
    """
    _check_codec(codec)
    target, states = target_path(path), pack_states(manifest)
    if sort:
        blocks = by_time(blocks, target.parent)
    elif seekable:
        blocks = even(blocks)  # each becomes a frame
    flags, number = SORTED * sort, CODECS.index(codec)
    with Files(target, number, flags, states, MAX_BYTES, seekable=seekable) as files:
        return _written(files, blocks)


def _check_codec(codec: Codec) -> None:
    if codec not in CODECS:
        raise SchemaError("unknown codec", expected='"none", "zstd" or "lz4"')


def _written(files: Files, blocks: Iterable[Block], *, whole: bool = False) -> Written:
    for block in blocks:
        files.add(block)
    if whole:
        files.refuse_missing()
    paths, size = files.finish()
    return Written(tuple(paths), files.grains, 0, size)


class _Intake:
    """Checks what comes in and leaves out what was there already."""

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
