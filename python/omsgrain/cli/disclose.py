# SPDX-License-Identifier: Apache-2.0
"""``omsgrain disclose``: show a grain without some of its fields, or check such a view."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import click

from omsgrain.cli import output
from omsgrain.cli.formats import trust_option
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.newpath import NewPath

EXAMPLES = """
A view of a signed grain without two fields, for somebody who may not see them:
    omsgrain disclose signed.cose --hide content -o view.mg
What it hides, and proof that nothing in it is forged:
    omsgrain disclose view.mg --check --original signed.cose
"""


@click.command(
    cls=Manual,
    short_help="Show a grain without some of its fields.",
    examples=EXAMPLES,
    exits={33: "With --check: the view is not what the original says."},
)
@argument("file", type=click.File("rb"), help='A blob, an envelope or a view; "-" is stdin.')
@click.option(
    "--hide",
    metavar="FIELD[,FIELD]",
    multiple=True,
    help="Fields that are left out, by their full names. Repeatable.",
)
@click.option(
    "-o",
    "--output",
    "target",
    type=NewPath(stdout=True),
    help="Write the view to this new file instead of stdout.",
)
@click.option("--check", is_flag=True, help="FILE is a view: check it instead.")
@click.option(
    "--original",
    type=click.File("rb"),
    metavar="FILE",
    help="With --check: the whole grain, blob or envelope.",
)
@trust_option
@output.json_option
def disclose(
    file: BinaryIO,
    hide: tuple[str, ...],
    target: Path | None,
    check: bool,
    original: BinaryIO | None,
    trust: tuple[str, ...],
    as_json: bool,
) -> None:
    """Make a view of the grain in FILE, a blob or an envelope, without some fields.

    Hashes stand in their place. With --check, tell what the view in FILE hides and, where the
    --original is given, prove that nothing in it is forged, left out or added. The envelope of the
    original proves besides who signed it; with --trust that must be a trusted key.

    A hash does not hide what can be guessed, such as a yes or no, a number or a name. What looks
    so is named on stderr.
    """
    if check:
        if hide or target is not None:
            raise click.UsageError("--check goes with neither --hide nor -o")
        if trust and original is None:
            raise click.UsageError("--trust goes with --original")
        _check(file, original, trust, as_json)
        return
    if original is not None or trust:
        raise click.UsageError("--original and --trust go with --check")
    names = [name for names in hide for name in names.split(",") if name]
    if not names:
        raise click.UsageError("name what to --hide")
    if target is None and not as_json and sys.stdout.isatty():
        raise click.UsageError("a view is binary; give -o FILE or redirect stdout")
    _disclose(file, names, target, as_json)


def _disclose(file: BinaryIO, names: list[str], target: Path | None, as_json: bool) -> None:
    from omsgrain.durable import write_new
    from omsgrain.ops import disclose as verbs
    from omsgrain.ops.lookup import BLOB_LIMIT

    view = verbs.disclose(file.read(BLOB_LIMIT), names)
    if target is not None:
        write_new(target, view.blob)
    if as_json:
        output.emit(verbs.view_values(view) | {"path": None if target is None else str(target)})
        return
    for warning in view.warnings:
        click.echo(output.safe(f"warning: {warning}"), err=True)
    if target is None:
        click.echo(view.blob, nl=False)
    else:
        click.echo(output.safe(f"{target}: a view of {view['_disclosure_of']}"))
        click.echo(f"address {view.address}")


def _check(
    file: BinaryIO, original: BinaryIO | None, trust: tuple[str, ...], as_json: bool
) -> None:
    from omsgrain.ops import disclose as verbs
    from omsgrain.ops.lookup import BLOB_LIMIT

    whole = None if original is None else original.read(BLOB_LIMIT)
    found = verbs.check_disclosure(file.read(BLOB_LIMIT), whole, trust=trust)
    if as_json:
        output.emit(verbs.check_values(found))
        return
    click.echo(f"a view of {found.original}")
    click.echo(output.safe(f"hides {', '.join(found.hidden)}"))
    click.echo("verified" if found.verified else "not verified: that takes the original")
    if found.proof is not None:
        click.echo(output.safe(f"the original is signed by {found.proof.signer}"))
