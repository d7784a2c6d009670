# SPDX-License-Identifier: Apache-2.0
"""``omsgrain history``, ``provenance`` and ``duplicates``."""

from __future__ import annotations

from dataclasses import asdict

import click

from omsgrain.cli import output
from omsgrain.cli.command import ADDRESS, argument, command, flag, store_argument
from omsgrain.cli.open import keys_option, open_store
from omsgrain.grain import plain
from omsgrain.json_values import time_text
from omsgrain.query.envelope import gist
from omsgrain.storage.location import Where

HISTORY = """
All versions of a belief:
    omsgrain history memory.omsg ADDRESS
"""
PROVENANCE = """
Which observations does a belief come from, and what was derived from it?
    omsgrain provenance memory.omsg ADDRESS
    omsgrain provenance memory.omsg ADDRESS --down --depth 2
"""
DUPLICATES = """
Find what was stored more than once:
    omsgrain duplicates memory.omsg
"""

_address = argument("address", help=ADDRESS)


@command("Show all versions of a grain.", HISTORY)
@store_argument()
@_address
@keys_option
@output.json_option
def history(store: Where, address: str, as_json: bool) -> None:
    """Show all versions of the grain at ADDRESS in STORE, oldest first."""
    with open_store(store, readonly=True) as grains:
        versions = [
            {
                "content_address": grain.address,
                "grain": plain(grain.to_dict()),
                "superseded_by": (state := grains.status(grain.address)).superseded_by,
                "system_valid_to": state.system_valid_to,
                "verification_status": state.verification_status,
            }
            for grain in grains.history(address)
        ]
    if as_json:
        output.emit(versions)
        return
    for version in versions:
        grain = version["grain"]
        at = grain.get("created_at")
        time = time_text(at) if isinstance(at, int) else None
        until = version["system_valid_to"]
        became = "current"
        if version["superseded_by"] is not None:
            became = f"until {time_text(until)}" if until is not None else "superseded"
        if version["verification_status"] != "unverified":
            became += f", {version['verification_status']}"
        says = " ".join(gist(grain).split())
        click.echo(output.safe(f"{version['content_address']}  {time}  {became}: {says}"))


@command("Show the sources of a grain.", PROVENANCE)
@store_argument()
@_address
@flag("--down", help="Show what was derived from the grain instead.")
@click.option(
    "--depth",
    type=click.IntRange(1),
    default=16,
    metavar="N",
    help="Follow at most N links.",
)
@keys_option
@output.json_option
def provenance(store: Where, address: str, down: bool, depth: int, as_json: bool) -> None:
    """Show the sources of the grain at ADDRESS in STORE, and their sources."""
    with open_store(store, readonly=True) as grains:
        walk = grains.graph.descendants if down else grains.graph.provenance
        graph = walk(address, depth=depth)
    if as_json:
        output.emit(
            {
                "nodes": [
                    {
                        "content_address": node.address,
                        "depth": node.depth,
                        "grain": None if node.grain is None else plain(node.grain.to_dict()),
                    }
                    for node in graph.nodes
                ],
                "links": [
                    {"derived": link.derived, "source": link.source, "field": link.field}
                    for link in graph.links
                ],
                "complete": graph.complete,
            }
        )
        return
    for node in graph.nodes:
        says = "not in this store" if node.grain is None else " ".join(gist(node.grain).split())
        click.echo(output.safe(f"{'  ' * node.depth}{node.address}  {says}"))
    if not graph.complete:
        click.echo("there are more links: raise --depth", err=True)


@command("Find grains with the same content.", DUPLICATES)
@store_argument()
@keys_option
@output.json_option
def duplicates(store: Where, as_json: bool) -> None:
    """Find the current grains of STORE with the same content, apart from times."""
    with open_store(store, readonly=True) as grains:
        if as_json:
            output.emit([asdict(same) for same in grains.graph.duplicates()])
            return
        groups = number = 0
        for same in grains.graph.duplicates():
            groups, number = groups + 1, number + same.count
            click.echo(f"{same.count} times: {' '.join(same.addresses[:3])}")
    click.echo(f"{number} grains in {groups} groups", err=True)
