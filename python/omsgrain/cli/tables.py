# SPDX-License-Identifier: Apache-2.0
"""Parquet files on the command line: for ``export`` and ``import``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from omsgrain.cli import output
from omsgrain.storage.location import Where

F = TypeVar("F", bound=Callable[..., Any])

TABLES = "a Parquet file"
EXPORT = ("columns", "unsealed")
"""The options that only tables have."""


def export_options(command: F) -> F:
    """What only the export of a table is told."""
    for option in (
        click.option("--unsealed", is_flag=True,
                     help="Show in plain what sealed grains say, where the keys open them."),
        click.option("--columns", metavar="NAME,NAME",
                     help="These columns only; without address and blob nothing can come back."),
        click.option("--parquet", is_flag=True,
                     help="FILE is a Parquet table; so is a FILE.parquet."),
    ):  # fmt: skip
        command = option(command)
    return command


def export_parquet(
    store: Where, file: Path, filters: dict[str, Any], as_json: bool, **given: Any
) -> None:
    """Write a table, and say how large it is."""
    from omsgrain.cli.formats import tell_withheld
    from omsgrain.ops import tables

    names = given.pop("columns")
    columns = None if names is None else [name.strip() for name in names.split(",")]
    written = tables.export_parquet(store, file, filters, columns=columns, **given)
    if as_json:
        told = {"paths": [str(written.path)], "grains": written.grains, "bytes": written.bytes}
        output.emit(told | {"withheld": written.withheld})
        return
    tell_withheld(written.withheld)
    click.echo(output.safe(f"{written.grains} grains, {written.bytes} bytes: {written.path}"))
