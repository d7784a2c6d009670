# SPDX-License-Identifier: Apache-2.0
"""Versions, derivations, conversations and goals: forks, circles, gaps, and walks that end."""

from __future__ import annotations

from collections import deque
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import (
    HashFormatError,
    HashLengthError,
    IntegrityError,
    NotFoundError,
    RangeError,
    SchemaError,
)
from omsgrain.grain import Grain
from omsgrain.query.graph import LINKS, Graph, descendants, naming, provenance
from omsgrain.query.history import Goal, GoalTree, branches, chain, goal_tree, heads, thread
from omsgrain.storage.base import Reader
from omsgrain.storage.memory import MemoryStorage
from support.history_stores import ABSENT, FORMS, TIME, Kept, belief, kept_in

LONG = 10_000

kept = pytest.fixture(params=FORMS)(kept_in)


@pytest.fixture
def memory() -> Kept:
    return Kept(MemoryStorage())


def addresses(grains: list[Grain]) -> list[str]:
    return [grain.address for grain in grains]


# Versions


def test_a_line_from_any_member(kept: Kept) -> None:
    other = kept.put(belief("other"))
    line = kept.line(*(belief(n, at) for n, at in enumerate((0, 50, 20, 20, 70))))
    for address in line:
        assert addresses(kept.ask(chain, address)) == line, "by what superseded what"
        assert addresses(kept.ask(heads, address)) == line[-1:]
    assert addresses(kept.ask(chain, other[0])) == addresses(kept.ask(heads, other[0])) == other


def test_a_fork_has_all_its_heads(kept: Kept) -> None:
    root, low, high, last = kept.put(*(belief(n, at) for n, at in enumerate((0, 30, 10, 40))))
    kept.supersede((root, low), (root, high), (high, last))
    for address in (root, low, high, last):
        assert addresses(kept.ask(chain, address)) == [root, high, low, last]
        assert addresses(kept.ask(heads, address)) == sorted((low, last))
    kept.retract(last)
    assert addresses(kept.ask(heads, root)) == [low]
    both = kept.put(belief("both", 5))[0]
    kept.supersede((low, both), (last, both))
    assert addresses(kept.ask(chain, high)) == [root, high, low, last, both]
    assert addresses(kept.ask(heads, high)) == [both]
    kept.retract(both)
    assert kept.ask(heads, high) == []


def test_equal_times_go_by_address(kept: Kept) -> None:
    root, *others = kept.put(*(belief(n) for n in range(6)))
    kept.supersede(*((root, other) for other in others))
    assert addresses(kept.ask(chain, root)) == [root, *sorted(others)]


def test_a_circle_ends(kept: Kept) -> None:
    first, second, third, tail = kept.put(*(belief(n, -n) for n in range(4)))
    kept.supersede((first, second), (second, third), (third, first), (third, tail))
    for address in (first, tail):
        found = addresses(kept.ask(chain, address))
        assert found == [tail, third, second, first], "by time, as nothing comes first"
        assert addresses(kept.ask(heads, address)) == [tail]


def test_removed_grains_join_no_history(kept: Kept) -> None:
    a, b, c, d = line = kept.line(*(belief(n, n) for n in range(4)))
    kept.remove(b)
    assert addresses(kept.ask(chain, a)) == [a]
    assert kept.ask(heads, a) == [], "it stays superseded"
    assert addresses(kept.ask(chain, d)) == [c, d]
    kept.remove(d)
    assert kept.ask(heads, c) == []
    for address in (line[1], line[3], ABSENT):
        for function in (chain, heads):
            with pytest.raises(NotFoundError):
                kept.ask(function, address)


