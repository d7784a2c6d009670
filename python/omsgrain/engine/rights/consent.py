# SPDX-License-Identifier: Apache-2.0
"""Consents: which are withdrawn, what was stored on their ground, and withdrawing them.

A withdrawal is a grain. It takes back the consent that it names and all versions of it that were
given by then; a version given later is a new consent. A withdrawal that was itself superseded or
retracted takes nothing back. Spec: OMS §9, "Consent"
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from omsgrain import _core
from omsgrain.engine.world import destroyed
from omsgrain.errors import KeyMissingError, NotFoundError, SchemaError
from omsgrain.grain import Grain
from omsgrain.index.history.grains import is_address, time_of
from omsgrain.index.history.supersession import members
from omsgrain.store.base import Reader
from omsgrain.store.state import RETRACTED, SUPERSEDED
from omsgrain.store.tables import SEQUENCE, STATES

if TYPE_CHECKING:
    from omsgrain.privacy import Preset

__all__ = [
    "Consent",
    "based_on",
    "check_basis",
    "consent_at",
    "is_asked",
    "stands",
    "withdrawal_fields",
    "withdrawal_of",
]

_TYPE = "consent"
_BASIS = "processing_basis"
_UNDONE = SUPERSEDED | RETRACTED


@dataclass(frozen=True, slots=True)
class Consent:
    """A consent that is in the store.

    Attributes:
        seq: its number.
        grain: the grain.
        names: the addresses that other grains may name it by.
    """

    seq: int
    grain: Grain
    names: tuple[str, ...]


def consent_at(reader: Reader, address: str) -> Consent:
    """Return the consent at an address.

    Raises:
        NotFoundError: it is not in the store.
        HashFormatError, HashLengthError: that is no address.
        KeyMissingError: it is sealed, and there is no key to it here.
        SchemaError: it is no consent, or a withdrawal.
    """
    seq = reader.find([_core.parse_address(address)])[0]
    grain = None if seq is None else reader.grain(seq)
    if seq is None or grain is None:
        raise NotFoundError("no grain with this address is in the store", expected=address)
    if grain.type != _TYPE:
        raise SchemaError("the grain is no consent", field="/type", expected=_TYPE)
    if grain.sealed:
        raise KeyMissingError("the consent is sealed, and no key here opens it")
    if grain.get("is_withdrawal") is True:
        raise SchemaError("the grain is a withdrawal", field="/is_withdrawal", expected="false")
    return _consent(seq, grain)


def withdrawal_of(reader: Reader, consent: Consent) -> Grain | None:
    """Return the grain that withdrew a consent; None if it stands."""
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
    """What takes back the consent of this name, and was not undone."""
    for place in reader.places(_core.term("link", name), None, False):
        seq = int.from_bytes(place[12:], "big")
        grain = reader.grain(seq)
        if (
            grain is not None
            and grain.type == _TYPE
            and grain.get("is_withdrawal") is True
            and grain.get("prior_consent") == name
            and not _is_undone(reader, seq)
        ):
            yield grain


def stands(reader: Reader, seq: int) -> bool:
    """Whether the consent with a number stands; one that is gone, or was destroyed, does not.

    Raises:
        KeyMissingError: it is sealed, and there is no key to it here.
    """
    grain = reader.grain(seq)
    if grain is None or grain.type != _TYPE or destroyed(reader, seq):
        return False
    if grain.sealed:
        raise KeyMissingError("the consent is sealed, and no key here opens it")
    return withdrawal_of(reader, _consent(seq, grain)) is None


def based_on(reader: Reader, consent: Consent, withdrawal: Grain) -> Iterator[tuple[int, Grain]]:
    """Walk the grains that were stored on the ground of a withdrawn consent, each once.

    Current and past ones, on the ground of any version that the withdrawal takes back.
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
    """Whether a preset asks on what ground a grain is stored."""
    from omsgrain.privacy.rules import Require

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
    """Refuse a grain that stands on a consent that there is not, or that was withdrawn.

    Args:
        reader: the store.
        grain: one that is to be put, in the clear; one with another legal basis passes.
        arriving: addresses of consents that are put in the same step. One that is here already
            may have been withdrawn since, and counts as it stands here.
        withdrawn: addresses of consents that are withdrawn in the same step, with those of the
            grains that do it. Whether one of these counts that is here already, the store knows.

    Raises:
        SchemaError: no such consent is in the store, or it was withdrawn; ``rule`` is "consent".
    """
    basis = grain.get(_BASIS)
    if not is_address(basis):
        return
    try:
        consent = consent_at(reader, basis)
    except NotFoundError as error:
        if basis not in arriving:
            raise _refusal("no consent that can be read here") from error
        _refuse_withdrawn(reader, (basis,), withdrawn)
        if next(_withdrawals(reader, basis), None) is not None:
            raise _refusal("a consent that was withdrawn") from None
        return
    except (SchemaError, KeyMissingError) as error:
        raise _refusal("no consent that can be read here") from error
    _refuse_withdrawn(reader, consent.names, withdrawn)
    state = reader.row(STATES, SEQUENCE.pack(consent.seq))
    if state is not None and state[0] & RETRACTED:
        raise _refusal("a consent that was retracted")
    if withdrawal_of(reader, consent) is not None:
        raise _refusal("a consent that was withdrawn")


def _refuse_withdrawn(
    reader: Reader, names: Collection[str], withdrawn: Mapping[str, Collection[str]]
) -> None:
    coming = [_core.parse_address(new) for name in names for new in withdrawn.get(name, ())]
    if None in reader.find(coming):
        raise _refusal("a consent that is withdrawn in the same step")


def withdrawal_fields(consent: Consent, now: int) -> dict[str, Any]:
    """The fields of the grain that withdraws a consent."""
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
        "personal data is stored on the ground of a consent that stands",
        field=f"/{_BASIS}",
        expected="the address of a consent in the store",
        found=found,
        rule=_TYPE,
    )


def _versions(reader: Reader, consent: Consent) -> Iterator[Consent]:
    """All versions of a consent, itself among them; what another person gave is none."""
    subject = consent.grain.get("subject_did")
    for seq in sorted(members(reader, consent.seq)):
        grain = consent.grain if seq == consent.seq else reader.grain(seq)
        if grain is None or grain.type != _TYPE or grain.get("subject_did") != subject:
            continue
        if grain.get("is_withdrawal") is not True:
            yield _consent(seq, grain)


def _consent(seq: int, grain: Grain) -> Consent:
    # One that was sealed goes by the address it has in the store, and by that of what it says.
    return Consent(seq, grain, tuple({grain.address: 0, _core.address(grain.blob): 0}))


def _is_undone(reader: Reader, seq: int) -> bool:
    row = reader.row(STATES, SEQUENCE.pack(seq))
    return row is not None and bool(row[0] & _UNDONE)
