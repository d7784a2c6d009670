# SPDX-License-Identifier: Apache-2.0
"""What a query answers: hits in order, and how they were found. Spec: OMS §28.1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from omsgrain.grain import Grain

__all__ = ["Hit", "Page", "Plan", "hits"]


class Hit(NamedTuple):
    """One result.

    Attributes:
        grain: what was found.
        score: the rank's value, scaled to 0..1 within the page: the newest has 1.
        matched_fields: the filters that it matched.
        content_address: its address.
        snippet: of a search by words: a piece of its text, with what was found in brackets.
    """

    grain: Grain
    score: float
    matched_fields: tuple[str, ...]
    content_address: str
    snippet: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query was answered.

    Attributes:
        index: the filters whose list was walked; "all" is every grain in order of time.
        looked_up: the filters that each grain of it was looked up in.
        tested: the filters that no index answers, tested on each grain that was left.
        estimate: how many grains the list holds, at most.
        rows: how many of its rows were read.
        blobs: how many grains were read.
    """

    index: str
    looked_up: tuple[str, ...]
    tested: tuple[str, ...]
    estimate: int
    rows: int
    blobs: int


@dataclass(frozen=True, slots=True)
class Page:
    """Results of a query.

    Attributes:
        results: in order.
        total: how many there are in all; None unless it was asked for.
        next_cursor: pass it to go on; None at the end.
        plan: how the query was answered; None unless it was asked for.
    """

    results: list[Hit]
    total: int | None
    next_cursor: str | None
    plan: Plan | None


def hits(found: Sequence[tuple[bytes, Grain]], names: tuple[str, ...]) -> list[Hit]:
    """Make the hits of a page from places and grains that are in order of time."""
    times = [int.from_bytes(place[:6], "big") for place, _ in found]
    low, high = (min(times[0], times[-1]), max(times[0], times[-1])) if times else (0, 0)
    span = high - low
    new = tuple.__new__  # half of what a named tuple's own costs
    return [
        new(Hit, (grain, (time - low) / span if span else 1.0, names, grain.address, None))
        for time, (_, grain) in zip(times, found, strict=True)
    ]
