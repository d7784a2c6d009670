# SPDX-License-Identifier: Apache-2.0
"""``omsgrain disclose``: show a grain without some of its fields, or check such a view."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from omsgrain.cli import output
from omsgrain.cli.command import argument, command, flag, target_option, trust_option
from omsgrain.grain import plain
from omsgrain.header import ENVELOPE_BYTE

if TYPE_CHECKING:
    from omsgrain.crypto.disclosure import Disclosed

EXAMPLES = """
A view of a signed grain without a field:
    omsgrain disclose signed.cose --hide content -o view.mg
Show what a view hides, and prove that nothing in it is forged:
    omsgrain disclose view.mg --check --original signed.cose
"""


@command(
    "Make a view of a grain without some fields.",
    EXAMPLES,
    exits={33: "With --check: the view does not match the original."},
)
@argument("file", type=click.File("rb"), help='A blob, an envelope or a view; "-" is stdin.')
@click.option(
    "--hide",
    metavar="FIELD[,FIELD]",
    multiple=True,
    help="Fields to leave out, by their full names. Repeatable.",
)
@target_option("Write the view to this new file instead of stdout.")
@flag("--check", help="Check FILE, which is a view, instead.")
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

    Hashes replace the fields. With --check, show what the view in FILE hides and, with --original,
    prove that nothing in it is forged, left out or added. The envelope of the original also proves
    who signed it; with --trust that must be a trusted key.

    A hash does not hide a value that can be guessed, such as a yes or no, a number or a name. Such
    fields are named on stderr.
    """
    if check:
        if hide or target is not None:
            raise click.UsageError("--check does not go with --hide or -o")
        if trust and original is None:
            raise click.UsageError("--trust needs --original")
        _check(file, original, trust, as_json)
        return
    if original is not None or trust:
        raise click.UsageError("--original and --trust need --check")
    names = [name for names in hide for name in names.split(",") if name]
    if not names:
        raise click.UsageError("no field to hide: give --hide")
    if target is None and not as_json and sys.stdout.isatty():
        raise click.UsageError("a view is binary; give -o FILE or redirect stdout")
    _disclose(file, names, target, as_json)


def _disclose(file: BinaryIO, names: list[str], target: Path | None, as_json: bool) -> None:
    from omsgrain.crypto.cose import verify_signed
    from omsgrain.crypto.disclosure import view_of
    from omsgrain.durable import write_new
    from omsgrain.interchange.ingest import BLOB_LIMIT, one_grain

    data = file.read(BLOB_LIMIT)
    view = view_of(verify_signed(data) if _is_signed(data) else one_grain(data), names)
    if target is not None:
        write_new(target, view.blob)
    if as_json:
        fields = view.fields
        output.emit(
            {
                "address": view.address,
                "disclosure_of": fields["_disclosure_of"],
                "hidden": list(fields["_elided"]),
                "grain": plain(view.to_dict()),
                "warnings": list(view.warnings),
                "path": None if target is None else str(target),
            }
        )
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
    from omsgrain.interchange.ingest import BLOB_LIMIT

    whole = None if original is None else original.read(BLOB_LIMIT)
    found = _checked(file.read(BLOB_LIMIT), whole, trust)
    if as_json:
        proof = found.proof
        output.emit(
            {
                "address": found.view.address,
                "disclosure_of": found.original,
                "hidden": list(found.hidden),
                "verified": found.verified,
                "signer": None if proof is None else proof.signer,
                "iat": None if proof is None else proof.iat,
            }
        )
        return
    click.echo(f"a view of {found.original}")
    click.echo(output.safe(f"hides {', '.join(found.hidden)}"))
    click.echo("verified" if found.verified else "not verified: give --original")
    if found.proof is not None:
        click.echo(output.safe(f"the original is signed by {found.proof.signer}"))


def _checked(view: bytes, original: bytes | None, trust: tuple[str, ...]) -> Disclosed:
    """Check a view, against the whole grain if that is given, a blob or an envelope."""
    from omsgrain.crypto.disclosure import check_disclosure
    from omsgrain.crypto.trust import Trust, missing

    known = Trust.load(trust) if trust else None
    resolver = None if known is None else known.resolver(None)
    if original is not None and _is_signed(original):
        found = check_disclosure(view, envelope=original, resolver=resolver)
    else:
        found = check_disclosure(view, original)
    if known is not None:
        if found.proof is None:
            raise missing()
        known.confirm(found.proof.signer, resolver)
    return found


def _is_signed(data: bytes) -> bool:
    return data[:1] == ENVELOPE_BYTE
