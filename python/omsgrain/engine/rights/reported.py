# SPDX-License-Identifier: Apache-2.0
"""One grain of a report: what it says, what became of it, who holds and who signed it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

from omsgrain import registry
from omsgrain.engine import acts, holding
from omsgrain.engine.holding import Hold
from omsgrain.engine.rights import consent as consents
from omsgrain.engine.rights.selector import OWN, Identities, fields_of
from omsgrain.grain import Grain
from omsgrain.header import SIGNED_BIT
from omsgrain.store import signatures
from omsgrain.store.base import Reader
from omsgrain.store.signatures import Signature
from omsgrain.store.state import State
from omsgrain.store.tables import SEALED, SEQUENCE

__all__ = ["Reported", "reported", "rfc3339", "told_hold"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_TIMES = tuple(field.name for field in registry.FIELDS if field.kind == "datetime")


@dataclass(frozen=True, slots=True)
class Reported:
    """A grain about the person, with what is known of it.

    Attributes:
        seq: its number.
        grain: the grain, opened if it is sealed; its address is the one it is stored under.
        own: it is the person's; if not, it bears a name that others may have too.
        fields: where it names the person.
        sealed: it is stored sealed.
        state: what became of it.
        holds: who keeps it from being changed or erased.
        signatures: of those who signed it.
        withdrawn: of a consent, whether it was withdrawn.
    """

    seq: int
    grain: Grain
    own: bool
    fields: tuple[str, ...]
    sealed: bool
    state: State
    holds: tuple[Hold, ...]
    signatures: tuple[Signature, ...]
    withdrawn: bool

    def to_dict(self) -> dict[str, Any]:
        """What is known of it, as JSON-ready values; times also as RFC 3339."""
        state = {name: said for name, said in asdict(self.state).items() if said}
        state["verification_status"] = self.state.verification_status
        fields = json.loads(self.grain.to_json())
        told: dict[str, Any] = {
            "address": self.grain.address,
            "type": self.grain.type,
            "own": self.own,
            "fields": list(self.fields),
            "sealed": self.sealed,
            "grain": fields,
            "state": state,
            "times": _times({**fields, **state}),
        }
        if self.holds:
            told["holds"] = [told_hold(hold) for hold in self.holds]
        if self.signatures:
            told["signatures"] = [
                {"signer": one.signer, "iat": one.iat, "proven": one.proven}
                for one in self.signatures
            ]
        if self.grain.type == "consent":
            told["withdrawn"] = self.withdrawn
        return told

    def consent(self) -> dict[str, Any]:
        """What a consent is in a few words."""
        grain = self.grain
        names = ("is_withdrawal", "prior_consent", "grantee_did", "scope", "created_at")
        told = {name: grain[name] for name in names if name in grain}
        return {"address": grain.address, **told, "withdrawn": self.withdrawn}

    def as_bytes(self) -> tuple[bytes, ...]:
        """The grain as it stands in a file: its blob, or an envelope for each of its signers."""
        blob = self.grain.blob
        if blob[1] & SIGNED_BIT:
            return tuple(one.envelope for one in self.signatures)
        return (blob,)


def reported(reader: Reader, seq: int, grain: Grain, identities: Identities) -> Reported:
    """Gather what is known of a grain about a person."""
    fields = fields_of(grain, identities)
    withdrawn = False
    if grain.type == "consent" and grain.get("is_withdrawal") is not True:
        withdrawn = not consents.stands(reader, seq)
    return Reported(
        seq,
        grain,
        not OWN.isdisjoint(fields),
        fields,
        reader.row(SEALED, SEQUENCE.pack(seq)) is not None,
        acts.state(reader, seq),
        holding.holds(reader, seq),
        tuple(signatures.signatures(reader, seq)),
        withdrawn,
    )


def told_hold(hold: Hold) -> dict[str, Any]:
    """A hold as JSON-ready values."""
    return {
        "authority": hold.authority,
        "reason_code": hold.reason_code,
        "since": rfc3339(hold.since),
    }


def _times(fields: Mapping[str, Any]) -> dict[str, str]:
    """The fields that are times, as RFC 3339."""
    found = {name: rfc3339(fields[name]) for name in _TIMES if type(fields.get(name)) is int}
    return {name: time for name, time in found.items() if time is not None}


def rfc3339(ms: int) -> str | None:
    """A time as RFC 3339; None outside of the years 1 to 9999."""
    try:
        moment = _EPOCH + timedelta(milliseconds=ms)
    except OverflowError:
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
