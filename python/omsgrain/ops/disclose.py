# SPDX-License-Identifier: Apache-2.0
"""Make disclosures of blobs and envelopes, and check them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from omsgrain.grain import Grain
from omsgrain.ops.lookup import one_grain
from omsgrain.ops.plain import plain

if TYPE_CHECKING:
    from omsgrain.crypto.disclosure import Disclosed

_ENVELOPE = b"\xd2"


def disclose(source: bytes, hide: Iterable[str]) -> Grain:
    """Make a view of the grain in a blob or an envelope; what to beware of is in its warnings.

    Raises:
        UnsupportedError: a container.
        SchemaError: there is no such field, or it may not be hidden.
        SignatureError: the envelope's signature does not hold.
        OmsError: any refusal of the format.
    """
    from omsgrain.crypto.disclosure import view_of
    from omsgrain.crypto.envelope import verify_signed

    return view_of(verify_signed(source) if _signed(source) else one_grain(source), hide)


def check_disclosure(view: bytes, original: bytes | None = None) -> Disclosed:
    """Check a view; against the whole grain, a blob or an envelope, if that is given.

    Raises:
        IntegrityError: the view is not one of that grain.
        SchemaError: no disclosure, or it hides what may not be hidden.
        OmsError: any refusal of the format.
    """
    from omsgrain.crypto.disclosure import check_disclosure

    if original is not None and _signed(original):
        return check_disclosure(view, envelope=original)
    return check_disclosure(view, original)


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
    return source[:1] == _ENVELOPE
