# SPDX-License-Identifier: Apache-2.0
"""The tokens of a store: who may come in over the network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from omsgrain.crypto.private_file import new_file, write_at
from omsgrain.errors import SchemaError
from omsgrain.formats.aimem.fields import is_tenant
from omsgrain.ops.opening import make_store
from omsgrain.storage.location import Where, location_of
from omsgrain.storage.tokens import Token, Tokens


def add_token(
    store: Where,
    name: str,
    tenant: str | None,
    scopes: Iterable[str],
    *,
    namespaces: Iterable[str] = (),
    whole_store: bool = False,
    expires: int | None = None,
    create: bool = False,
    target: Path | None = None,
    actor: str | None = None,
) -> str:
    """Make a token, and return it; the store does not keep it."""
    if tenant is not None and not is_tenant(tenant):
        raise SchemaError("not a tenant", field="/tenant", expected="a UUID or a URI")
    only = tuple(namespaces)
    if bool(tenant or only) == whole_store:
        expected = "a tenant, namespaces, or the whole store"
        raise SchemaError("what the token opens was not said", field="/tenant", expected=expected)
    if create:
        make_store(store, actor=actor)
    with _tokens(store, actor) as tokens:
        if target is None:
            return tokens.add(name, tenant, scopes, namespaces=only, expires=expires)
        with new_file(target) as handle:  # first: nobody could know a token that has no file
            secret = tokens.add(name, tenant, scopes, namespaces=only, expires=expires)
            write_at(handle, secret.encode() + b"\n", 0)
        return secret


def list_tokens(store: Where) -> list[Token]:
    """Return what is known of all tokens; errors are those of ``add_token``."""
    home = location_of(store)
    home.must_exist()
    with closing(home.open(readonly=True)) as below:
        return Tokens(below).list()


def revoke_token(
    store: Where, name: str, *, forget: bool = False, actor: str | None = None
) -> None:
    """End a token; errors are those of ``Tokens.revoke``."""
    with _tokens(store, actor) as tokens:
        tokens.revoke(name, forget=forget)


def count_tokens(store: Where, tenants: Iterable[str]) -> int:
    """Return how many tokens open the memory of some tenants; errors as for ``add_token``."""
    home = location_of(store)
    home.must_exist()
    with closing(home.open(readonly=True)) as below:
        return Tokens(below).count(tenants)


def forget_tokens(store: Where, tenants: Iterable[str], *, actor: str | None = None) -> int:
    """End all tokens of some tenants, and delete what is known of them; returns how many."""
    with _tokens(store, actor) as tokens:
        return tokens.forget(tenants)


@contextmanager
def _tokens(store: Where, actor: str | None) -> Iterator[Tokens]:
    home = location_of(store)
    home.must_exist()  # or an empty directory would become a store
    with closing(home.open()) as below:
        yield Tokens(below, actor=actor)
