# SPDX-License-Identifier: Apache-2.0
"""The options for rows of other programs of ``omsgrain ingest``: which column is which field."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import EXISTING, F, options, pairs

if TYPE_CHECKING:
    from omsgrain.interchange.field_map import Mapping

_TIMES = "the unit of times: s, ms, us, ns since 1970; utc: text without a zone."
_TYPES = "the type of a field's values: text, number, decimal_comma, int, bool, time, json."


def _pairs(_: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    return pairs(values, param.metavar or "NAME=VALUE")


def _pairs_option(name: str, into: str, metavar: str, text: str) -> Callable[[F], F]:
    return click.option(
        name, into, multiple=True, metavar=metavar, callback=_pairs, help=f"With --as: {text}"
    )


mapping_options = options(
    _pairs_option("--unit", "units", "FIELD=UNIT", _TIMES),
    _pairs_option("--type", "types", "FIELD=TYPE", _TYPES),
    _pairs_option("--set", "set", "FIELD=VALUE", "the value of a field in each grain."),
    _pairs_option("--map", "map", "FIELD=COLUMN",
                  "the column of a field, or of a member such as object.value."),
    click.option("--as", "grain_type", metavar="TYPE", help="Map rows to grains of this type."),
    click.option("--mapping", "mapping_file", type=EXISTING, help="Map rows by this TOML file."),
)  # fmt: skip


def mapping_of(given: dict[str, Any], *, of_bag: bool) -> Mapping | None:
    """Return the mapping of the options, None without any, and take these options away."""
    file, grain_type = given.pop("mapping_file"), given.pop("grain_type")
    parts = {name: given.pop(name) for name in ("map", "set", "units", "types")}
    is_given = any(parts.values())
    if file is not None:
        if grain_type or is_given:
            raise click.UsageError("--mapping excludes --as, --map, --set, --unit and --type")
        from omsgrain.interchange.field_map import Mapping

        return Mapping.read(file)
    if of_bag and is_given:
        grain_type = grain_type or "observation"
    if grain_type is None:
        if is_given:
            raise click.UsageError("--map, --set, --unit and --type need --as TYPE")
        return None
    from omsgrain.interchange.field_map import Mapping, constant

    fixed = {name: constant(grain_type, name, text) for name, text in parts["set"].items()}
    return Mapping(grain_type, **parts | {"set": fixed})


def print_suggestion(path: Path, form: Any) -> None:
    """Print a mapping for the rows of a file."""
    from omsgrain.formats import times
    from omsgrain.formats.bag.rosbag2 import is_bag
    from omsgrain.interchange.suggestion import suggest

    if is_bag(path):
        raise click.UsageError("a recording needs no mapping: omsgrain ingest STORE RECORDING")
    changed = times.spell(max(0, int(path.stat().st_mtime)) * 1_000)
    with path.open("rb") as stream:
        made = suggest(stream, name=path.name, format=form, changed=changed)
    name = output.safe(path.name)
    click.echo(f"# Made from the first rows of {name}: change what does not fit.")
    click.echo(f"# Then: omsgrain ingest STORE {name} --mapping THIS_FILE")
    click.echo("# A bad row stops it; with --errors collect it stores all others.")
    for note in made.notes:
        click.echo(output.safe(f"# {note}"))
    click.echo(made.mapping.to_toml(), nl=False)