def test_a_long_line(memory: Kept) -> None:
    line = memory.line(*(belief(n, n % 7) for n in range(LONG)))
    assert addresses(memory.ask(chain, line[LONG // 2])) == line
    assert addresses(memory.ask(heads, line[0])) == line[-1:]


def test_the_limit_of_a_line(memory: Kept) -> None:
    line = memory.line(*(belief(n) for n in range(20)))
    for function in (chain, heads):
        assert memory.ask(function, line[0], limit=20)
        with pytest.raises(RangeError):
            memory.ask(function, line[0], limit=19)


def test_damage_is_reported(memory: Kept) -> None:
    wrong, at = belief("wrong"), bytes.fromhex(ABSENT)
    memory.store.write(lambda writer: writer.put([(at, wrong)]))
    for function in (chain, heads, provenance, descendants, goal_tree):
        with pytest.raises(IntegrityError):
            memory.ask(function, ABSENT)


@pytest.mark.parametrize("function", [chain, heads, provenance, descendants, goal_tree])
def test_no_address(memory: Kept, function: Any) -> None:
    with pytest.raises(HashFormatError):
        memory.ask(function, ABSENT.upper())
    with pytest.raises(HashLengthError):
        memory.ask(function, ABSENT[1:])


# Derivations


def shape(graph: Graph) -> dict[str, int]:
    assert len({node.address for node in graph.nodes}) == len(graph.nodes)
    depths = [node.depth for node in graph.nodes]
    assert depths == sorted(depths)
    return {node.address: node.depth for node in graph.nodes}


def test_up_and_down(kept: Kept) -> None:
    (root,) = kept.put(belief("root"))
    left, right = kept.put(
        belief("left", derived_from=[root]), belief("right", derived_from=[root])
    )
    steps = [
        {"source_hash": left},
        {"source_hash": ABSENT},
        {"method": "guess"},
        {"source_hash": 7},
    ]
    with pytest.warns(og.errors.OmsWarning):
        fields = belief("leaf", derived_from=[right, left, right], provenance_chain=steps)
        (leaf,) = kept.put(fields)
    up = kept.ask(provenance, leaf)
    assert shape(up) == {leaf: 0, right: 1, left: 1, ABSENT: 1, root: 2}
    assert [(link.source, link.field) for link in up.links[:3]] == [
        (right, "derived_from"),
        (left, "derived_from"),
        (ABSENT, "provenance_chain"),
    ]
    assert {(k.derived, k.source) for k in up.links[3:]} == {(right, root), (left, root)}
    assert (up.complete, up.missing) == (True, (ABSENT,))
    down = kept.ask(descendants, root)
    assert shape(down) == {root: 0, left: 1, right: 1, leaf: 2}
    assert {(k.derived, k.source) for k in down.links} == {
        (left, root), (right, root), (leaf, left), (leaf, right),
    }  # fmt: skip
    kept.retract(left)  # it still is what the leaf was made from
    assert shape(kept.ask(descendants, root)) == shape(down)
    kept.remove(left)
    assert kept.ask(provenance, leaf).missing == (left, ABSENT)
    assert shape(kept.ask(descendants, root)) == {root: 0, right: 1, leaf: 2}


def test_random_graphs(kept: Kept) -> None:
    """Against the plainest search in widening circles."""
    rng = Random(9)
    parents: dict[str, list[str]] = {}
    for n in range(60):
        some = rng.sample([*parents, ABSENT], min(len(parents), rng.randrange(4)))
        (address,) = kept.put(belief(n, derived_from=some))
        parents[address] = some
    children: dict[str, list[str]] = {a: [] for a in parents}
    for child, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    for start in rng.sample(list(parents), 12):
        for function, near in ((provenance, parents), (descendants, children)):
            for depth in (0, 1, 2, 99):
                depths, queue = {start: 0}, deque([start])
                beyond = False
                while queue:
                    here = queue.popleft()
                    if depths[here] == depth:
                        beyond |= bool(near.get(here))
                        continue
                    for other in near.get(here, ()):
                        if other not in depths:
                            depths[other] = depths[here] + 1
                            queue.append(other)
                found = kept.ask(function, start, depth)
                assert shape(found) == depths
                assert found.complete is not beyond
                inside = [a for a, d in depths.items() if d < depth]
                assert len(found.links) == sum(len(near.get(a, ())) for a in inside)


def test_walks_end(memory: Kept) -> None:
    line = [belief(0)]
    for n in range(1, LONG // 10):
        line.append(belief(n, derived_from=[og.address(line[-1])]))
    first, *_, last = memory.put(*line)
    for function, start in ((provenance, last), (descendants, first)):
        assert len(memory.ask(function, start).nodes) == 17
        assert not memory.ask(function, start).complete
        whole = memory.ask(function, start, depth=LONG)
        assert (len(whole.nodes), whole.complete) == (len(line), True)
        cut = memory.ask(function, start, depth=LONG, limit=100)
        assert (len(cut.nodes), len(cut.links), cut.complete) == (101, 100, False)
    (wide,) = memory.put(belief("wide", derived_from=[f"{n:064x}" for n in range(LONG)]))
    assert len(memory.ask(provenance, wide).missing) == LONG
    assert not memory.ask(provenance, wide, limit=LONG - 1).complete


def test_an_opaque_grain_names_what_it_likes(memory: Kept) -> None:
    fields = {
        "derived_from": ABSENT,
        "provenance_chain": {"source_hash": ABSENT},
        "created_at": "x",
    }
    odd = og.encode({**fields, "depends_on": [7, "no address", [ABSENT]]}, type_byte=240)
    (address,) = memory.put(odd)
    assert memory.ask(provenance, address).missing == (ABSENT,)
    assert addresses(memory.ask(chain, address)) == [address]


def test_naming(kept: Kept) -> None:
    (named,) = kept.put(belief("named"))

    def who(reader: Reader, field: str) -> list[str]:
        return [grain.address for _, grain in naming(reader, named, field)]

    for field in LINKS:
        value = named if field in ("parent_message_id", "prior_consent") else [named]
        late, early = kept.put(*(belief(field, at, **{field: value}) for at in (5, 1)))
        kept.retract(late)
        assert kept.ask(who, field) == [early, late]
    with pytest.raises(SchemaError):
        kept.ask(who, "context_grains")


# Conversations


def event(content: str, at: int = 0, **fields: Any) -> bytes:
    base = {"type": "event", "content": content, "created_at": TIME + at, "session_id": "monday"}
    return og.encode(base | fields)


def said(grains: Any) -> str:
    return " ".join(grain["content"] for grain in grains)


def test_a_thread_goes_by_time(kept: Kept) -> None:
    (slow,) = kept.put(event("question", 90))
    (gone,) = kept.put(event("gone", 15))
    kept.put(
        event("third", 30),
        event("first", 10),
        event("answer", 80, parent_message_id=slow),
        event("imported", 500, timestamp_ms=TIME + 20),
        event("elsewhere", 5, session_id="tuesday"),
        belief("no message", session_id="monday"),
    )
    kept.retract(gone)
    assert said(kept.ask(thread, "monday")) == "first imported third question answer"
    assert said(kept.ask(thread, "monday", "past")) == "gone"
    assert len(kept.ask(thread, "monday", "all", limit=6)) == 6
    with pytest.raises(RangeError):
        kept.ask(thread, "monday", "all", limit=5)
    assert kept.ask(thread, "sunday") == []


def test_long_names_of_sessions(kept: Kept) -> None:
    """The index has their hash, in NFC."""
    name = "caf\u00e9 " * 20
    kept.put(event("here", session_id=name), event("there", session_id=name + "x"))
    assert said(kept.ask(thread, name.replace("\u00e9", "e\u0301"))) == "here"


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ("", []),
        ("a b c", ["-: a b c"]),
        ("a b<a c<b", ["-: a b c"]),
        ("a b<a c<a d<b e<c", ["-: a b d", "a: c e"]),
        ("a b<a c d<c", ["-: a b", "a: c d"]),
        ("a b<? c<b d", ["-: a d", "?: b c"]),
        ("a b<a c<a d<a e<c f<c", ["-: a b", "a: c e", "a: d", "c: f"]),
        ("a<? b<? c<a", ["?: a c", "?: b"]),
    ],
)
def test_branches(memory: Kept, messages: str, expected: list[str]) -> None:
    at = {"?": ABSENT}
    for n, message in enumerate(messages.split()):
        name, _, parent = message.partition("<")
        (at[name],) = memory.put(
            event(name, n, **({"parent_message_id": at[parent]} if parent else {}))
        )
    names: dict[str | None, str] = {address: name for name, address in at.items()} | {None: "-"}
    found = branches(memory.ask(thread, "monday"))
    assert [f"{names[branch.parent]}: {said(branch.messages)}" for branch in found] == expected


def test_a_long_conversation(memory: Kept) -> None:
    line = [event("0")]
    for n in range(1, LONG // 4):
        line.append(event(str(n), -n, parent_message_id=og.address(line[-1])))
    memory.put(*reversed(line))
    (branch,) = branches(memory.ask(thread, "monday"))
    assert said(branch.messages) == " ".join(map(str, range(LONG // 4)))


# Goals


def goal(what: str, state: str = "active", **fields: Any) -> bytes:
    base = {"type": "goal", "description": what, "goal_state": state, "created_at": TIME}
    return og.encode(base | fields)


def told(tree: GoalTree) -> dict[str, tuple[int, bool]]:
    def name(found: Goal) -> str:
        return found.heads[0]["description"] if found.heads else found.address

    assert len({found.address for found in tree.goals}) == len(tree.goals)
    return {name(found): (found.depth, found.satisfied) for found in tree.goals}


def test_a_goal_and_what_it_waits_for(kept: Kept) -> None:
    fuel, tools, house = kept.put(goal("fuel"), goal("tools", "satisfied"), goal("house"))
    wanted = [fuel, tools, ABSENT]
    (start,) = kept.put(goal("mow", "suspended", depends_on=wanted, parent_goals=[house]))
    expected = {"mow": (0, False), "fuel": (1, False), "tools": (1, True)}
    expected |= {ABSENT: (1, False), "house": (1, False)}
    tree = kept.ask(goal_tree, start)
    assert told(tree) == expected
    assert [link.field for link in tree.links] == ["depends_on"] * 3 + ["parent_goals"]
    assert (tree.waits_for, tree.circular, tree.complete) == ((fuel, ABSENT), (), True)
    (full,) = kept.put(goal("full", "satisfied", created_at=TIME + 1))
    kept.supersede((fuel, full))
    assert kept.ask(goal_tree, start).waits_for == (ABSENT,), "by its current version"
    (empty,) = kept.put(goal("empty", "failed", created_at=TIME + 2))
    kept.supersede((fuel, empty))
    assert kept.ask(goal_tree, start).waits_for == (fuel, ABSENT), "by all its heads"
    kept.retract(empty)
    kept.retract(tools)
    assert kept.ask(goal_tree, start).waits_for == (tools, ABSENT), "retracted, so nothing holds"
    (belief_,) = kept.put(belief("satisfied", goal_state="satisfied"))
    (odd,) = kept.put(goal("odd", depends_on=[belief_]))
    assert kept.ask(goal_tree, odd).waits_for == (belief_,), "no goal"
    with pytest.raises(SchemaError):
        kept.ask(goal_tree, belief_)


def test_versions_of_a_goal_are_one(kept: Kept) -> None:
    old, middle, new = kept.line(*(goal("fuel", created_at=TIME + n) for n in range(3)))
    before, after = kept.put(
        goal("before", depends_on=[old]), goal("mow", depends_on=[middle, new, old, middle])
    )
    kept.supersede((before, after))
    for address in (before, after):
        tree = kept.ask(goal_tree, address)
        assert told(tree) == {"mow": (0, False), "fuel": (1, False)}
        assert [(k.goal, k.other) for k in tree.links] == [(address, middle)]


def test_goals_that_wait_for_each_other(kept: Kept) -> None:
    """No goal can name a later one, but its next version can."""
    (a1,) = kept.put(goal("a"))
    (b,) = kept.put(goal("b", depends_on=[a1]))
    (c,) = kept.put(goal("c", depends_on=[b], parent_goals=[a1]))
    (a2,) = kept.put(goal("a", depends_on=[c], parent_goals=[c], created_at=TIME + 1))
    (beside,) = kept.put(goal("beside", depends_on=[a1]))
    (own,) = kept.put(goal("own", depends_on=[a1], created_at=TIME + 1))
    assert kept.ask(goal_tree, beside).circular == ()
    kept.supersede((a1, a2))
    tree = kept.ask(goal_tree, beside)
    assert told(tree) == {"beside": (0, False), "a": (1, False), "c": (2, False), "b": (3, False)}
    assert set(tree.circular) == {a1, b, c}
    kept.supersede((beside, own))
    assert set(kept.ask(goal_tree, a2).circular) == {a2, b, c}, "by the first name that was met"
    (self1,) = kept.put(goal("self"))
    (self2,) = kept.put(goal("self", depends_on=[self1], created_at=TIME + 1))
    kept.supersede((self1, self2))
    assert kept.ask(goal_tree, self1).circular == (self1,)


def test_many_goals(memory: Kept) -> None:
    line = [goal("0")]
    for n in range(1, LONG // 10):
        line.append(goal(str(n), depends_on=[og.address(line[-1])]))
    last = memory.put(*line)[-1]
    assert len(memory.ask(goal_tree, last).goals) == 17
    assert not memory.ask(goal_tree, last).complete
    whole = memory.ask(goal_tree, last, depth=LONG)
    assert (len(whole.goals), whole.complete, whole.circular) == (len(line), True, ())
    cut = memory.ask(goal_tree, last, depth=LONG, limit=50)
    assert (len(cut.links), cut.complete) == (50, False)
    versions = memory.line(*(goal("v", created_at=TIME + n) for n in range(LONG // 10)))
    (all_,) = memory.put(goal("all", depends_on=versions))
    assert len(memory.ask(goal_tree, all_).goals) == 2


def test_a_walk_ends_where_nothing_leads_on() -> None:
    """However many links away it may go: it counted up to there, for hours."""
    with og.GrainStore(MemoryStorage()) as store:
        first = store.put(belief(1))
        second = store.put(belief(2, derived_from=[first]))
        found = store.graph.provenance(second, depth=10**30)
        assert ([node.address for node in found.nodes], found.complete) == ([second, first], True)
        robot = store.put(goal("fill the tank"))
        assert store.graph.goals(robot, depth=10**30).complete
