# SPDX-License-Identifier: Apache-2.0
"""What does not fit into one batch, asked for until all is there.

Whoever is asked can be anybody: one that comes no nearer to the end is not asked for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from omsgrain.errors import StoreError
from omsgrain.sync.peer import ITEMS, Batch, Hello, Peer, Position, Space

__all__ = ["by_keys", "onward", "whole"]

_KEY = 32  # bytes; behind these stands where a piece of the item begins
_PIECES = 10_000  # answers with a piece of an item, and not all of it


def by_keys(peer: Peer, space: Space, keys: Sequence[bytes], hello: Hello) -> Iterator[Batch]:
    """Ask for items by their keys; of each batch ``more`` says whether others follow.

    Raises:
        StoreError: the other store gives none of what it was asked for, nor says that it is gone;
            or no end of an item.
    """
    left, pieces = list(keys), 0
    while left:
        page, left = left[:ITEMS], left[ITEMS:]
        batch = peer.give(space, page, hello)
        fresh = {*batch.rest} - {*page}
        asked = {key[:_KEY]: key[_KEY:] for key in page}
        pieces += bool(fresh)
        if {*page} <= {*batch.rest} or pieces > _PIECES:
            raise _circle()
        if any(asked.get(key[:_KEY], key[_KEY:]) >= key[_KEY:] for key in fresh):
            raise _circle()  # what was not asked for, or lies before that
        left = [*batch.rest, *left]
        yield replace(batch, until=None, rest=(), more=bool(left))


def whole(peer: Peer, batch: Batch, hello: Hello) -> Iterator[Batch]:
    """Give a batch of the feed with all that did not fit into it; ``until`` comes with the last.

    Raises:
        StoreError: as ``by_keys``.
    """
    if not batch.rest:
        yield batch
        return
    yield replace(batch, until=None, rest=(), more=True)
    for part in by_keys(peer, "states", batch.rest, hello):
        yield replace(part, more=True)
    last = Batch(batch.store, batch.namespaces, until=batch.until, taken=batch.taken)
    yield replace(last, more=batch.more)


def onward(peer: Peer, at: Position, hello: Hello) -> Iterator[Batch]:
    """Follow a feed from a position to its end; a batch without ``more`` is the last.

    Raises:
        StoreError: the other store gives the same part of its feed again, or as ``by_keys``.
    """
    while True:
        batch = peer.changes(at, hello)
        if batch.until is not None and batch.until.seq <= at.seq:
            raise _circle()
        yield from whole(peer, batch, hello)
        if batch.until is None or not batch.more:
            return
        at = batch.until


def _circle() -> StoreError:
    return StoreError("the other store goes round in a circle")
