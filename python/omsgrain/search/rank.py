# SPDX-License-Identifier: Apache-2.0
"""One ranking made of several: reciprocal rank fusion.

The scores of words and of vectors cannot be compared; their ranks can. A grain at rank r of a list
gets 1 / (K + r), and its score is the sum over all lists (Cormack, Clarke, Büttcher, 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

__all__ = ["K", "Ranked", "fuse"]

K = 60
"""How little the first ranks stand out; the value of the paper, which others keep too."""


class Ranked(NamedTuple):
    """One result.

    Attributes:
        seq: the sequence number of a grain.
        score: above 0, and 1 for the best of the result.
    """

    seq: int
    score: float


def fuse(
    lists: Sequence[Iterable[int]],
    *,
    place: Callable[[int], bytes],
) -> list[Ranked]:
    """Rank the grains of several lists together.

    Args:
        lists: sequence numbers, the best first; of one that comes twice the first counts.
        place: gives the place of a grain (created_at, then address, as in the index), asked only
            of grains that tie: the newest comes first, then the lowest address.
    """
    parts: dict[int, list[float]] = {}
    for ranked in lists:
        for rank, seq in enumerate(dict.fromkeys(ranked), 1):
            parts.setdefault(seq, []).append(1 / (K + rank))
    # fsum rounds once, whatever the order: grains that swap ranks between lists tie exactly.
    sums = {seq: math.fsum(terms) for seq, terms in parts.items()}
    best = max(sums.values(), default=1.0)
    order: list[Ranked] = []
    for total, tied in groupby(sorted(sums, key=sums.__getitem__, reverse=True), sums.__getitem__):
        same = list(tied)
        if len(same) > 1:
            same.sort(key=place, reverse=True)
        order += [Ranked(seq, total / best) for seq in same]
    return order
