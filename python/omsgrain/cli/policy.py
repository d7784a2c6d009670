# SPDX-License-Identifier: Apache-2.0
"""``omsgrain policy``: the rules of presets, and what of a store breaks them."""

from __future__ import annotations

from dataclasses import asdict

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.opening import keys_option, presets_begun
from omsgrain.cli.store import StoreParam
from omsgrain.errors import SchemaError
from omsgrain.storage.location import Where

EXAMPLES = r"""
What does the preset ask?
    omsgrain policy gdpr
Which grains of a store would it refuse?
    omsgrain policy gdpr house-rules.toml --store memory.omsg
"""


@click.command(
    cls=Manual,
    short_help="Explain presets, or check a store against them.",
    examples=EXAMPLES,
    exits={0: "Done; with --store, all grains keep the rules.", 20: "With --store: one does not."},
)
@argument(
    "presets",
    nargs=-1,
    required=True,
    metavar="PRESET...",
    shell_complete=presets_begun,
    help="gdpr, hipaa, ccpa, sox, or a file of rules such as house-rules.toml.",
)
@click.option(
    "--store",
    type=StoreParam(),
    help="Name the grains of this store that the presets would not let in.",
)
@keys_option
@output.json_option
def policy(presets: tuple[str, ...], store: Where | None, as_json: bool) -> int:
    """Show the rules of each PRESET, and which text asks for each.

    With --store, name the grains that break them instead.
    """
    from omsgrain import ops

    if store is None:
        rules = ops.policy_rules(presets)
        if as_json:
            output.emit([asdict(rule) for rule in rules])
        else:
            for rule in rules:
                click.echo(output.safe(f"{rule.id}  {rule.kind}: {rule.asks}"))
                click.echo(output.safe(f"    {rule.reason} ({rule.source})"))
        return 0
    broken = ops.policy_check(store, presets)
    if as_json:
        found = [{"content_address": item.address, **item.error.to_dict()} for item in broken]
        output.emit(found)
        return SchemaError.exit_code if found else 0
    count = 0
    for item in broken:
        count += 1
        click.echo(output.safe(f"{item.address}  {item.error.rule}: {item.error.message}"))
    click.echo(f"{count} grains break the rules", err=True)
    return SchemaError.exit_code if count else 0
