# SPDX-License-Identifier: Apache-2.0
"""By time, but nothing before what it follows: clocks differ, and what came of what does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from heapq import heapify, heappop, heappush
from typing import Any

__all__ = ["ordered"]


def ordered(
    keys: Mapping[int, Any], later: Mapping[int, Collection[int]]
) -> tuple[list[int], list[int]]:
    """Sort numbers by their keys, each before those that follow it.

    Args:
        keys: what to sort by.
        later: those that follow each; numbers that have no key are passed over.

    Returns:
        The numbers in order; and those in or behind a circle, in the order of their keys.
    """
    waits = dict.fromkeys(keys, 0)
    for number in keys:
        for follower in later.get(number, ()):
            if follower in waits:
                waits[follower] += 1
    ready = [(keys[number], number) for number, count in waits.items() if not count]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for follower in later.get(number, ()):
            if follower in waits:
                waits[follower] -= 1
                if not waits[follower]:
                    heappush(ready, (keys[follower], follower))
    rest = sorted((n for n, count in waits.items() if count), key=lambda n: (keys[n], n))
    return order, rest
