# SPDX-License-Identifier: Apache-2.0
"""``omsgrain inspect``: write a store or a file as an HTML page."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from omsgrain.cli import output
from omsgrain.cli.command import StoreParam, argument, command, flag, target_option
from omsgrain.cli.console import progress
from omsgrain.cli.open import open_store, resolver_in_use, trust_options
from omsgrain.storage.location import Where

EXAMPLES = """
A store; and the newest thousand grains of a file, each explained:
    omsgrain inspect memory.omsg -o memory.html
    omsgrain inspect robot.mg -o robot.html --grains 1000
"""


@command("Write a page that shows a store or a file of grains.", EXAMPLES)
@argument(
    "source",
    metavar="STORE|FILE",
    type=StoreParam(),
    help="A store; a .mg container, envelopes in a row, or a blob, which may be damaged.",
)
@target_option("The HTML file to write.", stdout=False, required=True)
@click.option(
    "--grains",
    type=click.IntRange(0, 10_000),
    metavar="N",
    help="How many of the newest grains to explain; by default 200.",
)
@flag("--replace", help="Replace the HTML file if it exists.")
@trust_options
@output.json_option
def inspect(source: Where, target: Path, grains: int | None, replace: bool, as_json: bool) -> None:
    """Write one HTML file that shows the content of STORE or FILE, and works offline.

    The page shows the result of verification, and counts by type, time and sensitivity. It draws
    triples as a graph and versions as chains, and shows the signers and the newest grains byte by
    byte.

    The page contains the content of the grains, as an export does: protect it in the same way.
    Restricted grains are left out, and encrypted ones show their headers unless --keys opens them.
    Problems appear in the page and do not change the exit code; use `omsgrain verify` and
    `omsgrain check` in scripts.
    """
    from omsgrain import inspect as inspection
    from omsgrain.durable import NewFiles, refuse_existing

    refuse_existing(target, replace)
    with progress(None, "grains", as_json) as advance:
        count = inspection.GRAINS if grains is None else grains
        values = inspection.inspect(
            source,
            opening=partial(open_store, source, readonly=True),
            resolver=resolver_in_use(),
            grains=count,
            advance=advance,
        )
    with NewFiles(replace=replace) as files:
        files.add(target, [inspection.page(values).encode(errors="backslashreplace")])
    wrong = len(values["failures"]) + sum(not one["ok"] for one in values["checks"])
    counts = f"{output.plural(values['grains'], 'grain')}, {values['verified']} verified"
    output.done(
        as_json,
        f"{counts}, {output.plural(wrong, 'problem')}: {target}",
        file=str(target),
        grains=values["grains"],
        verified=values["verified"],
        problems=wrong,
    )
