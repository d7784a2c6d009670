# SPDX-License-Identifier: Apache-2.0
"""Search a store by words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omsgrain.ops.opening import open_to_read
from omsgrain.store.home import Where

if TYPE_CHECKING:
    from omsgrain.index.query import Page


def search(store: Where, text: str, filters: Mapping[str, Any], *, limit: int = 10) -> Page:
    """Find grains by words; filters and errors are those of ``GrainStore.search``.

    Raises:
        StoreError: there is no store at the path.
    """
    with open_to_read(store, count_access=False) as grains:
        return grains.search(text, limit=limit, **filters)
