# SPDX-License-Identifier: Apache-2.0
"""What a goal depends on and which goals it serves, each as its current version has it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from omsgrain.errors import SchemaError
from omsgrain.grain import Grain
from omsgrain.index.history.derivation import DEPTH, LIMIT
from omsgrain.index.history.grains import found_at, named
from omsgrain.index.history.order import ordered
from omsgrain.index.history.supersession import current, members
from omsgrain.store.base import Reader

__all__ = ["Goal", "GoalLink", "GoalTree", "goal_tree"]

_FIELDS = ("depends_on", "parent_goals")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal in the tree.

    Attributes:
        address: the address by which it was first named.
        depth: the fewest links that lead to it from the goal that was asked for.
        heads: its current versions; several where its history has forked, none where it is
            missing, retracted or removed.
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
        goal: address of the goal, as it stands in the tree.
        other: address of the one that it names, as that stands in the tree.
        field: ``depends_on`` or ``parent_goals``.
    """

    goal: str
    other: str
    field: str


@dataclass(frozen=True, slots=True)
class GoalTree:
    """What was found on a walk.

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


def goal_tree(reader: Reader, address: str, depth: int = DEPTH, limit: int = LIMIT) -> GoalTree:
    """Return what a goal depends on and which goals it serves, and so on from there.

    Any version of the goal may be asked for; what counts is what its current versions name.

    Args:
        reader: the snapshot.
        address: the goal.
        depth: at most so many links away from it.
        limit: at most so many links in all.

    Raises:
        NotFoundError: the grain is not in the store.
        SchemaError: it is no goal.
        RangeError: a goal has too many versions.
        IntegrityError: stored bytes are damaged.
    """
    start = found_at(reader, address)
    if start.type != "goal":
        raise SchemaError("the grain is no goal", field="/type", expected="goal")
    found = _Found(reader)
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

    def __init__(self, reader: Reader) -> None:
        self.goals: dict[str, Goal] = {}
        self._reader = reader
        self._by_seq: dict[int, Goal] = {}

    def goal(self, address: str, depth: int) -> Goal:
        seq = self._reader.find([bytes.fromhex(address)])[0]
        goal = self.goals.get(address) if seq is None else self._by_seq.get(seq)
        if goal is None:
            versions = () if seq is None else members(self._reader, seq)
            goal = Goal(address, depth, tuple(current(self._reader, versions)))
            self.goals[address] = goal
            self._by_seq.update(dict.fromkeys(versions, goal))
        return goal

    def tree(self, links: list[GoalLink], complete: bool) -> GoalTree:
        links = list(dict.fromkeys(links))  # two versions of one goal may both be named
        return GoalTree(tuple(self.goals.values()), tuple(links), _circular(links), complete)


def _circular(links: list[GoalLink]) -> tuple[str, ...]:
    """The goals between which waiting goes round."""
    waits = [(link.goal, link.other) for link in links if link.field == "depends_on"]
    numbers = {address: n for n, address in enumerate(dict.fromkeys(chain.from_iterable(waits)))}
    left = set(numbers.values())
    for turned in (False, True):
        later: dict[int, list[int]] = {}
        for goal, other in waits:
            first, then = (numbers[goal], numbers[other])[:: -1 if turned else 1]
            later.setdefault(first, []).append(then)
        left = set(ordered(dict.fromkeys(left, 0), later)[1])
    return tuple(address for address, n in numbers.items() if n in left)
