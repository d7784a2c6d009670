# SPDX-License-Identifier: Apache-2.0
"""``omsgrain search``: find grains by words."""

from __future__ import annotations

from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.filters import filter_options, taken
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.opening import keys_option
from omsgrain.cli.store import store_argument
from omsgrain.storage.location import Where

SHORT = 12  # digits of an address that tell it apart on a screen

EXAMPLES = r"""
Any of two words, the better the rarer; one that must be there; two together:
    omsgrain search memory.omsg "broken lamp"
    omsgrain search memory.omsg "+lamp kitchen"
    omsgrain search memory.omsg '"emergency stop"' --namespace "robots:*"
"""


@click.command(
    cls=Manual,
    short_help="Find grains by words, best first.",
    examples=EXAMPLES,
    exits={0: "Done, also if nothing was found."},
)
@store_argument()
@argument("text", help='Words, +words, -words, "words together", beginnings*.')
@filter_options
@click.option("--limit", type=int, default=10, show_default=True, metavar="N",
              help="Results, at most.")  # fmt: skip
@click.option("--full", is_flag=True, help="Show whole addresses.")
@keys_option
@output.json_option
def search(store: Where, text: str, limit: int, full: bool, as_json: bool, **given: Any) -> None:
    """Find the grains of STORE that best match the words of TEXT, among those of the filters.

    Any word counts, the better the rarer it is; +word must be there, -word must not, "two words"
    must stand together, mem* is any word that begins so. What is sealed cannot be ranked: where
    there are such grains that --keys opens, ask for --no-sealed, or `query --words`.

    What was found stands in [brackets]; if no part of what the grain says, its field is named.
    """
    from omsgrain import ops

    page = ops.search(store, text, taken(given), limit=limit)
    if as_json:
        output.emit(ops.envelope(page))
        return
    for hit in page.results:
        address = hit.content_address if full else hit.content_address[:SHORT]
        says = ops.marked(hit, text)
        click.echo(output.safe(f"{address}  {hit.score:.2f}  {hit.grain.type}  {says}"))
    click.echo(f"{len(page.results)} found", err=True)
    if page.incomplete is not None:
        click.echo("there may be more: the filters refused too many of what matches", err=True)
