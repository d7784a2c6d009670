# SPDX-License-Identifier: Apache-2.0
"""``omsgrain export``: write grains to a .mg file or a table, or memory to a document."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    BUNDLES,
    CONTAINERS,
    DOCUMENTS,
    EXISTING,
    TABLES,
    NewPath,
    argument,
    command,
    flag,
    options,
    refuse_given,
    shape_option,
    store_argument,
)
from omsgrain.cli.console import progress
from omsgrain.cli.filters import filter_options, taken
from omsgrain.cli.open import actor_option, keys_option, open_to_read, passphrase, policy_option
from omsgrain.durable import refuse_existing
from omsgrain.formats.source import NAMES
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.interchange.export import ExportReport

EXAMPLES = """
One run of a robot, compressed:
    omsgrain export memory.omsg mission.mg --run mission-7 --codec zstd
The memory of a tenant as an AIMEM bundle, signed:
    omsgrain export memory.omsg brain.aimem.json --tenant TENANT --sign signer.pem
A user's memory as MIF 1.0, without secrets and personal data of others:
    omsgrain export memory.omsg ada.mif.yaml --user ada --redact --purpose access
Beside a robot's recording, for a viewer:
    omsgrain export memory.omsg believed.mcap --merge drive.mcap
For pandas, Polars, DuckDB:
    omsgrain export memory.omsg memory.parquet --columns created_at,subject,object
