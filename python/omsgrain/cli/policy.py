# SPDX-License-Identifier: Apache-2.0
"""``omsgrain policy``: the rules of presets, and the grains that break them."""

from __future__ import annotations

from dataclasses import asdict

import click

from omsgrain.cli import output
from omsgrain.cli.command import StoreParam, argument, command
from omsgrain.cli.open import keys_option, open_store, presets_begun
from omsgrain.errors import SchemaError
from omsgrain.storage.location import Where

EXAMPLES = r"""
What does the preset require?
    omsgrain policy gdpr
Which grains of a store break the rules?
    omsgrain policy gdpr house-rules.toml --store memory.omsg
"""


@command(
    "Explain presets, or check a store against them.",
    EXAMPLES,
    exits={
        0: "Done; with --store, no grain breaks the rules.",
        20: "With --store: grains break the rules.",
    },
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
    help="List the grains of this store that the presets would refuse.",
)
@keys_option
@output.json_option
def policy(presets: tuple[str, ...], store: Where | None, as_json: bool) -> int:
    """Show the rules of each PRESET, and the legal text behind each.

    With --store, list the grains that break them instead.
    """
    from omsgrain.policy.presets import explain, load

    preset = load(presets)
    if store is None:
        rules = explain(preset)
        if as_json:
            output.emit([asdict(rule) for rule in rules])
        else:
            for rule in rules:
                click.echo(output.safe(f"{rule.id}  {rule.kind}: {rule.asks}"))
                click.echo(output.safe(f"    {rule.reason} ({rule.source})"))
        return 0
    count, problems = 0, []
    with open_store(store, readonly=True) as grains:
        for grain in grains:
            error = next(iter(preset.put_refusals(grain)), None)
            if error is None:
                continue
            count += 1
            if as_json:
                problems.append({"content_address": grain.address, **error.to_dict()})
            else:
                click.echo(output.safe(f"{grain.address}  {error.rule}: {error.message}"))
    if as_json:
        output.emit(problems)
    else:
        click.echo(f"grains that break the rules: {count}", err=True)
    return SchemaError.exit_code if count else 0
