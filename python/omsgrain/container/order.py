# SPDX-License-Identifier: Apache-2.0
"""Bring grains into the order of their times without holding them in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from itertools import accumulate
from mmap import ACCESS_READ, mmap
from pathlib import Path

from omsgrain.container.block import Block
from omsgrain.container.check import created_at, gather
from omsgrain.container.files import os_errors, spool


def by_time(blocks: Iterable[Block], directory: Path) -> Iterator[Block]:
    """The same grains, sorted by created_at; those of the same second in the order given."""
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
