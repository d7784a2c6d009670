# SPDX-License-Identifier: Apache-2.0
"""The newest grain of each value of a field or path, such as the last reading of each sensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import nlargest
from itertools import islice

from omsgrain import _core
from omsgrain.errors import UnsupportedError
from omsgrain.grain import Grain
from omsgrain.query.filters import Conditions, Term
from omsgrain.query.query import MOST_READ, among, see_limit
from omsgrain.query.walk import INDEX_IT, Walk, is_opened, living, too_many
from omsgrain.query.where import Scalar, path_text, scalar_at
from omsgrain.storage.base import Reader
from omsgrain.storage.indexed_paths import paths_of
from omsgrain.storage.tables import VALUES

Found = tuple[bytes, Grain]
"""The place of a grain, and the grain."""
_EXACT = 1 << 53  # integers from here on share keys


def latest(
    reader: Reader,
    asked: Conditions,
    path: tuple[str, ...],
    *,
    limit: int,
    scan: bool,
    clock: Callable[[], int] | None = None,
) -> list[Found]:
    """Find the newest grain of each value at a path, newest first.

    If the path is indexed, each value is found without the grains of the others. Otherwise all
    grains that match are read, from the newest one on, until there are enough values.
    """
    see_limit(limit)
    asked = living(reader, asked, clock)
    numbers = {one.keys: one.number for one in paths_of(reader) if one.ready}
    number = numbers.get(path)
    terms, answered = among(reader, asked, scan=scan or number is not None)
    if number is not None and not is_opened(terms):
        found = _of_each(terms, answered, path, number, None if scan else MOST_READ)
        return nlargest(limit, found, key=_place)
    if not (answered.terms or answered.bounded or answered.between or scan):
        raise UnsupportedError(
            "no index answers this: every grain would be read",
            field="/per",
            expected="a filter that has an index, bounds in time, or scan=True" + INDEX_IT,
            found=path_text(*path),
        )
    if not scan:
        answered = answered._replace(most=MOST_READ)
    return list(islice(_newest(terms, answered, path), limit))


def _place(found: Found) -> bytes:
    return found[0]


def _newest(terms: Reader, asked: Conditions, path: tuple[str, ...]) -> Iterator[Found]:
    walk, seen = Walk(terms, asked, True), set[tuple[str, Scalar]]()
    for place, grain in walk.matches(walk.places(None)):
        value = scalar_at(grain.fields, path)
        if value is not None and value not in seen:
            seen.add(value)
            yield place, grain


def _of_each(
    terms: Reader, asked: Conditions, path: tuple[str, ...], number: int, most: int | None
) -> Iterator[Found]:
    """Find the newest grain under each key of an indexed path."""
    name = (path_text(*path),)
    for key in terms.keys(VALUES + bytes([number]), asked.which):
        one = asked._replace(terms=(*asked.terms, Term(name, key)), most=most)
        if _shares(number, key):
            yield from _newest(terms, one, path)
            continue
        walk = Walk(terms, one, True)
        yield from islice(walk.matches(walk.places(None)), 1)
        if most is not None:
            most -= walk.blobs
            if most <= 0:
                raise too_many(MOST_READ)


def _shares(number: int, key: bytes) -> bool:
    """Whether a key may have several values: integers that no float64 tells apart."""
    low, high = (_core.value_keys(number, sign * _EXACT)[0] for sign in (-1, 1))
    return key[:3] == low[:3] and not low < key < high
