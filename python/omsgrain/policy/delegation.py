# SPDX-License-Identifier: Apache-2.0
"""Check what an agent may write under a delegated goal. Spec: OMS §6.11."""

from __future__ import annotations

from omsgrain.errors import InvalidationDeniedError
from omsgrain.grain import Grain
from omsgrain.policy.reach import (
    HOPS,
    LIMIT,
    PolicyLookup,
    Reach,
    addresses,
    denied,
    goes_by,
    parents,
    replaced,
    too_many,
)

_LISTS = ("authorized_namespaces", "authorized_types", "authorized_tools")
_SCOPE = (*_LISTS, "delegation_depth", "delegation_expiry")


def check_delegation(
    world: PolicyLookup, new: Grain, now: int, *, supersedes: str | None = None
) -> None:
    """Check that a grain stays within every delegation that it is written under.

    These are delegations among the grain that it supersedes, its sources, its parent goals and its
    parent task, and among theirs, up to 16 hops. A delegation does not bind its giver. ``now``
    counts, not the grain's own time: its writer chose that. The ``rule`` of the denial is the
    exceeded field.
    """
    reach = Reach(world)
    delegates = _delegates(new)
    about = _is_about(reach, new, supersedes)
    starts = _above(new) if supersedes is None else (supersedes, *_above(new))
    # A grain above the new one, the number of delegations below it on the path, and the agent that
    # the nearest of them names. Two paths to one grain can differ, and each is checked.
    level = {(address, int(delegates), _delegate(new)) for address in starts}
    seen = set(level)
    for _ in range(HOPS):
        found = set()
        for address, below, nearest in level:
            grain = reach.grain(address)
            if grain is None:
                continue
            if _delegates(grain):
                named = _delegate(grain)
                # A later version of a delegation names the same agent and delegates nothing
                # further.
                below -= below > 0 and named is not None and named == nearest
                if not _gave(world, address, grain, new, about):
                    _within(grain, new, now)
                    _hands_on(grain, new, below, delegates)
                below, nearest = below + 1, named
            for above in _above(grain):
                place = (above, below, nearest)
                if place not in seen:
                    if len(seen) >= LIMIT:
                        raise too_many()
                    seen.add(place)
                    found.add(place)
        level = found


def _above(grain: Grain) -> tuple[str, ...]:
    task = grain.get("parent_task_id")
    return parents(grain) + addresses(grain.get("parent_goals")) + addresses([task])


def _delegates(grain: Grain) -> bool:
    return _delegate(grain) is not None or any(name in grain for name in _SCOPE)


def _delegate(grain: Grain) -> str | None:
    """Return the agent that a delegation names."""
    named = grain.get("delegate_to")
    if named is None and grain.get("relation") == "mg:delegates_to":
        named = grain.get("object")
    return named if isinstance(named, str) else None


def _is_about(reach: Reach, new: Grain, supersedes: str | None) -> bool:
    """Whether a grain refers to the grain that it supersedes, if there is one."""
    old = None if supersedes is None else reach.grain(supersedes)
    if supersedes is None or old is None:
        return True
    return not goes_by(supersedes, old).isdisjoint((*_above(new), *replaced(new)))


def _gave(world: PolicyLookup, address: str, grain: Grain, new: Grain, about: bool) -> bool:
    """Whether the giver of a delegation wrote a grain.

    If the giver signed the delegation, the author's name is not enough: the giver must also sign
    the grain, and it must refer to the grain that it supersedes. Otherwise anyone could replay
    another statement of the giver.
    """
    giver = grain.get("delegate_from", grain.get("author_did"))
    if not isinstance(giver, str) or giver != new.get("author_did"):
        return False
    return giver not in world.signers(address) or (about and giver in world.signers(new.address))


def _within(grain: Grain, new: Grain, now: int) -> None:
    """Deny a grain that exceeds a delegation."""
    expiry = _expiry(grain)
    if expiry is not None and now >= expiry:
        raise _beyond("delegation_expiry", "a delegation that has not expired")
    if not _allows(grain, "authorized_namespaces", new.get("namespace", "")):
        raise _beyond("authorized_namespaces", "one of the authorized namespaces", "/namespace")
    if not _allows(grain, "authorized_types", new.header.type_byte):
        raise _beyond("authorized_types", "one of the authorized types", "/type")
    # A result without a tool name belongs to a call that has one.
    result = new.get("action_phase") == "result" and "tool_name" not in new
    uses = new.type == "action" and not result
    if uses and not _allows(grain, "authorized_tools", new.get("tool_name")):
        raise _beyond("authorized_tools", "one of the authorized tools", "/tool_name")


def _expiry(grain: Grain) -> int | None:
    value = grain.get("delegation_expiry")
    return value if isinstance(value, int) or value is None else 0


def _allows(grain: Grain, name: str, value: object) -> bool:
    named = _named(grain, name)
    return named is None or (isinstance(value, str | int) and value in named)


def _named(grain: Grain, name: str) -> frozenset[str | int] | None:
    """Return the items of a list; None means everything."""
    value = grain.get(name)
    if value is None or (name == "authorized_tools" and value == []):
        return None
    items = value if isinstance(value, list) else ()
    named = frozenset(item for item in items if isinstance(item, str | int))
    return None if name == "authorized_namespaces" and "*" in named else named


def _hands_on(grain: Grain, new: Grain, below: int, delegates: bool) -> None:
    """Deny a delegation of more than the agent may delegate."""
    depth = grain.get("delegation_depth")
    left = None if depth is None else (depth if isinstance(depth, int) else 0) - below
    if left is not None and left < 0:
        raise _beyond("delegation_depth", "no further delegation")
    if not delegates:
        return
    for name in _LISTS:
        given, handed = _named(grain, name), _named(new, name)
        if given is not None and (handed is None or not handed <= given):
            raise _beyond(name, "no more than the delegation authorizes", f"/{name}")
    for name, most in (("delegation_depth", left), ("delegation_expiry", _expiry(grain))):
        value = new.get(name)
        if most is not None and not (isinstance(value, int) and value <= most):
            raise _beyond(name, "no more than the delegation leaves", f"/{name}")


def _beyond(rule: str, expected: str, field: str | None = None) -> InvalidationDeniedError:
    text = "the grain exceeds its delegation"
    return denied(text, rule, field=field, expected=expected)
