# SPDX-License-Identifier: Apache-2.0
"""Who asks: the bearer token of a request, and what it is good for. Spec: RFC 6750, AIMEM §3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.datastructures import Headers

from omsgrain.services.http.problems import Refusal
from omsgrain.store.tokens import Scope, Token, Tokens, is_token

__all__ = ["secret_of", "token_of"]

_REALM: Final = 'Bearer realm="omsgrain"'
_SCHEME = "bearer"


def secret_of(headers: Headers) -> str:
    """The token that a request shows.

    Raises:
        Refusal: it shows none, or nothing of a token's form.
    """
    given = headers.getlist("authorization")
    if not given:
        raise Refusal("missing_token", headers={"www-authenticate": _REALM})
    scheme, _, secret = given[0].strip().partition(" ")
    secret = secret.strip()
    if len(given) > 1 or scheme.lower() != _SCHEME or not secret:
        raise Refusal(
            "malformed_token", headers={"www-authenticate": _challenge("invalid_request")}
        )
    if not is_token(secret):
        raise _unknown()
    return secret


def token_of(tokens: Tokens, secret: str, scopes: Sequence[Scope]) -> Token:
    """What is known of a token that must be good for one of some scopes.

    Raises:
        Refusal: it does not hold, or is not good for that.
        OmsError: the store cannot tell.
    """
    token = tokens.find(secret)
    if token is None:
        raise _unknown()
    if not set(scopes) & set(token.scopes):
        asked = _challenge("insufficient_scope", f'scope="{" ".join(scopes)}"')
        detail = f"the scope {' or '.join(scopes)} is needed"
        raise Refusal("missing_scope", detail, headers={"www-authenticate": asked})
    return token


def _unknown() -> Refusal:
    return Refusal("invalid_token", headers={"www-authenticate": _challenge("invalid_token")})


def _challenge(error: str, more: str | None = None) -> str:
    return ", ".join(filter(None, (f'{_REALM}, error="{error}"', more)))
