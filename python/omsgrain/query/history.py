# SPDX-License-Identifier: Apache-2.0
"""The versions of a statement, from the first to the current one.

Forwards they are in the states of the grains, backwards in supersedes-0. Where two grains have
superseded one, the history has forked and has two heads.
"""

from __future__ import annotations

import unicodedata
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain as itertools_chain

from omsgrain import _core
from omsgrain.errors import SchemaError
from omsgrain.grain import Grain
from omsgrain.query.graph import (
    DEPTH,
    found_at,
    named,
    numbered,
    ordered,
    seq_of,
    time_of,
    too_many,
)
from omsgrain.query.graph import LIMIT as graph_LIMIT
from omsgrain.query.walk import Ended
from omsgrain.registry import TYPES
from omsgrain.storage.base import Reader, Which
from omsgrain.storage.records import unpack
from omsgrain.storage.tables import SEQUENCE, STATES, SUPERSEDES

MOST_VERSIONS = 100_000


def chain(reader: Reader, address: str, limit: int = MOST_VERSIONS) -> list[Grain]:
    """Return all versions of a statement, the oldest first, whichever of them is asked for.

    A grain comes behind those that it superseded; where that leaves a choice, by ``created_at``
    and then by address. A circle, which only a damaged store has, comes last.
    """
    later = members(reader, seq_of(reader, address), limit)
    grains = {seq: grain for seq in later if (grain := numbered(reader, seq)) is not None}
    keys = {seq: (time_of(grain), grain.address) for seq, grain in grains.items()}
    order, circle = ordered(keys, later)
    return [grains[seq] for seq in (*order, *circle)]


def heads(
    reader: Reader, address: str, over: Ended | None = None, limit: int = MOST_VERSIONS
) -> list[Grain]:
    """Return the current versions of a statement by address, whichever version is asked for.

    One, as a rule; several where the history has forked; none where the last was retracted,
    restricted or removed, or its life is over.
    """
    return current(reader, members(reader, seq_of(reader, address), limit), over)


def current(reader: Reader, seqs: Iterable[int], over: Ended | None) -> list[Grain]:
    """Return those of some numbered grains that are current, by address."""
    found = [numbered(reader, seq, over) for seq in seqs if not reader.is_past(seq)]
    return sorted((grain for grain in found if grain is not None), key=lambda g: g.address)


def members(reader: Reader, start: int, limit: int = MOST_VERSIONS) -> dict[int, list[int]]:
    """Return the numbers that supersessions join to one, each with those that superseded it."""
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
    reader: Reader,
    session_id: str,
    which: Which = "current",
    over: Ended | None = None,
    limit: int = LIMIT,
) -> list[Grain]:
    """Return the events of a session by the time when they took place.

    That is ``timestamp_ms``, else ``created_at``; at equal times by address. A message comes
    behind the one that it names as its ``parent_message_id``, even if clocks say otherwise.

    Spec: OMS §28.6
    """
    term = _core.term("session_id", session_id)
    wanted = unicodedata.normalize("NFC", session_id)  # a long one has its row by a hash
    grains: dict[int, Grain] = {}
    for place in reader.places(term, None, False, which):
        if not reader.has_term(_EVENT, place):
            continue
        seq = int.from_bytes(place[12:], "big")
        grain = numbered(reader, seq, over)
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
    them goes on with the branch and each other one begins another. The branches are in the
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


