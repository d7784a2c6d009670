# SPDX-License-Identifier: Apache-2.0
"""Queries: the filter with the fewest grains is walked in order, the others are looked up.

Every filter names a term, and every term has its grains in order of time. The value that places a
grain is the same under all its terms (``rust/core/src/index_rows.rs``), so a query walks the
shortest list and asks of each grain whether it is in the others: no list is loaded, nothing is
sorted, and a page of ten reads about ten rows where most grains match.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, Protocol, TypeAlias

from omsgrain import _core
from omsgrain.errors import IntegrityError, RangeError, SchemaError
from omsgrain.grain import Grain
from omsgrain.index import cursor as cursors
from omsgrain.registry import TYPES

__all__ = ["FILTERS", "Hit", "Order", "Page", "Plan", "Terms", "Time", "run"]

Order = Literal["newest", "oldest"]
Time: TypeAlias = int | datetime | str
"""Ms since 1970, an aware datetime, or RFC 3339 text."""
FILTERS = (
    "type",
    "namespace",
    "subject",
    "relation",
    "object",
    "user_id",
    "session_id",
    "run_id",
    "tag",
)
"""The filters by equality, by name."""

_HASHED = (0xFE, 0xFF)  # second byte of a key whose term is too long to stand in it
_LIMIT = 10_000
_FOREVER = 1 << 47  # ms, beyond every created_at
_ALL_BITS = (1 << 48) - 1  # a place has the complement of the address's first six bytes


class Terms(Protocol):
    """What a query needs of a store's snapshot."""

    def term_count(self, key: bytes) -> int:
        """How many grains have the term; at least so many as can be seen."""
        ...

    def has_term(self, key: bytes, place: bytes) -> bool:
        """Whether the grain at a place has the term."""
        ...

    def places(self, key: bytes, after: bytes | None, newest: bool) -> Iterator[bytes]:
        """The grains that have the term, in order, from behind a place."""
        ...

    def blob_at(self, seq: int) -> bytes | None:
        """The blob with a sequence number."""
        ...


@dataclass(frozen=True, slots=True)
class Hit:
    """One result.

    Attributes:
        grain: what was found.
        score: the rank's value, scaled to 0..1 within the page: the newest has 1.
        matched_fields: the filters that it matched.
        content_address: its address.
    """

    grain: Grain
    score: float
    matched_fields: tuple[str, ...]
    content_address: str


@dataclass(frozen=True, slots=True)
class Plan:
    """How a query was answered.

    Attributes:
        index: the filters whose list was walked; "all" is every grain in order of time.
        looked_up: the filters that each grain of it was looked up in.
        estimate: how many grains the list holds.
        rows: how many of its rows were read.
    """

    index: str
    looked_up: tuple[str, ...]
    estimate: int
    rows: int


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


@dataclass(frozen=True, slots=True)
class _Term:
    names: tuple[str, ...]
    key: bytes


def run(
    terms: Terms,
    filters: Mapping[str, Any],
    *,
    created_after: Time | None,
    created_before: Time | None,
    order: Order,
    limit: int,
    cursor: str | None,
    count: bool,
    explain: bool,
) -> Page:
    """Answer a query on a snapshot.

    Raises:
        SchemaError: an unknown order or filter value, or a cursor of another query.
        RangeError: a limit below 1 or above 10,000.
    """
    if order not in ("newest", "oldest"):
        raise SchemaError("unknown order", field="/order", expected='"newest" or "oldest"')
    if not 1 <= limit <= _LIMIT:
        raise RangeError(
            "a page cannot have that many results",
            field="/limit",
            expected=f"1 to {_LIMIT}",
            found=str(limit),
        )
    wanted = _terms(filters)
    low = _millis(created_after, 0)
    high = _millis(created_before, _FOREVER)
    names = tuple(name for name, value in filters.items() if value is not None)
    query = cursors.fingerprint([*(t.key for t in wanted), b"%d-%d" % (low, high)], order)
    walk = _Walk(terms, wanted, {n: filters[n] for n in names}, order == "newest", low, high)
    start = None if cursor is None else cursors.unpack(cursor, query)
    found: list[tuple[bytes, Grain]] = []
    more = False
    for place, grain in walk.matches(start):
        if len(found) == limit:
            more = True
            break
        found.append((place, grain))
    plan = Plan(walk.name, walk.looked_up, walk.estimate, walk.rows) if explain else None
    total = walk.total() if count else None
    next_cursor = cursors.pack(query, found[-1][0]) if more else None
    return Page(_hits(found, names), total, next_cursor, plan)


