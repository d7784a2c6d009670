# SPDX-License-Identifier: Apache-2.0
"""Search a store by words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omsgrain.ops.opening import open_store
from omsgrain.store.home import Where, home_of

if TYPE_CHECKING:
    from omsgrain.index.query import Page


def search(store: Where, text: str, filters: Mapping[str, Any], *, limit: int = 10) -> Page:
    """Find grains by words; filters and errors are those of ``GrainStore.search``.

    Raises:
        StoreError: there is no store at the path.
    """
    home = home_of(store)
    home.must_exist()  # or an empty directory would become a store
    # The text index is made and kept where it can be written.
    with open_store(store, readonly=not home.is_writable(), count_access=False) as grains:
        return grains.search(text, limit=limit, **filters)
