# SPDX-License-Identifier: Apache-2.0
"""Grains of a user by their ids in documents of other formats."""

from __future__ import annotations

from collections.abc import Iterable

from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from omsgrain.store.source_index import SourcedGrain, open_sources


def find_origins(
    store: GrainStore, ids: Iterable[str], *, user_id: str
) -> dict[str, list[SourcedGrain]]:
    """By id the grains: those that are current first, then the newest first."""
    with open_sources(context_of(store), user_id) as snapshot:
        return snapshot.find(ids)
