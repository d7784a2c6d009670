# SPDX-License-Identifier: Apache-2.0
"""How a graph is made of a store's vectors, and follows its events.

Each vector that is added, and each grain that is removed, is an event. The number of the last one
that a graph has seen is its place in the life of the store.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from omsgrain.errors import StoreError
from omsgrain.search.graph import Graph, Stamp
from omsgrain.search.vectors import Model
from omsgrain.store.base import Reader, Store
from omsgrain.store.tables import DELETED, EMBEDDED, EVENTS, SEQUENCE, VECTORS, event_of

__all__ = ["events", "follow", "is_clean", "knows", "make_graph"]

_TOGETHER = 4_096  # vectors added at a time
_WORN = 5  # one in so many was taken out: more, and a graph finds less than a new one


def knows(reader: Reader, stamp: Stamp) -> bool:
    """Whether a graph is of this store and not ahead of it: its last event is the store's."""
    return reader.row(EVENTS, SEQUENCE.pack(stamp.event)) == stamp.row


def events(reader: Reader, after: int) -> tuple[set[int], set[int], int]:
    """Which grains got a vector after an event, which were removed, and the last event."""
    changed: set[int] = set()
    deleted: set[int] = set()
    for key, row in reader.rows(EVENTS, after=SEQUENCE.pack(after)):
        kind, seq, _ = event_of(row)
        (after,) = SEQUENCE.unpack(key)
        if kind == EMBEDDED:
            changed.add(seq)
        elif kind == DELETED:
            deleted.add(seq)
    return changed, deleted, after


def is_clean(reader: Reader, graph: Graph, stamp: Stamp) -> bool:
    """Whether a graph has no vector of a grain that is removed by now."""
    return not any(seq in graph for seq in events(reader, stamp.event)[1])


def make_graph(store: Store, model: Model) -> tuple[Graph, Stamp]:
    """A new graph of all vectors that are there, stamped with an event before it was begun."""
    with store.read() as reader:
        last = reader.last_row(EVENTS)
    if last is None:
        raise StoreError("the store has vectors, and no event of their coming")
    stamp = Stamp(model.id, model.dimension, 0, SEQUENCE.unpack(last[0])[0], last[1])
    graph, after = Graph(model.dimension), None
    while True:
        with store.read() as reader:
            page = list(islice(reader.rows(VECTORS, after, model.prefix), _TOGETHER))
        if not page:
            return graph, stamp
        graph.add([(_seq(key), row) for key, row in page])
        after = page[-1][0]


def _seq(key: bytes) -> int:
    return int.from_bytes(key[-8:], "big")


def follow(store: Store, model: Model, graph: Graph, stamp: Stamp) -> tuple[Graph, Stamp] | None:
    """Bring a graph up to the store; None if it has to be made anew."""
    with store.read() as reader:
        changed, deleted, _ = events(reader, stamp.event)
        last = reader.last_row(EVENTS)
    if last is None or last[0] == SEQUENCE.pack(stamp.event):
        return graph, stamp
    old = [seq for seq in changed | deleted if seq in graph]
    forgotten = stamp.forgotten + len(old)
    if forgotten > len(graph) // _WORN or (old and not graph.forget(old, stamp.forgotten)):
        return None
    for seqs in _parts(sorted(changed - deleted)):
        with store.read() as reader:
            rows = [(seq, reader.row(VECTORS, model.key(seq))) for seq in seqs]
        graph.add([(seq, row) for seq, row in rows if row is not None])
    number = SEQUENCE.unpack(last[0])[0]
    return graph, Stamp(model.id, model.dimension, forgotten, number, last[1])


def _parts(seqs: Iterable[int]) -> Iterable[list[int]]:
    rest = iter(seqs)
    return iter(lambda: list(islice(rest, _TOGETHER)), [])
