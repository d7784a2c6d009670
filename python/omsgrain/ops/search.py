# SPDX-License-Identifier: Apache-2.0
"""Search a store by words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omsgrain.ops.opening import open_to_read
from omsgrain.ops.query import gist
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.query.query import Hit, Page


def search(store: Where, text: str, filters: Mapping[str, Any], *, limit: int = 10) -> Page:
    """Find grains by words; filters and errors are those of ``GrainStore.search``."""
    with open_to_read(store, count_access=False) as grains:
        return grains.search(text, limit=limit, **filters)


def marked(hit: Hit, text: str) -> str:
    """What a grain says, on one line, with what was searched for in brackets.

    If that is not in it, the field in which it was found follows.
    """
    from omsgrain.search.find import read_query
    from omsgrain.search.snippet import piece, show

    query = read_query(text)
    said = piece(gist(hit.grain), query)
    found = None if said.marks else show(hit.grain, query).snippet
    line = said.marked()
    if found is not None:
        line += f" ({found.field}: {found.marked()})"
    return " ".join(line.split())
