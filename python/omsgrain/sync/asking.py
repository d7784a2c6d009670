# SPDX-License-Identifier: Apache-2.0
"""What does not fit into one batch, asked for until all is there.

Whoever is asked can be anybody: one that comes no nearer to the end is not asked for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from omsgrain.errors import StoreError
from omsgrain.sync.peer import ITEMS, Batch, Hello, Peer, Position, Space

__all__ = ["by_keys", "onward"]


def by_keys(peer: Peer, space: Space, keys: Sequence[bytes], hello: Hello) -> Iterator[Batch]:
    """Ask for items by their keys; of each batch ``more`` says whether others follow.

    Raises:
        StoreError: the other store gives none of what it was asked for, nor says that it is gone.
    """
    left = list(keys)
    while left:
        page, left = left[:ITEMS], left[ITEMS:]
        batch = peer.give(space, page, hello)
        if not set(batch.rest) < set(page):
            raise _circle()
        left = [*batch.rest, *left]
        yield replace(batch, until=None, more=bool(left))


def onward(peer: Peer, at: Position, hello: Hello) -> Iterator[Batch]:
    """Follow a feed from a position to its end; a batch without ``until`` is the last, and empty.

    Raises:
        StoreError: the other store gives the same part of its feed again.
    """
    while True:
        batch = peer.changes(at, hello)
        if batch.until is not None and batch.until.seq <= at.seq:
            raise _circle()
        yield batch
        if batch.until is None or not batch.more:
            return
        at = batch.until


def _circle() -> StoreError:
    return StoreError("the other store goes round in a circle")
