# SPDX-License-Identifier: Apache-2.0
"""Withdrawing a consent: what goes with it, and what stays without a ground."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.engine.incoming import Incoming
from omsgrain.engine.putting import Putting
from omsgrain.engine.rights import consent as consents
from omsgrain.engine.rights.consent import Consent
from omsgrain.engine.rights.selector import unopened
from omsgrain.errors import OmsWarning, RangeError, SchemaError
from omsgrain.grain import Grain, make
from omsgrain.index.history.grains import named, time_of
from omsgrain.index.history.supersession import members
from omsgrain.index.policy import HOPS, modes
from omsgrain.intake import take_one
from omsgrain.registry import field
from omsgrain.store import due
from omsgrain.store.base import Reader, Writer

if TYPE_CHECKING:
    from omsgrain.crypto import Signer

__all__ = ["SLA_DAYS", "WithdrawalReport", "Withdrawing"]

SLA_DAYS = 30
"""Within so many days, at the most, what a withdrawn consent allowed must be erased."""

_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class WithdrawalReport:
    """What the withdrawal of a consent means for the grains that were stored on its ground.

    Attributes:
        consent: the consent.
        withdrawal: the grain that withdraws it.
        deadline: when the queued grains must be gone, ms since 1970; None if there are none.
        queued: grains that are to be erased: their policy is consent_cascade, or they are in the
            scope of such a one.
        others: grains that stay, and have lost their ground.
        complete: all grains could be looked at; False if some are sealed and cannot be opened.
    """

    consent: str
    withdrawal: str
    deadline: int | None
    queued: tuple[str, ...]
    others: tuple[str, ...]
    complete: bool

    __repr__ = counted


class Withdrawing(Putting):
    """The part of a GrainStore that withdraws consents."""

    def withdraw_consent(
        self,
        consent_address: str,
        *,
        reason: str | None = None,
        sla_days: int | None = None,
        signer: Signer | None = None,
    ) -> WithdrawalReport:
        """Withdraw a consent, at once.

        A grain that says so is stored, and the consent stays beside it for audit. Grains on its
        ground whose policy is consent_cascade are queued for ``run_due_erasures``, which looks at
        holds and minimum retentions then; all others are named. A consent that is withdrawn
        already is not withdrawn twice; what is not queued yet is then queued.

        Args:
            consent_address: the consent; of several versions any one.
            reason: why, as a note of the audit trail, which can be erased.
            sla_days: erase within so many days, instead of 30.
            signer: signs the grain that withdraws it, for a store that wants signatures.

        Raises:
            NotFoundError: the consent is not in the store.
            SchemaError: the grain is no consent, or a withdrawal; or a preset refuses the grain
                that withdraws it.
            RangeError: not 0 to 30 days.
            KeyMissingError: it is sealed, and there is no key to it here.
            StoreError: read-only, full or broken; nothing was changed.

        Spec: OMS §9
        """
        days = SLA_DAYS if sla_days is None else sla_days
        if type(days) is not int or not 0 <= days <= SLA_DAYS:
            raise RangeError("not a time for erasing", field="/sla_days", expected="0 to 30 days")
        if not isinstance(reason, str | None):
            raise SchemaError("a reason is a text", field="/reason")
        with self._store.read() as reader:
            consent = consents.consent_at(reader, consent_address)
            withdrawn = consents.withdrawal_of(reader, consent) is not None
            now = max(self._settings.clock(), time_of(consent.grain))
            fields = consents.withdrawal_fields(consent, now)
            # One like it may be there and be undone; that one stays undone.
            while not withdrawn and _is_there(reader, fields):
                fields["created_at"] += 1
        if withdrawn:
            return self._store.write(
                lambda writer: self._cascade(writer, consent_address, days, reason, None)
            )
        item = fields if signer is None else _signed(fields, signer)
        intake = take_one(item, resolver=self._settings.resolver)
        for note in intake.warnings:
            warnings.warn(note.message, OmsWarning, stacklevel=2)

        def work(writer: Writer, given: Incoming) -> WithdrawalReport:
            return self._cascade(writer, consent_address, days, reason, given)

        return self._bring(intake, work)

    def _cascade(
        self, writer: Writer, address: str, days: int, reason: str | None, given: Incoming | None
    ) -> WithdrawalReport:
        """Put the withdrawal, if it is not there by now, and queue what goes with the consent."""
        consent = consents.consent_at(writer, address)
        withdrawal = consents.withdrawal_of(writer, consent)
        fresh = withdrawal is None and given is not None
        if fresh and given is not None:
            self._take(writer, given, True, False)
            withdrawal = consents.withdrawal_of(writer, consent)
        if withdrawal is None:  # it was undone since this was asked
            raise SchemaError("the consent is not withdrawn any more; ask again")
        queued, others = _sorted(writer, consent, withdrawal, self._settings.clock())
        before = _queued(writer, consent, queued)
        # By its own time, so that whoever finishes this later does not put it off.
        deadline = min(time_of(withdrawal), self._settings.clock()) + days * _DAY
        added = [seq for seq in queued if seq not in before]
        for seq in added:
            due.add(writer, deadline, {"kind": due.CONSENT, "seq": seq, "consent": consent.seq})
        if fresh or added:
            known = field("scope").open_enum
            scope = [word for word in consent.grain.get("scope", ()) if word in known]
            details: dict[str, int | str] = {"queued": len(queued), "others": len(others)}
            if scope:
                details["scope"] = ",".join(scope)
            self._note(
                writer,
                "policy",
                [bytes.fromhex(consent.grain.address)],
                reason_code="consent_withdrawn",
                note=reason,
                details=details,
            )
        deadlines = [entry.deadline for entry in before.values()] + [deadline] * bool(added)
        return WithdrawalReport(
            consent.grain.address,
            withdrawal.address,
            max(deadlines, default=None),
            tuple(queued.values()),
            tuple(others.values()),
            not unopened(writer),
        )


def _queued(reader: Reader, consent: Consent, seqs: Collection[int]) -> dict[int, due.Due]:
    """What is in the queue for this consent, or another version of it, by the grain's number."""
    versions = members(reader, consent.seq)
    return {
        entry.seq: entry
        for entry in due.due(reader)
        if entry.kind == due.CONSENT
        and entry.seq is not None
        and entry.seq in seqs
        and entry.what["consent"] in versions
    }


