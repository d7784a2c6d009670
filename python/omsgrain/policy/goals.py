# SPDX-License-Identifier: Apache-2.0
"""Goals: free transitions, evidence, dependencies, laundering. Spec: OMS §8.7, §23.4, §23.5."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeGuard

from omsgrain.errors import EvidenceRequiredError, InvalidationDeniedError
from omsgrain.grain import Grain
from omsgrain.policy import modes
from omsgrain.policy.modes import Policy
from omsgrain.policy.reach import Act, Reach, addresses, denied, texts

#: Fields that define a goal. A change of one of these is a rewrite.
_SAME = ("description", "criteria", "criteria_structured")
#: Modes that permit by a signature over the new grain, including its policy.
_SIGNED = frozenset(("quorum", "delegated"))
#: Modes without named DIDs, so that a lock takes no one's rights.
_NAMELESS = frozenset(("soft_locked", "timed", "consent_cascade"))


def is_goal(grain: Grain | None) -> TypeGuard[Grain]:
    return grain is not None and grain.type == "goal"


def moves(guard: Grain, target: Grain, act: Act) -> bool:
    """Whether an act is a transition that the guarding goal permits."""
    new = act.new
    if not (is_goal(guard) and is_goal(target) and is_goal(new)):
        return False
    state = new.get("goal_state")
    return (
        state in texts(guard.get("allowed_transitions"))
        and state != target.get("goal_state")
        and all(target.get(name) == new.get(name) for name in _SAME)
    )


def inherited(old: Grain, new: Mapping[str, Any], now: int) -> dict[str, Any] | None:
    """Return the policy that fields inherit from a goal that they supersede, or None.

    Fields with co-signatures inherit nothing, because the signatures cover the fields.
    """
    if not is_goal(old) or new.get(modes.FIELD) is not None or new.get("supersession_auth"):
        return None
    if modes.read(old, now).mode == "open":
        return None
    terms: dict[str, Any] = old.to_dict()[modes.FIELD]
    return terms


def inherit(old: Grain, policy: Policy, new: Grain, *, leave: str) -> None:
    """Deny a grain that supersedes a protected goal without its protection."""
    if not is_goal(old) or policy.mode == "open" or leave in _SIGNED:
        return
    if not _keeps(policy, modes.read(new, 0)):
        raise _laundering(modes.FIELD, "the policy of the superseded goal")
    if set(texts(new.get("allowed_transitions"))) - set(texts(old.get("allowed_transitions"))):
        raise _laundering("allowed_transitions", "no more than those of the superseded goal")
    if _count(new) < _count(old):
        raise _laundering("evidence_required", "as much as for the superseded goal")


def _keeps(old: Policy, new: Policy) -> bool:
    if _binding(old.terms) == _binding(new.terms):
        return True
    nameless = old.terms.get("mode") in _NAMELESS
    return nameless and new.terms.get("mode") == "locked" and old.scopes <= new.scopes


def _binding(terms: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in terms.items() if key != "protection_reason"}


def _laundering(field: str, expected: str) -> InvalidationDeniedError:
    text = "a grain that supersedes a protected goal must keep its protection"
    return denied(text, "laundering", field=f"/{field}", expected=expected, found="less")


def evidence(reach: Reach, new: Grain, old: Grain | None, address: str | None) -> None:
    """Deny a satisfied goal without the required evidence."""
    if not is_goal(new) or new.get("goal_state") != "satisfied":
        return
    needed = max(_count(new), _count(old) if is_goal(old) else 0)
    found: set[str] = set()
    for piece in addresses(new.get("satisfaction_evidence")):
        grain = None if len(found) >= needed or piece == address else reach.grain(piece)
        # Compare stored addresses: an encrypted grain has two.
        if grain is not None and grain.address != address:
            found.add(grain.address)
    if len(found) < needed:
        raise EvidenceRequiredError(
            "a satisfied goal needs its evidence",
            rule="evidence",
            field="/satisfaction_evidence",
            expected=f"{needed} grains in the store",
            found=str(len(found)),
        )


def _count(goal: Grain) -> int:
    value = goal.get("evidence_required", 0)
    return value if isinstance(value, int) else 0


def dependencies(reach: Reach, new: Grain, old: Grain | None) -> None:
    """Deny an active goal before the goals it depends on are satisfied."""
    if not is_goal(new) or new.get("goal_state") != "active":
        return
    needed = addresses(new.get("depends_on"))
    if is_goal(old):
        needed += addresses(old.get("depends_on"))
    for place, goal in enumerate(dict.fromkeys(needed)):
        heads = reach.heads(goal)
        done = (is_goal(head) and head.get("goal_state") == "satisfied" for head in heads)
        if not heads or not all(done):
            raise denied(
                "a goal can be active only after the goals it depends on are satisfied",
                "depends_on",
                field="/depends_on",
                expected="satisfied goals",
                found=f"number {place + 1} is not",
            )
