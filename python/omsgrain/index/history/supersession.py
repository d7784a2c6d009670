# SPDX-License-Identifier: Apache-2.0
"""The versions of a statement, from the first to the current one.

Forwards they are in the states of the grains, backwards in supersedes-0. Where two grains have
superseded one, the history has forked and has two heads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from omsgrain.grain import Grain
from omsgrain.index.history.grains import numbered, seq_of, time_of, too_many
from omsgrain.index.history.order import ordered
from omsgrain.store.base import Reader
from omsgrain.store.state import unpack
from omsgrain.store.tables import SEQUENCE, STATES, SUPERSEDES

__all__ = ["LIMIT", "chain", "current", "heads", "members"]

LIMIT = 100_000


def chain(reader: Reader, address: str, limit: int = LIMIT) -> list[Grain]:
    """Return all versions of a statement, the oldest first, whichever of them is asked for.

    A grain comes behind those that it superseded; where that leaves a choice, by ``created_at``
    and then by address. A circle, which only a damaged store has, comes last.

    Raises:
        NotFoundError: the grain is not in the store.
        RangeError: there are more versions than ``limit``.
        IntegrityError: stored bytes are damaged.
    """
    later = members(reader, seq_of(reader, address), limit)
    grains = {seq: grain for seq in later if (grain := numbered(reader, seq)) is not None}
    keys = {seq: (time_of(grain), grain.address) for seq, grain in grains.items()}
    order, circle = ordered(keys, later)
    return [grains[seq] for seq in (*order, *circle)]


def heads(reader: Reader, address: str, limit: int = LIMIT) -> list[Grain]:
    """Return the current versions of a statement by address, whichever version is asked for.

    One, as a rule; several where the history has forked; none where the last was retracted,
    restricted or removed.

    Raises:
        NotFoundError: the grain is not in the store.
        RangeError: there are more versions than ``limit``.
        IntegrityError: stored bytes are damaged.
    """
    return current(reader, members(reader, seq_of(reader, address), limit))


def current(reader: Reader, seqs: Iterable[int]) -> list[Grain]:
    """Return those of some numbered grains that are current, by address."""
    found = [numbered(reader, seq) for seq in seqs if not reader.is_past(seq)]
    return sorted((grain for grain in found if grain is not None), key=lambda g: g.address)


def members(reader: Reader, start: int, limit: int = LIMIT) -> dict[int, list[int]]:
    """Return the numbers that supersessions join to one, each with those that superseded it.

    Raises:
        RangeError: there are more than ``limit``.
        IntegrityError: a stored state is damaged.
    """
    later: dict[int, list[int]] = {}
    seen, waiting = {start}, deque((start,))
    while waiting:
        seq = waiting.popleft()
        key = SEQUENCE.pack(seq)
        named = unpack(reader.row(STATES, key)).successors
        found = reader.find([bytes.fromhex(address) for address in named])
        # A successor that was removed and came again joins nothing: it has another number.
        later[seq] = [
            successor
            for successor in found
            if successor is not None
            and reader.row(SUPERSEDES, SEQUENCE.pack(successor) + key) is not None
        ]
        rows = reader.rows(SUPERSEDES, prefix=key)
        before = [SEQUENCE.unpack_from(row, SEQUENCE.size)[0] for row, _ in rows]
        for near in (*later[seq], *before):
            if near not in seen:
                if len(seen) >= limit:
                    raise too_many(limit, "versions")
                seen.add(near)
                waiting.append(near)
    return later
