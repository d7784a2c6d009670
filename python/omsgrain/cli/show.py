# SPDX-License-Identifier: Apache-2.0
"""``omsgrain get`` and ``omsgrain show``: one grain, as fields, bytes, or both explained."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omsgrain.cli import output

if TYPE_CHECKING:
    from rich.console import Console

    from omsgrain.ops import Explanation

ROW = 16  # bytes on a line of the dump
VALUE_WIDTH = 72


@click.command(short_help="Print one grain of a store.")
@click.argument("store", type=click.Path(exists=True, path_type=Path))
@click.argument("address")
@click.option("--blob", "as_blob", is_flag=True, help="The exact bytes instead of JSON.")
@click.option(
    "-o", "--output", "target", type=click.Path(dir_okay=False, path_type=Path),
    help="Write to this new file instead of stdout.",
)  # fmt: skip
@output.json_option
def get(store: Path, address: str, as_blob: bool, target: Path | None, as_json: bool) -> None:
    """Print the grain at ADDRESS of STORE, as JSON or with --blob as its bytes."""
    from omsgrain import ops

    if as_blob and as_json:
        raise click.UsageError("--blob and --json exclude each other")
    if as_blob and target is None and sys.stdout.isatty():
        raise click.UsageError("a blob is binary; give -o FILE or redirect stdout")
    grain = ops.get(store, address)
    if as_blob:
        data = grain.blob
    else:
        fields = ops.plain(grain.to_dict())
        whole = {"address": grain.address, "grain": fields, "warnings": list(grain.warnings)}
        text = output.dumps(whole) if as_json else output.dumps(fields, indent=2)
        data = (text + "\n").encode()
    if target is None:
        click.echo(data, nl=False)
        return
    with target.open("xb") as file:  # never over a file that is there
        file.write(data)


@click.command(short_help="Explain a grain byte by byte.")
@click.argument("source", metavar="STORE|FILE", type=click.Path(exists=True, path_type=Path))
@click.argument("address", required=False)
@click.option("--hex", "with_hex", is_flag=True, help="Add an annotated hex dump.")
@click.option("--lenient", is_flag=True, help="Also show a blob that strict reading refuses.")
@output.json_option
def show(source: Path, address: str | None, with_hex: bool, lenient: bool, as_json: bool) -> None:
    """Explain a grain byte by byte: the one at ADDRESS of STORE, or the blob in FILE."""
    from omsgrain import ops

    if source.is_dir() and address is None:
        raise click.UsageError("a store needs an ADDRESS")
    if not source.is_dir() and address is not None:
        raise click.UsageError("a FILE takes no ADDRESS")
    blob = ops.read_blob(source) if address is None else ops.get(source, address).blob
    explanation = ops.explain(blob, lenient=lenient)
    if as_json:
        values = explanation.to_dict()
        if with_hex:
            values["blob_hex"] = blob.hex()
        output.emit(values)
        return
    console = output.console()
    print_explanation(console, explanation)
    if with_hex:
        console.print()
        for line in dump(explanation):
            console.print(line, soft_wrap=True)


def print_explanation(console: Console, it: Explanation) -> None:
    """Print address, header, fields, warnings and what strict reading says."""
    from rich.table import Table

    console.print("address", it.address, style="bold", soft_wrap=True)
    console.print(f"type    {it.type or 'not readable'}, {it.size} bytes")
    if it.error is not None:
        console.print(output.safe(f"refused {it.error}"), style="red", soft_wrap=True)
    header = Table("byte", "hex", "header", "meaning", box=None, pad_edge=False)
    for part in it.header:
        span = (
            f"{part.offset}" if part.size == 1 else f"{part.offset}-{part.offset + part.size - 1}"
        )
        header.add_row(span, part.hex, part.name, output.safe(part.meaning))
    fields = Table("byte", "key", "field", "kind", "value", box=None, pad_edge=False)
    for field in it.fields:
        value = "" if field.value is None else output.dumps(field.value)
        value += f" = {field.note}" if field.note else ""
        short = value if len(value) <= VALUE_WIDTH else value[: VALUE_WIDTH - 1] + "…"
        fields.add_row(
            f"{field.offset}-{field.end - 1}", output.safe(field.key), output.safe(field.name),
            field.kind, short,
        )  # fmt: skip
    for table in (header, fields) if it.fields else (header,):
        console.print()
        console.print(table)
    for warning in it.warnings:
        console.print(output.safe(f"warning {warning}"), style="yellow", soft_wrap=True)


def dump(it: Explanation) -> Iterator[str]:
    """Lines of offset, bytes and what they are; of a compressed blob, unpacked."""
    if it.size != len(it.blob):
        yield f"(unpacked: {it.size} bytes are {len(it.blob)} without compression)"
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
