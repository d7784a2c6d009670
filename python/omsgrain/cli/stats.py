# SPDX-License-Identifier: Apache-2.0
"""``omsgrain stats``: what is in a store."""

from __future__ import annotations

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual
from omsgrain.cli.opening import keys_option
from omsgrain.cli.store import store_argument
from omsgrain.storage.location import Where

EXAMPLES = """
For a person, and for what watches the store:
    omsgrain stats memory.omsg
    omsgrain stats memory.omsg --json
"""


@click.command(cls=Manual, short_help="Count what is in a store.", examples=EXAMPLES)
@store_argument()
@keys_option
@output.json_option
def stats(store: Where, as_json: bool) -> None:
    """Count the grains of STORE and the bytes that they take.

    The watermark is the last sequence number that the index on disk covers; grains beyond it are
    found all the same.
    """
    from omsgrain import ops

    values = ops.stats(store)
    if as_json:
        output.emit(values)
        return
    width = max(map(len, values))
    for name, value in values.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {value}")