_FIELDS = ("depends_on", "parent_goals")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal in the tree.

    Attributes:
        address: the address by which it was first named.
        depth: the fewest links that lead to it from the goal that was asked for.
        heads: its current versions; several where its history has forked, none where it is
            missing, retracted or removed, or its life is over.
    """

    address: str
    depth: int
    heads: tuple[Grain, ...]

    @property
    def satisfied(self) -> bool:
        """Whether it has current versions, and all of them are satisfied goals."""
        return bool(self.heads) and all(
            head.type == "goal" and head.get("goal_state") == "satisfied" for head in self.heads
        )


@dataclass(frozen=True, slots=True)
class GoalLink:
    """That one goal names another.

    Attributes:
        goal: the goal's address in the tree.
        other: the tree's address of the goal that it names.
        field: ``depends_on`` or ``parent_goals``.
    """

    goal: str
    other: str
    field: str


@dataclass(frozen=True, slots=True)
class GoalTree:
    """The versions found on a walk.

    Attributes:
        goals: by depth; the first is the one that was asked for. Versions of one goal are one.
        links: what leads from one to another.
        circular: addresses of goals that wait for themselves, through others; they can never
            all be satisfied in turn.
        complete: whether there is nothing beyond; False if the depth or the limit ended the walk.
    """

    goals: tuple[Goal, ...]
    links: tuple[GoalLink, ...]
    circular: tuple[str, ...]
    complete: bool

    @property
    def waits_for(self) -> tuple[str, ...]:
        """The goals that the first depends on and that are not satisfied."""
        states = {goal.address: goal.satisfied for goal in self.goals}
        start = self.goals[0].address
        needed = (k.other for k in self.links if k.goal == start and k.field == "depends_on")
        return tuple(other for other in needed if not states[other])


def goal_tree(
    reader: Reader,
    address: str,
    depth: int = DEPTH,
    limit: int = graph_LIMIT,
    over: Ended | None = None,
) -> GoalTree:
    """Return what a goal depends on and which goals it serves, and so on from there.

    Any version of the goal may be asked for; what counts is what its current versions name.
    """
    start = found_at(reader, address)
    if start.type != "goal":
        raise SchemaError("the grain is no goal", field="/type", expected="goal")
    found = _Found(reader, over)
    level = [found.goal(start.address, 0)]
    links: list[GoalLink] = []
    complete = True
    for hop in range(1, depth + 1):
        known = len(found.goals)
        for goal in level:
            for field, other in _names(goal):
                if len(links) >= limit:
                    return found.tree(links, complete=False)
                links.append(GoalLink(goal.address, found.goal(other, hop).address, field))
        level = list(found.goals.values())[known:]
        if not level:
            break
    complete = not any(True for goal in level for _ in _names(goal))
    return found.tree(links, complete)


def _names(goal: Goal) -> list[tuple[str, str]]:
    """The field and the address of each goal that a goal names, each pair once."""
    pairs = [(field, a) for field in _FIELDS for h in goal.heads for a in named(h, field)]
    return list(dict.fromkeys(pairs))


class _Found:
    """The goals met on a walk; the versions of one are read once, by whichever it is named."""

    def __init__(self, reader: Reader, over: Ended | None) -> None:
        self.goals: dict[str, Goal] = {}
        self._reader = reader
        self._over = over
        self._by_seq: dict[int, Goal] = {}

    def goal(self, address: str, depth: int) -> Goal:
        seq = self._reader.find([bytes.fromhex(address)])[0]
        goal = self.goals.get(address) if seq is None else self._by_seq.get(seq)
        if goal is None:
            versions = () if seq is None else members(self._reader, seq)
            goal = Goal(address, depth, tuple(current(self._reader, versions, self._over)))
            self.goals[address] = goal
            self._by_seq.update(dict.fromkeys(versions, goal))
        return goal

    def tree(self, links: list[GoalLink], complete: bool) -> GoalTree:
        links = list(dict.fromkeys(links))  # two versions of one goal may both be named
        return GoalTree(tuple(self.goals.values()), tuple(links), _circular(links), complete)


def _circular(links: list[GoalLink]) -> tuple[str, ...]:
    """The goals between which waiting goes round."""
    waits = [(link.goal, link.other) for link in links if link.field == "depends_on"]
    numbers = {
        address: n for n, address in enumerate(dict.fromkeys(itertools_chain.from_iterable(waits)))
    }
    left = set(numbers.values())
    for turned in (False, True):
        later: dict[int, list[int]] = {}
        for goal, other in waits:
            first, then = (numbers[goal], numbers[other])[:: -1 if turned else 1]
            later.setdefault(first, []).append(then)
        left = set(ordered(dict.fromkeys(left, 0), later)[1])
    return tuple(address for address, n in numbers.items() if n in left)
