# SPDX-License-Identifier: Apache-2.0
"""What extends what: an order in which everything comes after all that it extends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

__all__ = ["ordered", "reached", "said"]

MOST: Final = 100
"""Cycles that are told, for each can be as long as all names."""
_SHOWN: Final = 10


def ordered(
    roots: Iterable[str], above: Callable[[str], Iterable[str]]
) -> tuple[list[str], list[list[str]]]:
    """Go depth first from the roots up, each name once.

    Args:
        roots: where to begin.
        above: what a name extends, in its order.

    Returns:
        All names, each after what it extends; and the cycles, each from the name that was met
        first to the one that leads back to it. What leads back is otherwise left out.
    """
    order: list[str] = []
    cycles: list[list[str]] = []
    done: set[str] = set()
    for root in roots:
        if root in done:
            continue
        path: dict[str, Iterator[str]] = {root: iter(above(root))}  # keeps its order
        while path:
            name = next(reversed(path))
            for upper in path[name]:
                if upper in path:
                    if len(cycles) < MOST:
                        names = list(path)
                        cycles.append(names[names.index(upper) :])
                elif upper not in done:
                    path[upper] = iter(above(upper))
                    break
            else:
                del path[name]
                done.add(name)
                order.append(name)
    return order, cycles


def reached(start: str, above: Callable[[str], Iterable[str]]) -> list[str]:
    """A name and everything above it, the nearest first."""
    found = {start: None}
    waiting = [start]
    for name in waiting:
        for upper in above(name):
            if upper not in found:
                found[upper] = None
                waiting.append(upper)
    return waiting


def said(cycle: Sequence[str]) -> str:
    """A cycle in words; of a long one its beginning."""
    shown = [*cycle[:_SHOWN], *(["..."] if len(cycle) > _SHOWN else []), cycle[0]]
    return " -> ".join(shown)
