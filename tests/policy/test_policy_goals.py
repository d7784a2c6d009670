# SPDX-License-Identifier: Apache-2.0
"""Goals: transitions, laundering, evidence, dependencies.  Spec: OMS §23.4, §23.5."""

from __future__ import annotations

from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import EvidenceRequiredError, InvalidationDeniedError, PolicyError
from omsgrain.policy import LIMIT, Act, PolicyVerdict, check, check_goal
from support.policy_table import NOW, SECOND
from support.policy_world import AGENT, ANN, AUTHOR, BEN, STRANGER, FakeWorld, at, goal, grain

LOCKED: dict[str, Any] = {"mode": "locked"}
SOFT: dict[str, Any] = {"mode": "soft_locked"}
QUORUM: dict[str, Any] = {"mode": "quorum", "authorized": [ANN, BEN], "threshold": 2}
DELEGATED: dict[str, Any] = {"mode": "delegated", "authorized": [ANN]}
HOLD: dict[str, Any] = {"mode": "hold"}
WAITING: dict[str, Any] = {"mode": "timed", "locked_until": SECOND + 1, "fallback_mode": "open"}
OVER: dict[str, Any] = WAITING | {"locked_until": SECOND}
CASCADE: dict[str, Any] = {"mode": "consent_cascade"}


def protected(
    policy: dict[str, Any] | None = LOCKED, state: str = "active", **fields: Any
) -> og.Grain:
    free = {"allowed_transitions": ["satisfied", "failed"]} | fields
    return goal(state, invalidation_policy=policy, **free)


def supersede(
    old: og.Grain, new: og.Grain, world: dict[str, og.Grain] | None = None, **proof: Any
) -> PolicyVerdict:
    whole = FakeWorld({"old": old, **(world or {})})
    return check(whole, Act("supersede", at("old"), new, now=NOW, **proof))


def refused(rule: str, old: og.Grain, new: og.Grain, **proof: Any) -> None:
    with pytest.raises(PolicyError) as caught:
        supersede(old, new, **proof)
    assert caught.value.rule == rule


# Transitions


@pytest.mark.parametrize("state", ["satisfied", "failed", "suspended", "active"])
@pytest.mark.parametrize("policy", [LOCKED, SOFT, QUORUM, DELEGATED, WAITING, {"mode": "new"}])
def test_listed_states_are_free(state: str, policy: dict[str, Any]) -> None:
    old, new = protected(policy), protected(policy, state)
    if state in ("satisfied", "failed"):
        assert supersede(old, new) == PolicyVerdict(False, ("transition",))
    else:
        with pytest.raises(InvalidationDeniedError):
            supersede(old, new)


def test_a_move_is_from_one_state_to_another() -> None:
    free: dict[str, Any] = {"allowed_transitions": ["active"]}
    refused("locked", protected(**free), protected(progress=0.5, **free))


def test_a_move_is_of_the_same_goal() -> None:
    old = protected(criteria=["swept"], criteria_structured=[{"metric": "dust"}])
    same: dict[str, Any] = {"criteria": ["swept"], "criteria_structured": [{"metric": "dust"}]}
    assert supersede(old, protected(state="failed", state_reason="no broom", **same)).rules
    for other in (
        same | {"description": "sell the room"},
        same | {"criteria": []},
        same | {"criteria": None},
        same | {"criteria_structured": [{"metric": "mud"}]},
    ):
        refused("locked", old, protected(state="failed", **other))


def test_a_move_is_a_goal_that_supersedes() -> None:
    refused("locked", protected(), grain(invalidation_policy=LOCKED))
    refused("locked", grain(invalidation_policy=LOCKED), protected(state="failed"))
    for operation in ("contest", "retract", "delete"):
        with pytest.raises(InvalidationDeniedError):
            check(FakeWorld({"old": protected()}), Act(operation, at("old"), now=NOW))


def test_a_move_is_not_made_by_the_author() -> None:
    for policy in (LOCKED, QUORUM, WAITING):
        old = protected(policy, author_did=AUTHOR)
        refused("key_separation", old, protected(policy, "failed", author_did=AUTHOR))
        refused("key_separation", old, protected(policy, "failed"), signers=frozenset({AUTHOR}))
        assert supersede(old, protected(policy, "failed", author_did=AGENT)).rules
    old = protected(SOFT, author_did=AUTHOR)
    assert supersede(old, protected(SOFT, "failed", author_did=AUTHOR)).rules


def test_no_move_passes_a_hold() -> None:
    refused("hold", protected(HOLD), protected(HOLD, "failed"))
    world = FakeWorld({"old": protected()}, on_hold={"old"})
    with pytest.raises(InvalidationDeniedError):
        check(world, Act("supersede", at("old"), protected(state="failed"), now=NOW))


