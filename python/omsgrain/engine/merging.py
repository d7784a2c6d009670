# SPDX-License-Identifier: Apache-2.0
"""Taking over what a file claims became of its grains.

A grain proves itself by its address; its state is what somebody says. So a claim counts no more
than the same act of whoever imports it: the policies are asked, and nothing is raised by it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from omsgrain.engine import acts
from omsgrain.engine.admission import let_back, refuse, was_erased
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.placing import place
from omsgrain.errors import KeyMissingError, OmsError, StoreError
from omsgrain.exchange import Claim, Merged
from omsgrain.intake import Intake, take_one
from omsgrain.store.base import Reader, Writer

if TYPE_CHECKING:
    from omsgrain.crypto import Resolver
    from omsgrain.engine.base import Settings

__all__ = ["Arrivals", "Arriving", "arriving", "merge"]

_RANK = {"verified": 0, "unverified": 1, "contested": 2, "retracted": 3}
"""A status outside may only be followed away from trust."""


Note: TypeAlias = Callable[[str, list[bytes]], None]
"""Adds an entry to the audit trail: the operation, and the grains."""

Arrivals: TypeAlias = Mapping[str, "Incoming | OmsError"]
"""Grains that come in by superseding, by address: each alone, once for each of its signers."""


class Arriving:
    """The grains that claims bring along, verified.

    Attributes:
        intake: all of them together, as they can be sealed.
    """

    def __init__(self) -> None:
        self.intake = Intake([], [], [])
        self._places: dict[str, list[int]] = {}
        self._refused: dict[str, OmsError] = {}

    def add(self, address: str, items: Sequence[bytes], resolver: Resolver | None) -> None:
        """Take a grain that stands in the file once for each of its signers."""
        if address in self._places:
            return
        places = self._places.setdefault(address, [])
        for item in items:
            try:
                taken = take_one(item, replacing=True, resolver=resolver)
            except OmsError as error:
                self._refused.setdefault(address, error)
                continue
            places.append(len(self.intake.pairs))
            self.intake.whole.add(places[-1])
            self.intake.pairs.extend(taken.pairs)
            if 0 in taken.signatures:
                self.intake.signatures[places[-1]] = taken.signatures[0]

    def split(self, given: Incoming) -> Arrivals:
        """Give each grain alone; one of which nothing holds, as its refusal."""
        found: dict[str, Incoming | OmsError] = {}
        for address, places in self._places.items():
            if not places:
                found[address] = self._refused[address]
                continue
            if not given.erased.isdisjoint(places):
                found[address] = was_erased()
                continue
            found[address] = Incoming(
                [given.pairs[i] for i in places],
                {n: given.signatures[i] for n, i in enumerate(places) if i in given.signatures},
                {n: given.sealed[i] for n, i in enumerate(places) if i in given.sealed},
                given.generation,
            )
        return found


def arriving(claims: Sequence[Claim], resolver: Resolver | None) -> Arriving:
    """Verify the grains that claims bring along."""
    found = Arriving()
    for claim in claims:
        if claim.superseded_by is not None and claim.new:
            found.add(claim.superseded_by, claim.new, resolver)
    return found


def merge(
    writer: Writer,
    settings: Settings,
    claims: Sequence[Claim],
    arrivals: Arrivals,
    note: Note,
    *,
    allow_erased: bool = False,
    trusted: bool = False,
    since: int | None = None,
) -> Merged:
    """Take over those claims whose grains are here and whose policies allow it.

    Args:
        writer: the transaction.
        settings: of the handle.
        claims: what a file says.
        arrivals: the grains that it brings along.
        note: adds to the audit trail.
        allow_erased: take in grains, too, that were erased before.
        trusted: believe that a grain was verified, if nothing here says otherwise.
        since: no policy comes to cover grains up to this number by a claim; None: it may.
    """
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
    came = [given for new in merged if isinstance(given := arrivals.get(new), Incoming)]
    unproven = sum(not one.proven for given in came for one in given.signatures.values())
    return Merged(writer.count() - before, taken, refused, waiting, unproven)


def _new(
    writer: Writer, settings: Settings, claim: Claim, arrivals: Arrivals, allow_erased: bool
) -> Incoming | None:
    """The grain that is said to supersede; None if there is none, or it is not here."""
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
    new: Incoming | None,
    note: Note,
    trusted: bool,
    since: int | None,
) -> tuple[bool | None, OmsError | None]:
    """Take a claim over.

    Returns:
        Whether something changed; None if a grain that it names is not here. And why a signature
        over the grain that it brings along was not kept.
    """
    digest = bytes.fromhex(claim.address)
    seq = writer.find([digest])[0]
    if seq is None or (new is None and claim.superseded_by is not None):
        return None, None
    changed, late = False, None
    if new is not None:
        after, done = acts.supersede(writer, settings, digest, new, None, whole=False, since=since)
        placed = place(writer, new, range(len(new.pairs)))
        late = next((one.refusal for one in placed if one.refusal is not None), None)
        if done:
            note("supersede", [digest, after])
            changed = True
    status = claim.verification_status
    if status in ("contested", "retracted") or (trusted and status == "verified"):
        now = acts.state(writer, seq).verification_status
        if (now, status) == ("unverified", "verified") or _RANK[status] > _RANK[now]:
            operation = acts.set_verification(writer, settings, digest, status, None)
            if operation is not None:
                note(operation, [digest])
                changed = True
    return changed, late


def _stored(reader: Reader, address: str) -> Incoming | None:
    """A grain that is here, as who holds the keys sees it.

    Raises:
        KeyMissingError: it is sealed, and what it says of the supersession cannot be read.
    """
    seq = reader.find([bytes.fromhex(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if grain is None:
        return None
    if grain.sealed:
        raise KeyMissingError("the superseding grain is sealed, and its key is not here")
    return Incoming([(bytes.fromhex(grain.address), grain.blob)])