"""

_CONTAINER = ("codec", "seekable", "sort")
_BUNDLE = (
    "tenant", "tenant_id", "lines", "scope", "since", "producer", "include_embeddings",
    "embedding_model", "key", "key_url", "strict",
)  # fmt: skip
"""The options for AIMEM bundles only, and those shared by all documents (``_SHARED``)."""
_SHARED = ("since", "include_embeddings", "strict")
_DOCUMENT = (
    "layout", "include_graph", "redact_pii", "scan", "document", "passphrase_file", "local",
    "shape",
)  # fmt: skip
"""The options for MIF documents only."""
_CHANGING = (*_SHARED, "layout", "include_graph", "redact_pii", "scan", "shape")
"""The options that a document written as it was imported does not need."""
_TEXTS = (".json", ".jsonl", ".ndjson", ".csv", ".tsv", ".yaml", ".yml")
_RECORDING = ("merge", "ros2")
"""The options for MCAP files only."""
_TABLE = ("columns", "unsealed")
"""The options for tables only."""


_bundle_options = options(
    flag("--strict", help="Write no member that the format does not define."),
    click.option("--key-url", metavar="URL",
                 help="The URL where the key is published; with --sign."),
    click.option("--sign", "key", type=click.Path(dir_okay=False, path_type=Path),
                 help="Sign with the private key in this file; writes FILE.sig too."),
    click.option("--model", "embedding_model", metavar="NAME",
                 help="The embedding model, if there are several."),
    flag("--embeddings", "include_embeddings",
         help="Include embeddings, from which content can be guessed."),
    click.option("--producer", metavar="NAME", default="omsgrain",
                 help="The namespace of records that were never AIMEM."),
    click.option("--since", metavar="TIME",
                 help="Only records since this time: 2026-01-15T10:00:00Z, or an age such as 7d."),
    click.option("--scope", type=click.Choice(["FULL", "DNA_ONLY", "SINCE"]),
                 help="Which chunks: all, DNA-class ones only, or those --since a time."),
    flag("--stream", "lines", help="Write lines, for memories of any size, as for FILE.ndjson."),
    click.option("--tenant-id", metavar="ID",
                 help="The tenant id in the bundle: a UUID or a URI, if ID is neither."),
    click.option("--tenant", metavar="ID", help="The tenant: the user_id of the grains."),
    click.option("--format", type=click.Choice(("mg", "mcap", *NAMES)),
                 help="The format; by default from the name of FILE."),
)  # fmt: skip
_document_options = options(
    click.option("--passphrase-file", type=EXISTING,
                 help="Encrypt the document (MIF 1.0) with the first line of this file."),
    shape_option,
    flag("--local", help="Include memories of the namespace _local."),
    click.option("--document", metavar="ID",
                 help="Write this document as it was imported."),
    flag("--redact", "redact_pii", help="Remove secrets and personal data."),
    click.option("--scan/--no-scan", default=True,
                 help="Warn of secrets and personal data in the document."),
    click.option("--graph/--no-graph", "include_graph", default=True,
                 help="Include entities and relationships."),
    click.option("--layout", type=click.Choice(["json", "yaml", "jsonl"]),
                 help="The layout of MIF 1.0; by default from the name of FILE."),
)  # fmt: skip
_table_options = options(
    flag("--unsealed", help="Decrypt the fields of encrypted grains, where the keys open them."),
    click.option("--columns", metavar="NAME,NAME",
                 help="Only these columns; without address and blob the file cannot be "
                 "imported."),
    flag("--parquet", help="Write a Parquet table, as for FILE.parquet."),
)  # fmt: skip


_recording_options = options(
    flag("--ros2", help="MCAP: write the messages as texts that tools of ROS 2 read."),
    click.option("--merge", metavar="BAG",
                 type=click.Path(exists=True, path_type=Path),
                 help="MCAP: write all that this recording has into FILE too."),
)  # fmt: skip


@command("Write grains to a .mg file, or memory to a document.", EXAMPLES, name="export")
@store_argument()
@argument("file", type=NewPath(dir_okay=True), help="The new file; its name gives the format.")
@filter_options
@_bundle_options
@_document_options
@_table_options
@_recording_options
@click.option(
    "--codec",
    type=click.Choice(["none", "zstd", "lz4"]),
    default="none",
    help="How to compress the grains; the addresses stay the same.",
)
@flag(
    "--seekable",
    help="With --codec: compress in many frames, so that one grain can be read alone.",
)
@flag("--sort", help="Order the grains by created_at, to the second.")
@flag("--replace", help="Replace FILE if it exists.")
@click.option(
    "--purpose",
    type=click.Choice(["move", "access", "transfer", "sale"]),
    default="transfer",
    help="The purpose of the export, for the rules.",
)
@policy_option
@actor_option
@keys_option
@output.json_option
def export(
    store: Where,
    file: Path,
    policy: str | None,
    actor: str | None,
    format: str | None,
    parquet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Write the grains of STORE that match every filter to FILE, a .mg container.

    FILE.aimem.json is an AIMEM bundle: the memory of one --tenant. Chunks of another producer keep
    their names, in a bundle of their own, FILE-PRODUCER.aimem.json.

    FILE.mif.json is a MIF 2.0 document: the memory of one --user. With --format mif1 it is a MIF
    1.0 document, and so are FILE.mif.yaml and FILE.mif.jsonl. FILE.jsonld is a corpus of MIF in
    JSON-LD. Documents leave out memories of the namespace _local unless --local is given.

    FILE.mcap has a message for each grain, for viewers of robots' recordings, and the grains
    themselves as an attachment, which `import` takes.

    FILE.parquet is a table: a column for each field, and the blobs, so that `import` can restore
    the grains. Encrypted grains show no fields unless --unsealed is given.

    Without a filter, all grains are written in order of arrival; with filters, the oldest first.
    Each grain is hashed again, and its state is exported with it. FILE appears when it is whole
    and on the disk, or not at all. More than 4 GiB becomes NAME-0001.mg and so on.
    """
    from omsgrain.formats.table import FORMATS, VERSIONS
    from omsgrain.interchange.convert import format_of_name
    from omsgrain.interchange.mif_export import layout_of_name

    bundle = {name: given.pop(name) for name in _BUNDLE}
    document = {name: given.pop(name) for name in _DOCUMENT}
    table = {name: given.pop(name) for name in _TABLE}
    packed = {name: given.pop(name) for name in _CONTAINER}
    recording = {name: given.pop(name) for name in _RECORDING}
    common = {name: given.pop(name) for name in ("purpose", "replace")}
    opened = {"policy": policy, "actor": actor}
    named = format or format_of_name(file)
    if named is None and layout_of_name(file) is not None:
        named = "mif1"
    if parquet and format is not None:
        raise click.UsageError("--parquet and --format exclude each other")
    if named == "mcap" or (named is None and not parquet and file.suffix == ".mcap"):
        refuse_given("an MCAP file", *_BUNDLE, *_DOCUMENT, *_CONTAINER, *_TABLE)
        filters = taken(given)
        refuse_existing(file, common.pop("replace"))
        _recording(store, file, as_json, opened, **recording, **common, **filters)
        return
    refuse_given("a file that is not MCAP", *_RECORDING)
    if parquet or (named is None and file.suffix == ".parquet"):
        refuse_given(TABLES, *_BUNDLE, *_DOCUMENT, *_CONTAINER)
        columns = table.pop("columns")
        names = None if columns is None else [name.strip() for name in columns.split(",")]
        filters = taken(given)
        refuse_existing(file, common.pop("replace"))
        with open_to_read(store, **opened) as grains:
            written = grains.parquet.write(file, columns=names, **table, **common, **filters)
        _tell_grains([str(written.path)], written, as_json)
    elif named in VERSIONS:
        user = given.pop("user_id")
        others = [name for name in _BUNDLE if name not in _SHARED]
        refuse_given(DOCUMENTS, *given, *others, *_TABLE, *_CONTAINER)
        if document["document"] is not None:
            refuse_given("--document", *_CHANGING)
        document |= {name: bundle[name] for name in _SHARED} | {"format": named}
        _document(store, file, user, as_json, opened, **document, **common)
    elif named in FORMATS:
        refuse_given(BUNDLES, *given, *_DOCUMENT, *_TABLE, *_CONTAINER)
        _bundle(store, file, as_json, opened, **bundle, **common)
    else:
        if named is None and file.suffix in _TEXTS:
            text = "it would be a .mg file: name it so, or FILE.parquet, or give its --format"
            raise click.UsageError(f"{output.safe(file.name)!r} is the name of a text; {text}")
        refuse_given(CONTAINERS, *_BUNDLE, *_DOCUMENT, *_TABLE)
        filters = taken(given)
        refuse_existing(file, common.pop("replace"))
        with open_to_read(store, **opened) as grains:
            packs = grains.export_mg(file, **packed, **common, **filters)
        _tell_grains([str(path) for path in packs.paths], packs, as_json)


