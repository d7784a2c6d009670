# SPDX-License-Identifier: Apache-2.0
"""Follow grains through time: versions, sources, conversations, duplicates."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omsgrain.grain import plain
from omsgrain.ops.opening import open_store
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.query.graph import Graph, Same


def history(store: Where, address: str) -> list[dict[str, Any]]:
    """All versions of a grain, oldest first, each with its state, as JSON-ready values."""
    with open_store(store, readonly=True) as grains:
        return [
            {
                "content_address": grain.address,
                "grain": plain(grain.to_dict()),
                "superseded_by": (state := grains.state(grain.address)).superseded_by,
                "system_valid_to": state.system_valid_to,
                "verification_status": state.verification_status,
            }
            for grain in grains.history(address)
        ]


def provenance(store: Where, address: str, *, down: bool = False, depth: int = 16) -> Graph:
    """What a grain was made from, or with ``down`` what was made from it."""
    with open_store(store, readonly=True) as grains:
        follow = grains.descendants if down else grains.provenance
        return follow(address, depth=depth)


def graph_values(graph: Graph) -> dict[str, Any]:
    """A graph as JSON-ready values."""
    return {
        "nodes": [
            {
                "content_address": node.address,
                "depth": node.depth,
                "grain": None if node.grain is None else plain(node.grain.to_dict()),
            }
            for node in graph.nodes
        ],
        "links": [
            {"derived": link.derived, "source": link.source, "field": link.field}
            for link in graph.links
        ],
        "complete": graph.complete,
    }


def duplicates(store: Where) -> Iterator[Same]:
    """Groups of current grains that say the same."""
    with open_store(store, readonly=True) as grains:
        yield from grains.duplicates()
