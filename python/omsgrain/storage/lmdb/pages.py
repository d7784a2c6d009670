# SPDX-License-Identifier: Apache-2.0
"""Do the pages of the data file fit together? What LMDB trusts when it writes, and never looks at.

The core walks all trees from the roots (``rust/core/src/pages.rs``). Pages that are met in no tree
nor in the free list are lost, which is harmless.

    file    pages; 0 and 1 are metas, of the last two commits
    meta    header ++ magic, version, address, map size ++ tree of free pages ++ main tree
            ++ last page, u64 ++ number of the commit, u64

That is the layout of 64-bit systems. On others LMDB has shorter numbers, and no page is walked.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

from omsgrain import _core
from omsgrain.storage.tables import ADDRESSES, OLD_ADDRESSES, PAST_TERMS, TABLES, TERMS

#: Whether the pages of this system can be walked.
WALKED = struct.calcsize("P") == 8
_HEADER = 16
_META = struct.Struct("=24x48s48sQQ")  # behind the page's header
_PLACES = 0x14  # the flags of a table whose keys have many values of one size
_SUMMED = (ADDRESSES, OLD_ADDRESSES, TERMS, PAST_TERMS)

Sum: TypeAlias = "tuple[int, bytes]"
"""The number of a table's rows, and the sum of their hashes."""


@dataclass(frozen=True, slots=True)
class PageReport:
    """The result of a walk over the pages."""

    broken: str | None = None  # what does not fit, or None
    # of the addresses, the terms and the past terms; empty if something does not fit
    sums: tuple[Sum, ...] = field(default=())


def walked(fd: int, page_size: int, commit: int) -> PageReport:
    """Walk all pages of a commit, whose snapshot is held open."""
    report = PageReport()
    with mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as data:
        for free, main, last in _metas(data, page_size, commit):
            names = [table.name for table in _SUMMED]
            broken, found = _core.walk_pages(data, page_size, last, (free, main), names)
            if broken is not None:
                return PageReport(broken)
            flags = {name: flags for name, flags, _ in found}
            for table in TABLES:
                if flags.get(table.name, 0) != (_PLACES if table.places else 0):
                    return PageReport(f"the flags of {table.name.decode()} are damaged")
            sums = {name: total for name, _, total in found}
            new, old, *terms = (sums.get(name, (0, bytes(16))) for name in names)
            report = PageReport(sums=(_joined(new, old), *terms))
    return report


def _joined(one: Sum, other: Sum) -> Sum:
    total = int.from_bytes(one[1], "big") + int.from_bytes(other[1], "big")
    return one[0] + other[0], (total % (1 << 128)).to_bytes(16, "big")


def only_free_pages_from(fd: int, first: int, page_size: int, commit: int) -> bool | None:
    """Tell whether all pages from one on are free, in a commit whose snapshot is held open.

    A file may end before them.
    """
    with mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as data:
        for free, _, last in _metas(data, page_size, commit):
            return _core.free_pages(data, page_size, last, free, first) == last + 1 - first
    return None


def used_bytes(fd: int, page_size: int, commit: int) -> int | None:
    """Return the bytes of all pages but the free ones, in a commit that no writer replaces.

    None if the address space has no room to map the file once more.
    """
    with suppress(OSError), mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as data:
        for free, _, last in _metas(data, page_size, commit):
            unused = _core.free_pages(data, page_size, last, free, 0) or 0
            return page_size * (last + 1 - unused)
    return None


def _metas(data: mmap.mmap, page_size: int, commit: int) -> Iterator[tuple[bytes, bytes, int]]:
    """The tree of free pages, the main tree and the last page of a commit, if it is there."""
    for meta in (0, 1) if WALKED else ():
        free, main, last, number = _META.unpack_from(data, meta * page_size + _HEADER)
        if number == commit:
            yield free, main, last
