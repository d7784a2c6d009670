# SPDX-License-Identifier: Apache-2.0
"""Queries: a page of grains that match all filters, and all of them one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

from omsgrain.errors import RangeError, SchemaError, UnsupportedError, number_found
from omsgrain.formats.source import STATE
from omsgrain.grain import Grain, stored_grains
from omsgrain.query import cursor as cursors
from omsgrain.query.filters import Conditions, Filters, conditions
from omsgrain.query.times import now
from omsgrain.query.value_range import with_values
from omsgrain.query.walk import ALL, INDEX_IT, TOGETHER, Walk, is_opened, lists_beside, living
from omsgrain.storage.base import PAGE_BYTES, PAGE_GRAINS, Reader
from omsgrain.storage.indexed_paths import paths_of

if TYPE_CHECKING:
    from omsgrain.storage.encrypted import DecryptingReader

Incomplete: TypeAlias = Literal["refused", "bytes"]
"""Why a search ended early: too many matches that filters refused, or grains of too many bytes."""


class Hit(NamedTuple):
    """One result.

    Attributes:
        grain: what was found.
        score: how well it matches, 1 for the best, in the result of a search; None in that of a
            query, which ranks nothing.
        matched_fields: the filters that it matched.
        address: its address.
        snippet: of a search by words: a piece of its text, with what was found in brackets.
    """

    grain: Grain
    score: float | None
    matched_fields: tuple[str, ...]
    address: str
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
    """Results of a query. Iterate over a page for its hits; ``len`` counts them.

    Attributes:
        results: in order.
        total: how many there are in all; None unless it was asked for.
        next_cursor: where the next page begins, for a later query; None at the end.
        plan: how the query was answered; None unless it was asked for.
        incomplete: of a search that ended early: why, so there may be more than the results.
        behind: of a search that did not wait: how many grains are not in the text index yet, at
            most.
    """

    __slots__ = (
        "_ask", "_cursor", "behind", "incomplete", "next_cursor", "plan", "results", "total"
    )  # fmt: skip

    results: list[Hit]
    total: int | None
    next_cursor: str | None
    plan: Plan | None
    incomplete: Incomplete | None
    behind: int

    @classmethod
    def going_on(
        cls,
        results: list[Hit],
        total: int | None,
        cursor: Callable[[], str],
        plan: Plan | None,
        ask: Callable[..., Page] | None,
    ) -> Page:
        """Make a page that others follow. Its cursor is made at the first use."""
        page = cls.__new__(cls)
        put = object.__setattr__
        put(page, "results", results)
        put(page, "total", total)
        put(page, "plan", plan)
        put(page, "incomplete", None)
        put(page, "behind", 0)
        put(page, "_cursor", cursor)
        put(page, "_ask", ask)
        return page

    def next(self) -> Page | None:
        """Return the next page of the same query, or None at the end.

        Raises:
            UnsupportedError: the page is a copy, such as one from another process.
        """
        if self.next_cursor is None:
            return None
        ask: Callable[..., Page] | None = getattr(self, "_ask", None)
        if ask is None:
            raise UnsupportedError(
                "a copy of a page has no store", expected="query(cursor=page.next_cursor)"
            )
        return ask(cursor=self.next_cursor)

    def __iter__(self) -> Iterator[Hit]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __getattr__(self, name: str) -> str:
        if name != "next_cursor":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        make: Callable[[], str] = object.__getattribute__(self, "_cursor")
        made = make()
        object.__setattr__(self, "next_cursor", made)
        return made

    def __reduce__(self) -> tuple[object, ...]:
        rest = (self.plan, self.incomplete, self.behind)
        return (Page, (self.results, self.total, self.next_cursor, *rest))


def hits(found: Sequence[tuple[bytes, Grain]], names: tuple[str, ...]) -> list[Hit]:
    new = tuple.__new__  # half of what a named tuple's own costs
    return [new(Hit, (grain, None, names, grain.address, None)) for _, grain in found]


def page_of(grains: Sequence[Grain]) -> Page:
    """Make a page of results that nothing follows."""
    return Page([Hit(one, None, (), one.address) for one in grains], None, None, None, None, 0)


Order = Literal["newest", "oldest"]

_LIMIT = 10_000
MOST_READ = 100_000
"""Grains that a query with ``where`` reads for one page, without ``scan``."""
NO_TYPE = 0  # no grain has this type byte
_USERS = 20_000  # with sealed grains: to look among those of all takes 25 us for each
_FIRST = 16  # grains read for a first `next`


class PageReader(Protocol):
    """Reads the first current grains of a list of the index in one call of the core."""

    def __call__(
        self, key: bytes, newest: bool, limit: int, unsure: int
    ) -> tuple[list[tuple[bytes, str]], bytes, bool] | None:
        """Return blobs and their addresses, the place of the last, and whether there are more.

        None if a grain of the type ``unsure`` is among them.
        """
        ...


def first_page(
    read: PageReader, asked: Conditions, order: Order, limit: int, ask: Callable[..., Page]
) -> Page | None:
    """Answer a query from the start if one list has what is asked; None if a walk must."""
    _see(order, limit)
    if len(asked.terms) > 1 or asked.current is not True or asked.bounded or asked.tested:
        return None
    if limit > TOGETHER:
        return None
    term = asked.terms[0] if asked.terms else ALL
    if term.prefix or term.hashed:
        return None
    unsure = STATE if lists_beside(asked) else NO_TYPE
    found = read(term.key, order == "newest", limit, unsure)
    if found is None:
        return None
    rows, last, more = found
    names, new = asked.names, tuple.__new__
    results = [
        new(Hit, (grain, None, names, row[1], None))
        for grain, row in zip(stored_grains(rows), rows, strict=True)
    ]
    if not more:
        return Page(results, None, None, None, None, 0)
    return Page.going_on(
        results, None, lambda: cursors.pack(_fingerprint(asked, order), last), None, ask
    )


def _see(order: Order, limit: int) -> None:
    if order not in ("newest", "oldest"):
        raise SchemaError("unknown order", field="/order", expected='"newest" or "oldest"')
    see_limit(limit)


def see_limit(limit: int, most: int = _LIMIT) -> None:
    """Refuse a number of results that no page can have."""
    if type(limit) is not int or not 1 <= limit <= most:
        raise RangeError(
            "limit is out of range",
            field="/limit",
            expected=f"1 to {most}",
            found=number_found(limit),
        )


def run(
    terms: Reader,
    filters: Filters | Conditions,
    *,
    order: Order = "newest",
    limit: int = 50,
    cursor: str | None = None,
    count: bool = False,
    explain: bool = False,
    scan: bool = False,
    ask: Callable[..., Page] | None = None,
    clock: Callable[[], int] | None = None,
) -> Page:
    """Answer a query on a snapshot; ``GrainStore.query`` says what the arguments mean.

    Pages that are shown to users have ``ask``, which asks again with another cursor. With a
    clock, grains whose end of life has come are left out.
    """
    _see(order, limit)
    asked = filters if isinstance(filters, Conditions) else conditions(filters, clock or now)
    options = _Options(order, limit, cursor, count, explain, scan, ask)
    page = _answer(terms, asked, options)
    # Afterwards, when a server's answer has brought the first deadline.
    alive = living(terms, asked, clock)
    return page if alive is asked else _answer(terms, alive, options)


class _Options(NamedTuple):
    order: Order
    limit: int
    cursor: str | None
    total: bool
    explain: bool
    scan: bool
    ask: Callable[..., Page] | None


def _answer(terms: Reader, asked: Conditions, options: _Options) -> Page:
    order, limit, cursor, count, explain, scan, ask = options
    terms, answered = among(terms, asked, scan=scan)
    newest = order == "newest"
    query = b"" if cursor is None else _fingerprint(asked, order)
    start = None if cursor is None else cursors.unpack(cursor, query)
    walk = Walk(terms, answered, newest)
    places = walk.places(start)
    found, more = walk.page(places, limit)
    plan = None
    if explain:
        plan = Plan(walk.name, walk.looked_up, walk.tested, walk.estimate, walk.rows, walk.blobs)
    total = None
    if count and (total := walk.total()) is None:
        # A page from the start has counted its part already.
        met = len(found) + more + walk.passed
        total = walk.count(places, met) if start is None else walk.count(walk.places(None))
    results = hits(found, asked.names)
    if not more:
        return Page(results, total, None, plan, None, 0)
    last = found[-1][0]
    return Page.going_on(
        results, total, lambda: cursors.pack(query or _fingerprint(asked, order), last), plan, ask
    )


def among(terms: Reader, asked: Conditions, *, scan: bool) -> tuple[Reader, Conditions]:
    """Choose the grains to look among, and the conditions with the lists that these have."""
    paths = paths_of(terms) if asked.where else ()
    if is_opened(terms) and asked.sealed and terms.has_sealed():
        if paths:
            blind = [path for path in paths if path.blind_ready]
            asked = with_values(asked, blind, ranges=False)
        terms, asked = _among_sealed(terms, asked, scan)
    else:
        terms = terms.raw
        if paths:
            asked = with_values(asked, paths, ranges=True)
    if asked.scans and not scan:
        values = asked.tested_values
        raise UnsupportedError(
            "no index answers this: every grain would be read",
            field=f"/{values[0]}" if values else None,
            expected="a filter that has an index, bounds in time, or scan=True"
            + (INDEX_IT if values else ""),
            found=", ".join(asked.tested),
        )
    if asked.where and not (scan or asked.indexed):
        asked = asked._replace(most=MOST_READ)
    return terms, asked


def _among_sealed(
    terms: DecryptingReader, asked: Conditions, scan: bool
) -> tuple[Reader, Conditions]:
    user_id = asked.equal.get("user_id")
    if asked.ranges:
        if user_id is None:
            raise UnsupportedError(
                "encrypted grains can be asked for ranges for one user at a time",
                field="/user_id",
                expected="user_id=, or sealed=False, to look at plain grains only",
                found=", ".join(asked.ranges),
            )
        terms.keys_to_open(user_id)
        # The index cannot list the namespaces of encrypted grains: each grain is compared.
        asked = asked._replace(terms=tuple(one for one in asked.terms if not one.prefix))
    if user_id is None and not scan and terms.users > _USERS:
        raise UnsupportedError(
            "the store has sealed grains of more users than are looked among at once",
            field="/user_id",
            expected=f"user_id=, sealed=False, or scan=True; at most {_USERS} users without",
            found=f"{terms.users} users",
        )
    return terms.narrowed(user_id, asked.words), asked


def iterate(
    read: Callable[[], AbstractContextManager[Reader]],
    filters: Filters,
    *,
    scan: bool = False,
    clock: Callable[[], int] | None = None,
) -> Iterator[Grain]:
    """Walk all grains that match, newest first; ``GrainStore.iter_query`` says more."""
    return _iterate(
        read, conditions(filters, clock or now), scan, clock
    )  # refuses filters at once


def _iterate(
    read: Callable[[], AbstractContextManager[Reader]],
    asked: Conditions,
    scan: bool,
    clock: Callable[[], int] | None,
) -> Iterator[Grain]:
    after: bytes | None = None
    most, more = _FIRST, True
    while more:
        with read() as terms:  # closed before the caller gets a grain
            page, last = _some(terms, asked, scan, after, most)
            alive = living(terms, asked, clock)
            if alive is not asked:
                page, last = _some(terms, alive, scan, after, most)
        yield from page
        more, after = last is not None, last
        most = min(most * 4, PAGE_GRAINS)


def _some(
    terms: Reader, asked: Conditions, scan: bool, after: bytes | None, most: int
) -> tuple[list[Grain], bytes | None]:
    """The next grains that match, and the place of the last if there may be more."""
    page: list[Grain] = []
    size = 0
    walk = Walk(*among(terms, asked, scan=scan), True)
    for place, grain in walk.matches(walk.places(after)):
        page.append(grain)
        size += len(grain.blob)
        if len(page) == most or size >= PAGE_BYTES:
            return page, place
    return page, None


def _fingerprint(asked: Conditions, order: Order) -> bytes:
    return cursors.fingerprint(order, *asked.parts())
