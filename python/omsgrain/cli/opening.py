# SPDX-License-Identifier: Apache-2.0
"""With what a command opens its store: keys, the web for names of signers, an amount of memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.master_key import MasterKey

F = TypeVar("F", bound=Callable[..., Any])

_LONGEST = 64 << 10  # bytes of a line that is a secret
SOURCE = "file:PATH (or the path alone): 32 bytes, raw, hex or base64; env:NAME: hex or base64."


def master_option(command: F) -> F:
    """The ``--master`` of a command that cannot do without."""
    return click.option(
        "--master",
        required=True,
        metavar="SOURCE",
        envvar="OMSGRAIN_MASTER",
        show_envvar=True,
        help=f"The master key. {SOURCE}",
    )(command)


def keys_option(command: F) -> F:
    """``--keys``, ``--master`` and ``--memory`` of a command that opens a store."""
    return _opening(command, web=False)


def plain_option(command: F) -> F:
    """The ``--plain`` of a command that stores grains; it goes with one of the other two."""
    text = "Store users' grains in the clear in a store that was used with --keys."
    return click.option("--plain", is_flag=True, help=text)(command)


def presets_begun(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the name of a preset, or else the path of a file of rules."""
    from omsgrain.policy.presets import BUILT_IN

    names = [CompletionItem(name) for name in BUILT_IN if name.startswith(begun)]
    return names or [CompletionItem(begun, type="file")]


def policy_option(command: F) -> F:
    """``--policy``: the rules that the store is opened with."""
    return click.option(
        "--policy",
        metavar="NAME",
        shell_complete=presets_begun,
        help="Rules: gdpr, hipaa, ccpa, sox, or a file.",
    )(command)


def authority_options(command: F) -> F:
    """``--hold-authority`` and ``--erasure-authority``, of a command that syncs."""
    for option, name, does in (
        ("--erasure-authority", "erasure_authorities", "erases"),
        ("--hold-authority", "hold_authorities", "ends holds"),
    ):
        text = f"Only what this DID has signed {does}. Repeatable."
        command = click.option(option, name, multiple=True, metavar="DID", help=text)(command)
    return command


def trust_options(command: F) -> F:
    """The same, and ``--web``, of a command that verifies signatures."""
    text = "Fetch the keys of signers who are called did:web:..., over HTTPS."
    return click.option("--web", is_flag=True, help=text)(_opening(command, web=True))


def _opening(command: F, *, web: bool) -> F:
    @wraps(command)
    def opened(*, keys: Path | None, master: str | None, memory: str | None, **given: Any) -> Any:
        plain = bool(given.pop("plain", False))
        asked = bool(given.pop("web")) if web else False
        if keys is None:
            source = click.get_current_context().get_parameter_source("master")
            if master is not None and source is ParameterSource.COMMANDLINE:
                raise click.UsageError("--master goes with --keys")
        elif master is None:
            raise click.UsageError("--keys needs --master, or OMSGRAIN_MASTER")
        if plain and keys is not None:
            raise click.UsageError("--plain is for a store without --keys")
        if keys is None and not asked and not plain and memory is None:
            return command(**given)
        from omsgrain import ops

        ring = None if keys is None or master is None else partial(_ring, keys, master)
        found = _web() if asked else None
        with ops.using(keys=ring, plain=plain, resolver=found, memory=memory):
            return command(**given)

    for option in (
        click.option(
            "--memory",
            metavar="SIZE",
            envvar="OMSGRAIN_MEMORY",
            show_envvar=True,
            help="What the open store may keep in memory beside its map, such as 64MB.",
        ),
        click.option(
            "--master",
            metavar="SOURCE",
            envvar="OMSGRAIN_MASTER",
            show_envvar=True,
            help=f"The master key of the key file. {SOURCE}",
        ),
        click.option(
            "--keys",
            type=click.Path(dir_okay=False, path_type=Path),
            envvar="OMSGRAIN_KEYS",
            show_envvar=True,
            help="The key file that seals what belongs to a user, and opens what is sealed.",
        ),
    ):
        option(opened)
    return opened  # type: ignore[return-value]  # of the same arguments but for these


def first_line(file: Path, option: str) -> str:
    """The secret that stands in the first line of a file."""
    with file.open("rb") as source:
        line = source.readline(_LONGEST + 1)
    try:
        text = line.decode("utf-8").rstrip("\r\n") if len(line) <= _LONGEST else ""
    except UnicodeDecodeError:
        text = ""
    if not text:
        raise click.UsageError(f"{option}: there is no text in the first line of its file")
    return text


def master_key(source: str) -> MasterKey:
    """The master key that a SOURCE names; it is read when it is needed."""
    kind, colon, rest = source.partition(":")
    if colon and kind == "env":
        return partial(_from_environment, rest)
    return Path(rest if colon and kind == "file" else source)


def _from_environment(name: str) -> bytes:
    from omsgrain.ops.rings import key_of_text

    return key_of_text(os.environ.get(name))


def _ring(keys: Path, master: str) -> KeyRing:
    from omsgrain.crypto.keyring.keyring import KeyRing

    return KeyRing.open(keys, master=master_key(master))


def _web() -> Any:
    from omsgrain.crypto.did_web import WebResolver

    return WebResolver()
