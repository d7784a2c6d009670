# SPDX-License-Identifier: Apache-2.0
"""Search a store by words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omsgrain as og

if TYPE_CHECKING:
    from omsgrain.index.query import Page


def search(store: Path, text: str, filters: Mapping[str, Any], *, limit: int = 10) -> Page:
    """Find grains by words; filters and errors are those of ``GrainStore.search``.

    Raises:
        StoreError: there is no store at the path.
    """
    with og.open(store, readonly=True) as grains:
        return grains.search(text, limit=limit, **filters)
