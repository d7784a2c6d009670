# SPDX-License-Identifier: Apache-2.0
"""The identifiers that a bundle has shown, to tell which stand twice and which nobody knows."""

from __future__ import annotations

from array import array
from typing import Final, Protocol

__all__ = ["Hashed", "Names", "Texts"]

_LEAST: Final = 1 << 8


class Names(Protocol):
    """A set of identifiers."""

    exact: bool
    """Whether two are the same only if their texts are."""

    def __contains__(self, name: str) -> bool:
        """Whether it was shown."""
        ...

    def add(self, name: str) -> bool:
        """Take one; whether it is new."""
        ...


class Texts:
    """Those of a document, whose texts are in memory anyway."""

    exact = True

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def add(self, name: str) -> bool:
        """Take one; whether it is new."""
        before = len(self._names)
        self._names.add(name)
        return len(self._names) > before


class Hashed:
    """Those of a bundle by lines, of any number: 64 bits of each, in a table of 12 to 24 bytes.

    Python's hash is keyed anew in each process, so nobody can make two that are one; among a
    million, two are by chance in one of thirty million bundles. Whoever is told that one is not
    new looks again at the texts.
    """

    exact = False

    def __init__(self) -> None:
        self._slots = array("q", bytes(8 * _LEAST))  # 0: free
        self._count = 0

    def __contains__(self, name: str) -> bool:
        return self._slots[self._place(hash(name) or 1)] != 0

    def add(self, name: str) -> bool:
        """Take one; whether it is new."""
        mark = hash(name) or 1
        place = self._place(mark)
        if self._slots[place]:
            return False
        self._slots[place] = mark
        self._count += 1
        if 3 * self._count > 2 * len(self._slots):
            self._grow()
        return True

    def _place(self, mark: int) -> int:
        """Where a number stands, or would."""
        slots, last = self._slots, len(self._slots) - 1
        place = mark & last
        while slots[place] and slots[place] != mark:
            place = (place + 1) & last
        return place

    def _grow(self) -> None:
        before, self._slots = self._slots, array("q", bytes(16 * len(self._slots)))
        for mark in before:
            if mark:
                self._slots[self._place(mark)] = mark