def _is_there(reader: Reader, fields: dict[str, Any]) -> bool:
    return reader.find([bytes.fromhex(make(fields).address)])[0] is not None


def _sorted(
    reader: Reader, consent: Consent, withdrawal: Grain, now: int
) -> tuple[dict[int, str], dict[int, str]]:
    """What goes with a consent, and what stays on its ground: addresses by number."""
    queued: dict[int, str] = {}
    others: dict[int, str] = {}
    walked: set[int] = set()  # lineages: often all of their versions have the same ground
    for seq, grain in consents.based_on(reader, consent, withdrawal):
        policy = modes.read(grain, now)
        if grain.type == "consent" or policy.mode != "consent_cascade":
            others[seq] = grain.address
            continue
        queued[seq] = grain.address
        # A scope that nobody knows widens what a policy protects, and never what it erases.
        scope = policy.terms.get("scope")
        if scope == "subtree":
            queued |= dict(_derived(reader, seq, grain))
        elif scope == "lineage" and seq not in walked:
            versions = members(reader, seq)
            walked.update(versions)
            queued |= dict(_others(reader, versions))
    return queued, {seq: address for seq, address in others.items() if seq not in queued}


def _derived(reader: Reader, seq: int, grain: Grain) -> Iterator[tuple[int, str]]:
    """What was made from a grain, up to 16 derivations away."""
    seen, level = {seq}, [grain]
    for _ in range(HOPS):
        below: list[Grain] = []
        for parent in level:
            for name in {parent.address, _core.address(parent.blob)}:
                for place in reader.places(_core.term("derived_from", name), None, False):
                    number = int.from_bytes(place[12:], "big")
                    child = None if number in seen else reader.grain(number)
                    if child is not None and name in named(child, "derived_from"):
                        seen.add(number)
                        below.append(child)
                        if child.type != "consent":
                            yield number, child.address
        level = below


def _others(reader: Reader, seqs: dict[int, list[int]]) -> Iterator[tuple[int, str]]:
    for seq in seqs:
        grain = reader.grain(seq)
        if grain is not None and grain.type != "consent":
            yield seq, grain.address


def _signed(fields: dict[str, Any], signer: Signer) -> bytes:
    from omsgrain import crypto

    return crypto.sign(make(fields), signer)
