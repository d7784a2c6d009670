# SPDX-License-Identifier: Apache-2.0
"""``omsgrain export`` and ``omsgrain import``: between a store and files."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import click

from omsgrain.cli import formats, mif, output, tables
from omsgrain.cli.change import actor_option
from omsgrain.cli.filters import filter_options, taken
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.newpath import NewPath
from omsgrain.cli.opening import keys_option, plain_option, policy_option, trust_options
from omsgrain.cli.pipes import refuse_pipe
from omsgrain.cli.store import store_argument
from omsgrain.storage.location import Where

SHOWN = 10  # refused grains printed one by one; the rest are counted

EXPORT = """
One run of a robot, packed:
    omsgrain export memory.omsg mission.mg --run mission-7 --codec zstd
The memory of a tenant as an AIMEM bundle, signed:
    omsgrain export memory.omsg brain.aimem.json --tenant TENANT --sign signer.pem
What a person may have, as MIF 1.0, without secrets and personal data of others:
    omsgrain export memory.omsg ada.mif.yaml --user ada --redact --purpose access
For pandas, Polars, DuckDB:
    omsgrain export memory.omsg memory.parquet --columns created_at,subject,object
"""
IMPORT = """
Grains, and what became of them:
    omsgrain import copy.omsg robot.mg
The memory of another system: first what would happen, then all of it or nothing:
    omsgrain import memory.omsg notes.mif.json --user ada --dry-run
    omsgrain import memory.omsg notes.mif.json --user ada --atomic
A bundle that a key which you know has signed:
    omsgrain import memory.omsg robot-7.aimem.json --trust signer.pub --require-signature
"""


@click.command(
    "export",
    cls=Manual,
    short_help="Write grains to a .mg file, or memory to a bundle.",
    examples=EXPORT,
)
@store_argument()
@argument("file", type=NewPath(dir_okay=True), help="The new file; its name says its format.")
@filter_options
@formats.export_options
@mif.export_options
@tables.export_options
@click.option(
    "--codec",
    type=click.Choice(["none", "zstd", "lz4"]),
    default="none",
    show_default=True,
    help="How to pack the grains; the addresses stay the same.",
)
@click.option(
    "--seekable",
    is_flag=True,
    help="With --codec: pack many frames, to read one grain without unpacking all.",
)
@click.option("--sort", is_flag=True, help="Order the grains by created_at, to the second.")
@click.option("--replace", is_flag=True, help="Replace FILE if it is there.")
@click.option(
    "--purpose",
    type=click.Choice(["move", "access", "transfer", "sale"]),
    default="transfer",
    show_default=True,
    help="Why, for the rules about what may leave.",
)
@policy_option
@actor_option
@keys_option
@output.json_option
def export_mg(
    store: Where,
    file: Path,
    codec: Any,
    seekable: bool,
    sort: bool,
    replace: bool,
    purpose: Any,
    policy: str | None,
    actor: str | None,
    format: str | None,
    parquet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Write the grains of STORE that match every filter to FILE, a .mg container.

    FILE.aimem.json is an AIMEM bundle instead: the memory of one --tenant. Chunks of another
    producer keep their names, in a bundle of their own, FILE-PRODUCER.aimem.json.

    FILE.mif.json is a MIF 2.0 document: the memory of one --user. With --format mif1 it is one of
    MIF 1.0, and so are FILE.mif.yaml and FILE.mif.jsonl. FILE.jsonld is a corpus of MIF in
    JSON-LD; memories of the namespace _local are in no document unless --local is given.

    FILE.parquet is a table: a column for each field, and the blobs, so that `import` brings the
    same grains back. What is sealed shows no field unless --unsealed is given.

    All grains without a filter, in order of arrival; with filters, the oldest first. Each is
    hashed on its way, and what became of it goes along. FILE appears when it is whole and on the
    disk, or not at all. What one file cannot hold (4 GiB) becomes NAME-0001.mg and so on.
    """
    from omsgrain import ops
    from omsgrain.ops.convert import format_of_name

    bundle = {name: given.pop(name) for name in formats.EXPORT}
    own = {name: given.pop(name) for name in mif.EXPORT}
    shown = {name: given.pop(name) for name in tables.EXPORT}
    named = format or format_of_name(file) or mif.format_of_name(file)
    if parquet and format is not None:
        raise click.UsageError("--parquet and --format exclude each other")
    if parquet or (named is None and file.suffix == ".parquet"):
        formats.refuse_given(tables.TABLES, *formats.EXPORT, *own, "codec", "seekable", "sort")
        shown |= {"purpose": purpose, "policy": policy, "actor": actor, "replace": replace}
        tables.export_parquet(store, file, taken(given), as_json, **shown)
        return
    if named in ("mif1", "mif2", "mif-ld"):
        user = given.pop("user_id")
        others = [name for name in formats.EXPORT if name not in mif.SHARED]
        formats.refuse_given(mif.DOCUMENTS, *given, *others, *shown, "codec", "seekable", "sort")
        if own["document"] is not None:
            formats.refuse_given("--document", *mif.CHANGING)
        own |= {name: bundle[name] for name in mif.SHARED} | {"user": user, "format": named}
        own |= {"purpose": purpose, "policy": policy, "actor": actor, "replace": replace}
        mif.export_document(store, file, as_json, **own)
        return
    if named == "aimem":
        formats.refuse_given(formats.BUNDLES, *given, *own, *shown, "codec", "seekable", "sort")
        bundle |= {"purpose": purpose, "policy": policy, "actor": actor, "replace": replace}
        formats.export_bundle(store, file, as_json, **bundle)
        return
    formats.refuse_given(formats.CONTAINERS, *formats.EXPORT, *own, *shown)
    written = ops.export_mg(
        store,
        file,
        taken(given),
        codec=codec,
        seekable=seekable,
        sort=sort,
        replace=replace,
        purpose=purpose,
        policy=policy,
        actor=actor,
    )
    if as_json:
        output.emit(
            {
                "paths": [str(path) for path in written.paths],
                "grains": written.grains,
                "bytes": written.bytes,
                "withheld": written.withheld,
            }
        )
        return
    formats.tell_withheld(written.withheld)
    names = ", ".join(str(path) for path in written.paths)
    click.echo(output.safe(f"{written.grains} grains, {written.bytes} bytes: {names}"))


