# SPDX-License-Identifier: Apache-2.0
"""Check an act against the policies of its grain, of related grains, and of profiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from omsgrain.errors import InvalidationDeniedError, NotFoundError, SchemaError
from omsgrain.grain import Grain
from omsgrain.policy import goals, modes
from omsgrain.policy.delegation import check_delegation
from omsgrain.policy.modes import Policy
from omsgrain.policy.reach import (
    Act,
    PolicyLookup,
    PolicyVerdict,
    Reach,
    denied,
    goes_by,
    replaced,
    texts,
)

#: Operations that invalidate a grain, and so need its policy's permission.
_INVALIDATING = frozenset(("supersede", "contest", "retract", "delete", "compact", "restrict"))
#: Operations without a user who could answer for them.
_AUTOMATIC = frozenset(("retention", "consent", "compact"))
_OPERATIONS = _INVALIDATING | _AUTOMATIC | {"verify", "erase"}


@dataclass(frozen=True, slots=True)
class _Guard:
    """A grain whose policy applies: the target itself, or a related grain."""

    address: str
    grain: Grain
    policy: Policy


def check(
    world: PolicyLookup,
    act: Act,
    *,
    hold_authorities: frozenset[str] = frozenset(),
    delegation: bool = False,
) -> PolicyVerdict:
    """Check whether an act is permitted. Nothing is changed. Spec: OMS §23.

    Args:
        world: the store in the act's transaction.
        act: the act.
        hold_authorities: DIDs that may write a binding hold into a blob. If empty, all may.
        delegation: whether a superseding grain must stay within its delegations.

    Raises:
        InvalidationDeniedError: a policy denies it; ``rule`` is the rule.
        EvidenceRequiredError: a goal lacks evidence.
        NotFoundError: the grain is not in the store.
        SchemaError: the operation is unknown, or a supersession has no new grain.
    """
    if act.operation not in _OPERATIONS:
        raise SchemaError("unknown operation", field="/operation")
    if (act.new is not None) != (act.operation == "supersede"):
        raise SchemaError("only a supersession has a new grain, and it needs one", field="/new")
    reach = Reach(world)
    target = reach.grain(act.address)
    if target is None:
        raise NotFoundError("no grain with this address")
    own = _Guard(act.address, target, modes.read(target, act.now))
    guards = [own, *_around(reach, target, act)]
    # A held grain may be restricted; its own mode is checked below
    if act.operation != "restrict":
        _holds(world, guards, hold_authorities, act)
    if act.operation in _AUTOMATIC:
        _kept(target)
    if act.operation not in _INVALIDATING:
        return PolicyVerdict()
    answers = [_answer(guard, target, act) for guard in guards]
    if act.new is not None:
        _after_withdrawal(goes_by(act.address, target), target, act.new)
        bound = target if own.policy.mode != "open" else None
        goals.evidence(reach, act.new, target, act.address)
        goals.dependencies(reach, act.new, bound)
        goals.inherit(target, own.policy, act.new, leave=answers[0][0])
        if delegation:
            check_delegation(world, act.new, act.now, supersedes=act.address)
    rules = {rule for rule, _ in answers} - {"open"}
    return PolicyVerdict(any(review for _, review in answers), tuple(sorted(rules)))


def authorized(world: PolicyLookup, act: Act) -> frozenset[str]:
    """Return the DIDs whose agreement can count, as a quorum or delegated policy names them.

    Other signatures need no verification. A resolver must not be called for other DIDs, because
    the writer of the new grain could choose their hosts.
    """
    reach = Reach(world)
    target = reach.grain(act.address)
    if target is None:
        return frozenset()
    own = _Guard(act.address, target, modes.read(target, act.now))
    guards = (own, *_around(reach, target, act))
    return frozenset(
        did
        for guard in guards
        if guard.policy.mode in ("quorum", "delegated")
        for did in texts(guard.policy.terms.get("authorized"))
    )


def check_goal(world: PolicyLookup, new: Grain) -> None:
    """Check the evidence and dependencies of a goal that supersedes nothing. Spec: OMS §8.7."""
    reach = Reach(world)
    goals.evidence(reach, new, None, None)
    goals.dependencies(reach, new, None)


def _around(reach: Reach, target: Grain, act: Act) -> Iterator[_Guard]:
    """Return the related grains whose policy applies; the default of consents does not extend."""
    world = reach.world
    # OMS §23.7: superseding a derived grain must not bypass its source's policy. Deleting a link
    # of that path has the same effect. Here every ancestor's policy applies, whatever its scope.
    every = act.new is not None or (
        act.operation in ("delete", "compact") and any(world.children(act.address))
    )
    near = () if act.new is None else (act.new,)
    for address, grain in reach.ancestors(act.address, target, *near):
        policy = modes.read(grain, act.now, "a grain that it is derived from")
        if modes.FIELD in grain and (every or "subtree" in policy.scopes):
            yield _Guard(address, grain, policy)
    for address in world.guards(act.address):
        guard = None if address == act.address else reach.grain(address)
        if guard is not None:
            yield _Guard(address, guard, modes.read(guard, act.now, "a grain of its lineage"))


def _holds(
    world: PolicyLookup, guards: list[_Guard], authorities: frozenset[str], act: Act
) -> None:
    """Deny the act if a hold covers the target; no operation passes a hold."""
    if world.held(act.address):
        raise denied("the grain is on hold", "hold")
    for guard in guards:
        # Otherwise anyone could write a grain about a person that cannot be erased.
        if guard.policy.mode == "hold" and (
            not authorities or not authorities.isdisjoint(world.signers(guard.address))
        ):
            raise denied(
                "a hold inside a grain covers this grain", "hold", field=f"/{modes.FIELD}"
            )


def _kept(target: Grain) -> None:
    """Deny the automatic removal of consents and privileged grains."""
    if target.type == "consent":
        raise denied("consents are kept for audit", "consent", field="/type")
    if is_privileged(target):
        raise denied("the grain is under legal privilege", "privilege", field="/legal:privilege")


def _answer(guard: _Guard, target: Grain, act: Act) -> tuple[str, bool]:
    """Return the rule that permits the act, and whether it needs a review."""
    policy = guard.policy
    if policy.mode not in modes.FREE and goals.moves(guard.grain, target, act):
        if policy.mode in modes.SEPARATE:
            modes.separate(guard.grain, act)
        return "transition", False
    return policy.mode, modes.ask(policy, guard.grain, target, act)


def _after_withdrawal(names: frozenset[str], target: Grain, new: Grain) -> None:
    """Deny the supersession of a withdrawal of consent by an unrelated grain.

    A superseded withdrawal has no effect any more. So its successor must be another consent of the
    same person about it. Otherwise any other statement of the person could be replayed to restore
    the consent. Spec: OMS §9, §23.
    """
    if target.type != "consent" or target.get("is_withdrawal") is not True:
        return
    if new.type != "consent" or new.get("subject_did") != target.get("subject_did"):
        raise _not_about("/subject_did", "a consent with the same subject_did", "another")
    prior = new.get("prior_consent")
    if prior in names or not names.isdisjoint(replaced(new)):
        return
    # A version from before the withdrawal was withdrawn with it.
    earlier = new.get("created_at", 0) < target.get("created_at", 0)
    if earlier or prior != target.get("prior_consent"):
        expected = "the withdrawal, or, in a later grain, the consent that it withdrew"
        raise _not_about("/prior_consent", expected, "an earlier grain" if earlier else "another")


def _not_about(field: str, expected: str, found: str) -> InvalidationDeniedError:
    text = "only a grain about the withdrawal of a consent can supersede it"
    return denied(text, "consent", field=field, expected=expected, found=found)


_PII = 2
_PRIVILEGED = ("attorney_client", "work_product")
#: Fields that say whom a grain is about.
_PERSON = ("user_id", "subject_did")


def profiles(grain: Grain) -> frozenset[str]:
    """Return the profiles that a grain declares; only their rules apply."""
    tags = texts(grain.get("structural_tags"))
    return frozenset(tag.removeprefix("profile:") for tag in tags if tag.startswith("profile:"))


PRIVILEGE = frozenset(("legal:privilege", "_elided"))
"""Fields that may say that legal privilege covers a grain."""


def is_privileged(grain: Grain) -> bool:
    """Whether legal privilege covers a grain; an elided privilege counts."""
    if grain.fields.keys().isdisjoint(PRIVILEGE) or "legal" not in profiles(grain):
        return False
    return grain.get("legal:privilege") in _PRIVILEGED or "legal:privilege" in _elided(grain)


def check_export(grain: Grain, held: bool, *, sale: bool = False) -> str | None:
    """Return the profile rule that forbids to export a grain; ``held``: a hold covers it."""
    declared = profiles(grain)
    if is_privileged(grain) and not held:
        return "legal:privilege"
    if sale and "consumer" in declared and grain.get("con:ccpa_opted_out") is True:
        return "consumer:opted_out"
    if not grain.get("processing_basis") and _identifies(grain):
        for name in ("finance", "consumer"):
            if name in declared:
                return f"{name}:processing_basis"
    return None


def _identifies(grain: Grain) -> bool:
    """Whether a grain identifies a person, by a field or by its classification."""
    elided = _elided(grain)
    named = any(grain.get(name) or name in elided for name in (*_PERSON, "fin:account_id"))
    return named or grain.header.sensitivity >= _PII


def _elided(grain: Grain) -> frozenset[str]:
    hidden = grain.get("_elided")
    return frozenset(hidden) if isinstance(hidden, dict) else frozenset()
