# SPDX-License-Identifier: Apache-2.0
"""A grain's sources and the grains derived from it, as far as the store knows.

There are no circles: an address is a hash over the addresses that its grain names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Any, TypeGuard

from omsgrain import _core
from omsgrain.errors import IntegrityError, NotFoundError, RangeError, SchemaError
from omsgrain.grain import Grain
from omsgrain.header import Header, read_header
from omsgrain.query.walk import Ended
from omsgrain.storage.base import Reader, Which

LINKS = {
    "derived_from": "derived_from",
    "parent_message_id": "link",
    "parent_goals": "link",
    "depends_on": "link",
    "prior_consent": "link",
}
"""The fields that can be followed backwards, and the kind of index rows that lead there."""

_ADDRESS = re.compile(r"[0-9a-f]{64}")


def seq_of(reader: Reader, address: str) -> int:
    seq = reader.find([_core.parse_address(address)])[0]
    if seq is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    return seq


def grain_at(reader: Reader, address: str, over: Ended | None = None) -> Grain | None:
    seq = reader.find([bytes.fromhex(address)])[0]
    return None if seq is None else numbered(reader, seq, over)


def found_at(reader: Reader, address: str) -> Grain:
    grain = grain_at(reader, _core.parse_address(address).hex())
    if grain is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    return grain


def numbered(reader: Reader, seq: int, over: Ended | None = None) -> Grain | None:
    """Return the grain with a number; None if it is missing, or its life is over."""
    if over is not None and over(seq):
        return None
    grain = reader.grain(seq)
    if grain is not None and reader.find([bytes.fromhex(grain.address)])[0] != seq:
        raise IntegrityError("the stored bytes are damaged", found=grain.address)
    return grain


def named(grain: Grain, field: str) -> tuple[str, ...]:
    """Return the addresses in a field, each once; an opaque grain may hold anything there."""
    value = grain.get(field)
    items = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(item for item in items if is_address(item)))


def is_address(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and _ADDRESS.fullmatch(value) is not None


def naming(
    reader: Reader, address: str, field: str, over: Ended | None = None
) -> Iterator[tuple[int, Grain]]:
    """Walk the grains that name an address in a field, the oldest first, with their numbers.

    So the replies to a message are those that name it in ``parent_message_id``, the goals below a
    goal in ``parent_goals``, those that wait for it in ``depends_on``, the withdrawal of a consent
    in ``prior_consent``. The grain with the address need not be in the store.
    """
    kind = LINKS.get(field)
    if kind is None:
        raise SchemaError("not followed backwards", field="/field", expected=", ".join(LINKS))
    met: set[int] = set()
    for name in names_of(reader, address):
        for place in reader.places(_core.term(kind, name), None, False):
            seq = int.from_bytes(place[12:], "big")
            grain = None if seq in met else numbered(reader, seq, over)
            if grain is not None and name in named(grain, field):
                met.add(seq)
                yield seq, grain


def names_of(reader: Reader, address: str) -> tuple[str, ...]:
    """The addresses by which others may name a grain: a sealed one that is open has two."""
    if reader.raw is reader:
        return (address,)
    seq = reader.find([bytes.fromhex(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if grain is None or grain.sealed:
        return (address,)
    return tuple(dict.fromkeys((address, grain.address, _core.address(grain.blob))))


def time_of(grain: Grain) -> int:
    """When a grain was created, ms; of an opaque one what its header says, if it says it oddly."""
    value = grain.get("created_at")
    return value if isinstance(value, int) else grain.header.created_at * 1000


def too_many(limit: int, what: str) -> RangeError:
    """The refusal to gather more than was asked for, where a part would be taken for the whole."""
    return RangeError(
        "the history is longer than the limit",
        field="/limit",
        expected=f"at most {limit} {what}",
        found="more",
    )


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
    """The grains found on a walk.

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


