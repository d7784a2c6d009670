# SPDX-License-Identifier: Apache-2.0
"""Merge the states that a file or a peer claims for grains.

A grain is verified by its address; a state is only a claim. A claim has the same effect as the
same act by the importer: policies decide, and a claim never raises a status.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from omsgrain.counts import counted
from omsgrain.errors import KeyMissingError, OmsError, StoreError
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import Verification
from omsgrain.store import lifecycle
from omsgrain.store.prepared import PreparedGrains
from omsgrain.store.write import let_back, place, prepare_one, refuse, was_erased

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.store.context import Settings

_RANK = {"verified": 0, "unverified": 1, "contested": 2, "retracted": 3}
"""Order of trust: a claim may only lower it."""

Note: TypeAlias = Callable[[str, list[bytes]], None]
"""Adds an entry to the audit trail: the operation, and the grains."""

GrainsByAddress: TypeAlias = Mapping[str, "PreparedGrains | OmsError"]
"""Superseding grains by address: each with all its signers, or its refusal."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The state that a manifest claims for a grain."""

    address: str  # of the grain
    superseded_by: str | None  # the address of its successor
    verification_status: Verification
    # the superseding grain, if it can be stored only by superseding: its blob, or one envelope for
    # each of its signers
    new: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging claims.

    ``stored`` counts grains that were stored by superseding, ``taken`` claims that changed
    something, ``unproven`` signatures with an unresolvable DID. ``waiting``: the store does not
    have the grain.
    """

    stored: int
    taken: int
    refused: list[tuple[str, OmsError]]
    waiting: list[Claim]
    unproven: int = 0

    __repr__ = counted


@dataclass(frozen=True, slots=True)
class ClaimedGrains:
    """The verified grains that claims bring along."""

    given: PreparedGrains  # all of them together, ready for encryption
    places: dict[str, list[int]]  # the places of each grain's envelopes among them, by address
    refused: dict[str, OmsError]  # why a grain is refused, by address

    def split(self, given: PreparedGrains) -> GrainsByAddress:
        """Return each grain by address, or its refusal."""
        found: dict[str, PreparedGrains | OmsError] = {}
        for address, places in self.places.items():
            if not places:
                found[address] = self.refused[address]
            elif not given.erased.isdisjoint(places):
                found[address] = was_erased()
            else:
                found[address] = given.only(places)
        return found


def claimed_grains(claims: Sequence[Claim], resolver: Resolver | None) -> ClaimedGrains:
    """Verify the grains that claims bring along."""
    parts: list[PreparedGrains] = []
    places: dict[str, list[int]] = {}
    refused: dict[str, OmsError] = {}
    for claim in claims:
        address = claim.superseded_by
        if address is None or not claim.new or address in places:
            continue
        places[address] = []
        for item in claim.new:
            try:
                one = prepare_one(item, replacing=True, resolver=resolver)
            except OmsError as error:
                refused.setdefault(address, error)
                continue
            places[address].append(len(parts))
            parts.append(one)
    return ClaimedGrains(PreparedGrains.joined(parts), places, refused)


def merge_claims(
    writer: Writer,
    settings: Settings,
    claims: Sequence[Claim],
    arrivals: GrainsByAddress,
    note: Note,
    *,
    allow_erased: bool = False,
    trusted: bool = False,
    since: int | None = None,
) -> Merged:
    """Merge the claims about grains that the store has, if the policies allow it."""
    taken, before = 0, writer.count()
    refused: list[tuple[str, OmsError]] = []
    waiting: list[Claim] = []
    merged: set[str] = set()
    for claim in claims:
        try:
            new = _new(writer, settings, claim, arrivals, allow_erased)
            done, late = _merge(writer, settings, claim, new, note, trusted, since)
        except StoreError:
            raise
        except OmsError as error:
            refused.append((claim.address, error))
            continue
        if late is not None:
            refused.append((claim.address, late))
        if done is None:
            waiting.append(claim)
        else:
            if allow_erased and new is not None:
                let_back(writer, new)
            taken += done
            merged.update(filter(None, [claim.superseded_by]))
    came = [given for new in merged if isinstance(given := arrivals.get(new), PreparedGrains)]
    unproven = sum(not one.proven for given in came for one in given.signatures.values())
    return Merged(writer.count() - before, taken, refused, waiting, unproven)


def _new(
    writer: Writer, settings: Settings, claim: Claim, arrivals: GrainsByAddress, allow_erased: bool
) -> PreparedGrains | None:
    """Return the superseding grain; None if the claim has none or the store lacks it."""
    if claim.superseded_by is None:
        return None
    given = arrivals.get(claim.superseded_by)
    if given is None:
        return _stored(writer, claim.superseded_by)
    if isinstance(given, OmsError):
        raise given
    refuse(writer, settings, given, allow_erased)
    return given


def _merge(
    writer: Writer,
    settings: Settings,
    claim: Claim,
    new: PreparedGrains | None,
    note: Note,
    trusted: bool,
    since: int | None,
) -> tuple[bool | None, OmsError | None]:
    """Merge a claim; returns whether it changed something (None: it waits), and a late refusal."""
    digest = bytes.fromhex(claim.address)
    seq = writer.find([digest])[0]
    if seq is None or (new is None and claim.superseded_by is not None):
        return None, None
    changed, late = False, None
    if new is not None:
        after, done = lifecycle.put_successor(
            writer, settings, digest, new, None, whole=False, since=since
        )
        placed = place(writer, new, range(len(new.pairs)))
        late = next((one.refusal for one in placed if one.refusal is not None), None)
        if done:
            note("supersede", [digest, after])
            changed = True
    status = claim.verification_status
    if status in ("contested", "retracted") or (trusted and status == "verified"):
        now = lifecycle.state_of(writer, seq).verification_status
        if (now, status) == ("unverified", "verified") or _RANK[status] > _RANK[now]:
            operation = lifecycle.set_status(writer, settings, digest, status, None)
            if operation is not None:
                note(operation, [digest])
                changed = True
    return changed, late


def _stored(reader: Reader, address: str) -> PreparedGrains | None:
    seq = reader.find([bytes.fromhex(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if grain is None:
        return None
    if grain.sealed:
        raise KeyMissingError("the superseding grain is encrypted, and its key is missing")
    return PreparedGrains([(bytes.fromhex(grain.address), grain.blob)])
