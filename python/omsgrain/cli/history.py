# SPDX-License-Identifier: Apache-2.0
"""``omsgrain history``, ``provenance`` and ``duplicates``: grains through time."""

from __future__ import annotations

from dataclasses import asdict

import click

from omsgrain.cli import output
from omsgrain.cli.change import ADDRESS
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.opening import keys_option
from omsgrain.cli.store import store_argument
from omsgrain.storage.location import Where

HISTORY = """
What was said at first, and what is said now:
    omsgrain history memory.omsg ADDRESS
"""
PROVENANCE = """
From which observations does a belief come, and what was concluded from it?
    omsgrain provenance memory.omsg ADDRESS
    omsgrain provenance memory.omsg ADDRESS --down --depth 2
"""
DUPLICATES = """
What was said more than once:
    omsgrain duplicates memory.omsg
"""

_address = argument("address", help=ADDRESS)


@click.command(cls=Manual, short_help="Show all versions of a grain.", examples=HISTORY)
@store_argument()
@_address
@keys_option
@output.json_option
def history(store: Where, address: str, as_json: bool) -> None:
    """Show all versions of the grain at ADDRESS in STORE, oldest first."""
    from omsgrain import ops

    versions = ops.history(store, address)
    if as_json:
        output.emit(versions)
        return
    for version in versions:
        grain = version["grain"]
        at = grain.get("created_at")
        time = ops.time_text(at) if isinstance(at, int) else None
        until = version["system_valid_to"]
        became = "current"
        if version["superseded_by"] is not None:
            became = f"until {ops.time_text(until)}" if until is not None else "superseded"
        if version["verification_status"] != "unverified":
            became += f", {version['verification_status']}"
        says = " ".join(ops.gist(grain).split())
        click.echo(output.safe(f"{version['content_address']}  {time}  {became}: {says}"))


@click.command(cls=Manual, short_help="Show what a grain was made from.", examples=PROVENANCE)
@store_argument()
@_address
@click.option("--down", is_flag=True, help="What was made from it, instead.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=16,
    show_default=True,
    metavar="N",
    help="Follow at most N links.",
)
@keys_option
@output.json_option
def provenance(store: Where, address: str, down: bool, depth: int, as_json: bool) -> None:
    """Show what the grain at ADDRESS in STORE was made from, and what that was made from."""
    from omsgrain import ops

    graph = ops.provenance(store, address, down=down, depth=depth)
    if as_json:
        output.emit(ops.graph_values(graph))
        return
    for node in graph.nodes:
        says = "not here" if node.grain is None else " ".join(ops.gist(node.grain).split())
        click.echo(output.safe(f"{'  ' * node.depth}{node.address}  {says}"))
    if not graph.complete:
        click.echo("there is more beyond", err=True)


@click.command(cls=Manual, short_help="Find grains that say the same.", examples=DUPLICATES)
@store_argument()
@keys_option
@output.json_option
def duplicates(store: Where, as_json: bool) -> None:
    """Find the current grains of STORE that say the same, apart from when it was said."""
    from omsgrain import ops

    found = ops.duplicates(store)
    if as_json:
        output.emit([asdict(same) for same in found])
        return
    groups = grains = 0
    for same in found:
        groups, grains = groups + 1, grains + same.count
        click.echo(f"{same.count} times: {' '.join(same.addresses[:3])}")
    click.echo(f"{grains} grains say {groups} things", err=True)
