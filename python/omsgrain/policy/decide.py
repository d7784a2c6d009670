# SPDX-License-Identifier: Apache-2.0
"""The check: what a grain's own policy, those around it and its profiles say to an act."""

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

#: They take a grain from "current and trusted", and so obey its policy.
_INVALIDATING = frozenset(("supersede", "contest", "retract", "delete", "compact", "restrict"))
#: Nobody asks for them by name, so nobody can answer for them.
_AUTOMATIC = frozenset(("retention", "consent", "compact"))
_OPERATIONS = _INVALIDATING | _AUTOMATIC | {"verify", "erase"}


@dataclass(frozen=True, slots=True)
class _Guard:
    """A grain whose policy reaches the target: the target itself, or one around it."""

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
    """Check whether an act may be done. Nothing is changed.

    Args:
        world: the store, as the act finds it.
        act: what is to be done.
        hold_authorities: DIDs that may write a hold into a blob. If there are none, anyone may.
        delegation: whether a superseding grain must stay within the delegations that it is under.

    Returns:
        Whether to review the act, and the rules that had a say.

    Raises:
        InvalidationDeniedError: a policy refuses; ``rule`` says which rule of it.
        EvidenceRequiredError: a goal lacks evidence.
        NotFoundError: the grain is not in the store.
        SchemaError: no such operation, or a supersession without a new grain.

    Spec: OMS §23
    """
    if act.operation not in _OPERATIONS:
        raise SchemaError("no such operation", field="/operation")
    if (act.new is not None) != (act.operation == "supersede"):
        raise SchemaError("a new grain belongs to a supersession, and only there", field="/new")
    reach = Reach(world)
    target = reach.grain(act.address)
    if target is None:
        raise NotFoundError("no grain with this address")
    own = _Guard(act.address, target, modes.read(target, act.now))
    guards = [own, *_around(reach, target, act)]
    if act.operation != "restrict":  # what is held may be out of use; its own mode is asked below
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
    """The DIDs whose agreement may count: those that a quorum or a delegated policy names.

    Nobody else's signature has to be verified, nor may a resolver be asked for his DID: whoever
    wrote the new grain could send it anywhere.

    Args:
        world: the store.
        act: the supersession; who agrees to it is not known yet.

    Raises:
        InvalidationDeniedError: too many grains bear on it.
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
    """Check a goal that supersedes nothing: its evidence, and what it depends on.

    Args:
        world: the store.
        new: the grain that comes; one that is no goal passes.

    Raises:
        EvidenceRequiredError: it is satisfied without the evidence that it asks for.
        InvalidationDeniedError: it is active before those it depends on are satisfied.

    Spec: OMS §8.7
    """
    reach = Reach(world)
    goals.evidence(reach, new, None, None)
    goals.dependencies(reach, new, None)


def _around(reach: Reach, target: Grain, act: Act) -> Iterator[_Guard]:
    """The other grains whose policy reaches the act; the default of consents stays with them."""
    world = reach.world
    # OMS §23.7: whose policy would be got round by superseding what derives from it. Deleting a
    # link of that path comes to the same. Here every ancestor's policy binds, whatever its scope.
    every = act.new is not None or (
        act.operation in ("delete", "compact") and any(world.children(act.address))
    )
    near = () if act.new is None else (act.new,)
    if world.has_policy(None if every else "subtree"):
        for address, grain in reach.ancestors(act.address, target, *near):
            policy = modes.read(grain, act.now, "a grain that it derives from")
            if modes.FIELD in grain and (every or "subtree" in policy.scopes):
                yield _Guard(address, grain, policy)
    for address in world.guards(act.address):
        guard = None if address == act.address else reach.grain(address)
        if guard is not None:
            yield _Guard(address, guard, modes.read(guard, act.now, "a grain of its lineage"))


def _holds(
    world: PolicyLookup, guards: list[_Guard], authorities: frozenset[str], act: Act
) -> None:
    """Refuse if a hold covers the target; no operation passes one."""
    if world.held(act.address):
        raise denied("the store holds the grain", "hold")
    for guard in guards:
        # Otherwise anyone could write a grain about somebody that nobody can erase.
        if guard.policy.mode == "hold" and (
            not authorities or not authorities.isdisjoint(world.signers(guard.address))
        ):
            raise denied("a hold covers the grain", "hold", field=f"/{modes.FIELD}")


def _kept(target: Grain) -> None:
    """Refuse what no automatism may remove."""
    if target.type == "consent":
        raise denied("consents are kept for audit", "consent", field="/type")
    if is_privileged(target):
        raise denied("the grain is under legal privilege", "privilege", field="/legal:privilege")


def _answer(guard: _Guard, target: Grain, act: Act) -> tuple[str, bool]:
    """The rule that gives leave, and whether the act is to be reviewed."""
    policy = guard.policy
    if policy.mode not in modes.FREE and goals.moves(guard.grain, target, act):
        if policy.mode in modes.SEPARATE:
            modes.separate(guard.grain, act)
        return "transition", False
    return policy.mode, modes.ask(policy, guard.grain, target, act)


def _after_withdrawal(names: frozenset[str], target: Grain, new: Grain) -> None:
    """Refuse a grain that supersedes a withdrawal of consent and is not about it.

    A withdrawal that was superseded takes nothing back any more. So its successor has to be about
    it: another consent of the same person, whatever reason is given. Anything else that the person
    ever said could be replayed to bring the consent back. Spec: OMS §9, §23.
    """
    if target.type != "consent" or target.get("is_withdrawal") is not True:
        return
    if new.type != "consent" or new.get("subject_did") != target.get("subject_did"):
        raise _not_about("/subject_did", "a consent of the same subject_did", "another")
    prior = new.get("prior_consent")
    if prior in names or not names.isdisjoint(replaced(new)):
        return
    # What the person said of the same consent before withdrawing it was withdrawn with it.
    earlier = new.get("created_at", 0) < target.get("created_at", 0)
    if earlier or prior != target.get("prior_consent"):
        expected = "the withdrawal, or in a later grain the consent that it withdrew"
        raise _not_about("/prior_consent", expected, "an earlier grain" if earlier else "another")


def _not_about(field: str, expected: str, found: str) -> InvalidationDeniedError:
    text = "a grain that is not about a withdrawal of consent does not supersede it"
    return denied(text, "consent", field=field, expected=expected, found=found)


_PII = 2
_PRIVILEGED = ("attorney_client", "work_product")
#: Fields that say whom a grain is about.
_PERSON = ("user_id", "subject_did")


def profiles(grain: Grain) -> frozenset[str]:
    """The profiles that the grain declares. Only where one is declared do its rules hold."""
    tags = texts(grain.get("structural_tags"))
    return frozenset(tag.removeprefix("profile:") for tag in tags if tag.startswith("profile:"))


def is_privileged(grain: Grain) -> bool:
    """Whether a legal privilege covers it; one that is elided counts, as it cannot be read."""
    if "legal" not in profiles(grain):
        return False
    return grain.get("legal:privilege") in _PRIVILEGED or "legal:privilege" in _elided(grain)


def check_export(grain: Grain, held: bool, *, sale: bool = False) -> str | None:
    """Whether a profile's rule forbids that a grain leaves the store.

    Args:
        grain: the grain.
        held: whether a hold covers it, the store's own or one in its blob.
        sale: whether it is sold, or goes to a data broker.

    Returns:
        The name of the rule that forbids it, or None: ``legal:privilege``,
        ``finance:processing_basis``, ``consumer:processing_basis``, ``consumer:opted_out``.
    """
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
    """Whether it says whom it is about, by a field or by its own classification."""
    elided = _elided(grain)
    named = any(grain.get(name) or name in elided for name in (*_PERSON, "fin:account_id"))
    return named or grain.header.sensitivity >= _PII


def _elided(grain: Grain) -> frozenset[str]:
    hidden = grain.get("_elided")
    return frozenset(hidden) if isinstance(hidden, dict) else frozenset()