def test_a_goal_around_says_which_moves_are_free_of_it() -> None:
    above = protected(LOCKED | {"scope": "subtree"})
    old, new = goal(derived=["above"]), goal("failed", derived=["old"])
    assert supersede(old, new, {"above": above}) == PolicyVerdict(False, ("transition",))
    with pytest.raises(InvalidationDeniedError):
        supersede(old, goal("suspended"), {"above": above})


def test_only_goals_move() -> None:
    free: dict[str, Any] = {"invalidation_policy": LOCKED, "allowed_transitions": ["failed"]}
    like: dict[str, Any] = {"goal_state": "active", "description": "tidy the room"}
    refused("locked", grain(**free, **like), protected(state="failed"))
    with pytest.raises(InvalidationDeniedError):
        supersede(goal(derived=["above"]), goal("failed"), {"above": grain(**free)})
    with pytest.raises(InvalidationDeniedError):
        supersede(grain(derived=["above"], **like), goal("failed"), {"above": protected()})


# Laundering


@pytest.mark.parametrize(
    ("old", "new", "kept"),
    [
        (LOCKED, LOCKED, True),
        (LOCKED, LOCKED | {"protection_reason": "other words"}, True),
        (LOCKED, None, False),
        (LOCKED, {"mode": "open"}, False),
        (LOCKED, SOFT, False),
        (LOCKED, {"mode": "new"}, False),
        (LOCKED | {"scope": "subtree"}, LOCKED, False),
        (LOCKED | {"scope": "lineage"}, LOCKED | {"scope": "subtree"}, False),
        (SOFT, SOFT, True),
        (SOFT, None, False),
        (SOFT, LOCKED, True),
        (SOFT, LOCKED | {"scope": "lineage"}, True),
        (SOFT | {"scope": "subtree"}, LOCKED, False),
        (SOFT, DELEGATED, False),
        (CASCADE, CASCADE, True),
        (CASCADE, None, False),
        (CASCADE, LOCKED, True),
        (WAITING, WAITING, True),
        (WAITING, LOCKED, True),
        (WAITING, OVER, False),
        (OVER, None, True),
        (OVER | {"fallback_mode": "soft_locked"}, None, False),
        (QUORUM, QUORUM, True),
        (QUORUM, QUORUM | {"threshold": 1}, False),
        (QUORUM, QUORUM | {"authorized": [ANN, BEN, STRANGER]}, False),
        (QUORUM, LOCKED, False),
        (DELEGATED, DELEGATED | {"authorized": [STRANGER]}, False),
        (HOLD, LOCKED, False),
        ({"mode": "new"}, {"mode": "new"}, True),
        ({"mode": "new"}, LOCKED, False),
    ],
)  # fmt: skip
def test_what_supersedes_a_protected_goal_inherits(
    old: dict[str, Any], new: dict[str, Any] | None, kept: bool
) -> None:
    world = FakeWorld({"old": protected(old)})
    act = Act("supersede", at("old"), protected(new, "failed"), justification="why", now=NOW)
    courts = frozenset({"did:example:court"})  # that did not sign, so the hold is a lock
    if kept:
        check(world, act, hold_authorities=courts)
        return
    with pytest.raises(InvalidationDeniedError) as caught:
        check(world, act, hold_authorities=courts)
    assert (caught.value.rule, caught.value.field) == ("laundering", "/invalidation_policy")


def test_a_grain_of_another_type_inherits_too() -> None:
    refused("laundering", protected(SOFT), grain(), justification="why")
    assert supersede(protected(SOFT), grain(invalidation_policy=SOFT), justification="why").review


def test_freedom_and_evidence_are_inherited() -> None:
    old = protected(evidence_required=1)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"allowed_transitions": ["satisfied", "failed", "active"]}, "/allowed_transitions"),
        ({"evidence_required": 0}, "/evidence_required"),
    ]
    for fields, field in cases:
        with pytest.raises(InvalidationDeniedError) as caught:
            supersede(old, protected(state="failed", **({"evidence_required": 1} | fields)))
        assert (caught.value.rule, caught.value.field) == ("laundering", field)
    less: dict[str, Any] = {"allowed_transitions": [], "evidence_required": 2}
    assert supersede(old, protected(state="failed", **less))


def test_those_who_sign_may_lift_the_protection() -> None:
    signed = frozenset({ANN, BEN})
    assert supersede(protected(QUORUM), goal("suspended"), co_signers=signed).rules == ("quorum",)
    move = goal("suspended", derived=["old"])
    assert supersede(protected(DELEGATED), move, signers=signed).rules == ("delegated",)
    refused("delegated", protected(DELEGATED), goal("suspended"), signers=signed)
    # A move that needed no signature was not signed for the policy.
    refused("laundering", protected(QUORUM), goal("failed"), co_signers=signed)


