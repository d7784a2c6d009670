# SPDX-License-Identifier: Apache-2.0
"""How a command opens its store: with keys, with the web for names of signers, with memory.

The options of a command are kept in click's context, so that its functions can open stores without
further arguments.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from omsgrain.cli.command import F, flag
from omsgrain.storage.location import Where, location_of

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing
    from omsgrain.crypto.master_key import MasterKey
    from omsgrain.store import GrainStore

SOURCE = "file:PATH (or the path alone): 32 bytes, raw, hex or base64; env:NAME: hex or base64."

_LONGEST = 64 << 10  # bytes of a line that is a secret
_GIVEN = "omsgrain.cli.open"


@dataclass(slots=True)
class _StoreOptions:
    """The options for the stores of a command; the first store opens the key ring."""

    keys: Path | None = None
    master: str | None = None
    plain: bool = False
    web: bool = False
    memory: str | None = None
    ring: KeyRing | None = None
    resolver: Resolver | None = None

    def close(self) -> None:
        if self.ring is not None:
            self.ring.close()


def _given() -> _StoreOptions:
    found: _StoreOptions = click.get_current_context().meta.setdefault(_GIVEN, _StoreOptions())
    return found


def keys_in_use() -> KeyRing | None:
    """Return the key ring of the command; None without --keys."""
    given = _given()
    if given.ring is None and given.keys is not None and given.master is not None:
        from omsgrain.crypto.keyring.keyring import KeyRing

        given.ring = KeyRing.open(given.keys, master=master_key(given.master))
    return given.ring


def resolver_in_use() -> Resolver | None:
    """Return the resolver of the command; None without --web."""
    given = _given()
    if given.resolver is None and given.web:
        from omsgrain.crypto.did_web import WebResolver

        given.resolver = WebResolver()
    return given.resolver


def open_store(path: Where, *, readonly: bool = False, **options: Any) -> GrainStore:
    """Open a store; arguments and errors are those of ``omsgrain.open``."""
    import omsgrain as og

    if readonly:
        location_of(path).must_exist()  # a missing store needs no key
    given = _given()
    return og.open(
        path,
        readonly=readonly,
        keys=keys_in_use(),
        plain=given.plain,
        resolver=resolver_in_use(),
        memory_limit=given.memory,
        **options,
    )


def make_store(path: Where, *, actor: str | None = None) -> bool:
    """Create a store where there is none; return whether it was created."""
    if location_of(path).exists():
        return False
    open_store(path, actor=actor).close()
    return True


def open_to_read(path: Where, **options: Any) -> GrainStore:
    """Open a store that exists, for writing where that is possible.

    Reading writes too: to the audit trail and the text index.
    """
    home = location_of(path)
    home.must_exist()  # or an empty directory would become a store
    return open_store(path, readonly=not home.is_writable(), **options)


@contextmanager
def writable(path: Where, actor: str | None = None, **options: Any) -> Iterator[GrainStore]:
    """Open a store that exists, for writing."""
    location_of(path).must_exist()  # or an empty directory would become a store
    with open_store(path, actor=actor, **options) as store:
        yield store


master_option = click.option(
    "--master",
    required=True,
    metavar="SOURCE",
    envvar="OMSGRAIN_MASTER",
    show_envvar=True,
    help=f"The master key. {SOURCE}",
)
"""Of a command that requires it."""


def keys_option(command: F) -> F:
    """``--keys``, ``--master`` and ``--memory`` of a command that opens a store."""
    return _opening(command, web=False)


def trust_options(command: F) -> F:
    """The same, and ``--web``, of a command that verifies signatures."""
    text = "Fetch the keys of signers with a did:web over HTTPS."
    return flag("--web", help=text)(_opening(command, web=True))


plain_option = flag(
    "--plain", help="Store users' grains unencrypted in a store that was used with --keys."
)
"""Of a command that stores grains; it goes with ``keys_option`` or ``trust_options``."""


actor_option = click.option(
    "--actor", metavar="NAME", help="The actor, for the audit trail: a DID, a user, a service."
)
"""Of every command that changes something."""


def presets_begun(_: click.Context, __: click.Parameter, begun: str) -> list[CompletionItem]:
    """Complete the name of a preset, or else the path of a file of rules."""
    from click.shell_completion import CompletionItem

    from omsgrain.policy.presets import BUILT_IN

    names = [CompletionItem(name) for name in BUILT_IN if name.startswith(begun)]
    return names or [CompletionItem(begun, type="file")]


policy_option = click.option(
    "--policy",
    metavar="NAME",
    shell_complete=presets_begun,
    help="Rules: gdpr, hipaa, ccpa, sox, or a file.",
)
"""The rules that a store is opened with."""


def authority_options(command: F) -> F:
    """``--hold-authority`` and ``--erasure-authority``, of a command that syncs."""
    for option, name, does in (
        ("--erasure-authority", "erasure_authorities", "erasures"),
        ("--hold-authority", "hold_authorities", "ends of holds"),
    ):
        text = f"Accept {does} only if this DID has signed them. Repeatable."
        command = click.option(option, name, multiple=True, metavar="DID", help=text)(command)
    return command


def _opening(command: F, *, web: bool) -> F:
    @wraps(command)
    def opened(
        *, keys: Path | None, master: str | None, memory_limit: str | None, **given: Any
    ) -> Any:
        plain = bool(given.pop("plain", False))
        asked = bool(given.pop("web")) if web else False
        context = click.get_current_context()
        if keys is None:
            source = context.get_parameter_source("master")
            if master is not None and source is ParameterSource.COMMANDLINE:
                raise click.UsageError("--master goes with --keys")
        elif master is None:
            raise click.UsageError("--keys needs --master, or OMSGRAIN_MASTER")
        if plain and keys is not None:
            raise click.UsageError("--plain is for a store without --keys")
        kept = context.meta[_GIVEN] = _StoreOptions(keys, master, plain, asked, memory_limit)
        context.call_on_close(kept.close)
        return command(**given)

    for option in (
        click.option(
            "--memory",
            "memory_limit",
            metavar="SIZE",
            envvar="OMSGRAIN_MEMORY",
            show_envvar=True,
            help="The memory limit of the open store beside its map, such as 64MB.",
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
            help="The key file: it encrypts users' grains and decrypts what is encrypted.",
        ),
    ):
        option(opened)
    return opened  # type: ignore[return-value]  # of the same arguments but for these


def first_line(file: Path, option: str) -> str:
    """The secret in the first line of a file."""
    with file.open("rb") as source:
        line = source.readline(_LONGEST + 1)
    try:
        text = line.decode("utf-8").rstrip("\r\n") if len(line) <= _LONGEST else ""
    except UnicodeDecodeError:
        text = ""
    if not text:
        raise click.UsageError(f"{option}: the first line of the file has no text")
    return text


def passphrase(file: Path | None) -> str | None:
    """The passphrase of documents that are encrypted, if its file was given."""
    return None if file is None else first_line(file, "--passphrase-file")


def master_key(source: str) -> MasterKey:
    """The master key of a SOURCE; it is read when it is needed."""
    kind, colon, rest = source.partition(":")
    if colon and kind == "env":
        return partial(_from_environment, rest)
    return Path(rest if colon and kind == "file" else source)


def _from_environment(name: str) -> bytes:
    from omsgrain.crypto.master_key import key_of_text

    return key_of_text(os.environ.get(name))
