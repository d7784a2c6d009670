# SPDX-License-Identifier: Apache-2.0
"""Do the pages of the data file fit together? What LMDB trusts when it writes, and never looks at.

LMDB's answers show most damage, but not that of the list of free pages or of a page's own number:
those say where the next commit writes, and a wrong one would let it write over good pages. So all
trees are walked here from the roots, and no page may be met twice. Pages that are met in no tree
nor in the free list are lost, which is harmless.

    file    pages; 0 and 1 are metas, of the last two commits
    meta    header ++ magic, version, address, map size ++ tree of free pages ++ main tree
            ++ last page, u64 ++ number of the commit, u64
    tree    u32 size of values or of pages ++ u16 flags ++ u16 depth ++ u64 branch, leaf and
            overflow pages, entries, root
    page    header (own number, u64; u16 size of values; u16 flags; u16 lower; u16 upper) ++ u16
            place of each node; an overflow page has a u32 number of pages for lower and upper
    node    u16 low, u16 high, u16 flags, u16 size of the key ++ key ++ data
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from itertools import chain

_HEADER = struct.Struct("=QHHHH")
_TREE = struct.Struct("=IHHQQQQQ")
_META = struct.Struct("=24x48s48sQQ")  # behind the page's header
_NODE = struct.Struct("=HHHH")
_NUMBER = struct.Struct("=Q")

_BRANCH, _LEAF, _OVERFLOW, _FIXED = 0x01, 0x02, 0x04, 0x20
_DIRTY, _INSIDE = 0x10, 0x40  # pages in a node; LMDB leaves the first in the file
_BIG, _TREE_HERE, _PAGE_HERE = 0x01, 0x02, 0x04  # flags of a node: what its data are
_INTEGER_KEYS = 0x08
_NO_PAGE = (1 << 64) - 1
_DEEPEST = 32


class _Broken(Exception):
    """The part that does not fit."""


def broken_pages(fd: int, page_size: int, commit: int) -> str | None:
    with mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as data:
        for free, main, last in _metas(data, page_size, commit):
            try:
                _PageWalk(data, page_size, last).all(free, main)
            except (_Broken, struct.error) as error:
                return str(error)
    return None


def only_free_pages_from(fd: int, first: int, page_size: int, commit: int) -> bool | None:
    """Tell whether all pages from one on are free, in a commit whose snapshot is held open.

    A file may end before them.
    """
    with mmap.mmap(fd, os.fstat(fd).st_size, access=mmap.ACCESS_READ) as data:
        for free, _, last in _metas(data, page_size, commit):
            try:
                listed = set(_PageWalk(data, page_size, last).free(free))
            except (_Broken, struct.error):
                return False
            return listed.issuperset(range(first, last + 1))
    return None


def _metas(data: mmap.mmap, page_size: int, commit: int) -> Iterator[tuple[bytes, bytes, int]]:
    """The tree of free pages, the main tree and the last page of a commit, if it is there."""
    for meta in (0, 1):
        free, main, last, number = _META.unpack_from(data, meta * page_size + _HEADER.size)
        if number == commit:
            yield free, main, last


class _PageWalk:
    def __init__(self, data: mmap.mmap, page_size: int, last: int) -> None:
        self.data = data
        self.page_size = page_size
        self.last = last
        self.met = bytearray(last + 1)
        self.met[:2] = b"\1\1"

    def all(self, free: bytes, main: bytes) -> None:
        if _TREE.unpack(free)[1] != _INTEGER_KEYS or _TREE.unpack(main)[1]:
            raise _Broken("the flags of a root are damaged")
        for _ in chain(self.free(free), self.tree(main)):
            pass

    def free(self, record: bytes) -> Iterator[int]:
        for place, size in self.tree(record):
            (count,) = _NUMBER.unpack_from(self.data, place)
            if _NUMBER.size * (count + 1) > size:
                raise _Broken("the list of free pages is damaged")
            for number in struct.unpack_from(f"={count}Q", self.data, place + _NUMBER.size):
                self.meet(number)
                yield number

    def meet(self, number: int, pages: int = 1) -> None:
        if number + pages - 1 > self.last or any(self.met[number : number + pages]):
            raise _Broken(f"page {number} is in use twice, or beyond the end")
        self.met[number : number + pages] = b"\1" * pages

    def header(self, number: int) -> tuple[int, int, int, int]:
        if number > self.last:
            raise _Broken(f"page {number} is beyond the end")
        own, fixed, flags, lower, upper = _HEADER.unpack_from(self.data, number * self.page_size)
        if own != number:
            raise _Broken(f"page {number} says that it is another one")
        return fixed, flags, lower, upper

    def tree(self, record: bytes) -> Iterator[tuple[int, int]]:
        """Walk a tree and those inside it; yield where the data of its own leaves are."""
        fixed, _, depth, *_, entries, root = _TREE.unpack(record)
        if root == _NO_PAGE and not depth and not entries:
            return
        todo = [(root, 1)]
        while todo:
            number, level = todo.pop()
            self.meet(number)
            own, flags, lower, upper = self.header(number)
            leaf = level == depth
            if flags & ~_FIXED != (_LEAF if leaf else _BRANCH) or not 0 < depth <= _DEEPEST:
                raise _Broken(f"page {number} is of the wrong kind")
            if flags & _FIXED:
                fits(number, own, fixed, lower, upper, self.page_size)
                continue
            free = self.page_size - upper
            for node in self.nodes(number, lower, upper):
                low, high, kind, key = _NODE.unpack_from(self.data, node)
                place, size = node + _NODE.size + key, low | high << 16
                length = 0 if not leaf else _NUMBER.size if kind & _BIG else size
                free -= _NODE.size + key + length + (key + length) % 2
                if not leaf:
                    todo.append((low | high << 16 | kind << 32, level + 1))
                    continue
                if kind & _BIG:
                    (big,) = _NUMBER.unpack_from(self.data, place)
                    self.big(big, size)
                    place = big * self.page_size + _HEADER.size
                elif place + size > (number + 1) * self.page_size:
                    raise _Broken(f"page {number} has a node beyond its end")
                elif kind & _TREE_HERE:
                    for _ in self.tree(self.data[place : place + size]):
                        pass
                elif kind & _PAGE_HERE:
                    _, own, flags, low, high = _HEADER.unpack_from(self.data, place)
                    if flags | _DIRTY != _LEAF | _FIXED | _INSIDE | _DIRTY:
                        raise _Broken(f"page {number} has a page inside that is none")
                    fits(number, own, own, low, high, size)
                yield place, size
            if free:
                raise _Broken(f"page {number} has nodes that overlap or lie apart")

    def nodes(self, number: int, lower: int, upper: int) -> list[int]:
        if not _HEADER.size <= lower <= upper <= self.page_size or lower % 2:
            raise _Broken(f"page {number} is out of bounds")
        start = number * self.page_size
        count = (lower - _HEADER.size) // 2
        places = struct.unpack_from(f"={count}H", self.data, start + _HEADER.size)
        if places and not (upper <= min(places) and max(places) <= self.page_size - _NODE.size):
            raise _Broken(f"page {number} has a node out of bounds")
        return [start + place for place in places]

    def big(self, number: int, size: int) -> None:
        """Meet the overflow pages of a value."""
        _, flags, low, high = self.header(number)
        pages = low | high << 16
        if flags != _OVERFLOW or pages != -(-(_HEADER.size + size) // self.page_size):
            raise _Broken(f"page {number} is no value of that size")
        self.meet(number, pages)


def fits(number: int, own: int, fixed: int, lower: int, upper: int, size: int) -> None:
    """Refuse the bounds of a page, or one inside it, whose values all have one size."""
    count = (lower - _HEADER.size) // 2
    if own != fixed or lower % 2 or upper - lower != size - _HEADER.size - count * fixed:
        raise _Broken(f"page {number} has values of another size")
