# SPDX-License-Identifier: Apache-2.0
"""Permission to change a current grain: modes, scopes, holds.  Spec: OMS §23."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given

import omsgrain as og
from omsgrain.errors import InvalidationDeniedError, NotFoundError, PolicyError, SchemaError
from omsgrain.policy import Act, PolicyVerdict, check, operation_of
from support.policy_outcome import act, outcome, outcomes
from support.policy_table import (
    BROKEN,
    CASES,
    GIVEN,
    NOW,
    OPERATIONS,
    PLACES,
    PROOFS,
    REFUSED,
    SECOND,
    Case,
    Proof,
    expected,
)
from support.policy_world import AGENT, ANN, AUTHOR, BEN, FakeWorld, at, grain, opaque, replaces
from support.random_values import values

EVERYTHING = Proof("a reason", "a reason", frozenset({ANN, BEN}), frozenset({ANN, BEN}), AGENT)


def guard(case: Case, scope: str = "grain", **fields: Any) -> og.Grain:
    """The grain with the policy."""
    if case.policy is not None:
        fields["invalidation_policy"] = {**case.policy, "scope": scope}
    return grain(author_did=AUTHOR, **fields)


def scene(place: str, scope: str, case: Case) -> tuple[FakeWorld, dict[str, Any]]:
    """A world with the target at a place around the guard, and fields of the superseding grain."""
    grains = {"guard": guard(case, scope), "target": grain()}
    pairs: list[tuple[str, str]] = []
    new: dict[str, Any] = {}
    match place.split():
        case ["itself"]:
            grains = {"target": grains.pop("guard")}
        case ["child"]:
            grains["target"] = grain(derived=["guard"])
        case ["link"]:
            grains |= {"target": grain(derived=["guard"]), "below": grain(derived=["target"])}
        case [hops, "below"]:
            chain = ["guard", *(f"link {n}" for n in range(int(hops) - 1)), "target"]
            for above, label in pairwise(chain):
                grains[label] = grain(derived=[above])
        case ["parent"]:
            grains["guard"] = guard(case, scope, derived=["target"])
        case ["successor"]:
            pairs = [("guard", "target")]
        case ["third", "successor"]:
            grains |= {"one": grain(), "two": grain()}
            pairs = [("guard", "one"), ("one", "two"), ("two", "target")]
        case ["predecessor"]:
            pairs = [("target", "guard")]
        case ["fork"]:
            grains["root"] = grain()
            pairs = [("root", "guard"), ("root", "target")]
        case ["new", "from", "it"]:
            new = {"derived": ["target", "guard"]}
        case ["new", "replaces", "it"]:
            new = {"related_to": replaces("guard")}
        case ["it", "replaces"]:
            grains["guard"] = guard(case, scope, related_to=replaces("target"))
        case _:
            assert place == "apart"
    signed = {"target" if place == "itself" else "guard": set(case.signed)}
    return FakeWorld(grains, pairs, signed=signed), new


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("proof", PROOFS)
def test_every_mode(case: str, proof: str) -> None:
    world, _ = scene("itself", "grain", CASES[case])
    assert outcomes(world, CASES[case], PROOFS[proof]) == expected(case, proof)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("place", PLACES, ids="-".join)
def test_every_scope(place: tuple[str, str], case: str) -> None:
    world, new = scene(*place, CASES[case])
    proofs = ("nothing", "reason", "two-of-two", "signed")
    found = {name: outcomes(world, CASES[case], PROOFS[name], **new) for name in proofs}
    assert found == {name: expected(case, name, PLACES[place]) for name in proofs}


def test_the_table_is_whole() -> None:
    assert REFUSED.keys() == CASES.keys()
    assert {case for case, _ in GIVEN} <= CASES.keys()
    assert {proof for _, proof in GIVEN} <= PROOFS.keys()
    assert all(len(row) == len(OPERATIONS) for row in (*REFUSED.values(), *PLACES.values()))


@pytest.mark.parametrize("name", BROKEN)
def test_unknown_policies_are_locked(name: str) -> None:
    world = FakeWorld({"target": grain(invalidation_policy=BROKEN[name])})
    assert outcomes(world, CASES["none"], EVERYTHING) == "DDDDD...."


@given(values())
def test_no_policy_of_any_shape_opens_a_grain(policy: Any) -> None:
    world = FakeWorld({"target": opaque(invalidation_policy=policy)})
    mode = policy.get("mode") if isinstance(policy, dict) else policy
    free = mode is None and not isinstance(policy, dict)  # null is absent
    assert outcomes(world, CASES["none"], EVERYTHING) == ("........." if free else "DDDDD....")


@given(values(), values(), values())
def test_opaque_grains_hold_anything(one: Any, two: Any, three: Any) -> None:
    fields = {
        "derived_from": one,
        "parent_goals": one,
        "author_did": two,
        "delegate_from": two,
        "structural_tags": two,
        "supersession_justification": two,
        "delegation_depth": three,
        "authorized_namespaces": three,
    }
    policy = {"mode": "quorum", "authorized": [ANN], "threshold": 1}
    world = FakeWorld({"target": opaque(**fields, invalidation_policy=policy)})
    ann = frozenset({ANN})
    what = Act("supersede", at("target"), opaque(**fields, x="new"), co_signers=ann, now=NOW)
    with suppress(PolicyError):
        check(world, what, delegation=True)


_RULES: list[tuple[str, str, str, str | None]] = [
    ("soft_locked", "blank", "soft_locked", "/supersession_justification"),
    ("locked", "reason", "locked", "/invalidation_policy"),
    ("quorum", "one-of-two", "quorum", "/supersession_auth"),
    ("quorum", "by-author", "key_separation", "/author_did"),
    ("delegated", "stranger", "delegated", None),
    ("timed", "reason", "timed", "/invalidation_policy"),
    ("timed-to-what", "reason", "unknown", "/invalidation_policy/fallback_mode"),
    ("unknown", "reason", "unknown", "/invalidation_policy/mode"),
    ("hold", "reason", "hold", "/invalidation_policy"),
    ("hold-unsigned", "reason", "hold", "/invalidation_policy"),
]


@pytest.mark.parametrize(("case", "proof", "rule", "field"), _RULES)
def test_a_refusal_names_its_rule(case: str, proof: str, rule: str, field: str | None) -> None:
    world, _ = scene("itself", "grain", CASES[case])
    with pytest.raises(InvalidationDeniedError) as caught:
        check(
            world, act("supersede", proof=PROOFS[proof]), hold_authorities=CASES[case].authorities
        )
    assert (caught.value.rule, caught.value.field) == (rule, field)


def test_a_refusal_shows_nothing_of_a_grain() -> None:
    secrets = {"mode": "secret1", "fallback_mode": "secret2", "authorized": ["secret3"]}
    policies: list[dict[str, Any]] = [
        secrets,
        secrets | {"mode": "timed", "locked_until": 0},
        secrets | {"mode": "quorum", "threshold": "secret4"},
        secrets | {"mode": "delegated", "scope": "secret5"},
    ]
    for policy in policies:
        world = FakeWorld({"target": grain(invalidation_policy=policy, author_did=AUTHOR)})
        with pytest.raises(InvalidationDeniedError) as caught:
            check(world, act("supersede"))
        assert "secret" not in str(caught.value) + str(caught.value.to_dict())


def test_a_verdict_names_the_rules() -> None:
    policies = {"target": CASES["soft_locked"], "guard": CASES["delegated"]}
    grains = {
        "target": guard(policies["target"], derived=["guard"]),
        "guard": guard(policies["guard"]),
    }
    proof = Proof(justification="why", signers=frozenset({ANN}))
    verdict = check(FakeWorld(grains), act("supersede", proof=proof))
    assert verdict == PolicyVerdict(True, ("delegated", "soft_locked"))
    assert check(FakeWorld({"target": grain()}), act("supersede")) == PolicyVerdict()


# Holds


def test_a_hold_of_the_store_refuses_everything() -> None:
    kinds: list[dict[str, Any]] = [{}, {"invalidation_policy": {"mode": "open"}}]
    for fields in kinds:
        world = FakeWorld({"target": grain(**fields)}, on_hold={"target"})
        assert outcomes(world, CASES["hold-unsigned"], EVERYTHING) == "D" * 9


def test_a_hold_of_the_store_is_on_one_grain() -> None:
    grains = {"held": grain(), "target": grain(derived=["held"])}
    world = FakeWorld(grains, [("held", "target")], on_hold={"held"})
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "." * 9


# Consents, privilege


def test_a_consent_is_soft_locked_and_kept() -> None:
    world = FakeWorld({"target": grain("consent")})
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "DDDDD..DD"
    assert outcomes(world, CASES["none"], PROOFS["reason"]) == "rrrrD..DD"
    assert "invalidation_policy" not in world.grains["target"]
    world = FakeWorld({"target": grain("consent", invalidation_policy={"mode": "open"})})
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "....D..DD"


def test_the_default_of_a_consent_stays_with_it() -> None:
    grains = {"consent": grain("consent"), "target": grain(derived=["consent"])}
    world = FakeWorld(grains, [("consent", "target")])
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "." * 9


@pytest.mark.parametrize("kind", ["attorney_client", "work_product"])
def test_privileged_grains_do_not_expire(kind: str) -> None:
    fields: dict[str, Any] = {"structural_tags": ["profile:legal"], "legal:privilege": kind}
    world = FakeWorld({"target": grain(**fields)})
    assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "....D..DD"


def test_privilege_holds_in_its_profile() -> None:
    kinds: list[dict[str, Any]] = [
        {"legal:privilege": "attorney_client"},
        {"legal:privilege": "none", "structural_tags": ["profile:legal"]},
    ]
    for fields in kinds:
        world = FakeWorld({"target": grain(**fields)})
        assert outcomes(world, CASES["none"], PROOFS["nothing"]) == "." * 9


# Keys


@pytest.mark.parametrize("mode", ["quorum", "locked"])
def test_an_author_does_not_sign_its_own_release(mode: str) -> None:
    policy = {"mode": mode, "authorized": [ANN, BEN], "threshold": 2}
    world = FakeWorld({"target": grain(author_did=AUTHOR, invalidation_policy=policy)})
    proof = Proof(co_signers=frozenset({ANN, BEN}), signers=frozenset({AUTHOR}), writer=AGENT)
    assert outcomes(world, CASES["none"], proof) == "DDDDD...."


def test_a_quorum_without_an_author_knows_no_author() -> None:
    policy = {"mode": "quorum", "authorized": [ANN, BEN], "threshold": 2}
    world = FakeWorld({"target": grain(invalidation_policy=policy)})
    for writer in (None, ANN):
        proof = Proof(co_signers=frozenset({ANN, BEN}), writer=writer)
        assert outcomes(world, CASES["none"], proof) == "." * 9


def test_an_author_may_be_the_delegate() -> None:
    policy = {"mode": "delegated", "authorized": [AUTHOR]}
    world = FakeWorld({"target": grain(author_did=AUTHOR, invalidation_policy=policy)})
    proof = Proof(signers=frozenset({AUTHOR}), writer=AUTHOR)
    assert outcomes(world, CASES["none"], proof) == "." * 9


# Time


def test_a_lock_opens_at_its_second() -> None:
    policy = {"mode": "timed", "locked_until": SECOND, "fallback_mode": "open"}
    world = FakeWorld({"target": grain(invalidation_policy=policy)})
    for now, letter in ((NOW - 1, "D"), (NOW, "."), (NOW + 1, ".")):
        assert outcome(world, Act("contest", at("target"), now=now)) == letter
    assert outcome(world, Act("contest", at("target"))) == "D"  # who gives no time gets no release


# What is asked wrongly


def test_acts_that_make_no_sense() -> None:
    world = FakeWorld({"target": grain()})
    with pytest.raises(NotFoundError):
        check(world, act("contest", "nowhere"))
    for wrong in (
        Act("supersede", at("target")),
        Act("delete", at("target"), new=grain()),
        Act("forget", at("target")),  # type: ignore[arg-type]
    ):
        with pytest.raises(SchemaError):
            check(world, wrong)


def test_losing_trust_is_an_invalidation() -> None:
    order = ("retracted", "contested", "unverified", "verified")
    found = {(a, b): operation_of(a, b) for a in order for b in order}
    assert found == {
        (was, becomes): "verify"
        if order.index(becomes) >= order.index(was)
        else "retract"
        if becomes == "retracted"
        else "contest"
        for was in order
        for becomes in order
    }
    with pytest.raises(SchemaError):
        operation_of("verified", "believed")
