# SPDX-License-Identifier: Apache-2.0
"""Which text index and which neighbours a store has: by what it offers beside its tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omsgrain.store.home import beside

if TYPE_CHECKING:
    from omsgrain.search.finding import Texts
    from omsgrain.search.nearest import Nearest
    from omsgrain.store.base import Store
    from omsgrain.store.budget import Budget

__all__ = ["texts_of", "vectors_of"]


def texts_of(store: Store, budget: Budget) -> Texts:
    """Return the text index of a store: in its directory, in its database, or in memory."""
    there = beside(store)
    if there.database is not None:
        from omsgrain.search.postgres.index import PostgresTexts

        return PostgresTexts(
            there.database, there.store_id, readonly=store.readonly, page=budget.page
        )
    from omsgrain.search.text import FILE, TextIndex

    path = None if there.folder is None else there.folder / FILE
    return TextIndex(path, readonly=store.readonly, budget=budget)


def vectors_of(store: Store) -> Nearest:
    """Return what finds neighbours among the vectors of a store."""
    from omsgrain.search.nearest import Nearest

    there = beside(store)
    if there.database is None:
        return Nearest(there.folder)
    from omsgrain.search.postgres.neighbours import PostgresGraphs

    graphs = PostgresGraphs(there.database, there.store_id, readonly=store.readonly)
    return Nearest(graphs=graphs)
