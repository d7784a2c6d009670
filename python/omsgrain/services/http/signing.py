# SPDX-License-Identifier: Apache-2.0
"""Signatures of bundles in HTTP: made of what goes out, checked on what comes in.

What was not checked leaves an entry in the audit trail. Spec: AIMEM §5.3
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from starlette.datastructures import Headers

from omsgrain.crypto.keys import Pieces
from omsgrain.crypto.trust import Checked, Trust, look, read
from omsgrain.errors import OmsError
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.rules import RULES
from omsgrain.services.http.options import Options
from omsgrain.services.http.problems import Refusal, refusal_of

__all__ = ["LEFT_OUT", "checked", "signed"]

LEFT_OUT: Final = {"aimem-signature-omitted": "too-large"}
"""The header of an answer that would be signed, were it smaller."""


def signed(text: Callable[[], bytes], options: Options) -> dict[str, str]:
    """The header with our signature; none without a signer.

    Args:
        text: gives the canonical text of the bundle.
        options: of the server.
    """
    if options.signer is None:
        return {}
    made = signature.sign_bundle(text(), options.signer, iat=int(time.time()))
    return {signature.HEADER.lower(): signature.to_header(made)}


def checked(headers: Headers, text: Callable[[], bytes | Pieces], options: Options) -> Checked:
    """Check the signature of what comes in: one that is none, or false, is always refused.

    Args:
        headers: of the request.
        text: gives the canonical text of the bundle.
        options: of the server; without ``trust``, a signature that holds is skipped.

    Returns:
        What was done about the signature.

    Raises:
        Refusal: a signature does not hold, or there must be one.
    """
    given = headers.getlist(signature.HEADER)
    if not given and not options.require_signature:
        return "missing"
    if not given:
        raise Refusal("signature_missing", status=RULES["signature_missing"].status)
    if len(given) > 1:
        raise Refusal(
            "signature_invalid", "it stands twice", status=RULES["signature_invalid"].status
        )
    try:
        made = signature.from_header(given[0])
        read(made)  # before anything is done for it
        trust = Trust() if options.trust is None else options.trust
        return look(made, text(), trust, required=options.require_signature)
    except OmsError as error:
        raise refusal_of(error) from None
