# SPDX-License-Identifier: Apache-2.0
"""The messages of a session by time, and as a tree: what answers what, and where it branches."""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from omsgrain import _core
from omsgrain.grain import Grain
from omsgrain.index.history.grains import named, numbered, time_of, too_many
from omsgrain.index.history.order import ordered
from omsgrain.registry import TYPES
from omsgrain.store.base import Reader, Which

__all__ = ["LIMIT", "Branch", "branches", "thread"]

LIMIT = 100_000

_EVENT = _core.term("type", next(kind.byte for kind in TYPES if kind.name == "event"))


@dataclass(frozen=True, slots=True)
class Branch:
    """Messages that follow one another.

    Attributes:
        parent: address of the message that the first one follows: in another branch, or in no
            branch if it is not among the messages; None where the conversation begins.
        messages: the messages, in order.
    """

    parent: str | None
    messages: tuple[Grain, ...]


def thread(
    reader: Reader, session_id: str, which: Which = "current", limit: int = LIMIT
) -> list[Grain]:
    """Return the events of a session by the time when they took place.

    That is ``timestamp_ms``, else ``created_at``; at equal times by address. A message comes
    behind the one that it names as its ``parent_message_id``, even if clocks say otherwise.

    Args:
        reader: the snapshot.
        session_id: the session.
        which: only current messages, only past ones, or all.
        limit: at most so many.

    Raises:
        RangeError: there are more than ``limit``.
        IntegrityError: stored bytes are damaged.

    Spec: OMS §28.6
    """
    term = _core.term("session_id", session_id)
    wanted = unicodedata.normalize("NFC", session_id)  # a long one has its row by a hash
    grains: dict[int, Grain] = {}
    for place in reader.places(term, None, False, which):
        if not reader.has_term(_EVENT, place):
            continue
        seq = int.from_bytes(place[12:], "big")
        grain = numbered(reader, seq)
        if grain is not None and grain.get("session_id") == wanted:
            if len(grains) >= limit:
                raise too_many(limit, "messages")
            grains[seq] = grain
    seqs = {grain.address: seq for seq, grain in grains.items()}
    later: dict[int, list[int]] = {}
    for seq, grain in grains.items():
        for parent in named(grain, "parent_message_id"):
            if parent in seqs:
                later.setdefault(seqs[parent], []).append(seq)
    order, circle = ordered({seq: (_time(g), g.address) for seq, g in grains.items()}, later)
    return [grains[seq] for seq in (*order, *circle)]


def branches(messages: Sequence[Grain]) -> tuple[Branch, ...]:
    """Arrange the messages of `thread` as a tree.

    A message follows the one that it names as its ``parent_message_id``; one that names none
    follows the last before it that names none. Where several follow one message, the first of
    them goes on with the branch and each other one begins another. The branches stand in the
    order of their first messages.
    """
    among = {message.address for message in messages}
    follows: dict[str, str | None] = {}
    later: dict[str, list[Grain]] = {}
    last = None
    for message in messages:
        parent = next(iter(named(message, "parent_message_id")), None)
        if parent is None:
            parent, last = last, message.address
        follows[message.address] = parent
        if parent is not None:
            later.setdefault(parent, []).append(message)
    starts = deque(m for m in messages if follows[m.address] not in among)
    found: dict[str, Branch] = {}
    while starts:
        start = message = starts.popleft()
        run = [start]
        while after := later.get(message.address):
            message, *others = after
            starts.extend(others)
            run.append(message)
        found[start.address] = Branch(follows[start.address], tuple(run))
    return tuple(found[m.address] for m in messages if m.address in found)


def _time(grain: Grain) -> int:
    value = grain.get("timestamp_ms")
    return value if isinstance(value, int) else time_of(grain)
