# SPDX-License-Identifier: Apache-2.0
"""``omsgrain convert``: make a file of another format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    NewPath,
    argument,
    command,
    flag,
    mode_option,
    passphrase_option,
    shape_option,
)
from omsgrain.cli.open import passphrase, resolver_in_use, trust_options
from omsgrain.formats.source import NAMES

_TARGETS = ("mg", *NAMES, "okf")

EXAMPLES = """
MIF to AIMEM and back; what AIMEM cannot hold is carried along, so nothing is lost:
    omsgrain convert notes.mif.json notes.aimem.json --user ada
    omsgrain convert notes.aimem.json again.mif.json
For a reader that accepts only members of its format; losses are reported:
    omsgrain convert notes.mif.json plain.aimem.json --user ada --strict
A directory of Markdown notes, as one file:
    omsgrain convert notes/ notes.mg
"""


@command("Convert a file to another format.", EXAMPLES)
@argument(
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A file of any format, or a directory of memories.",
)
@argument("target", type=NewPath(dir_okay=True), help="The new file; its name gives its format.")
@click.option("--format", metavar="NAME",
              shell_complete=lambda c, p, text: [f for f in _TARGETS if f.startswith(text)],
              help="mg, aimem, mif2, mif1, mif-ld, okf; by default by TARGET's name.")  # fmt: skip
@click.option("--layout",
              type=click.Choice(["document", "array", "lines", "corpus", "markdown", "directory"]),
              help="The layout of MIF in JSON-LD; by default from TARGET's name.")  # fmt: skip
@shape_option
@flag("--local", help="Include memories of the namespace _local.")
@mode_option
@click.option("--user", "--tenant", "user_id", metavar="ID",
              help="The owner of the document, if SOURCE names none.")  # fmt: skip
@click.option("--producer", metavar="NAME", default="omsgrain",
              help="The namespace of records that were never AIMEM.")  # fmt: skip
@click.option("--embeddings/--no-embeddings", default=None,
              help="Whether to keep embeddings; by default not in bundles.")  # fmt: skip
@flag("--strict", help="Write no member that the format does not define.")
@passphrase_option
@flag("--encrypt", help="Encrypt TARGET (MIF 1.0) with the passphrase.")
@flag("--replace", help="Replace TARGET if it exists.")
@trust_options
@output.json_option
def convert(
    source: Path, target: Path, as_json: bool, passphrase_file: Path | None, **given: Any
) -> int:
    """Convert SOURCE to TARGET through grains, and report what TARGET cannot hold.

    The content of SOURCE gives its format: a .mg container, an AIMEM bundle, also by lines, a MIF
    2.0 document, or MIF 1.0 in JSON, YAML or JSON lines. The name of TARGET gives its format: .mg,
    .aimem.json, .aimem.ndjson, .mif.json (MIF 2.0, or 1.0 if SOURCE is), .mif.yaml or .mif.jsonl
    (MIF 1.0). With another name, give --format. TARGET appears whole or not at all.

    MIF in JSON-LD is a file, .memory.json, .jsonld, .mif.ndjson or .memory.md, or a directory of
    such files.

    SOURCE can also be the memory of another system, as for `import`. With --format okf, TARGET is
    a directory of the Open Knowledge Format.

    TARGET carries the grains along, so that nothing is lost when it is converted back. With
    --strict it does not, and each lost field is reported.
    """
    from omsgrain.interchange.convert import convert as convert_file

    if given["encrypt"] and passphrase_file is None:
        raise click.UsageError("--encrypt needs --passphrase-file")
    secret, resolver = passphrase(passphrase_file), resolver_in_use()
    done = convert_file(source, target, passphrase=secret, resolver=resolver, **given)
    report = done.to_dict()
    if as_json:
        output.emit(report)
        return 0
    output.warn(report["warnings"])
    output.print_losses(done.losses, len(done.losses), done.added)
    grains = output.plural(done.grains, "grain")
    click.echo(output.safe(f"{grains}, {done.source} to {done.target}: {target}"))
    return 0
