# SPDX-License-Identifier: Apache-2.0
"""``omsgrain token``: the access tokens of a server."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    Chapter,
    When,
    argument,
    create_option,
    flag,
    store_argument,
    target_option,
)
from omsgrain.cli.open import actor_option, make_store
from omsgrain.crypto.private_file import new_file, write_at
from omsgrain.errors import SchemaError
from omsgrain.json_values import time_text
from omsgrain.storage.location import Where
from omsgrain.storage.tokens import SCOPES, open_tokens

ADD = """
A token that can export the memory of one tenant, in a file:
    omsgrain token add memory.omsg laptop --tenant TENANT --scope export -o laptop.token
A token for a robot that syncs a namespace with this store:
    omsgrain token add hub.omsg robot-7 --scope sync:read --scope sync:write --namespace hall
A token that expires, in a store that is created if it does not exist:
    omsgrain token add new.omsg guest --tenant TENANT --scope export --expires 30d --create
"""
LIST = """
List all tokens:
    omsgrain token list memory.omsg
"""
REVOKE = """
The laptop is lost:
    omsgrain token add memory.omsg laptop --scope export --tenant TENANT
    omsgrain token revoke memory.omsg laptop
"""

_store = store_argument(file_okay=False)
_new = store_argument(file_okay=False, create=True)
_name = argument("name", help="The name of the token, such as that of a machine.")


@click.group(
    cls=Chapter,
    short_help="Manage access tokens for the server.",
    examples=ADD + "Revoke a token:\n    omsgrain token revoke hub.omsg robot-7",
)
def token() -> None:
    """Create and revoke the tokens that `serve` requires.

    A token opens the memory of one tenant, for its scopes: import, export, admin (which can
    erase). A token for another store can read (sync:read), write grains and states (sync:write),
    and write holds, restrictions and erasures (sync:admin). It covers some namespaces or the whole
    store. The store keeps only the SHA-256 of a token. A running server sees all changes at once.
    Each command has --json.
    """


@token.command(short_help="Create a token.", examples=ADD)
@_new
@_name
@click.option("--tenant", metavar="ID", help="The tenant: a UUID or a URI.")
@click.option(
    "--namespace",
    "namespaces",
    multiple=True,
    metavar="NAME",
    help="With sync scopes: only this namespace. Repeatable.",
)
@flag("--whole-store", help="With sync scopes: the whole store.")
@target_option("Write the token to this new file, which only you can read, instead of stdout.")
@click.option(
    "--scope",
    "scopes",
    required=True,
    multiple=True,
    type=click.Choice(SCOPES),
    help="A scope of the token. Repeatable.",
)
@click.option(
    "--expires",
    type=When(ahead=True),
    metavar="TIME",
    help="When the token expires: a time such as 2027-01-31T00:00:00Z, or a time span: 12h, 30d.",
)
@create_option
@actor_option
@output.json_option
def add(
    store: Where,
    name: str,
    tenant: str | None,
    namespaces: tuple[str, ...],
    whole_store: bool,
    target: Path | None,
    scopes: tuple[str, ...],
    expires: int | None,
    create: bool,
    actor: str | None,
    as_json: bool,
) -> None:
    """Create a token called NAME for STORE, and print it or write it to a file.

    The command shows the token only this once. Anyone with the token has its access.
    """
    from omsgrain.formats.aimem.fields import is_tenant

    if tenant is not None and not is_tenant(tenant):
        raise SchemaError("not a tenant", field="/tenant", expected="a UUID or a URI")
    if bool(tenant or namespaces) == whole_store:
        expected = "--tenant, --namespace, or --whole-store"
        raise SchemaError("the token has no owner, or two", field="/tenant", expected=expected)
    if create:
        make_store(store, actor=actor)
    given: Any = {"namespaces": namespaces, "expires": expires}
    with open_tokens(store, actor=actor) as tokens:
        if target is None:
            secret = tokens.add(name, tenant, scopes, **given)
        else:
            with new_file(target) as handle:  # without the file the token would be lost
                secret = tokens.add(name, tenant, scopes, **given)
                write_at(handle, secret.encode() + b"\n", 0)
    if target is None:
        output.done(as_json, secret, name=name, token=secret, scopes=list(scopes))
    else:
        output.done(as_json, str(target), name=name, path=str(target), scopes=list(scopes))


@token.command("list", short_help="List the tokens of a store.", examples=LIST)
@_store
@output.json_option
def list_(store: Where, as_json: bool) -> None:
    """List the tokens of STORE, with revoked ones; the secrets are not stored."""
    with open_tokens(store, readonly=True) as tokens:
        found = tokens.list()
    if as_json:
        output.emit([asdict(one) for one in found])
        return
    for one in found:
        times = {"expires": one.expires, "used": one.used, "revoked": one.revoked}
        dates = "".join(f"  {n} {time_text(t)}" for n, t in times.items() if t is not None)
        scopes = ",".join(one.scopes)
        whose = ",".join(filter(None, (one.tenant, *one.namespaces))) or "whole store"
        click.echo(output.safe(f"{one.name}  {scopes}  {whose}  {time_text(one.created)}{dates}"))


@token.command(short_help="Revoke a token.", examples=REVOKE)
@_store
@_name
@flag("--forget", help="Delete its entry too, with the tenant.")
@actor_option
@output.json_option
def revoke(store: Where, name: str, forget: bool, actor: str | None, as_json: bool) -> None:
    """Revoke the token called NAME; a running server refuses it from now on."""
    with open_tokens(store, actor=actor) as tokens:
        tokens.revoke(name, forget=forget)
    output.done(as_json, f"{name}: revoked", name=name, revoked=True)