def _recording(
    store: Where, file: Path, as_json: bool, opened: dict[str, Any], **given: Any
) -> None:
    from omsgrain.interchange.mcap_export import export_mcap

    with open_to_read(store, **opened) as grains:
        written = export_mcap(grains, file, **given)
    if as_json:
        output.emit({**asdict(written), "path": str(written.path)})
        return
    output.print_withheld(written.withheld)
    said = (
        f"{output.plural(written.grains, 'grain')}, {output.plural(written.messages, 'message')}"
    )
    if written.encrypted:
        said += f" ({written.encrypted} encrypted, only attached)"
    if written.merged:
        said += f", {output.plural(written.merged, 'message')} of the recording"
    click.echo(output.safe(f"{said}, {output.plural(written.bytes, 'byte')}: {written.path}"))


def _tell_grains(paths: list[str], written: Any, as_json: bool) -> None:
    """Print the files, the numbers of grains and bytes, and what was withheld."""
    if not as_json:
        output.print_withheld(written.withheld)
    grains, size = output.plural(written.grains, "grain"), output.plural(written.bytes, "byte")
    output.done(
        as_json,
        f"{grains}, {size}: {', '.join(paths)}",
        paths=paths,
        grains=written.grains,
        bytes=written.bytes,
        withheld=written.withheld,
    )


def _bundle(store: Where, file: Path, as_json: bool, opened: dict[str, Any], **given: Any) -> None:
    """Write a tenant's memory as AIMEM bundles, and print their file names."""
    from omsgrain.crypto.signers import load_signer
    from omsgrain.formats.aimem.fields import ARRAYS
    from omsgrain.interchange.aimem_export import export_aimem

    key = given.pop("key")
    if given["tenant"] is None:
        raise click.UsageError("a bundle needs --tenant")
    if given["key_url"] is not None and key is None:
        raise click.UsageError("--key-url needs --sign")
    if given["embedding_model"] is not None and not given["include_embeddings"]:
        raise click.UsageError("--model needs --embeddings")
    given["lines"] = given["lines"] or file.name.endswith(".ndjson")
    given["scope"] = given["scope"] or ("FULL" if given["since"] is None else "SINCE")
    given["signer"] = None if key is None else load_signer(key)
    with progress(None, "records", as_json), open_to_read(store, **opened) as grains:
        written, report = export_aimem(grains, file, **given)
    if as_json:
        lost = [asdict(one) for one in report.losses]
        files = [
            {"path": str(one.path), "producer": one.producer, "bytes": one.bytes,
             "signed": one.signed_by}
            for one in written
        ]  # fmt: skip
        told = {"files": files, "records": report.counts, "losses": lost, "lost": report.lost}
        added = [asdict(one) for one in report.added]
        output.emit(told | {"added": added, "withheld": report.withheld})
        return
    _print_left(report)
    counts = output.counted({name: report.counts.get(kind, 0) for name, kind in ARRAYS.items()})
    for one in written:
        of = f": {counts}" if len(written) == 1 else ""
        by = "" if one.signed_by is None else f"; signed by {one.signed_by}"
        click.echo(output.safe(f"{one.path}{of}{by}"))
    if len(written) > 1:
        click.echo(counts)


def _document(
    store: Where,
    file: Path,
    user: str | None,
    as_json: bool,
    opened: dict[str, Any],
    *,
    passphrase_file: Path | None,
    **given: Any,
) -> None:
    from omsgrain.formats.mif import PLURALS
    from omsgrain.interchange.mif_export import export_mif

    if user is None:
        raise click.UsageError("a MIF document needs --user")
    given["passphrase"] = passphrase(passphrase_file)
    with progress(None, "records", as_json), open_to_read(store, **opened) as grains:
        written, report = export_mif(grains, file, user_id=user, **given)
    if as_json:
        output.emit({"path": str(written.path), "bytes": written.bytes, **report.to_dict()})
        return
    _print_left(report)
    counts = {PLURALS.get(kind, kind): number for kind, number in report.counts.items()}
    said = ", ".join(f"{number} {name}" for name, number in counts.items())
    click.echo(output.safe(f"{written.path}: {said or output.plural(written.bytes, 'byte')}"))


def _print_left(report: ExportReport) -> None:
    """Print what an export lost, added and withheld, and its warnings."""
    output.print_losses(report.losses, report.lost, report.added)
    output.print_withheld(report.withheld)
    output.warn([one.to_dict() for one in report.warnings])
