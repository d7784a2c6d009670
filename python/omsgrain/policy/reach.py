# SPDX-License-Identifier: Apache-2.0
"""The grains around an act: up the derivations, down the supersessions. Spec: OMS §23.6.

All walks are breadth first and visit each grain once. They end at 16 derivations, or with a
denial at 16,384 grains. A missing grain ends its path.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, Protocol

from omsgrain import _core
from omsgrain.errors import InvalidationDeniedError, SchemaError
from omsgrain.grain import Grain

Operation = Literal[
    "supersede",
    "contest",
    "retract",
    "verify",
    "delete",
    "erase",
    "retention",
    "consent",
    "compact",
    "restrict",
]
Scope = Literal["subtree", "lineage"]

#: From least to most trusted.
_TRUST = ("retracted", "contested", "unverified", "verified")


class PolicyLookup(Protocol):
    """The reads of a check, in the transaction of the act."""

    def grain(self, address: str) -> Grain | None:
        """Return a grain, also a superseded or retracted one; None if it is missing."""
        ...

    def children(self, address: str) -> Iterable[str]:
        """Return the grains whose ``derived_from`` names a grain."""
        ...

    def successors(self, address: str) -> Iterable[str]:
        """Return the grains that superseded a grain."""
        ...

    def guards(self, address: str) -> Iterable[str]:
        """Return the grains of a lineage whose policy has scope lineage."""
        ...

    def held(self, address: str) -> bool:
        """Whether the store holds a grain, whatever its blob says."""
        ...

    def signers(self, address: str) -> Iterable[str]:
        """Return the DIDs of verified signatures of a stored grain."""
        ...


@dataclass(frozen=True, slots=True)
class Act:
    """An operation that a user wants to perform on a grain."""

    operation: Operation
    address: str  # the target grain
    new: Grain | None = None  # the superseding grain; only for ``supersede``, which needs it
    # DIDs of verified signatures over `new`, or over the request without a new grain
    signers: frozenset[str] = frozenset()
    co_signers: frozenset[str] = frozenset()  # DIDs of verified entries in ``supersession_auth``
    # co-signer DID to its key as a did:key. A missing DID counts as its own key.
    keys: Mapping[str, str] = field(default_factory=dict)
    justification: str | None = None  # the reason; soft_locked needs it unless `new` contains one
    # ms since 1970, for timed rules. With 0, the default, every timed lock applies.
    now: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The permission for an act."""

    review: bool = False  # whether a person must review it later
    # sorted names of the rules that applied: modes, and ``transition``
    rules: tuple[str, ...] = ()


def operation_of(was: str, becomes: str) -> Operation:
    """Return the operation that a change of a grain's verification status amounts to.

    Any loss of trust is an invalidation; otherwise, removing "verified" could bypass a policy.
    """
    for status in (was, becomes):
        if status not in _TRUST:
            raise SchemaError(
                "unknown verification status",
                field="/verification_status",
                expected=", ".join(_TRUST),
            )
    if _TRUST.index(becomes) >= _TRUST.index(was):
        return "verify"
    return "retract" if becomes == "retracted" else "contest"


def denied(
    message: str,
    rule: str,
    *,
    field: str | None = None,
    expected: str | None = None,
    found: str | None = None,
) -> InvalidationDeniedError:
    return InvalidationDeniedError(message, rule=rule, field=field, expected=expected, found=found)


HOPS = 16
LIMIT = 16_384  # more than one grain can name, and less than a second of reading
_ADDRESS = re.compile("[0-9a-f]{64}")


class Reach:
    """The grains around an act, each read once."""

    __slots__ = ("_read", "world")

    def __init__(self, world: PolicyLookup) -> None:
        self.world = world
        self._read: dict[str, Grain | None] = {}

    def grain(self, address: str) -> Grain | None:
        if address not in self._read:
            if len(self._read) >= LIMIT:
                raise too_many()
            self._read[address] = self.world.grain(address)
        return self._read[address]

    def ancestors(self, address: str, *grains: Grain) -> Iterator[tuple[str, Grain]]:
        """Return the ancestors of grains, up to 16 hops, except the given address."""
        seen = {address}
        level: Iterable[Grain] = grains
        for _ in range(HOPS):
            found = []
            for parent in chain.from_iterable(map(parents, level)):
                if parent in seen:
                    continue
                _add(seen, parent)
                grain = self.grain(parent)
                if grain is not None:
                    found.append(grain)
                    yield parent, grain
            level = found

    def heads(self, address: str) -> list[Grain | None]:
        """Return the last versions of a grain; none if supersessions form a cycle."""
        seen = {address}
        ahead = deque(seen)
        found = []
        while ahead:
            here = ahead.popleft()
            later = list(self.world.successors(here))
            if not later:
                found.append(self.grain(here))
            for near in later:
                if near not in seen:
                    _add(seen, near)
                    ahead.append(near)
        return found


def parents(grain: Grain) -> tuple[str, ...]:
    return addresses(grain.get("derived_from"))


def replaced(grain: Grain) -> frozenset[str]:
    """Return the addresses that a grain says it replaces or derives from."""
    links = grain.get("related_to")
    replaces = (
        link.get("hash")
        for link in (links if isinstance(links, list) else ())
        if isinstance(link, Mapping) and link.get("relation_type") == "replaces"
    )
    return frozenset((*parents(grain), *addresses(list(replaces))))


def goes_by(address: str, grain: Grain) -> frozenset[str]:
    """Return the addresses by which others may refer to a grain: an encrypted one has two."""
    return frozenset((address, _core.address(grain.blob)))


def addresses(value: object) -> tuple[str, ...]:
    """Return the distinct addresses in a list, which in opaque grains may have other items."""
    return tuple(text for text in texts(value) if _ADDRESS.fullmatch(text))


def texts(value: object) -> tuple[str, ...]:
    """Return the distinct strings in a list; none for any other value."""
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(item for item in value if isinstance(item, str)))


def _add(seen: set[str], address: str) -> None:
    if len(seen) >= LIMIT:
        raise too_many()
    seen.add(address)


def too_many() -> InvalidationDeniedError:
    """Make the denial for a walk that is too long: an unseen grain may protect the target."""
    return denied(
        "too many related grains to check their policies",
        "limit",
        expected=f"at most {LIMIT} grains",
        found="more",
    )
