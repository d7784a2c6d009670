# SPDX-License-Identifier: Apache-2.0
"""``omsgrain conformance``: does a server keep to a format?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual

if TYPE_CHECKING:
    from omsgrain.conformance import Outcome

FAILED = 1

EXAMPLES = """
A server on this machine, with a token of a tenant made for this:
    omsgrain conformance --aimem-url http://127.0.0.1:8080 --token omg_...
"""


@click.command(
    cls=Manual,
    short_help="Judge a server by the AIMEM draft.",
    examples=EXAMPLES,
    exits={0: "All cases pass.", FAILED: "A case does not pass."},
)
@click.option("--aimem-url", "url", required=True, metavar="URL", help="Where /v1/brain begins.")
@click.option(
    "--token",
    required=True,
    envvar="OMSGRAIN_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="A token that may import and export.",
)
@click.option("--export-only-token", metavar="TOKEN", help="One that may export alone.")
@click.option("--import-only-token", metavar="TOKEN", help="One that may import alone.")
@click.option("--admin-token", metavar="TOKEN", help="One that may erase; see --erase.")
@click.option("--erase", is_flag=True, help="At the end ERASE the tenant's memory, and look.")
@click.option("--draft-only", is_flag=True, help="Only what the draft itself says.")
@click.option(
    "--timeout",
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an answer may take.",
)
@click.option(
    "--ca",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Certificates to trust besides the system's.",
)
@output.json_option
def conformance(
    url: str,
    token: str,
    export_only_token: str | None,
    import_only_token: str | None,
    admin_token: str | None,
    erase: bool,
    draft_only: bool,
    timeout: float,
    ca: Path | None,
    as_json: bool,
) -> int:
    """Ask the server at URL, over HTTP alone, whether it does what the AIMEM draft says.

    Give it tokens of a tenant made for this: some hundred chunks are imported, under names that
    are new each time.
    """
    from omsgrain.conformance import Tokens
    from omsgrain.ops.conformance import aimem

    tokens = Tokens(token, export_only_token, import_only_token, admin_token)
    running = aimem(url, tokens, draft_only=draft_only, erase=erase, timeout=timeout, ca=ca)
    outcomes: list[Outcome] = []
    with output.progress(None, "cases", as_json) as advance:
        for outcome in running:
            outcomes.append(outcome)
            advance(1)
    counts = {
        "passed": sum(one.passed is True for one in outcomes),
        "failed": sum(one.passed is False for one in outcomes),
        "left_out": sum(one.passed is None for one in outcomes),
    }
    if as_json:
        output.emit(counts | {"cases": [asdict(one) for one in outcomes]})
    else:
        _table(outcomes)
        click.echo("{passed} passed, {failed} failed, {left_out} left out".format(**counts))
    return FAILED if counts["failed"] or not counts["passed"] else 0


def _table(outcomes: list[Outcome]) -> None:
    from rich.table import Table

    words = {True: "passed", False: "FAILED", None: "left out"}
    table = Table("case", "draft", "by", "result", "expected", "found", box=None, pad_edge=False)
    for one in outcomes:
        row = (one.name, one.section, one.basis, words[one.passed], one.expected, one.found)
        table.add_row(*(output.safe(text or "") for text in row))
    output.console().print(table)
