# SPDX-License-Identifier: Apache-2.0
"""What a policy is asked, by whom, and of what: the words that all its rules share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

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


class World(Protocol):
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
class Verdict:
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
