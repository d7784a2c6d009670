# SPDX-License-Identifier: Apache-2.0
"""The STORE of a command: a directory, or the URL of a database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from omsgrain.cli.manual import F, argument
from omsgrain.cli.newpath import refuse_dash
from omsgrain.storage.location import IN_MEMORY, Where
from omsgrain.storage.url import StoreUrl, is_url

STORE = "A store: its directory, or postgresql://USER@HOST/DATABASE?tenant=NAME."
NEW = "It is made if it is not there."
TOLD = "It must be there, or --create makes it."


class StoreParam(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A path, or a URL, which is shown without its password from here on."""

    name = "store"

    def __init__(self, *, exists: bool = True, file_okay: bool = True) -> None:
        self._path = click.Path(exists=exists, file_okay=file_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        """Read it."""
        if isinstance(value, StoreUrl):
            return value
        if is_url(value):
            return StoreUrl.parse(value)
        if value == IN_MEMORY:
            self.fail("a store in memory would be gone with this command; name a directory")
        if not self._path.exists:
            refuse_dash(value)
        path: Path = self._path.convert(value, param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete it as a path."""
        return self._path.shell_complete(ctx, param, incomplete)


def create_option(function: F) -> F:
    """--create, of a command whose STORE may be made: see ``store_argument``."""
    return click.option("--create", is_flag=True, help="Make STORE if it is not there.")(function)


def store_argument(
    *, exists: bool = True, file_okay: bool = True, create: bool = False
) -> Callable[[F], F]:
    """The STORE of a command."""
    told = f"{STORE} {TOLD}" if create else STORE if exists else f"{STORE} {NEW}"
    kind = StoreParam(exists=exists and not create, file_okay=file_okay)
    return argument("store", type=kind, help=told)
