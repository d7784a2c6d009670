# SPDX-License-Identifier: Apache-2.0
"""What a grain was made from, and what was made from it, as far as the store knows.

There are no circles: an address is a hash over the addresses that its grain names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from omsgrain.grain import Grain
from omsgrain.index.history.grains import found_at, grain_at, is_address, named, naming
from omsgrain.store.base import Reader

__all__ = ["DEPTH", "LIMIT", "Graph", "Link", "Node", "descendants", "provenance"]

DEPTH = 16
LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Node:
    """A grain in the graph.

    Attributes:
        address: its address.
        depth: the fewest links that lead to it from where the walk began.
        grain: the grain; None if it is not in the store.
    """

    address: str
    depth: int
    grain: Grain | None


@dataclass(frozen=True, slots=True)
class Link:
    """That one grain was made from another.

    Attributes:
        derived: address of the grain that says so.
        source: address of what it was made from.
        field: ``derived_from``, or ``provenance_chain`` if only that names it.
    """

    derived: str
    source: str
    field: str


@dataclass(frozen=True, slots=True)
class Graph:
    """What was found on a walk.

    Attributes:
        nodes: the grains, by depth; the first is the one that the walk began with.
        links: what leads from one to another.
        complete: whether there is nothing beyond; False if the depth or the limit ended the walk.
    """

    nodes: tuple[Node, ...]
    links: tuple[Link, ...]
    complete: bool

    @property
    def missing(self) -> tuple[str, ...]:
        """The addresses that are named, but not in the store."""
        return tuple(node.address for node in self.nodes if node.grain is None)


def provenance(reader: Reader, address: str, depth: int = DEPTH, limit: int = LIMIT) -> Graph:
    """Return what a grain was made from, and what that was made from.

    Args:
        reader: the snapshot.
        address: the grain.
        depth: at most so many links away from it.
        limit: at most so many links in all.

    Raises:
        NotFoundError: the grain is not in the store.
        IntegrityError: stored bytes are damaged.
    """

    def read(source: str) -> Grain | None:
        return grain_at(reader, source)

    return _walk(found_at(reader, address), _sources, read, depth, limit)


def descendants(reader: Reader, address: str, depth: int = DEPTH, limit: int = LIMIT) -> Graph:
    """Return what was made from a grain, and what was made from that.

    Only ``derived_from`` is followed. Arguments and errors are those of `provenance`.
    """
    read: dict[str, Grain] = {}

    def children(grain: Grain) -> Iterator[tuple[Link, str]]:
        for _, child in naming(reader, grain.address, "derived_from"):
            read[child.address] = child
            yield Link(child.address, grain.address, "derived_from"), child.address

    return _walk(found_at(reader, address), children, read.get, depth, limit)


def _sources(grain: Grain) -> Iterator[tuple[Link, str]]:
    parents = dict.fromkeys(named(grain, "derived_from"))
    for source in parents:
        yield Link(grain.address, source, "derived_from"), source
    steps = grain.get("provenance_chain")
    steps = steps if isinstance(steps, list) else []
    found = (step.get("source_hash") for step in steps if isinstance(step, Mapping))
    for source in dict.fromkeys(item for item in found if is_address(item)):
        if source not in parents:
            yield Link(grain.address, source, "provenance_chain"), source


def _walk(
    start: Grain,
    near: Callable[[Grain], Iterator[tuple[Link, str]]],
    read: Callable[[str], Grain | None],
    depth: int,
    limit: int,
) -> Graph:
    """Go from grain to grain, level by level."""
    nodes = {start.address: Node(start.address, 0, start)}
    links: list[Link] = []
    level = [start]
    for hop in range(1, depth + 1):
        following = []
        for grain in level:
            for link, other in near(grain):
                if len(links) >= limit:
                    return Graph(tuple(nodes.values()), tuple(links), complete=False)
                links.append(link)
                if other not in nodes:
                    found = read(other)
                    nodes[other] = Node(other, hop, found)
                    if found is not None:
                        following.append(found)
        level = following
        if not level:
            break
    beyond = any(True for grain in level for _ in near(grain))
    return Graph(tuple(nodes.values()), tuple(links), complete=not beyond)
