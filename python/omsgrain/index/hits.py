# SPDX-License-Identifier: Apache-2.0
"""What a query answers: hits in order, and how they were found. Spec: OMS §28.1."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from omsgrain.grain import Grain

__all__ = ["Hit", "Incomplete", "Page", "Plan", "hits"]

Incomplete: TypeAlias = Literal["refused", "bytes"]
"""Why a search ended early: too many matches that filters refused, or grains of too many bytes."""


class Hit(NamedTuple):
    """One result.

    Attributes:
        grain: what was found.
        score: how well it matches, 1 for the best, in the result of a search; None in that of a
            query, which ranks nothing.
        matched_fields: the filters that it matched.
        content_address: its address.
        snippet: of a search by words: a piece of its text, with what was found in brackets.
    """

    grain: Grain
    score: float | None
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


@dataclass(frozen=True)
class Page:
    """Results of a query.

    Attributes:
        results: in order.
        total: how many there are in all; None unless it was asked for.
        next_cursor: pass it to go on; None at the end.
        plan: how the query was answered; None unless it was asked for.
        incomplete: of a search that ended early: why, so there may be more than the results.
    """

    __slots__ = ("_cursor", "incomplete", "next_cursor", "plan", "results", "total")

    results: list[Hit]
    total: int | None
    next_cursor: str | None
    plan: Plan | None
    incomplete: Incomplete | None

    @classmethod
    def going_on(
        cls, results: list[Hit], total: int | None, cursor: Callable[[], str], plan: Plan | None
    ) -> Page:
        """A page with others behind it; its cursor is made when it is asked for."""
        page = cls.__new__(cls)
        put = object.__setattr__
        put(page, "results", results)
        put(page, "total", total)
        put(page, "plan", plan)
        put(page, "incomplete", None)
        put(page, "_cursor", cursor)
        return page

    def __getattr__(self, name: str) -> str:
        if name != "next_cursor":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        make: Callable[[], str] = object.__getattribute__(self, "_cursor")
        made = make()
        object.__setattr__(self, "next_cursor", made)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        return (Page, (self.results, self.total, self.next_cursor, self.plan, self.incomplete))


def hits(found: Sequence[Grain], names: tuple[str, ...]) -> list[Hit]:
    """Make the hits of a page of a query."""
    new = tuple.__new__  # half of what a named tuple's own costs
    return [new(Hit, (grain, None, names, grain.address, None)) for grain in found]
