# SPDX-License-Identifier: Apache-2.0
"""How much memory a store may take, and what each of its parts may take of that."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass

from omsgrain.errors import RangeError, SchemaError, number_found

LEAST = 16 << 20
"""Bytes; half of it are the modules and LMDB's own lists."""

_FIXED = 10 << 20
_GRAIN = 48 << 10  # bytes a grain of a run: most of its rows touch a page of their own
_COUNT = 256  # bytes a grain whose reads are counted
_MOST = 1 << 40
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_FORM = re.compile(r"([0-9]{1,15})\s*([A-Za-z]*)")
_EXPECTED = 'bytes, or a text such as "64MB"'


@dataclass(frozen=True, slots=True)
class Budget:
    """The limit of each part; without a budget, one that is fast on large machines."""

    run: int = 65_536  # grains in a sorted run of the index
    batch: int = sys.maxsize  # grains in a transaction of many that need not be one
    counts: int = 4_096  # grains whose reads are counted before that is written
    text: int = 8 << 20  # bytes of the text index's cache
    page: int = 4_096  # grains that the text index takes in at a time
    commit: int = 64 << 20  # bytes of rows in a commit of a compaction
    step: int = 4 << 30  # bytes of address space by which the map grows at the most

    @classmethod
    def of(cls, memory: int) -> Budget:
        """Share out so many bytes."""
        most, rest = cls(), memory - _FIXED
        run = max(64, rest * 3 // 4 // _GRAIN)
        return cls(
            run=min(most.run, run),
            batch=run,
            counts=min(most.counts, rest // 16 // _COUNT),
            text=min(most.text, rest // 8),
            page=min(most.page, run),
            commit=min(most.commit, rest // 4),
            step=min(most.step, max(LEAST, memory)),
        )

    def tightened(self, other: Budget) -> Budget:
        """The smaller of two in all that several handles share."""
        return Budget(*(min(getattr(self, n), getattr(other, n)) for n in self.__slots__))


def parse(memory: int | str | None) -> Budget:
    if memory is None:
        return Budget()
    found = _bytes(memory)
    if not LEAST <= found <= _MOST:
        raise RangeError(
            "a store cannot work with that much memory",
            field="/memory",
            expected=f"{LEAST} bytes (16MiB) or more",
            found=number_found(found),
        )
    return Budget.of(found)


def _bytes(memory: int | str) -> int:
    if type(memory) is int:
        return memory
    if isinstance(memory, str):
        matched = _FORM.fullmatch(memory.strip())
        if matched and matched[2].upper() in _UNITS:
            return int(matched[1]) * _UNITS[matched[2].upper()]
        raise SchemaError("not an amount of memory", field="/memory", expected=_EXPECTED)
    raise SchemaError(
        "not an amount of memory", field="/memory", expected=_EXPECTED, found=type(memory).__name__
    )
