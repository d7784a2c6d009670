# SPDX-License-Identifier: Apache-2.0
"""A grain that nothing binds is let through without asking the policies: they would agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import omsgrain as og
from omsgrain import policy
from omsgrain.errors import OmsError
from omsgrain.policy.presets import load
from omsgrain.policy.rules import Keep
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from omsgrain.store import policy_context as contexts
from omsgrain.store.context import Settings, context_of
from support.invented_people import belief, consent

TIME = 1_768_471_200_000
LOCKED = {"mode": "locked"}
OPERATIONS: tuple[policy.Operation, ...] = (
    *("supersede", "contest", "retract", "delete", "compact", "verify", "erase"),
    *("retention", "consent", "restrict"),
)


@pytest.fixture
def store() -> Iterator[GrainStore]:
    with GrainStore(MemoryStorage(), Settings(clock=lambda: TIME)) as store:
        yield store


def targets(store: GrainStore) -> dict[str, str]:
    """Grains of each sort that a policy may concern, and of those that none does."""
    parent = store.put(belief("parent", invalidation_policy=LOCKED | {"scope": "subtree"}))
    free = store.put(belief("free"))
    lineage = store.put(belief("first", invalidation_policy={"mode": "open", "scope": "lineage"}))
    held = store.put(belief("held"))
    store.holds.add(held, authority="court", reason_code="order")
    return {
        "free": free,
        "locked": store.put(belief("locked", invalidation_policy=LOCKED)),
        "soft": store.put(belief("soft", invalidation_policy={"mode": "soft_locked"})),
        "child": store.put(belief("child", derived_from=[parent])),
        "parent": parent,
        "child of a free one": store.put(belief("other", derived_from=[free])),
        "covered": store.supersede(lineage, belief("second")),
        "held": held,
        "consent": store.put(consent(0)),
        "goal": store.put(
            {
                "type": "goal",
                "subject": "lamp",
                "description": "light",
                "goal_state": "active",
                "created_at": TIME,
            }
        ),
        "missing": "0" * 64,
    }


def news(targets: dict[str, str]) -> dict[str, og.Grain]:
    made = {
        "free": belief("new"),
        "locked": belief("new", invalidation_policy=LOCKED),
        "child": belief("new", derived_from=[targets["parent"]]),
        "goal": {
            "type": "goal",
            "subject": "lamp",
            "description": "light",
            "goal_state": "satisfied",
            "evidence_required": 1,
            "created_at": TIME,
        },
    }
    return {name: og.Grain(og.encode(fields)) for name, fields in made.items()}


def outcome(ask: Callable[[], tuple[str, ...]]) -> object:
    try:
        return ask()
    except OmsError as error:
        return error.code, error.rule


@pytest.mark.parametrize("delegation", [False, True])
def test_accepted_changes_are_those_that_policies_allow(
    store: GrainStore, delegation: bool
) -> None:
    there = targets(store)
    settings = Settings(delegation=delegation)
    seen = set()
    with context_of(store).storage.read() as reader:
        world = contexts.PolicyContext(reader)
        for name, address in there.items():
            for operation in OPERATIONS:
                for new_name, new in news(there).items():
                    given = new if operation == "supersede" else None
                    act = policy.Act(operation, address, new=given, now=TIME)

                    def whole(act: policy.Act = act) -> tuple[str, ...]:
                        verdict = policy.check(world, act, delegation=delegation)
                        return verdict.rules if verdict.review else ()

                    mine = outcome(lambda act=act: world.check(act, settings))  # type: ignore[misc]
                    assert mine == outcome(whole), (name, operation, new_name)
                    seen.add((name, mine == ()))
    assert ("free", True) in seen
    assert ("locked", False) in seen


def test_the_policies_are_not_asked_of_a_free_grain(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = targets(store)

    def never(*args: object, **options: object) -> None:
        raise AssertionError

    monkeypatch.setattr(policy, "check", never)
    new = store.supersede(there["free"], belief("new"))
    store.delete(new)
    with pytest.raises(AssertionError):
        store.delete(there["locked"])


def test_the_rules_in_force_always_ask_for_the_fields_that_are_looked_at() -> None:
    for rule in load(()).rules:
        assert isinstance(rule, Keep)
        for path in filter(None, (rule.years_field, rule.approval_field)):
            assert path[0] in contexts.RETAINING
