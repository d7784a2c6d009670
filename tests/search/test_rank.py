# SPDX-License-Identifier: Apache-2.0
"""Reciprocal rank fusion: one ranking of several."""

from __future__ import annotations

from random import Random

import pytest

from omsgrain.search.rank import K, fuse
from omsgrain.search.text import Match


def newest(seq: int) -> bytes:
    """A place: the higher the number, the newer."""
    return seq.to_bytes(16, "big")


def seqs(ranked: list[Match]) -> list[int]:
    return [one.seq for one in ranked]


def test_scores_are_sums_of_reciprocal_ranks_over_the_best() -> None:
    ranked = dict(fuse([[1, 2, 3], [2, 4]], place=newest))
    sums = {1: 1 / 61, 2: 1 / 62 + 1 / 61, 3: 1 / 63, 4: 1 / 62}
    assert list(ranked) == [2, 1, 4, 3]
    assert ranked == pytest.approx({seq: total / sums[2] for seq, total in sums.items()})
    assert K == 60


def test_a_weight_scales_a_list() -> None:
    assert seqs(fuse([[1, 2], [3, 4]], place=newest, weights=(0.8, 0.2))) == [1, 2, 3, 4]
    assert seqs(fuse([[1, 2], [3, 2]], place=newest, weights=(0.2, 0.8))) == [2, 3, 1]
    assert seqs(fuse([[1], [3]], place=newest, weights=(0, 1))) == [3, 1]
    assert {one.score for one in fuse([[1], [1]], place=newest, weights=(0, 0))} == {0.0}


@pytest.mark.parametrize(
    ("lists", "expected"),
    [
        ([], []),
        ([[], []], []),
        ([[7]], [7]),
        ([[5, 9, 1]], [5, 9, 1]),
        ([[1, 1, 1, 2], [2]], [2, 1]),  # twice in a list counts once: 2 is second, and first
        ([[1, 2], [2, 1]], [2, 1]),  # a tie: the newest first
        ([[1], [3], [2]], [3, 2, 1]),
    ],
)
def test_order(lists: list[list[int]], expected: list[int]) -> None:
    assert seqs(fuse(lists, place=newest)) == expected


def test_ties_do_not_depend_on_the_order_of_lists() -> None:
    random = Random(1)
    for _ in range(50):
        count = random.randint(3, 8)
        ranks = random.sample(range(1, 40), count)
        # Every grain has the same ranks, each time in other lists.
        lists: list[list[int]] = [[] for _ in range(count)]
        for at, one in enumerate(lists):
            filler = iter(range(1000 * (at + 1), 1000 * (at + 2)))
            by_rank = {ranks[(at + seq) % count]: seq for seq in range(count)}
            one.extend(by_rank.get(rank) or next(filler) for rank in range(1, 41))
        tied = [one.score for one in fuse(lists, place=newest) if 1 <= one.seq < count]
        assert len(tied) == count - 1
        assert len(set(tied)) == 1


def test_places_are_asked_of_ties_only() -> None:
    asked = []

    def place(seq: int) -> bytes:
        asked.append(seq)
        return newest(seq)

    assert seqs(fuse([[4, 2, 3], [4, 3, 2]], place=place)) == [4, 3, 2]
    assert sorted(asked) == [2, 3]
