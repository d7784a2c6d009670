# SPDX-License-Identifier: Apache-2.0
"""JSON documents with one thing changed."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from hypothesis import strategies as st

from omsgrain.conformance import rule
from omsgrain.formats.problems import Problem
from support.mif2_documents import ANY

GONE = object()
"""In the place of a value: nothing stands there."""


def edited(whole: dict[str, Any], edits: dict[str, Any]) -> dict[str, Any]:
    """The document with other values at these pointers."""
    whole = copy.deepcopy(whole)
    for pointer, value in edits.items():
        place: Any = whole
        *way, last = pointer[1:].split("/")
        for key in way:
            place = place[int(key)] if isinstance(place, list) else place[key]
        at: Any = int(last) if isinstance(place, list) else last
        if value is GONE:
            del place[at]
        else:
            place[at] = value
    return whole


def placed(whole: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """The document with values set at these pointers; ``/-`` adds to an array."""
    return rule.edited(whole, {"set": values})


def rules(problems: Iterable[Problem]) -> list[tuple[str, str]]:
    return [(problem.rule, problem.pointer) for problem in problems]


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The ways to all values of a document."""
    items: Any = value.items() if isinstance(value, dict) else ()
    items = enumerate(value) if isinstance(value, list) else items
    return [way, *(place for key, one in items for place in places(one, (*way, key)))]


@st.composite
def damaged(draw: st.DrawFn, documents: st.SearchStrategy[Any]) -> Any:
    """A document with another value in one place, or with one thing less."""
    whole = copy.deepcopy(draw(documents))
    way = draw(st.sampled_from(places(whole)))
    if not way:
        return draw(ANY)
    place = whole
    for key in way[:-1]:
        place = place[key]
    if draw(st.booleans()):
        del place[way[-1]]
    else:
        place[way[-1]] = draw(ANY)
    return whole
