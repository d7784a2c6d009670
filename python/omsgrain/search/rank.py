# SPDX-License-Identifier: Apache-2.0
"""One ranking made of several: reciprocal rank fusion.

The scores of words and of vectors cannot be compared; their ranks can. A grain at rank r of a list
gets weight / (k + r), and its score is the sum over all lists (Cormack, Clarke, Büttcher, 2009).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from omsgrain.errors import RangeError, SchemaError

__all__ = ["K", "Ranked", "fuse"]

K = 60
"""How little the first ranks stand out; the value of the paper, which others keep too."""

_MOST = 1e6


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
    weights: Sequence[float] | None = None,
    k: float = K,
) -> list[Ranked]:
    """Rank the grains of several lists together.

    Args:
        lists: sequence numbers, the best first; of one that comes twice the first counts.
        place: gives the place of a grain (created_at, then address, as in the index), asked only
            of grains that tie: the newest comes first, then the lowest address.
        weights: how much each list counts, 0 or 1e-6 to 1e6; all the same by default.
        k: how little the first ranks stand out, 0 to 1e6.

    Raises:
        SchemaError: not one weight for each list.
        RangeError: a weight or ``k`` out of range.
    """
    weights = [1.0] * len(lists) if weights is None else list(weights)
    if len(weights) != len(lists):
        raise SchemaError(
            "each list has one weight", expected=str(len(lists)), found=str(len(weights))
        )
    if not all(weight == 0 or 1 / _MOST <= weight <= _MOST for weight in weights):
        raise RangeError("a weight is 0, or from 1e-6 to 1e6", field="/weights")
    if not 0 <= k <= _MOST:
        raise RangeError("k is from 0 to 1e6", field="/k")
    parts: dict[int, list[float]] = {}
    for ranked, weight in zip(lists, weights, strict=True):
        if weight:
            for rank, seq in enumerate(dict.fromkeys(ranked), 1):
                parts.setdefault(seq, []).append(weight / (k + rank))
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
