# SPDX-License-Identifier: Apache-2.0
"""``omsgrain init``: an empty store."""

from __future__ import annotations

import click

from omsgrain.cli import output
from omsgrain.cli.change import actor_option
from omsgrain.cli.manual import Manual
from omsgrain.cli.opening import trust_options
from omsgrain.cli.store import store_argument
from omsgrain.storage.location import Where

EXAMPLES = """
A store on this machine:
    omsgrain init memory.omsg
One whose users' grains are sealed:
    omsgrain init sealed.omsg --keys people.keys --master master.key
"""


@click.command(cls=Manual, short_help="Make an empty store.", examples=EXAMPLES)
@store_argument(exists=False, file_okay=False)
@actor_option
@trust_options
@output.json_option
def init(store: Where, actor: str | None, as_json: bool) -> None:
    """Make an empty store at STORE. A store that is there already is left as it is."""
    from omsgrain.ops.opening import make_store

    made = make_store(store, actor=actor)
    if as_json:
        output.emit({"store": str(store), "made": made})
    else:
        click.echo(output.safe(f"{store}: {'made' if made else 'is there already'}"))
