# SPDX-License-Identifier: Apache-2.0
"""``omsgrain convert``: make a file of another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.open import passphrase, resolver_in_use, trust_options
from omsgrain.cli.params import FORMATS, NewPath, mode_option, passphrase_option, shape_option

EXAMPLES = """
MIF to AIMEM and back; what AIMEM cannot hold goes along, so nothing is lost:
    omsgrain convert notes.mif.json notes.aimem.json --user ada
    omsgrain convert notes.aimem.json again.mif.json
For a reader that takes no member but those of its format; what it costs is told:
    omsgrain convert notes.mif.json plain.aimem.json --user ada --strict
A directory of notes in Markdown, as one file:
    omsgrain convert notes/ notes.mg
"""


@click.command(cls=Manual, short_help="Make a file of another format.", examples=EXAMPLES)
@argument(
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A file of any format, or a directory of MIF in JSON-LD.",
)
@argument("target", type=NewPath(dir_okay=True), help="The new file; its name says its format.")
@click.option("--format", metavar="NAME",
              shell_complete=lambda c, p, begun: [f for f in FORMATS if f.startswith(begun)],
              help="mg, aimem, mif2, mif1, mif-ld; by default told by TARGET's name.")  # fmt: skip
@click.option("--layout",
              type=click.Choice(["document", "array", "lines", "corpus", "markdown", "directory"]),
              help="Of MIF in JSON-LD; by default told by TARGET's name.")  # fmt: skip
@shape_option
@click.option("--local", is_flag=True, help="With memories of the namespace _local.")
@mode_option
@click.option("--user", "--tenant", "user_id", metavar="ID",
              help="Whose document it is, if nothing says.")  # fmt: skip
@click.option("--producer", metavar="NAME", default="omsgrain", show_default=True,
              help="The namespace of what was never AIMEM.")  # fmt: skip
@click.option("--embeddings/--no-embeddings", default=None,
              help="Whether embeddings are kept; by default not in bundles.")  # fmt: skip
@click.option("--strict", is_flag=True, help="No member that the format does not name.")
@passphrase_option
@click.option("--encrypt", is_flag=True, help="Encrypt TARGET (MIF 1.0) with that passphrase.")
@click.option("--replace", is_flag=True, help="Replace TARGET if it is there.")
@trust_options
@output.json_option
def convert(
    source: Path, target: Path, as_json: bool, passphrase_file: Path | None, **given: Any
) -> int:
    """Convert SOURCE to TARGET through grains, and report what TARGET cannot hold.

    SOURCE is told by what is in it: a .mg container, an AIMEM bundle, or one by lines, a document
    of MIF 2.0, or of MIF 1.0 in JSON, YAML or JSON lines. TARGET is called .mg, .aimem.json,
    .aimem.ndjson, .mif.json (MIF 2.0, or 1.0 if SOURCE is), .mif.yaml or .mif.jsonl (MIF 1.0), or
    --format says what it is. It appears whole or not at all.

    Memories of MIF in JSON-LD are a file, .memory.json, .jsonld, .mif.ndjson or .memory.md, or a
    directory of such files.

    The grains go along whole, so that what TARGET cannot hold is there when it is converted back;
    with --strict they do not, and each field that is lost is reported.
    """
    from omsgrain.interchange.convert import convert as convert_file

    if given["encrypt"] and passphrase_file is None:
        raise click.UsageError("--encrypt needs --passphrase-file")
    secret, resolver = passphrase(passphrase_file), resolver_in_use()
    done = convert_file(source, target, passphrase=secret, resolver=resolver, **given)
    told = done.to_dict()
    if as_json:
        output.emit(told)
        return 0
    output.warn(told["warnings"])
    output.tell_losses(done.losses, len(done.losses))
    output.tell_added(done.added)
    click.echo(output.safe(f"{done.grains} grains, {done.source} to {done.target}: {target}"))
    return 0
