# SPDX-License-Identifier: Apache-2.0
"""The STORE of a command: a directory, or the URL of a database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from omsgrain.store.home import Where
from omsgrain.store.url import StoreUrl, is_url

__all__ = ["StoreParam", "Where"]


class StoreParam(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A path, or a URL, which is shown without its password from here on.

    Args:
        exists: a path must be there.
        file_okay: it may be a file, which the verb then refuses or takes for something else.
    """

    name = "store"

    def __init__(self, *, exists: bool = True, file_okay: bool = True) -> None:
        self._path = click.Path(exists=exists, file_okay=file_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        """Read it.

        Raises:
            OmsError: a URL that names no store.
        """
        if isinstance(value, StoreUrl):
            return value
        if is_url(value):
            return StoreUrl.parse(value)
        path: Path = self._path.convert(value, param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete it as a path."""
        return self._path.shell_complete(ctx, param, incomplete)