def test_a_goal_without_protection_leaves_nothing_to_inherit() -> None:
    old = goal(allowed_transitions=["failed"], evidence_required=1)
    for state in ("suspended", "failed"):
        assert supersede(old, goal(state, allowed_transitions=["active"])) == PolicyVerdict()


# Evidence


@pytest.mark.parametrize(
    ("needed", "pieces", "enough"),
    [
        (0, [], True),
        (1, [], False),
        (1, ["one"], True),
        (1, ["one", "two"], True),
        (2, ["one", "two"], True),
        (2, ["one", "one"], False),
        (2, ["one", "gone"], False),
        (1, ["old"], False),
        (2**63 - 1, ["one", "two"], False),
    ],
)
def test_a_satisfied_goal_shows_its_evidence(needed: int, pieces: list[str], enough: bool) -> None:
    world = {"one": grain("event"), "two": grain("event", content="it moved again")}
    new: dict[str, Any] = {"satisfaction_evidence": [at(piece) for piece in pieces]}
    olds = [goal(evidence_required=needed), protected(evidence_required=needed)]
    for old in olds:
        policy = old.get("invalidation_policy")
        tries = [protected(policy, "satisfied", evidence_required=needed, **new)]
        if old is olds[0]:  # an open goal may forget the demand, but not in the step that meets it
            tries.append(protected(policy, "satisfied", **new))
        for one in tries:
            if enough:
                supersede(old, one, world)
                continue
            with pytest.raises(EvidenceRequiredError) as caught:
                supersede(old, one, world)
            assert caught.value.rule == "evidence"


def test_evidence_is_for_what_is_satisfied() -> None:
    for state in ("active", "failed", "suspended"):
        assert (
            supersede(goal(evidence_required=3), goal(state, evidence_required=3))
            == PolicyVerdict()
        )


def test_a_check_reads_a_bounded_number_of_grains() -> None:
    def many(first: int) -> list[str]:
        return [f"{n:064x}" for n in range(first, first + LIMIT * 2 // 3)]

    new: dict[str, Any] = {"satisfaction_evidence": many(LIMIT), "evidence_required": 1}
    with pytest.raises(EvidenceRequiredError):
        supersede(goal(), goal("satisfied", **new))
    refused("limit", goal(derived_from=many(0)), goal("satisfied", **new))


def test_a_goal_that_comes_satisfied_shows_evidence_too() -> None:
    world = FakeWorld({"one": grain("event")})
    new = {"evidence_required": 1}
    check_goal(world, goal("satisfied", satisfaction_evidence=[at("one")], **new))
    check_goal(world, goal("active", **new))
    check_goal(world, grain())
    with pytest.raises(EvidenceRequiredError):
        check_goal(world, goal("satisfied", **new))


# Dependencies

DONE, OPEN = goal("satisfied"), goal("active")


@pytest.mark.parametrize(
    ("grains", "pairs", "ready"),
    [
        ({"a": DONE}, [], True),
        ({"a": OPEN}, [], False),
        ({}, [], False),
        ({"a": grain()}, [], False),
        ({"a": OPEN, "b": DONE}, [("a", "b")], True),
        ({"a": DONE, "b": OPEN}, [("a", "b")], False),
        ({"a": OPEN, "b": OPEN, "c": DONE}, [("a", "b"), ("b", "c")], True),
        ({"a": OPEN, "b": DONE, "c": DONE}, [("a", "b"), ("a", "c")], True),
        ({"a": OPEN, "b": DONE, "c": goal("failed")}, [("a", "b"), ("a", "c")], False),
        ({"a": DONE, "b": DONE}, [("a", "b"), ("b", "a")], False),
        ({"a": DONE}, [("a", "gone")], False),
    ],
)
def test_a_goal_waits_for_what_it_depends_on(
    grains: dict[str, og.Grain], pairs: list[tuple[str, str]], ready: bool
) -> None:
    world = FakeWorld(grains | {"old": goal("suspended")}, pairs)
    new = goal("active", depends_on=[at("a")])
    for run in (
        lambda: check_goal(world, new),
        lambda: check(world, Act("supersede", at("old"), new, now=NOW)),
    ):
        if ready:
            run()
            continue
        with pytest.raises(InvalidationDeniedError) as caught:
            run()
        assert caught.value.rule == "depends_on"
    check_goal(world, goal("suspended", depends_on=[at("a")]))


def test_a_protected_goal_keeps_what_it_depends_on() -> None:
    fields: dict[str, Any] = {"allowed_transitions": ["active"]}
    old = protected(state="suspended", depends_on=[at("a")], **fields)
    refused("depends_on", old, protected(**fields), world={"a": OPEN})
    assert supersede(old, protected(**fields), {"a": DONE})
    assert (
        supersede(goal("suspended", depends_on=[at("a")]), goal(), {"a": OPEN}) == PolicyVerdict()
    )
