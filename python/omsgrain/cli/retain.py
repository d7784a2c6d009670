# SPDX-License-Identifier: Apache-2.0
"""``omsgrain retain``: remove the oldest grains of a store."""

from __future__ import annotations

from dataclasses import asdict

import click

from omsgrain.cli import output
from omsgrain.cli.command import command, flag, store_argument
from omsgrain.cli.history_limits import LimitArguments, history_options
from omsgrain.cli.open import actor_option, keys_option, open_store, policy_option, writable
from omsgrain.errors import InvalidationDeniedError
from omsgrain.storage.location import Where

RETAIN = """
Keep a week, and the maps for ever; first see what would go:
    omsgrain retain memory.omsg --keep 7d --keep-where namespace=maps --dry-run
    omsgrain retain memory.omsg --keep 7d --keep-where namespace=maps
Keep what fits into a file of 512 MB:
    omsgrain retain memory.omsg --max-bytes 512MB
"""


@command(
    "Remove the oldest grains, by age or by size.",
    RETAIN,
    exits={41: "The store is larger than --max-bytes: rules keep all that is left."},
)
@store_argument()
@history_options
@flag("--dry-run", help="Count what would go, and change nothing.")
@policy_option
@actor_option
@keys_option
@output.json_option
def retain(
    store: Where,
    limits: LimitArguments,
    dry_run: bool,
    policy: str | None,
    actor: str | None,
    as_json: bool,
) -> int:
    """Remove the oldest grains of STORE.

    Held grains, consents, and grains that a policy or --policy keeps stay. Removed grains can be
    stored again. serve, bridge and mcp have the same options, and bound the store while they run.
    """
    if not limits:
        raise click.UsageError("give --keep or --max-bytes")
    if dry_run:
        with open_store(store, readonly=True, policy=policy) as grains:
            report = grains.maintenance.retain(**limits, dry_run=True)
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
