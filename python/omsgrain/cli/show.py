# SPDX-License-Identifier: Apache-2.0
"""``omsgrain get`` and ``omsgrain show``: one grain, as fields, bytes, or both explained."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    ADDRESS,
    StoreParam,
    argument,
    command,
    flag,
    store_argument,
    target_option,
)
from omsgrain.cli.console import Console, TextTable
from omsgrain.cli.open import keys_option, open_store
from omsgrain.errors import KeyMissingError
from omsgrain.grain import plain
from omsgrain.json_values import time_text
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.inspect.explain import Explanation

ROW = 16  # bytes per line of the dump
VALUE_WIDTH = 72

GET = """
The fields; the exact bytes; the signed envelope:
    omsgrain get memory.omsg ADDRESS
    omsgrain get memory.omsg ADDRESS --blob -o copy.mg
    omsgrain get memory.omsg SIGNED --envelope -o copy.cose
"""
SHOW = """
What does each byte mean?
    omsgrain show memory.omsg ADDRESS --hex
Why is this file refused?
    omsgrain show grain.mg --lenient
"""


@command(
    "Print one grain of a store.",
    GET,
    exits={53: "The grain is encrypted, and no key opens it.", 61: "There is no such grain."},
)
@store_argument()
@argument("address", help=ADDRESS)
@flag("--blob", "as_blob", help="Print the exact bytes instead of JSON.")
@flag("--envelope", help="Print the stored envelope of a signed grain instead.")
@click.option("--signer", metavar="DID", help="With --envelope: the signer, if there are several.")
@target_option("Write to this new file instead of stdout.")
@keys_option
@output.json_option
def get(
    store: Where,
    address: str,
    as_blob: bool,
    envelope: bool,
    signer: str | None,
    target: Path | None,
    as_json: bool,
) -> None:
    """Print the grain at ADDRESS of STORE, as JSON or with --blob as its bytes.

    Without its key, an encrypted grain can be printed only with --blob.
    """
    from omsgrain.durable import write_new

    if as_blob + envelope + as_json > 1:
        raise click.UsageError("--blob, --envelope and --json exclude each other")
    if signer is not None and not envelope:
        raise click.UsageError("--signer needs --envelope")
    if (as_blob or envelope) and target is None and sys.stdout.isatty():
        raise click.UsageError("the output is binary; give -o FILE or redirect stdout")
    with open_store(store, readonly=True) as grains:
        if envelope:
            data = grains.trust.envelope(address, signer)
        elif as_blob:
            data = grains.get(address).blob
        else:
            grain = grains.get(address)
            if grain.sealed:
                raise KeyMissingError("the grain is encrypted; give --keys")
            fields = plain(grain.to_dict())
            whole = {"address": grain.address, "grain": fields, "warnings": list(grain.warnings)}
            text = output.dumps(whole) if as_json else output.dumps(fields, indent=2)
            data = (text + "\n").encode()
    if target is None:
        click.echo(data, nl=False)
        return
    write_new(target, data)


@command("Explain a grain byte by byte.", SHOW)
@argument(
    "source", metavar="STORE|FILE", type=StoreParam(), help="A store, or the file of a blob."
)
@argument("address", required=False, help=f"{ADDRESS} A store needs it.")
@flag("--hex", "with_hex", help="Add an annotated hex dump.")
@flag("--lenient", help="Show also a blob that strict reading refuses.")
@keys_option
@output.json_option
def show(source: Where, address: str | None, with_hex: bool, lenient: bool, as_json: bool) -> None:
    """Explain a grain byte by byte: the one at ADDRESS of STORE, or the blob in FILE."""
    from omsgrain.inspect.explain import explain

    file = source if isinstance(source, Path) and not source.is_dir() else None
    if file is not None and address is not None:
        raise click.UsageError("FILE needs no ADDRESS")
    signers: list[dict[str, Any]] = []
    if file is not None:
        from omsgrain.interchange.ingest import one_grain, read_blob

        blob = one_grain(read_blob(file))
        explanation = explain(blob, lenient=lenient)
    elif address is None:
        raise click.UsageError("STORE needs an ADDRESS")
    else:
        with open_store(source, readonly=True) as grains:
            grain = grains.get(address)
            blob, explanation = grain.blob, explain(grain)
            signers = [
                {"signer": one.signer, "iat": one.iat, "proven": one.proven}
                for one in grains.trust.signatures(address)
            ]
    if as_json:
        values = explanation.to_dict()
        if signers:
            values["signatures"] = signers
        if with_hex:
            values["blob_hex"] = blob.hex()
        output.emit(values)
        return
    console = Console()
    print_explanation(console, explanation)
    for one in signers:
        at = None if one["iat"] is None else time_text(one["iat"] * 1000)
        said = "" if at is None else f", {at} as the signer says"
        proven = "" if one["proven"] else ", not proven: the key of this DID was not found"
        console.print(output.safe(f"signed by {one['signer']}{said}{proven}"))
    if with_hex:
        console.print()
        for line in dump(explanation):
            console.print(line)


def print_explanation(console: Console, it: Explanation) -> None:
    """Print address, header, fields, warnings and the error of strict reading."""
    console.print(f"address {it.address}", style="bold")
    console.print(f"type    {it.type or 'not readable'}, {it.size} bytes")
    if it.error is not None:
        console.print(output.safe(f"refused {it.error}"), style="red")
    header = TextTable.of("byte", "hex", "header", "meaning")
    for part in it.header:
        span = (
            f"{part.offset}" if part.size == 1 else f"{part.offset}-{part.offset + part.size - 1}"
        )
        header.rows.append((span, part.hex, part.name, output.safe(part.meaning)))
    fields = TextTable.of("byte", "key", "field", "kind", "value")
    for field in it.fields:
        value = "" if field.value is None else output.dumps(field.value)
        value += f" = {field.note}" if field.note else ""
        short = value if len(value) <= VALUE_WIDTH else value[: VALUE_WIDTH - 1] + "…"
        span = f"{field.offset}-{field.end - 1}"
        key, name = output.safe(field.key), output.safe(field.name)
        fields.rows.append((span, key, name, field.kind, short))
    for table in (header, fields) if it.fields else (header,):
        console.print()
        console.table(table)
    for warning in it.warnings:
        console.print(output.safe(f"warning {warning}"), style="yellow")


def dump(it: Explanation) -> Iterator[str]:
    """Yield lines of offset, bytes and meaning; a compressed blob is decompressed first."""
    if it.size != len(it.blob):
        yield f"(decompressed: {len(it.blob)} bytes; the blob has {it.size})"
    for part in it.header:
        yield from _rows(it.blob, part.offset, part.offset + part.size, part.name)
    at = sum(part.size for part in it.header)
    for field in it.fields:
        if field.offset > at:
            yield from _rows(it.blob, at, field.offset, "the map")
        yield from _rows(it.blob, field.offset, field.value_offset, f"key {field.key!r}")
        yield from _rows(it.blob, field.value_offset, field.end, f"  {field.name}: {field.kind}")
        at = field.end
    yield from _rows(it.blob, at, len(it.blob), "not explained")


def _rows(blob: bytes, start: int, end: int, label: str) -> Iterator[str]:
    for at in range(start, end, ROW):
        row = blob[at : min(at + ROW, end)]
        text = output.safe(label) if at == start else ""
        yield f"{at:06x}  {row.hex(' '):<{ROW * 3}} {text}".rstrip()
