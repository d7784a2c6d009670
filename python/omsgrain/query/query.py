# SPDX-License-Identifier: Apache-2.0
"""Queries: a page of grains that match all filters, and all of them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from omsgrain.errors import RangeError, SchemaError, UnsupportedError, number_found
from omsgrain.grain import Grain
from omsgrain.query import cursor as cursors
from omsgrain.query.filters import Conditions, Time, conditions
from omsgrain.query.walk import QueryContext, Walk, is_opened
from omsgrain.storage.base import PAGE_BYTES, PAGE_GRAINS
from omsgrain.storage.records import Verification

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


Order = Literal["newest", "oldest"]

_LIMIT = 10_000
_USERS = 20_000  # with sealed grains: to look among those of all takes 25 us for each
_NO_TESTS = (None,) * 5
_FIRST = 16  # grains read for a first `next`


def run(
    terms: QueryContext,
    filters: Mapping[str, Any],
    *,
    valid_at: Time | None = None,
    known_at: Time | None = None,
    current: bool | None = True,
    verification_status: Verification | None = None,
    min_confidence: float | None = None,
    created_after: Time | None = None,
    created_before: Time | None = None,
    words: str | None = None,
    order: Order = "newest",
    limit: int = 50,
    cursor: str | None = None,
    count: bool = False,
    explain: bool = False,
    scan: bool = False,
    sealed: bool = True,
    bookkeeping: bool = False,
) -> Page:
    """Answer a query on a snapshot; ``GrainStore.query`` says what the arguments mean."""
    if order not in ("newest", "oldest"):
        raise SchemaError("unknown order", field="/order", expected='"newest" or "oldest"')
    if type(limit) is not int or not 1 <= limit <= _LIMIT:
        raise RangeError(
            "a page cannot have that many results",
            field="/limit",
            expected=f"1 to {_LIMIT}",
            found=number_found(limit),
        )
    given: dict[str, Any] = {"current": current, "bookkeeping": bookkeeping}
    tests = valid_at, known_at, verification_status, min_confidence, words
    if tests != _NO_TESTS or created_after is not None or created_before is not None:
        names = "valid_at", "known_at", "verification_status", "min_confidence", "words"
        given.update(zip(names, tests, strict=True))
        given.update(created_after=created_after, created_before=created_before)
    given.update(filters)
    asked = conditions(given)
    terms = among(terms, asked, sealed, scan=scan)
    if asked.scans and not scan:
        raise UnsupportedError(
            "no index answers this: every grain would be read",
            expected="a filter that has an index, bounds in time, or scan=True",
            found=", ".join(asked.tested),
        )
    newest = order == "newest"
    query = b"" if cursor is None else _fingerprint(asked, order)
    start = None if cursor is None else cursors.unpack(cursor, query)
    walk = Walk(terms, asked, newest)
    places = walk.places(start)
    found = walk.page(places, limit)
    more = len(found) == limit and walk.goes_on(places)
    plan = _plan(walk) if explain else None
    total = None
    if count and (total := walk.total()) is None:
        # A page from the start has counted its part already.
        met = len(found) + more + walk.passed
        total = walk.count(places, met) if start is None else walk.count(walk.places(None))
    results = hits([grain for _, grain in found], asked.names)
    if not more:
        return Page(results, total, None, plan, None)
    last = found[-1][0]
    return Page.going_on(
        results, total, lambda: cursors.pack(query or _fingerprint(asked, order), last), plan
    )


def among(
    terms: QueryContext, asked: Conditions, sealed: bool, *, scan: bool = False
) -> QueryContext:
    """Choose the grains to look among: with the sealed ones that are open here, or without."""
    if not is_opened(terms):
        return terms
    if not sealed or not terms.has_sealed():
        return terms.inner
    if asked.ranges:
        raise UnsupportedError(
            "the store has sealed grains, and of those only exact values and words can be asked",
            expected="sealed=False, to look among the others only",
            found=", ".join(asked.ranges),
        )
    if "user_id" not in asked.equal and not scan and terms.users > _USERS:
        raise UnsupportedError(
            "the store has sealed grains of more users than are looked among at once",
            field="/user_id",
            expected=f"user_id=, sealed=False, or scan=True; at most {_USERS} users without",
            found=f"{terms.users} users",
        )
    return terms.narrowed(asked.equal.get("user_id"), asked.words)


def match(
    read: Callable[[], AbstractContextManager[QueryContext]],
    subject: str | None = None,
    relation: str | None = None,
    object: Any = None,
) -> Iterator[Grain]:
    """Walk the current grains with a subject, relation and object; None stands for any.

    They are read by pages, each in a snapshot of its own, so a walk holds back no writer. What
    arrives meanwhile and is older than the last grain given is met, too.
    """
    asked = conditions({"subject": subject, "relation": relation, "object": object})
    return _match(read, asked)


def _match(
    read: Callable[[], AbstractContextManager[QueryContext]], asked: Conditions
) -> Iterator[Grain]:
    after: bytes | None = None
    most = _FIRST
    while True:
        page, whole = _page(read, asked, after, most)
        yield from (grain for _, grain in page)
        if whole:
            return
        after, most = page[-1][0], min(most * 4, PAGE_GRAINS)


def _page(
    read: Callable[[], AbstractContextManager[QueryContext]],
    asked: Conditions,
    after: bytes | None,
    most: int,
) -> tuple[list[tuple[bytes, Grain]], bool]:
    """Read the next places and grains in a snapshot, and tell whether these are the last."""
    page: list[tuple[bytes, Grain]] = []
    size = 0
    with read() as terms:
        walk = Walk(terms, asked, True)
        for place, grain in walk.matches(walk.places(after)):
            page.append((place, grain))
            size += len(grain.blob)
            if len(page) == most or size >= PAGE_BYTES:
                return page, False
    return page, True


def _plan(walk: Walk) -> Plan:
    return Plan(walk.name, walk.looked_up, walk.tested, walk.estimate, walk.rows, walk.blobs)


def _fingerprint(asked: Conditions, order: Order) -> bytes:
    return cursors.fingerprint(order, *asked.parts())
