# SPDX-License-Identifier: Apache-2.0
"""Grains that stand one behind the other: what many need costs no object for each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from omsgrain import _core
from omsgrain.container.layout import BATCH

DIGEST = 32


@dataclass(frozen=True, slots=True)
class Block:
    """Some grains.

    Attributes:
        data: their bytes.
        sizes: how many of them each has; type code "I".
        digests: their addresses, 32 bytes each, if they are known.
    """

    data: bytes
    sizes: array[int]
    digests: bytes | None = None

    @classmethod
    def of(cls, grains: list[bytes]) -> Block:
        """Put grains together."""
        return cls(b"".join(grains), array("I", map(len, grains)))

    def __len__(self) -> int:
        return len(self.sizes)

    def grains(self) -> list[bytes]:
        """Each grain for itself."""
        return _core.split_block(self.data, self.sizes.tobytes())

    def cut(self, count: int) -> tuple[Block, Block]:
        """The first so many, and the others."""
        at, known = sum(self.sizes[:count]), self.digests
        return (
            Block(self.data[:at], self.sizes[:count], known and known[: count * DIGEST]),
            Block(self.data[at:], self.sizes[count:], known and known[count * DIGEST :]),
        )


def digest(digests: bytes, number: int) -> bytes:
    """One of many digests."""
    return digests[number * DIGEST : (number + 1) * DIGEST]


def even(blocks: Iterable[Block]) -> Iterator[Block]:
    """The same grains in blocks of about `BATCH` bytes: each ends with the grain that fills it."""
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
