# SPDX-License-Identifier: Apache-2.0
"""How far a policy reaches, and that no protection ever opens a grain.  Spec: OMS §23.6."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.errors import InvalidationDeniedError, PolicyError
from omsgrain.policy import HOPS, LIMIT, Act, PolicyVerdict, check, check_goal
from support.policy_outcome import act, outcome, outcomes
from support.policy_table import CASES, NOW, OPERATIONS, PROOFS, Proof
from support.policy_world import AGENT, AUTHOR, COURT, FakeWorld, at, goal, grain

LOCK: dict[str, Any] = {"invalidation_policy": {"mode": "locked", "scope": "subtree"}}
CHAIN: dict[str, Any] = {"invalidation_policy": {"mode": "locked", "scope": "lineage"}}


def test_walks_end_in_circles() -> None:
    grains = {
        "target": grain(derived=["target", "a"]),
        "a": grain(derived=["b"]),
        "b": grain(derived=["a", "target"]),
    }
    pairs = [("target", "a"), ("a", "b"), ("b", "target"), ("a", "a")]
    world = FakeWorld(grains, pairs)
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "." * 9
    world = FakeWorld(grains | {"b": grain(derived=["a"], **LOCK)}, pairs)
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "DDDDD...."
    world = FakeWorld(grains | {"b": grain(**CHAIN)}, pairs)
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "DDDDD...."


def test_the_nearest_of_many_paths_counts() -> None:
    far = {f"n{i}": grain(derived=[f"n{i + 1}"]) for i in range(HOPS + 4)}
    far[f"n{HOPS + 4}"] = grain(**LOCK)
    world = FakeWorld(far | {"target": grain(derived=["n0"])})
    assert outcome(world, act("contest")) == "."
    world = FakeWorld(far | {"target": grain(derived=["n0", "n5"])})
    assert outcome(world, act("contest")) == "D"


def test_each_grain_is_read_once() -> None:
    wide = {
        f"{layer} {i}": grain(derived=[f"{layer + 1} {j}" for j in range(8)])
        for layer in range(HOPS + 2)
        for i in range(8)
    }
    world = FakeWorld(wide | {"target": grain(derived=["0 0", "0 1"])})
    check(world, act("supersede"))
    assert world.reads == 1 + 2 + 8 * (HOPS - 1)


def test_a_parent_that_is_gone_ends_its_path() -> None:
    world = FakeWorld({"guard": grain(**LOCK), "target": grain(derived=["gone", "also gone"])})
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "." * 9


def test_checks_beyond_the_limit_are_refused() -> None:
    def widest(count: int) -> FakeWorld:
        return FakeWorld(
            {"target": grain("state", derived_from=[f"{n:064x}" for n in range(count)])}
        )

    # A grain of the largest size names fewer than the limit.
    world = widest(15_000)
    assert check(world, act("supersede")) == PolicyVerdict()
    assert world.reads == 15_001

    class Star(FakeWorld):
        def successors(self, address: str) -> list[str]:
            return [f"{n:064x}" for n in range(LIMIT)]

        guards = successors

    for operation in OPERATIONS:
        with pytest.raises(InvalidationDeniedError) as caught:
            check(Star({"target": grain()}), act(operation))
        assert caught.value.rule == "limit"
    with pytest.raises(InvalidationDeniedError) as caught:
        check_goal(Star({"a": goal()}), goal("active", depends_on=[at("a")]))
    assert caught.value.rule == "limit"


# Adding protection never helps

_LABELS = ("a", "b", "c", "d", "e")
_POLICIES = st.sampled_from([dict(c.policy) for c in CASES.values() if c.policy is not None])
_SCOPED = st.builds(
    lambda p, s: p | {"scope": s}, _POLICIES, st.sampled_from(["grain", "subtree", "lineage", "?"])
)
_SOME = st.lists(st.sampled_from(_LABELS), max_size=2)
_STATES = st.sampled_from(["active", "satisfied", "failed", "suspended"])


@st.composite
def _grains(draw: st.DrawFn, protected: bool = True) -> og.Grain:
    fields: dict[str, Any] = {"derived": draw(_SOME)}
    fields["author_did"] = draw(st.sampled_from([AUTHOR, AGENT, None]))
    if protected and draw(st.booleans()):
        fields["invalidation_policy"] = draw(_SCOPED)
    if draw(st.booleans()):
        return grain(**fields)
    fields["allowed_transitions"] = draw(st.lists(_STATES, max_size=2))
    fields["evidence_required"] = draw(st.sampled_from([0, 0, 1]))
    fields["satisfaction_evidence"] = [at(label) for label in draw(_SOME)]
    fields["depends_on"] = [
        at(label) for label in draw(st.lists(st.sampled_from(_LABELS), max_size=1))
    ]
    return goal(draw(_STATES), **fields)


@given(
    st.fixed_dictionaries({label: _grains() for label in _LABELS}),
    st.lists(st.tuples(st.sampled_from(_LABELS), st.sampled_from(_LABELS)), max_size=4),
    st.sets(st.sampled_from(_LABELS), max_size=1),
    st.sampled_from(OPERATIONS),
    _grains(),
    st.sampled_from(list(PROOFS.values())),
    st.sampled_from(_LABELS),
    st.one_of(st.none(), _SCOPED),
    st.sampled_from([frozenset(), frozenset({COURT})]),
)
def test_more_protection_never_turns_a_refusal_into_leave(
    grains: dict[str, og.Grain],
    pairs: list[tuple[str, str]],
    held: set[str],
    operation: Any,
    new: og.Grain,
    proof: Proof,
    label: str,
    policy: dict[str, Any] | None,
    authorities: frozenset[str],
) -> None:
    what = Act(
        operation,
        at("a"),
        new if operation == "supersede" else None,
        proof.signers,
        proof.co_signers,
        justification=proof.justification,
        now=NOW,
    )

    def refused(world: FakeWorld) -> bool:
        try:
            check(world, what, hold_authorities=authorities)
        except PolicyError:
            return True
        return False

    before = refused(FakeWorld(grains, pairs, held))
    more = dict(grains)
    if policy is None:
        held = held | {label}
    elif "invalidation_policy" not in grains[label]:
        more[label] = og.Grain(
            og.encode(grains[label].to_dict() | {"invalidation_policy": policy})
        )
    assert refused(FakeWorld(more, pairs, held)) or not before
