# SPDX-License-Identifier: Apache-2.0
"""``omsgrain vectors``: run a directory of test vectors."""

from __future__ import annotations

from pathlib import Path

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual, argument

DISAGREES = 1

EXAMPLES = """
Those of a clone:
    omsgrain vectors test_vectors
"""


@click.command(
    cls=Manual,
    short_help="Run test vectors.",
    examples=EXAMPLES,
    exits={0: "All agree.", DISAGREES: "One does not agree."},
)
@argument(
    "directory",
    default="test_vectors",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Where they are; by default test_vectors.",
)
@output.json_option
def vectors(directory: Path, as_json: bool) -> int:
    """Run the test vectors under DIRECTORY, and print a table of them."""
    return tell_vectors(directory, as_json)


def tell_vectors(directory: Path, as_json: bool) -> int:
    """Run vectors, and print what came of them; ``conformance --vectors`` is the same."""
    from omsgrain import ops

    outcomes = list(ops.run_vectors(directory))
    wrong = [outcome for outcome in outcomes if not outcome.agrees]
    if as_json:
        output.emit(
            {
                "vectors": len(outcomes),
                "agree": len(outcomes) - len(wrong),
                "disagree": [{"id": o.id, "problem": o.problem} for o in wrong],
            }
        )
        return DISAGREES if wrong else 0
    from rich.table import Table

    table = Table("vector", "expected", "result", box=None, pad_edge=False)
    for outcome in outcomes:
        expected = outcome.expected if len(outcome.expected) < 64 else outcome.expected[:16] + "…"
        result = "agrees" if outcome.agrees else f"DISAGREES: {outcome.problem}"
        table.add_row(*map(output.safe, (outcome.id, expected, result)))
    output.console().print(table)
    click.echo(
        f"{len(outcomes)} vectors, {len(outcomes) - len(wrong)} agree, {len(wrong)} disagree"
    )
    return DISAGREES if wrong else 0
