# SPDX-License-Identifier: Apache-2.0
"""What the index answers of the filter ``where``: the values at indexed paths.

A test for equality becomes a term, with a list in order of time as every term has. The tests for
order of one path become a range of terms, each with the grains of one value. A key finds at least
the grains with its value, so each grain found is compared with the tests too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import inf
from typing import Final

from omsgrain import _core
from omsgrain.query.filters import Conditions, Term, ValueRange
from omsgrain.query.where import Scalar, path_text
from omsgrain.storage.base import Reader, Which
from omsgrain.storage.indexed_paths import IndexedPath

GATHERED: Final = 16_384
"""Places of a range that are sorted at a time."""
_KIND: Final = 3  # bytes before the value in a key
_END: Final = b"\xff" * 64  # behind the first bytes of a key, above all keys that begin so
_WHOLE: Final = range(-(1 << 63), 1 << 64)  # the integers of grains


def with_values(asked: Conditions, paths: Iterable[IndexedPath], *, ranges: bool) -> Conditions:
    """Add what the index has of some paths, with or without ranges."""
    numbers = {path.keys: path.number for path in paths if path.ready}
    terms: list[Term] = []
    spans: dict[tuple[str, ...], tuple[bytes, bytes]] = {}
    indexed = 0
    for test in asked.where:
        number = numbers.get(test.path)
        if number is None or test.operator == "ne" or not (ranges or test.operator == "eq"):
            continue
        indexed += 1
        key, first, last = _core.value_keys(number, _bounded(test.value))
        if test.operator == "eq":
            terms.append(Term((path_text(*test.path),), key))
            continue
        low, high = spans.get(test.path, (key[:_KIND], key[:_KIND] + _END))
        if test.operator in ("gt", "gte"):
            low = max(low, first)
        else:
            high = min(high, last)
        spans[test.path] = low, high
    found = [ValueRange(path_text(*path), *span) for path, span in spans.items()]
    return asked._replace(
        terms=(*asked.terms, *terms),
        between=tuple(found),
        indexed=indexed == len(asked.where),
    )


def _bounded(value: Scalar) -> Scalar:
    """A number that sorts among those of grains as the value does."""
    if isinstance(value, int) and value not in _WHOLE:
        return inf if value > 0 else -inf
    return value


def places(
    terms: Reader, found: ValueRange, after: bytes | None, newest: bool, which: Which
) -> Iterator[bytes]:
    """Walk the places of a range in order of time. Of a large range, each part reads all of it."""
    while part := terms.places_between(found.first, found.last, after, newest, which, GATHERED):
        yield from part
        if len(part) < GATHERED:
            return
        after = part[-1]
