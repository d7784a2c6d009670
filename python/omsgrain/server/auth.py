# SPDX-License-Identifier: Apache-2.0
"""Who asks: the bearer token of a request, and what it is good for. Spec: RFC 6750, AIMEM §3."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from starlette.datastructures import Headers

from omsgrain.crypto.signers import Pieces
from omsgrain.crypto.trust import Checked, Trust, look, read
from omsgrain.errors import OmsError
from omsgrain.formats.aimem import signature
from omsgrain.formats.aimem.check import RULES
from omsgrain.server.errors import HttpRefusal, refusal_of
from omsgrain.server.options import ServerOptions
from omsgrain.storage.tokens import Scope, Token, Tokens, is_token

_REALM: Final = 'Bearer realm="omsgrain"'
_SCHEME = "bearer"


def secret_of(headers: Headers) -> str:
    """The token that a request shows."""
    given = headers.getlist("authorization")
    if not given:
        raise HttpRefusal("missing_token", headers={"www-authenticate": _REALM})
    scheme, _, secret = given[0].strip().partition(" ")
    secret = secret.strip()
    if len(given) > 1 or scheme.lower() != _SCHEME or not secret:
        raise HttpRefusal(
            "malformed_token", headers={"www-authenticate": _challenge("invalid_request")}
        )
    if not is_token(secret):
        raise _unknown()
    return secret


def token_of(tokens: Tokens, secret: str, scopes: Sequence[Scope]) -> Token:
    """What is known of a token that must be good for one of some scopes."""
    token = tokens.find(secret)
    if token is None:
        raise _unknown()
    if not set(scopes) & set(token.scopes):
        asked = _challenge("insufficient_scope", f'scope="{" ".join(scopes)}"')
        detail = f"the scope {' or '.join(scopes)} is needed"
        raise HttpRefusal("missing_scope", detail, headers={"www-authenticate": asked})
    return token


def _unknown() -> HttpRefusal:
    return HttpRefusal("invalid_token", headers={"www-authenticate": _challenge("invalid_token")})


def _challenge(error: str, more: str | None = None) -> str:
    return ", ".join(filter(None, (f'{_REALM}, error="{error}"', more)))


LEFT_OUT: Final = {"aimem-signature-omitted": "too-large"}
"""The header of an answer that would be signed, were it smaller."""


def signed(text: Callable[[], bytes], options: ServerOptions) -> dict[str, str]:
    """The header with our signature; none without a signer."""
    if options.signer is None:
        return {}
    made = signature.sign_bundle(text(), options.signer, iat=int(time.time()))
    return {signature.HEADER.lower(): signature.to_header(made)}


def checked(
    headers: Headers, text: Callable[[], bytes | Pieces], options: ServerOptions
) -> Checked:
    """Check the signature of what comes in: one that is none, or false, is always refused."""
    given = headers.getlist(signature.HEADER)
    if not given and not options.require_signature:
        return "missing"
    if not given:
        raise HttpRefusal("signature_missing", status=RULES["signature_missing"].status)
    if len(given) > 1:
        raise HttpRefusal(
            "signature_invalid", "it stands twice", status=RULES["signature_invalid"].status
        )
    try:
        made = signature.from_header(given[0])
        read(made)  # before anything is done for it
        trust = Trust() if options.trust is None else options.trust
        return look(made, text(), trust, required=options.require_signature)
    except OmsError as error:
        raise refusal_of(error) from None
