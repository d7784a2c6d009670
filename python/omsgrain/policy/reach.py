# SPDX-License-Identifier: Apache-2.0
"""The grains around an act: up the derivations, down the supersessions. Spec: OMS §23.6.

All walks are breadth first, take each grain once, and end: at 16 derivations, or with a refusal
at 16,384 grains. A grain that is not in the store ends its path.
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
    """What a check may ask of the store, within the transaction that the act is done in."""

    def grain(self, address: str) -> Grain | None:
        """The grain, also one that is superseded or retracted; None if it is not here."""
        ...

    def children(self, address: str) -> Iterable[str]:
        """The grains whose ``derived_from`` names it."""
        ...

    def successors(self, address: str) -> Iterable[str]:
        """The grains that superseded it."""
        ...

    def guards(self, address: str) -> Iterable[str]:
        """The grains whose policy has scope lineage, of all that supersessions join to it."""
        ...

    def held(self, address: str) -> bool:
        """Whether the store holds it, whatever its blob says."""
        ...

    def signers(self, address: str) -> Iterable[str]:
        """DIDs whose signature over the stored grain was verified."""
        ...

    def has_policy(self, scope: Scope | None = None) -> bool:
        """Whether any grain in the store has a policy; of this scope, or of one nobody knows.

        It only saves walks: True is always right, and the answer where it cannot be told.
        """
        ...


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that somebody wants to do to a grain.

    Attributes:
        operation: what.
        address: the grain that it is done to.
        new: the grain that supersedes it; only with ``supersede``, and always there.
        signers: DIDs whose signature was verified: over `new`, or over the request where there is
            no new grain.
        co_signers: DIDs of which an entry of ``supersession_auth`` was verified.
        keys: the key behind the DID of a co-signer, as a did:key. A DID that is not here counts as
            a key of its own.
        justification: why; needed by soft_locked, unless `new` says it itself.
        now: ms since 1970, for what depends on time. At 0, the default, every timed lock is on.
    """

    operation: Operation
    address: str
    new: Grain | None = None
    signers: frozenset[str] = frozenset()
    co_signers: frozenset[str] = frozenset()
    keys: Mapping[str, str] = field(default_factory=dict)
    justification: str | None = None
    now: int = field(default=0, kw_only=True)


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """The act may be done.

    Attributes:
        review: a person should look at it later.
        rules: names of the rules that had a say, sorted: modes, and ``transition``.
    """

    review: bool = False
    rules: tuple[str, ...] = ()


def operation_of(was: str, becomes: str) -> Operation:
    """What a change of a grain's verification counts as.

    Losing trust in any way is an invalidation, or a policy could be got round by taking "verified"
    away. Gaining trust is not.

    Args:
        was: the verification now.
        becomes: the verification asked for.

    Returns:
        ``retract``, ``contest`` for any other loss, ``verify`` if nothing is lost.

    Raises:
        SchemaError: it is none of the four.
    """
    for status in (was, becomes):
        if status not in _TRUST:
            raise SchemaError(
                "no such verification", field="/verification_status", expected=", ".join(_TRUST)
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
    """The refusal by a rule."""
    return InvalidationDeniedError(message, rule=rule, field=field, expected=expected, found=found)


HOPS = 16
LIMIT = 16_384  # more than one grain has room to name, and less than a second of reading
_ADDRESS = re.compile("[0-9a-f]{64}")


class Reach:
    """The grains around one act, each read once."""

    __slots__ = ("_read", "world")

    def __init__(self, world: PolicyLookup) -> None:
        self.world = world
        self._read: dict[str, Grain | None] = {}

    def grain(self, address: str) -> Grain | None:
        """The grain, if it is in the store."""
        if address not in self._read:
            if len(self._read) >= LIMIT:
                raise too_many()
            self._read[address] = self.world.grain(address)
        return self._read[address]

    def ancestors(self, address: str, *grains: Grain) -> Iterator[tuple[str, Grain]]:
        """What the grains were derived from, up to 16 hops; the address itself is left out."""
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
        """The grains at the end of its supersessions; none where they turn in a circle."""
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
    """The addresses in ``derived_from``."""
    return addresses(grain.get("derived_from"))


def replaced(grain: Grain) -> frozenset[str]:
    """The addresses that a grain itself says it takes the place of, or was made from."""
    links = grain.get("related_to")
    replaces = (
        link.get("hash")
        for link in (links if isinstance(links, list) else ())
        if isinstance(link, Mapping) and link.get("relation_type") == "replaces"
    )
    return frozenset((*parents(grain), *addresses(list(replaces))))


def goes_by(address: str, grain: Grain) -> frozenset[str]:
    """The addresses that others may name a grain by: one that is sealed has two."""
    return frozenset((address, _core.address(grain.blob)))


def addresses(value: object) -> tuple[str, ...]:
    """The addresses in a list, each once. What is none of them, an opaque grain may hold."""
    return tuple(text for text in texts(value) if _ADDRESS.fullmatch(text))


def texts(value: object) -> tuple[str, ...]:
    """The strings of a list, each once; of anything else none."""
    if not isinstance(value, list):
        return ()
    return tuple(dict.fromkeys(item for item in value if isinstance(item, str)))


def _add(seen: set[str], address: str) -> None:
    if len(seen) >= LIMIT:
        raise too_many()
    seen.add(address)


def too_many() -> InvalidationDeniedError:
    """The refusal where a walk would not end soon: what was not seen may protect the grain."""
    return denied(
        "too many grains bear on it to be sure that none protects it",
        "limit",
        expected=f"at most {LIMIT} grains",
        found="more",
    )
