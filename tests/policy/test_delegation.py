# SPDX-License-Identifier: Apache-2.0
"""Grains that an agent may write under a delegated goal.  Spec: OMS §6.11."""

from __future__ import annotations

from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import InvalidationDeniedError
from omsgrain.policy import LIMIT, Act, PolicyVerdict, check, check_delegation
from support.policy_table import NOW
from support.policy_world import AGENT, STRANGER, FakeWorld, at, goal, grain

BOSS, SUB = "did:example:boss", "did:example:sub"
GIVEN: dict[str, Any] = {"delegate_from": BOSS, "delegate_to": AGENT}


def handed(**fields: Any) -> og.Grain:
    return goal(**GIVEN | fields)


def breach(world: dict[str, og.Grain], new: og.Grain, now: int = NOW) -> str | None:
    """The rule that a new grain breaks, if any."""
    try:
        check_delegation(FakeWorld(world), new, now)
    except InvalidationDeniedError as error:
        return error.rule
    return None


@pytest.mark.parametrize(
    ("scope", "new", "rule"),
    [
        ({}, {}, None),
        ({"authorized_namespaces": ["lab"]}, {"namespace": "lab"}, None),
        ({"authorized_namespaces": ["lab"]}, {"namespace": "lab:2"}, "authorized_namespaces"),
        ({"authorized_namespaces": ["lab"]}, {}, "authorized_namespaces"),
        ({"authorized_namespaces": [""]}, {}, None),
        ({"authorized_namespaces": []}, {"namespace": "lab"}, "authorized_namespaces"),
        ({"authorized_namespaces": ["*"]}, {"namespace": "lab"}, None),
        ({"authorized_namespaces": ["lab:*"]}, {"namespace": "lab:2"}, "authorized_namespaces"),
        ({"authorized_types": [1, 5]}, {}, None),
        ({"authorized_types": [2]}, {}, "authorized_types"),
        ({"authorized_types": []}, {}, "authorized_types"),
        ({"authorized_tools": ["grip"]}, {}, None),  # a belief uses no tool
        ({"authorized_tools": ["grip"]}, {"type": "action"}, None),
        ({"authorized_tools": ["lift"]}, {"type": "action"}, "authorized_tools"),
        ({"authorized_tools": []}, {"type": "action"}, None),
        ({"delegation_expiry": NOW + 1}, {}, None),
        ({"delegation_expiry": NOW}, {}, "delegation_expiry"),
        ({"delegation_depth": 0}, {}, None),
        ({"delegation_depth": 0}, {"type": "goal", "delegate_to": SUB}, "delegation_depth"),
        ({"delegation_depth": 0}, {"type": "goal", "authorized_types": [1]}, "delegation_depth"),
        ({"delegation_depth": 0}, {"relation": "mg:delegates_to"}, "delegation_depth"),
    ],
)
def test_a_delegate_stays_within_its_scope(
    scope: dict[str, Any], new: dict[str, Any], rule: str | None
) -> None:
    for author in ({}, {"author_did": AGENT}, {"author_did": STRANGER}):
        assert breach({"task": handed(**scope)}, grain(derived=["task"], **new | author)) == rule
    # Who gave it is not bound, and nobody is by what it is not written under.
    assert (
        breach({"task": handed(**scope)}, grain(derived=["task"], author_did=BOSS, **new)) is None
    )
    assert breach({"task": handed(**scope)}, grain(**new)) is None


def test_a_signed_delegation_proves_its_giver() -> None:
    """A name in a grain proves nothing, and another statement of the giver is none about it."""
    task = handed(authorized_types=[7])
    unsigned = grain(derived=["task"], author_did=BOSS)
    replayed = grain(author_did=BOSS)

    def broken(new: og.Grain, *signed: str, supersedes: str | None = None) -> str | None:
        world = FakeWorld({"task": task}, signed={"task": {BOSS}})
        world.signers_of[new.address] = set(signed)
        try:
            check_delegation(world, new, NOW, supersedes=supersedes)
        except InvalidationDeniedError as error:
            return error.rule
        return None

    rule = "authorized_types"
    assert [broken(unsigned), broken(unsigned, STRANGER)] == [rule, rule]
    assert broken(unsigned, BOSS) is None
    assert broken(replayed, BOSS, supersedes=at("task")) == rule
    assert broken(unsigned, BOSS, supersedes=at("task")) is None


def test_code_is_no_tool_that_a_list_names() -> None:
    world = {"task": handed(authorized_tools=["grip"])}
    code = {"execution_mode": "code_exec", "code": "1 + 1", "stdout": "2", "tool_name": None}
    assert breach(world, grain("action", derived=["task"], **code)) == "authorized_tools"
    result = {"action_phase": "result", "tool_call_id": "1", "tool_name": None, "input": None}
    assert breach(world, grain("action", derived=["task"], **result)) is None


def test_a_belief_delegates_too() -> None:
    fields: dict[str, Any] = {"relation": "mg:delegates_to", "authorized_types": [2]}
    fields["object"] = AGENT
    world = {"task": grain(author_did=BOSS, **fields)}
    assert breach(world, grain(derived=["task"])) == "authorized_types"
    assert breach(world, grain(derived=["task"], author_did=BOSS)) is None


