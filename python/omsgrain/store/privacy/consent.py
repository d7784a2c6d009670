# SPDX-License-Identifier: Apache-2.0
"""Withdraw consents, and find withdrawn ones and the grains that depend on them.

A withdrawal is a grain. It withdraws the consent that it names, and all versions that were given
until then. A later version is a new consent. A superseded or retracted withdrawal has no effect.
Spec: OMS §9, "Consent"
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import KeyMissingError, NotFoundError, OmsWarning, SchemaError
from omsgrain.grain import Grain, make
from omsgrain.policy import modes
from omsgrain.policy.reach import HOPS
from omsgrain.query.graph import is_address, named, time_of
from omsgrain.query.history import members
from omsgrain.registry import field
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.records import RETRACTED, SUPERSEDED
from omsgrain.storage.tables import SEQUENCE, STATES
from omsgrain.store.context import Context, destroyed, see_whole
from omsgrain.store.prepared import PreparedGrains
from omsgrain.store.privacy.identity import unopened
from omsgrain.store.write import Item, prepare_one, put_admitted, write_grains

if TYPE_CHECKING:
    from omsgrain.crypto.signers import Signer
    from omsgrain.policy.presets import Preset

_TYPE = "consent"
_BASIS = "processing_basis"


@dataclass(frozen=True, slots=True)
class Consent:
    """A consent in the store.

    Attributes:
        seq: its sequence number.
        grain: the grain.
        names: the addresses by which other grains may refer to it.
    """

    seq: int
    grain: Grain
    names: tuple[str, ...]


def consent_at(reader: Reader, address: str) -> Consent:
    """Return the consent at an address."""
    seq = reader.find([_core.parse_address(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if seq is None or grain is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    if grain.type != _TYPE:
        raise SchemaError("the grain is not a consent", field="/type", expected=_TYPE)
    if grain.sealed:
        raise KeyMissingError("the consent is encrypted, and its key is missing")
    if grain.get("is_withdrawal") is True:
        raise SchemaError("the grain is a withdrawal", field="/is_withdrawal", expected="false")
    return _consent(seq, grain)


def withdrawal_of(reader: Reader, consent: Consent) -> Grain | None:
    """Return the grain that withdrew a consent; None if the consent is valid."""
    named = {name: True for name in consent.names}
    for version in _versions(reader, consent):
        named |= {name: named.get(name, False) for name in version.names}
    given = time_of(consent.grain)
    for name, itself in named.items():
        for grain in _withdrawals(reader, name):
            if itself or given <= time_of(grain):
                return grain
    return None


def _withdrawals(reader: Reader, name: str) -> Iterator[Grain]:
    """Return the withdrawals of a consent that were not undone."""
    for place in reader.places(_core.term("link", name), None, False):
        seq = int.from_bytes(place[12:], "big")
        grain = reader.grain(seq)
        state = reader.row(STATES, SEQUENCE.pack(seq))
        if (
            grain is not None
            and grain.type == _TYPE
            and grain.get("is_withdrawal") is True
            and grain.get("prior_consent") == name
            and (state is None or not state[0] & (SUPERSEDED | RETRACTED))
        ):
            yield grain


def is_valid(reader: Reader, seq: int) -> bool:
    """Whether a consent is valid; a removed or destroyed one is not."""
    grain = reader.grain(seq)
    if grain is None or grain.type != _TYPE or destroyed(reader, seq):
        return False
    if grain.sealed:
        raise KeyMissingError("the consent is encrypted, and its key is missing")
    return withdrawal_of(reader, _consent(seq, grain)) is None


def based_on(reader: Reader, consent: Consent, withdrawal: Grain) -> Iterator[tuple[int, Grain]]:
    """Iterate over the grains that depend on a withdrawn consent, each once.

    These are current and past grains, under any version that the withdrawal withdraws.
    """
    seen: set[int] = set()
    for version in _versions(reader, consent):
        if version.seq != consent.seq and time_of(version.grain) > time_of(withdrawal):
            continue
        for name in version.names:
            for place in reader.places(_core.term(_BASIS, name), None, False):
                seq = int.from_bytes(place[12:], "big")
                grain = None if seq in seen else reader.grain(seq)
                if grain is not None and grain.get(_BASIS) == name:
                    seen.add(seq)
                    yield seq, grain


def is_asked(preset: Preset, grain: Grain) -> bool:
    """Whether a preset requires a processing basis for a grain."""
    from omsgrain.policy.rules import Require

    return any(
        isinstance(rule, Require)
        and (_BASIS in rule.fields or any(name == _BASIS for name, _ in rule.values))
        and rule.applies(grain)
        for rule in preset.rules
    )


def check_basis(
    reader: Reader,
    grain: Grain,
    arriving: Collection[str] = (),
    withdrawn: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> None:
    """Refuse a grain whose consent is missing, retracted or withdrawn."""
    basis = grain.get(_BASIS)
    if not is_address(basis):
        return
    try:
        consent = consent_at(reader, basis)
    except NotFoundError as error:
        if basis not in arriving:
            raise _refusal("no readable consent") from error
        _refuse_withdrawn(reader, (basis,), withdrawn)
        if next(_withdrawals(reader, basis), None) is not None:
            raise _refusal("a withdrawn consent") from None
        return
    except (SchemaError, KeyMissingError) as error:
        raise _refusal("no readable consent") from error
    _refuse_withdrawn(reader, consent.names, withdrawn)
    state = reader.row(STATES, SEQUENCE.pack(consent.seq))
    if state is not None and state[0] & RETRACTED:
        raise _refusal("a retracted consent")
    if withdrawal_of(reader, consent) is not None:
        raise _refusal("a withdrawn consent")


def _refuse_withdrawn(
    reader: Reader, names: Collection[str], withdrawn: Mapping[str, Collection[str]]
) -> None:
    coming = [_core.parse_address(new) for name in names for new in withdrawn.get(name, ())]
    if None in reader.find(coming):
        raise _refusal("a consent that the same transaction withdraws")


def withdrawal_fields(consent: Consent, now: int) -> dict[str, Any]:
    """Return the fields of the grain that withdraws a consent."""
    kept = (
        "subject_did",
        "grantee_did",
        "scope",
        "jurisdiction",
        "namespace",
        "user_id",
        "structural_tags",
    )
    given = consent.grain.to_dict()
    return {
        "type": _TYPE,
        "created_at": now,
        **{name: given[name] for name in kept if name in given},
        "is_withdrawal": True,
        "prior_consent": consent.grain.address,
    }


def _refusal(found: str) -> SchemaError:
    return SchemaError(
        "personal data needs a valid consent",
        field=f"/{_BASIS}",
        expected="the address of a valid consent in the store",
        found=found,
        rule=_TYPE,
    )


def _versions(reader: Reader, consent: Consent) -> Iterator[Consent]:
    """Return all versions of a consent by the same person, including itself."""
    subject = consent.grain.get("subject_did")
    for seq in sorted(members(reader, consent.seq)):
        grain = consent.grain if seq == consent.seq else reader.grain(seq)
        if grain is None or grain.type != _TYPE or grain.get("subject_did") != subject:
            continue
        if grain.get("is_withdrawal") is not True:
            yield _consent(seq, grain)


def _consent(seq: int, grain: Grain) -> Consent:
    # An encrypted consent has two addresses: its stored one and its plain one.
    return Consent(seq, grain, tuple({grain.address: 0, _core.address(grain.blob): 0}))


SLA_DAYS = 30
"""Maximum number of days until grains under a withdrawn consent must be erased."""

_DAY = 86_400_000


@dataclass(frozen=True, slots=True)
class WithdrawalReport:
    """The effect of withdrawing a consent on the grains that depend on it.

    Attributes:
        consent: the address of the consent.
        withdrawal: the address of the grain that withdraws it.
        deadline: the time by which the queued grains must be erased, ms since 1970; None if there
            are none.
        queued: grains to be erased: their policy is ``consent_cascade``, or they are in the scope
            of such a policy.
        others: dependent grains that stay, now without a valid consent.
        complete: False if encrypted grains could not be examined.
    """

    consent: str
    withdrawal: str
    deadline: int | None
    queued: tuple[str, ...]
    others: tuple[str, ...]
    complete: bool

    __repr__ = counted


def withdraw_consent(
    context: Context,
    consent_address: str,
    reason: str | None,
    sla_days: int | None,
    signer: Signer | None,
) -> WithdrawalReport:
    days = SLA_DAYS if sla_days is None else sla_days
    see_whole("sla_days", days, 0, SLA_DAYS)
    if not isinstance(reason, str | None):
        raise SchemaError("reason must be a text", field="/reason")
    with context.storage.read() as reader:
        consent = consent_at(reader, consent_address)
        withdrawn = withdrawal_of(reader, consent) is not None
        now = max(context.settings.clock(), time_of(consent.grain))
        fields = withdrawal_fields(consent, now)
        # An identical, undone withdrawal may exist; it must stay undone.
        while not withdrawn and reader.find([bytes.fromhex(make(fields).address)])[0] is not None:
            fields["created_at"] += 1
    work = partial(_cascade, context, address=consent_address, days=days, reason=reason)
    if withdrawn:
        return context.storage.write(partial(work, given=None))
    item: Item = fields
    if signer is not None:
        from omsgrain import crypto

        item = crypto.sign(make(fields), signer)
    given = prepare_one(item, resolver=context.settings.resolver)
    for note in given.warnings:
        warnings.warn(note.message, OmsWarning, stacklevel=4)
    return write_grains(context, given, partial(work, given=given))


def _cascade(
    context: Context,
    writer: Writer,
    address: str,
    days: int,
    reason: str | None,
    given: PreparedGrains | None,
) -> WithdrawalReport:
    """Store the withdrawal if it is missing, and queue the dependent grains."""
    consent = consent_at(writer, address)
    withdrawal = withdrawal_of(writer, consent)
    fresh = withdrawal is None and given is not None
    if fresh and given is not None:
        put_admitted(context, writer, given, True, False)
        withdrawal = withdrawal_of(writer, consent)
    if withdrawal is None:  # it was undone meanwhile
        raise SchemaError("the withdrawal was undone meanwhile; try again")
    queued, others = _sorted(writer, consent, withdrawal, context.settings.clock())
    before = _queued(writer, consent, queued)
    # Count from the withdrawal, so that a later call does not extend the deadline.
    deadline = min(time_of(withdrawal), context.settings.clock()) + days * _DAY
    added = [seq for seq in queued if seq not in before]
    for seq in added:
        erasure_queue.add(
            writer, deadline, {"kind": erasure_queue.CONSENT, "seq": seq, "consent": consent.seq}
        )
    if fresh or added:
        known = field("scope").open_enum
        scope = [word for word in consent.grain.get("scope", ()) if word in known]
        details: dict[str, int | str] = {"queued": len(queued), "others": len(others)}
        if scope:
            details["scope"] = ",".join(scope)
        context.note(
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


def _queued(
    reader: Reader, consent: Consent, seqs: Collection[int]
) -> dict[int, erasure_queue.QueuedErasure]:
    """Return the queue entries for any version of this consent, by grain number."""
    versions = members(reader, consent.seq)
    return {
        entry.seq: entry
        for entry in erasure_queue.due(reader)
        if entry.kind == erasure_queue.CONSENT
        and entry.seq is not None
        and entry.seq in seqs
        and entry.what["consent"] in versions
    }


def _sorted(
    reader: Reader, consent: Consent, withdrawal: Grain, now: int
) -> tuple[dict[int, str], dict[int, str]]:
    """Return the grains to erase and the other dependent grains, as addresses by number."""
    queued: dict[int, str] = {}
    others: dict[int, str] = {}
    walked: set[int] = set()  # versions of lineages that are done
    for seq, grain in based_on(reader, consent, withdrawal):
        policy = modes.read(grain, now)
        if grain.type == "consent" or policy.mode != "consent_cascade":
            others[seq] = grain.address
            continue
        queued[seq] = grain.address
        # An unknown scope can extend what a policy protects, but never what it erases.
        scope = policy.terms.get("scope")
        if scope == "subtree":
            queued |= dict(_derived(reader, seq, grain))
        elif scope == "lineage" and seq not in walked:
            versions = members(reader, seq)
            walked.update(versions)
            queued |= dict(_others(reader, versions))
    return queued, {seq: address for seq, address in others.items() if seq not in queued}


def _derived(reader: Reader, seq: int, grain: Grain) -> Iterator[tuple[int, str]]:
    """Return the grains derived from a grain, at most 16 derivations away."""
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