class _Walk:
    """One pass over the shortest list."""

    def __init__(
        self,
        terms: Terms,
        wanted: list[_Term],
        values: dict[str, Any],
        newest: bool,
        low: int,
        high: int,
    ) -> None:
        counted = sorted((terms.term_count(term.key), i) for i, term in enumerate(wanted))
        self.terms = terms
        self.estimate, first = counted[0]
        self.key = wanted[first].key
        self.name = " ".join(wanted[first].names) or "all"
        self.others = [wanted[i].key for _, i in counted[1:]]
        self.looked_up = tuple(" ".join(wanted[i].names) for _, i in counted[1:])
        self.unsure = {
            name: values[name]
            for term in wanted
            if len(term.key) > 2 and term.key[1] in _HASHED  # two bytes are a type and its kind
            for name in term.names
        }
        self.newest = newest
        self.low, self.high = _edge(low), _edge(high)
        self.bounded = low > 0 or high < _FOREVER
        self.rows = 0

    def _places(self, start: bytes | None) -> Iterator[bytes]:
        edge = self.high if self.newest else self.low
        if start is None and (self.bounded or not self.newest):
            start = edge
        has = self.terms.has_term
        for place in self.terms.places(self.key, start, self.newest):
            self.rows += 1
            if place < self.low if self.newest else place >= self.high:
                return
            if all(has(key, place) for key in self.others):
                yield place

    def matches(self, start: bytes | None) -> Iterator[tuple[bytes, Grain]]:
        for place in self._places(start):
            blob = self.terms.blob_at(int.from_bytes(place[12:], "big"))
            if blob is None:
                continue
            grain = Grain(blob)
            if int(grain.address[:12], 16) ^ int.from_bytes(place[6:12], "big") != _ALL_BITS:
                raise IntegrityError("a stored grain or its index row is damaged")
            if all(_equal(grain, name, value) for name, value in self.unsure.items()):
                yield place, grain

    def total(self) -> int:
        if not self.others and not self.bounded and not self.unsure:
            return self.estimate
        if self.unsure:
            return sum(1 for _ in self.matches(None))
        return sum(1 for _ in self._places(None))


def _edge(ms: int) -> bytes:
    """The place before which all earlier grains stand."""
    return ms.to_bytes(6, "big") + bytes(10)


def _terms(filters: Mapping[str, Any]) -> list[_Term]:
    given = {name: value for name, value in filters.items() if value is not None}
    unknown = given.keys() - set(FILTERS)
    if unknown:
        raise SchemaError("unknown filter", field=f"/{min(unknown)}", expected=", ".join(FILTERS))
    out = []
    if "subject" in given and "relation" in given:
        names = ("subject", "relation")
        subject, relation = (_text(name, given.pop(name)) for name in names)
        out.append(_Term(names, _core.term("subject relation", subject, relation)))
    for name, value in given.items():
        if name == "type":
            key = _core.term("type", _type_byte(value))
        elif name == "object":
            key = _core.term("object", value)
        else:
            key = _core.term(name, _text(name, value))
        out.append(_Term((name,), key))
    return out or [_Term((), _core.term("all", None))]


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value
    raise SchemaError(
        "a filter of the wrong kind",
        field=f"/{name}",
        expected="a string",
        found=type(value).__name__,
    )


def _type_byte(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 255:
        return value
    for kind in TYPES:
        if value == kind.name or value in kind.legacy or value in kind.later:
            return kind.byte
    raise SchemaError(
        "no such grain type",
        field="/type",
        expected=", ".join(t.name for t in TYPES) + ", or a type byte",
    )


def _millis(value: Time | None, default: int) -> int:
    return default if value is None else min(max(0, _core.millis(value)), _FOREVER)


def _equal(grain: Grain, name: str, value: object) -> bool:
    """Whether a term that stands in the index by its hash is really the one asked for."""
    if name == "tag":
        return _nfc(value) in grain.get("structural_tags", ())
    return bool(grain.get(name) == _nfc(value))


def _nfc(value: object) -> object:
    """A value as a grain holds it."""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value)
    if isinstance(value, Mapping):
        return {_nfc(key): _nfc(item) for key, item in value.items() if item is not None}
    return [_nfc(item) for item in value] if isinstance(value, list | tuple) else value


def _hits(found: list[tuple[bytes, Grain]], names: tuple[str, ...]) -> list[Hit]:
    times = [int.from_bytes(place[:6], "big") for place, _ in found]
    low, high = min(times, default=0), max(times, default=0)
    span = high - low
    return [
        Hit(grain, 1.0 if span == 0 else (time - low) / span, names, grain.address)
        for time, (_, grain) in zip(times, found, strict=True)
    ]