@pytest.mark.parametrize(
    "link",
    [
        {"derived_from": [at("task")]},
        {"parent_goals": [at("task")]},
        {"parent_task_id": at("task")},
        {"derived_from": [at("step")]},
    ],
)
def test_what_a_grain_is_written_under(link: dict[str, Any]) -> None:
    world = {"task": handed(authorized_types=[7]), "step": goal(parent_goals=[at("task")])}
    assert breach(world, grain(**link)) == "authorized_types"


def test_missing_grains_have_no_scope() -> None:
    world = {"step": grain(derived=["gone"])}
    assert breach(world, grain(derived=["step", "gone"])) is None


def test_more_than_can_be_looked_at_is_refused() -> None:
    def wide(first: int) -> og.Grain:
        many = [f"{n:064x}" for n in range(first, first + LIMIT // 2)]
        return goal(derived_from=many)

    assert breach({"a": wide(0), "b": wide(0)}, grain(derived=["a", "b"])) is None
    assert breach({"a": wide(0), "b": wide(LIMIT)}, grain(derived=["a", "b"])) == "limit"


def test_sixteen_steps_and_no_circle() -> None:
    world = {"0": handed(authorized_types=[2])}
    world |= {str(n): grain("event", derived=[str(n - 1), str(n)]) for n in range(1, 17)}
    assert breach(world, grain(derived=["15"])) == "authorized_types"
    assert breach(world, grain(derived=["16"])) is None


@pytest.mark.parametrize(
    ("depth", "chain", "rule"),
    [
        (1, [(SUB, 0)], None),
        (2, [(SUB, 1), (STRANGER, 0)], None),
        (1, [(SUB, None), (STRANGER, 0)], "delegation_depth"),
        (0, [(AGENT, 0)], None),  # a later version of the same delegation
        (0, [(AGENT, 0), (AGENT, 0)], None),
        (1, [(AGENT, 1), (SUB, 0)], None),
        (0, [(AGENT, None), (SUB, 0)], "delegation_depth"),
    ],
)
def test_a_delegation_is_handed_on_so_often(
    depth: int, chain: list[tuple[str, int | None]], rule: str | None
) -> None:
    world = {"0": handed(delegation_depth=depth)}
    for n, (agent, left) in enumerate(chain):
        below = goal(delegate_to=agent, delegation_depth=left, derived=[str(n)])
        world[str(n + 1)] = below
    assert breach(world, world.pop(str(len(chain)))) == rule


def test_the_longer_of_two_paths_counts() -> None:
    world = {
        "task": handed(delegation_depth=1),
        "sub": goal(delegate_to=SUB, delegation_depth=0, delegate_from=AGENT, derived=["task"]),
    }
    new = goal(delegate_to=STRANGER, derived=["task", "sub"], author_did=AGENT, delegation_depth=0)
    assert breach(world, new) == "delegation_depth"


@pytest.mark.parametrize(
    ("given", "handed_on", "fits"),
    [
        ({"authorized_namespaces": ["a", "b"]}, {"authorized_namespaces": ["a"]}, True),
        ({"authorized_namespaces": ["a", "b"]}, {"authorized_namespaces": ["a", "c"]}, False),
        ({"authorized_namespaces": ["a", "b"]}, {"authorized_namespaces": ["*"]}, False),
        ({"authorized_namespaces": ["a", "b"]}, {}, False),
        ({"authorized_namespaces": ["a", "*"]}, {}, True),
        ({"authorized_types": [7, 1]}, {"authorized_types": [7]}, True),
        ({"authorized_types": [7, 1]}, {"authorized_types": [7, 2]}, False),
        ({"authorized_types": [7, 1]}, {}, False),
        ({"authorized_tools": ["grip"]}, {"authorized_tools": ["grip"]}, True),
        ({"authorized_tools": ["grip"]}, {"authorized_tools": []}, False),
        ({"authorized_tools": []}, {}, True),
        ({"delegation_depth": 3}, {"delegation_depth": 2}, True),
        ({"delegation_depth": 3}, {"delegation_depth": 3}, False),
        ({"delegation_depth": 3}, {}, False),
        ({"delegation_expiry": NOW + 9}, {"delegation_expiry": NOW + 9}, True),
        ({"delegation_expiry": NOW + 9}, {"delegation_expiry": NOW + 10}, False),
        ({"delegation_expiry": NOW + 9}, {}, False),
    ],
)
def test_a_delegate_passes_on_no_wider_limits(
    given: dict[str, Any], handed_on: dict[str, Any], fits: bool
) -> None:
    new = goal(delegate_to=SUB, namespace="a", derived=["task"], **handed_on)
    assert breach({"task": handed(**given)}, new) == (None if fits else next(iter(given)))


def test_a_supersession_is_checked_where_it_is_asked() -> None:
    world = FakeWorld({"old": handed(authorized_types=[7])})
    wider = Act("supersede", at("old"), handed(authorized_types=[7, 1]), now=NOW)
    assert check(world, wider) == PolicyVerdict()
    with pytest.raises(InvalidationDeniedError):
        check(world, wider, delegation=True)
    assert (
        check(
            world,
            Act("supersede", at("old"), handed(authorized_types=[7]), now=NOW),
            delegation=True,
        )
        == PolicyVerdict()
    )
