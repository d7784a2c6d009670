# SPDX-License-Identifier: Apache-2.0
"""Where two stores differ: found by digests of ranges, a hexadecimal digit at a time.

Two stores of a million grains that differ in one say so in five steps of sixteen digests each. A
range of few items is listed instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from omsgrain.sync.peer import HAS, ITEMS, LACKS, Hello, Item, Peer, Range, Space

__all__ = ["differing", "lacked", "shares_none"]

_FEW = 32
"""Items of a range that are listed: sixteen ranges deeper would be about as many bytes."""
_SOME = 64
"""Grains that are asked for to tell whether two stores share any."""
_DIGITS = "0123456789abcdef"
_LISTED = 50 * ITEMS  # items asked for at once, about: a third of what may be


def differing(
    giver: Peer, taker: Peer, space: Space, asks: Hello, asked: Hello
) -> Iterator[Sequence[str]]:
    """Walk the ranges in which the giver may have what the taker has not, to be listed together.

    Args:
        giver: one side.
        taker: the other.
        space: of what.
        asks: who the taker is, for the giver.
        asked: who the giver is, for the taker.
    """
    few: list[tuple[str, int]] = []
    waiting = [""]
    while waiting:
        prefixes, waiting = waiting[:ITEMS], waiting[ITEMS:]
        theirs = giver.ranges(space, prefixes, asks)
        mine = taker.ranges(space, prefixes, asked)
        deeper = []
        for prefix, there, here in zip(prefixes, theirs, mine, strict=True):
            if there == here or not there.count:
                continue
            if there.count <= _FEW or _is_new(there, here):
                few.append((prefix, there.count))
            else:
                deeper += [prefix + digit for digit in _DIGITS]
        waiting = deeper + waiting
        while few and (not waiting or sum(count for _, count in few) >= _LISTED):
            together = [few.pop()]
            while few and sum(count for _, count in together) + few[-1][1] <= _LISTED:
                together.append(few.pop())
            yield [prefix for prefix, _ in together]


def _is_new(there: Range, here: Range) -> bool:
    """Whether the taker has nothing in a range that can be listed."""
    return not here.count and there.count <= _LISTED


def lacked(
    giver: Peer, taker: Peer, space: Space, asks: Hello, asked: Hello
) -> tuple[list[Item], list[bytes]]:
    """Find what the giver has and the taker has not, or not so; arguments as ``differing``.

    Returns:
        The items in the giver's order of arrival, and the keys of what was erased at the taker.
    """
    found: list[Item] = []
    erased: list[bytes] = []
    for prefixes in differing(giver, taker, space, asks, asked):
        items = iter(giver.listing(space, prefixes, asks))
        while page := list(islice(items, ITEMS)):
            asked_for = [replace(item, seq=0) for item in page]
            for item, answer in zip(page, taker.lacking(space, asked_for), strict=True):
                if answer == LACKS:
                    found.append(item)
                elif answer != HAS:
                    erased.append(item.key)
    found.sort(key=lambda item: item.seq)
    return found, erased


def shares_none(giver: Peer, taker: Peer, grains: int, asks: Hello) -> bool:
    """Tell whether two stores that never met seem to have no grain in common.

    Some are asked for. Then the feed can be followed from its start, and costs no addresses.

    Args:
        giver: one side.
        taker: the other.
        grains: how many the giver has.
        asks: who the taker is, for the giver.
    """
    prefix = ""
    while grains > _SOME * len(_DIGITS) ** len(prefix):
        prefix += "7"
    listed = giver.listing("grains", [prefix], asks)[:_SOME]
    items = [Item(item.key) for item in listed]
    return bool(items) and set(taker.lacking("grains", items)) == {LACKS}
