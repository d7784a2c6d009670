# SPDX-License-Identifier: Apache-2.0
"""``omsgrain mcp``: serve the memory of one user to agents over MCP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any
from unicodedata import normalize

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    DIRECTORY,
    STORE,
    STORE_VARIABLE,
    Manual,
    StoreParam,
    argument,
    create_option,
    log_format_option,
    packages,
    size_option,
)
from omsgrain.cli.open import actor_option, make_store, open_store, plain_option, trust_options
from omsgrain.storage.location import Where, location_of

DEFAULT_USER = "me"
"""The user of a server that was started without a store."""

EXAMPLES = r"""
The command that an agent starts, with your own memory in the directory for user data:
    omsgrain mcp

The command that an agent starts, with ada's memory and one directory of documents:
    omsgrain mcp memory.omsg --user ada --root documents
"""


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


@click.command(
    cls=Manual, short_help="Serve a user's memory to agents over MCP.", examples=EXAMPLES
)
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
@click.option("--readonly", is_flag=True, help="Change neither the store nor files.")
@size_option("--document-limit", "100MB", "The largest document to import.")
@size_option("--answer-limit", "16MB", "The largest document to return as text.")
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
    document_limit: int,
    answer_limit: int,
    log_format: Any,
    actor: str | None,
    as_json: bool,
) -> None:
    """Serve the memory of one user in STORE to agents: MCP over stdin and stdout.

    Tools: remember, recall, context, update, forget, history, import and export of MIF documents.
    It ends when stdin ends, or with SIGTERM. The log on stderr contains no content of grains.
    """
    if user is None and store is None:
        user = DEFAULT_USER
    if user is None or not user.strip():
        raise click.UsageError("--user: expected a name")
    if create and readonly:
        raise click.UsageError("--create and --readonly exclude each other")
    with packages("mcp", "mcp", "anyio"):
        from omsgrain.mcp.server import run
        from omsgrain.mcp.service import McpOptions
        from omsgrain.server.log import Log
    if store is None:
        store, create = default_store(), not readonly
    options = McpOptions(
        user=normalize("NFC", user),
        root=root,
        readonly=readonly,
        document=document_limit,
        answer=answer_limit,
        line=2 * document_limit + (1 << 20),
    )
    if create:
        make_store(store, actor=actor or "mcp")
    location_of(store).must_exist()  # else an empty directory would become a store
    opened = open_store(store, readonly=readonly, actor=actor or "mcp")
    run(opened, options, Log(log_format))