def provenance(
    reader: Reader,
    address: str,
    depth: int = DEPTH,
    limit: int = LIMIT,
    over: Ended | None = None,
) -> Graph:
    """Return what a grain was made from, and what that was made from."""
    read = partial(grain_at, reader, over=over)
    return _walk(found_at(reader, address), _sources, read, depth, limit)


def descendants(
    reader: Reader,
    address: str,
    depth: int = DEPTH,
    limit: int = LIMIT,
    over: Ended | None = None,
) -> Graph:
    """Return what was made from a grain, and what was made from that.

    Only ``derived_from`` is followed. Arguments and errors are those of `provenance`.
    """
    read: dict[str, Grain] = {}

    def children(grain: Grain) -> Iterator[tuple[Link, str]]:
        for _, child in naming(reader, grain.address, "derived_from", over):
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


def ordered(
    keys: Mapping[int, Any], later: Mapping[int, Collection[int]]
) -> tuple[list[int], list[int]]:
    """Sort numbers by their keys, each before those that follow it."""
    waits = dict.fromkeys(keys, 0)
    for number in keys:
        for follower in later.get(number, ()):
            if follower in waits:
                waits[follower] += 1
    ready = [(keys[number], number) for number, count in waits.items() if not count]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for follower in later.get(number, ()):
            if follower in waits:
                waits[follower] -= 1
                if not waits[follower]:
                    heappush(ready, (keys[follower], follower))
    rest = sorted((n for n, count in waits.items() if count), key=lambda n: (keys[n], n))
    return order, rest


_PREFIX = b"f"
_TRIED = 100  # maximum grains examined for a duplicate of a new one


@dataclass(frozen=True, slots=True)
class Same:
    """Grains that say the same.

    Attributes:
        fingerprint: what they share, as hex.
        count: how many they are.
        addresses: theirs, the oldest first; at most as many as were asked for.
    """

    fingerprint: str
    count: int
    addresses: tuple[str, ...]


def duplicates(
    reader: Reader, which: Which = "current", over: Ended | None = None, most: int = 1_000
) -> Iterator[Same]:
    """Walk the statements that were made more than once, in the order of their fingerprints.

    Every fingerprint is looked at, so the walk is as long as the store is large.
    """
    for key in reader.keys(_PREFIX, which):
        if reader.term_count(key, which) < 2:
            continue
        places = reader.places(key, None, False, which)
        seqs = (int.from_bytes(place[12:], "big") for place in places)
        if over is not None:
            seqs = (seq for seq in seqs if not over(seq))
        first = list(islice(seqs, max(most, 2)))
        count = len(first) + sum(1 for _ in seqs)
        if count > 1:
            found = (numbered(reader, seq) for seq in first[:most])
            addresses = tuple(grain.address for grain in found if grain is not None)
            yield Same(key[1:].hex(), count, addresses)


def find_same(reader: Reader, blob: bytes) -> str | None:
    """Return the address of a duplicate of this grain.

    It is the grain itself if it is in the store. Otherwise it is the oldest current grain that
    says the same and gives up nothing: of the same type byte, no less sensitive, and signed if
    this one is. A statement that was superseded or retracted is news when it is made again. A
    sealed grain is only ever itself.
    """
    digest = sha256(blob).digest()
    if reader.find([digest])[0] is not None:
        return digest.hex()
    fingerprint = _core.fingerprint(blob)
    if fingerprint is None:
        return None
    wanted = read_header(blob)
    key = _core.term("fingerprint", fingerprint)
    for place in islice(reader.places(key, None, False, "current"), _TRIED):
        grain = numbered(reader, int.from_bytes(place[12:], "big"))
        if grain is not None and _stands_for(grain.header, wanted):
            return grain.address
    return None


def _stands_for(found: Header, wanted: Header) -> bool:
    return (
        found.type_byte == wanted.type_byte
        and found.sensitivity >= wanted.sensitivity
        and found.signed >= wanted.signed
    )
