# SPDX-License-Identifier: Apache-2.0
"""``omsgrain retain``: remove the oldest grains of a store."""

from __future__ import annotations

from dataclasses import asdict
from datetime import timedelta
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import Manual, Size, SpanParam, store_argument
from omsgrain.cli.filters import filter_options, taken
from omsgrain.cli.open import actor_option, keys_option, open_store, policy_option, writable
from omsgrain.errors import InvalidationDeniedError
from omsgrain.storage.location import Where

RETAIN = """
Keep a week, and the maps for ever; first see what would go:
    omsgrain retain memory.omsg --keep 7d --namespace maps --dry-run
    omsgrain retain memory.omsg --keep 7d --namespace maps
Keep what fits into a file of 512 MB:
    omsgrain retain memory.omsg --max-bytes 512MB
"""


@click.command(
    cls=Manual,
    short_help="Remove the oldest grains, by age or by size.",
    examples=RETAIN,
    exits={41: "The store is larger than --max-bytes: rules keep all that is left."},
)
@store_argument()
@click.option(
    "--keep",
    type=SpanParam(),
    metavar="AGE",
    help="Remove grains that are older: 90m, 36h, 7d. Count created_at.",
)
@click.option(
    "--max-bytes",
    type=Size(),
    metavar="SIZE",
    help="Remove the oldest grains until the data file has room: 512MB, 2GiB.",
)
@click.option("--keep-cited", is_flag=True, help="Keep grains that a grain which stays refers to.")
@click.option("--dry-run", is_flag=True, help="Count what would go, and change nothing.")
@filter_options
@policy_option
@actor_option
@keys_option
@output.json_option
def retain(
    store: Where,
    keep: timedelta | None,
    max_bytes: int | None,
    keep_cited: bool,
    dry_run: bool,
    policy: str | None,
    actor: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Remove the oldest grains of STORE. The filters name grains that stay.

    Held grains, consents, and grains that a policy or --policy keeps stay too. Removed grains
    can be stored again. To bound a store while a program uses it, see the arguments of
    omsgrain.open in Python.
    """
    if keep is None and max_bytes is None:
        raise click.UsageError("give --keep or --max-bytes")
    limits: dict[str, Any] = {
        "keep": keep,
        "max_bytes": max_bytes,
        "keep_where": taken(given) or None,
        "keep_cited": keep_cited,
        "dry_run": dry_run,
    }
    if dry_run:
        with open_store(store, readonly=True, policy=policy) as grains:
            report = grains.maintenance.retain(**limits)
    else:
        with writable(store, actor, policy=policy) as grains:
            report = grains.maintenance.retain(**limits)
    if as_json:
        output.emit(asdict(report))
    else:
        verb = "would go" if dry_run else "removed"
        kept = ", ".join(f"{count} by {rule}" for rule, count in report.kept)
        click.echo(
            output.safe(f"{output.plural(report.removed, 'grain')} {verb}; kept: {kept or 0}")
        )
        if report.file_bytes:
            click.echo(f"file: {report.file_bytes} bytes, {report.free_bytes} of them free")
    return 0 if report.complete else InvalidationDeniedError.exit_code
