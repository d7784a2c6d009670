# SPDX-License-Identifier: Apache-2.0
"""Make disclosures of blobs and envelopes, and check them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from omsgrain.grain import Grain, plain
from omsgrain.header import ENVELOPE_BYTE
from omsgrain.ops.lookup import one_grain
from omsgrain.ops.opening import resolver_in_use
from omsgrain.ops.signed import load_trust

if TYPE_CHECKING:
    from omsgrain.crypto.disclosure import Disclosed


def disclose(source: bytes, hide: Iterable[str]) -> Grain:
    """Make a view of the grain in a blob or an envelope; what to beware of is in its warnings."""
    from omsgrain.crypto.cose import verify_signed
    from omsgrain.crypto.disclosure import view_of

    return view_of(verify_signed(source) if _signed(source) else one_grain(source), hide)


def check_disclosure(
    view: bytes, original: bytes | None = None, *, trust: Sequence[str] = ()
) -> Disclosed:
    """Check a view; against the whole grain, a blob or an envelope, if that is given."""
    from omsgrain.crypto.disclosure import check_disclosure
    from omsgrain.crypto.trust import missing

    known, resolver = load_trust(trust), resolver_in_use()
    if known is not None:
        resolver = known.resolver(resolver)
    signed = original is not None and _signed(original)
    found = (
        check_disclosure(view, envelope=original, resolver=resolver)
        if signed
        else check_disclosure(view, original)
    )
    if known is not None:
        if found.proof is None:
            raise missing()
        known.confirm(found.proof.signer, resolver)
    return found


def view_values(view: Grain) -> dict[str, Any]:
    """What there is to say of a new view, as JSON-ready values."""
    fields = view.fields
    return {
        "address": view.address,
        "disclosure_of": fields["_disclosure_of"],
        "hidden": list(fields["_elided"]),
        "grain": plain(view.to_dict()),
        "warnings": list(view.warnings),
    }


def check_values(found: Disclosed) -> dict[str, Any]:
    """What a check found, as JSON-ready values."""
    return {
        "address": found.view.address,
        "disclosure_of": found.original,
        "hidden": list(found.hidden),
        "verified": found.verified,
        "signer": None if found.proof is None else found.proof.signer,
        "iat": None if found.proof is None else found.proof.iat,
    }


def _signed(source: bytes) -> bool:
    return source[:1] == ENVELOPE_BYTE
