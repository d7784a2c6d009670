# SPDX-License-Identifier: Apache-2.0
"""Millions of small facts in little room: columns of numbers, and look-ups in them."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence

__all__ = ["Index", "Rows"]


class Rows:
    """Grains of one kind, in columns: number, time, and two more."""

    def __init__(self) -> None:
        self.seqs, self.times = array("Q"), array("Q")
        self.one, self.two = array("q"), array("q")

    def __len__(self) -> int:
        return len(self.seqs)

    def add(self, seq: int, time: int, one: int, two: int) -> None:
        """Take one more."""
        self.seqs.append(seq)
        self.times.append(time)
        self.one.append(one)
        self.two.append(two)

    def each(self) -> Iterator[tuple[int, int, int]]:
        """The numbers, each with its two."""
        return zip(self.seqs, self.one, self.two, strict=True)

    def sort(self) -> None:
        """Order them by time; those of one time stay in order of arrival."""
        times = self.times
        if any(times[i - 1] > times[i] for i in range(1, len(times))):
            self.keep(sorted(range(len(times)), key=times.__getitem__))

    def keep(self, which: Sequence[int]) -> None:
        """Take some of them, in that order."""
        for column in (self.seqs, self.times, self.one, self.two):
            column[:] = array(column.typecode, map(column.__getitem__, which))


class Index:
    """Values by a number, in a fifth of the room that a dict takes."""

    def __init__(self, keys: Sequence[int], values: Sequence[int]) -> None:
        order = sorted(range(len(keys)), key=keys.__getitem__)
        self._keys = array("q", map(keys.__getitem__, order))
        self._values = array("q", map(values.__getitem__, order))

    def __contains__(self, key: int) -> bool:
        return next(self.values(key), None) is not None

    def values(self, key: int) -> Iterator[int]:
        """All values of a key."""
        at = bisect_left(self._keys, key)
        while at < len(self._keys) and self._keys[at] == key:
            yield self._values[at]
            at += 1

    def has_twice(self) -> bool:
        """Whether a key has two values."""
        keys = self._keys
        return any(keys[i - 1] == keys[i] for i in range(1, len(keys)))
