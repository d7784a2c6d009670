# SPDX-License-Identifier: Apache-2.0
"""Tokens of a store, made and ended as the command line does it."""

from __future__ import annotations

from collections.abc import Iterable

from omsgrain.storage.location import Where
from omsgrain.storage.tokens import Token, open_tokens


def add_token(
    path: Where,
    name: str,
    tenant: str | None,
    scopes: Iterable[str],
    *,
    namespaces: Iterable[str] = (),
) -> str:
    """Make a token of a store."""
    with open_tokens(path) as tokens:
        return tokens.add(name, tenant, scopes, namespaces=namespaces)


def revoke_token(path: Where, name: str) -> None:
    """End a token of a store."""
    with open_tokens(path) as tokens:
        tokens.revoke(name)


def list_tokens(path: Where) -> list[Token]:
    """All tokens of a store."""
    with open_tokens(path, readonly=True) as tokens:
        return tokens.list()
