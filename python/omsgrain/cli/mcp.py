# SPDX-License-Identifier: Apache-2.0
"""``omsgrain mcp``: serve the memory of one user to agents over MCP."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unicodedata import normalize

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    DIRECTORY,
    GIVEN,
    STORE,
    STORE_VARIABLE,
    StoreParam,
    argument,
    command,
    create_option,
    flag,
    is_given,
    log_format_option,
    need,
    size_option,
)
from omsgrain.cli.open import actor_option, make_store, open_store, plain_option, trust_options
from omsgrain.cli.retain import LimitArguments, history_options
from omsgrain.mcp.clients import CLIENTS, ClientProgram, server_command
from omsgrain.storage.location import StoreUrl, Where, location_of

DEFAULT_USER = "me"
"""The user of a server that was started without a store."""

EXAMPLES = r"""
The command that an agent starts, with your own memory in the directory for user data:
    omsgrain mcp

The command that an agent starts, with ada's memory and one directory of documents:
    omsgrain mcp memory.omsg --user ada --root documents

Add that command to the configuration of a program, or print it for another program:
    omsgrain mcp --install cursor
    omsgrain mcp memory.omsg --user ada --install claude --print
"""
_OF_INSTALL = {"install", "name", "prints", "as_json"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def default_store() -> Path:
    """Return the path of the user's own store, and create its directory."""
    home = Path.home()
    if sys.platform == "win32":
        data = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        data = home / "Library" / "Application Support"
    else:
        data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    folder = data / "omsgrain"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder / "memory.omsg"


@command("Serve a user's memory to agents over MCP.", EXAMPLES)
@argument(
    "store",
    type=StoreParam(exists=False, file_okay=False),
    required=False,
    help=f"{STORE} By default that of {STORE_VARIABLE}, or memory.omsg in the directory for user "
    "data, which is created.",
)
@create_option
@click.option(
    "--user",
    metavar="ID",
    help="The user whose memory is served, and nothing else; without STORE by default "
    f"{DEFAULT_USER!r}.",
)
@click.option(
    "--root",
    type=DIRECTORY,
    help="Read and write documents below this directory; by default no path is accepted.",
)
@flag("--readonly", help="Change neither the store nor files.")
@history_options
@size_option("--document-limit", "100MB", "The largest document to import.")
@size_option("--answer-limit", "16MB", "The largest document to return as text.")
@click.option(
    "--install",
    type=click.Choice(tuple(CLIENTS)),
    help="Serve nothing: add this command to the configuration of a program.",
)
@click.option("--name", default="omsgrain", metavar="NAME", help="The name of that entry.")
@flag("--print", "prints", help="With --install: print the entry only.")
@log_format_option
@actor_option
@plain_option
@trust_options
@output.json_option
def mcp(
    store: Where | None,
    create: bool,
    user: str | None,
    root: Path | None,
    readonly: bool,
    limits: LimitArguments,
    document_limit: int,
    answer_limit: int,
    install: str | None,
    name: str,
    prints: bool,
    log_format: Any,
    actor: str | None,
    as_json: bool,
) -> None:
    """Serve the memory of one user in STORE to agents: MCP over stdin and stdout.

    Tools: remember, recall, context, update, forget, history, import and export of documents. It
    ends when stdin ends, or with SIGTERM. The log on stderr contains no content of grains.

    --install writes the configuration of a program instead: the command with these arguments and
    options. It keeps all other entries of the file, and refuses to change an entry.
    """
    if install is None and (prints or is_given("name")):
        raise click.UsageError("--name and --print go with --install")
    if user is None and store is None:
        user = DEFAULT_USER
    if user is None:
        raise click.UsageError("STORE needs --user ID, the user whose memory is served")
    if not user.strip():
        raise click.UsageError("--user: expected a name")
    if create and readonly:
        raise click.UsageError("--create and --readonly exclude each other")
    if limits and readonly:
        raise click.UsageError("--keep and --max-bytes do not go with --readonly")
    if install is not None:
        _install(CLIENTS[install], name, store, prints, as_json)
        return
    with _uncollected():
        need("mcp", "mcp.server.lowlevel", "anyio")
        from omsgrain.mcp.server import run
        from omsgrain.mcp.service import McpOptions
        from omsgrain.server.log import Log

        if store is None:
            store, create = default_store(), not readonly
        if create:
            make_store(store, actor=actor or "mcp")
        location_of(store).must_exist()  # else an empty directory would become a store
        opened = open_store(store, readonly=readonly, actor=actor or "mcp", **limits)
    options = McpOptions(
        user=normalize("NFC", user),
        root=root,
        readonly=readonly,
        document=document_limit,
        answer=answer_limit,
        line=2 * document_limit + (1 << 20),
    )
    run(opened, options, Log(log_format))


@contextmanager
def _uncollected() -> Iterator[None]:
    """Load modules without collections of garbage, which are a tenth of the start."""
    gc.disable()
    try:
        yield
        gc.freeze()  # classes and functions stay until the process ends
    finally:
        gc.enable()


def _install(
    client: ClientProgram,
    name: str,
    store: Where | None,
    prints: bool,
    as_json: bool,
) -> None:
    """Add the command of this call to the configuration of a program, or print it."""
    need("mcp", "mcp")
    if not _NAME.fullmatch(name):
        raise click.UsageError("--name: expected 1 to 64 letters, digits, - and _")
    if store is not None and not is_given("create"):
        location_of(store).must_exist()
    if isinstance(store, StoreUrl) and store.secret != store.shown.partition("?")[0]:
        raise click.UsageError(
            "STORE: a password or options of a URL are not written; use PostgreSQL's own files"
        )
    entry = client.entry([*server_command(), "mcp", *_words()])
    path = client.path()
    told = {"client": client.title, "path": str(path), "name": name, "entry": entry}
    if prints:
        output.done(as_json, client.text(name, entry).rstrip(), **told)
        return
    added = client.add(path, name, entry)
    says = f"{client.title}: {name!r} " + ("was added" if added else "is there already")
    output.done(as_json, f"{says}: {path}", **told, added=added)


def _words() -> list[str]:
    """Return the arguments of this call, for a program that starts elsewhere."""
    context = click.get_current_context()
    words: list[str] = []
    for param in context.command.params:
        if context.get_parameter_source(param.name or "") not in GIVEN:
            continue
        if param.name in _OF_INSTALL:
            continue
        value = context.params[param.name or ""]
        if isinstance(value, Path) or (param.name == "master" and Path(value).is_file()):
            value = Path(value).absolute()
        if isinstance(param, click.Argument):
            words.insert(0, str(value))
        elif isinstance(param, click.Option) and param.is_flag:
            words.append(param.opts[0])
        elif param.multiple:
            words += [word for one in value for word in (param.opts[0], str(one))]
        else:
            words += [param.opts[0], str(value)]
    return words