@click.command(
    "import",
    cls=Manual,
    short_help="Take a .mg file or a bundle into a store.",
    examples=IMPORT,
)
@store_argument(exists=False)
@argument(
    "file",
    type=click.Path(path_type=Path),
    help="What is taken in; of MIF in JSON-LD also a directory.",
)
@click.option(
    "--errors",
    type=click.Choice(["raise", "collect"]),
    default="raise",
    show_default=True,
    help="At a grain that cannot be stored: store none, or the others.",
)
@click.option("--allow-erased", is_flag=True, help="Take back what was erased.")
@click.option(
    "--adapt",
    is_flag=True,
    help="Of a .mg file: convert grains that another engine wrote in its own way.",
)
@click.option(
    "--format",
    type=click.Choice(["auto", "mg", "parquet", "aimem", "mif2", "mif1", "mif-ld"]),
    default="auto",
    show_default=True,
    help="What FILE is; auto looks into it.",
)
@click.option(
    "--trust-state-from",
    multiple=True,
    metavar="SOURCE",
    help="A DID, or a file of public keys: what a .mg FILE says was verified is believed if this "
    "key has signed it. Repeatable.",
)
@formats.import_options
@mif.import_options
@actor_option
@plain_option
@trust_options
@output.json_option
def import_mg(
    store: Where,
    file: Path,
    errors: Any,
    allow_erased: bool,
    adapt: bool,
    format: str,
    trust_state_from: tuple[str, ...],
    actor: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Take the grains of FILE into STORE.

    FILE is told by what is in it. An AIMEM bundle, in one document or by lines, is taken in whole,
    or refused with all that is wrong with it; chunks that are in conflict with what is there stay
    out, and are listed.

    A signature beside FILE, FILE.sig, must hold. With --trust it must be by a trusted key, with
    --require-signature there must be one. Of a .mg file in parts, each part has its own.

    A MIF document, of either version, becomes the memory of one --user, whatever it says whose it
    is; so do memories of MIF in JSON-LD, in a file or in the files of a directory. A record that
    is not good, or that the store refuses, is reported; the others are taken.

    Of a Parquet table of grains the blobs are taken, each compared with its address.

    Else FILE is a .mg container; if there is none of that name, the parts NAME-0001.mg and so on
    are taken. Every byte is verified before the first grain is stored: a damaged file stores none.
    With --adapt a grain that another engine wrote in its own way is stored as a conforming grain,
    which keeps the foreign blob.
    Grains that are there already stay as they are, so an import can be run again.

    If the import refused a grain, a record or a state, the exit code is that of the first refusal.
    """
    from omsgrain import ops
    from omsgrain.ops.bundles import is_bundle, sniffed
    from omsgrain.ops.convert import format_of_name
    from omsgrain.ops.mif import is_directory
    from omsgrain.ops.tables import import_parquet
    from omsgrain.store.parquet import is_parquet

    if given["require_signature"] and not given["trust"]:
        raise click.UsageError("--require-signature needs --trust")
    signed = {name: given.pop(name) for name in formats.SIGNED}
    if format in ("auto", "mg", "parquet"):
        refuse_pipe(file)
    if format == "auto" and is_parquet(file):
        format = "parquet"
    found = sniffed(file) if format == "auto" else None
    named = format if found is None else found.format
    if format == "auto" and is_directory(file):
        named = "mif-ld"
    called = format_of_name(file) not in (None, "mg")
    if named == "auto" and is_bundle(file, by_name=True):
        named = "aimem"
    if named == "auto" and (called or formats.is_given(*formats.IMPORT, *mif.IMPORT)):
        from omsgrain.formats.sniff import sniff_file

        sniff_file(file)  # says why it is no document
    own = {name: given.pop(name) for name in mif.IMPORT}
    if named in ("mif1", "mif2", "mif-ld") or own["passphrase_file"] is not None:
        others = [name for name in formats.IMPORT if name != "dry_run"]
        formats.refuse_given(mif.DOCUMENTS, "errors", "trust_state_from", *others)
        if named != "mif-ld":
            formats.refuse_given("a document of MIF 1.0 or 2.0", "mode")
        formats.refuse_given(mif.DOCUMENTS, "adapt")
        own |= {"allow_erased": allow_erased, "actor": actor, "format": named}
        own |= {"dry_run": given["dry_run"], **signed}
        return mif.import_document(store, file, as_json, **own)
    if named == "aimem":
        formats.refuse_given(formats.BUNDLES, "errors", "adapt", "trust_state_from", *own)
        given |= {"allow_erased": allow_erased, "actor": actor, **signed}
        return formats.import_bundle(store, file, as_json, **given)
    formats.refuse_given(
        tables.TABLES if named == "parquet" else formats.CONTAINERS, *formats.IMPORT, *own
    )
    if named == "parquet":
        formats.refuse_given(tables.TABLES, "adapt", "trust_state_from")
        take: Any = import_parquet
    else:
        take = partial(ops.import_mg, adapt=adapt, trust_state_from=trust_state_from)
    report = take(store, file, errors=errors, allow_erased=allow_erased, actor=actor, **signed)
    if as_json:
        output.emit(
            {
                "stored": report.stored,
                "duplicates": report.duplicates,
                "rejected": [{"grain": e.index, **e.error.to_dict()} for e in report.errors],
                "claims": report.claims,
                "merged": report.merged,
                "refused": [{"address": a, **e.to_dict()} for a, e in report.refused],
                "waiting": report.waiting,
                "unproven": report.unproven,
                "passed_over": report.passed_over,
            }
        )
    else:
        for item in report.errors[:SHOWN]:
            click.echo(output.safe(f"Rejected: grain {item.index}: {item.error}"), err=True)
        if len(report.errors) > SHOWN:
            click.echo(f"… and {len(report.errors) - SHOWN} more rejects", err=True)
        for address, error in report.refused[:SHOWN]:
            click.echo(output.safe(f"State refused: {address}: {error}"), err=True)
        if report.claims:
            click.echo(
                f"{report.claims} states in the manifest: {report.merged} taken over, "
                f"{len(report.refused)} refused, {report.waiting} about grains that are not here",
                err=True,
            )
        if report.passed_over:
            click.echo(f"{report.passed_over} records of a sync passed over", err=True)
        if report.unproven:
            click.echo(f"{report.unproven} signatures that nobody here can verify", err=True)
        click.echo(
            f"{report.stored} stored, {report.duplicates} duplicates, "
            f"{len(report.errors)} rejected"
        )
    refused = [one.error for one in report.errors[:1]] or [error for _, error in report.refused]
    return refused[0].exit_code if refused else 0
