# SPDX-License-Identifier: Apache-2.0
"""``omsgrain import``: import a .mg file, a table or a document into a store."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    BUNDLES,
    CONTAINERS,
    DOCUMENTS,
    EXISTING,
    TABLES,
    argument,
    command,
    flag,
    is_given,
    mode_option,
    options,
    refuse_given,
    refuse_pipe,
    store_argument,
    trust_option,
)
from omsgrain.cli.open import (
    actor_option,
    open_store,
    passphrase,
    plain_option,
    resolver_in_use,
    trust_options,
)
from omsgrain.cli.output import SHOWN
from omsgrain.errors import FormatError
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.problems import DocumentError
from omsgrain.formats.source import FOREIGN, NAMES
from omsgrain.formats.table import DOCUMENTS as OF_RECORDS
from omsgrain.formats.table import FORMATS, sniff_directory, sniff_file, sniffed
from omsgrain.storage.location import Where, location_of

if TYPE_CHECKING:
    from omsgrain.interchange.outcome import MifReport
    from omsgrain.interchange.parse import Trusted
    from omsgrain.store import GrainStore
    from omsgrain.store.mg_files import ImportReport

EXAMPLES = """
Grains, with their states:
    omsgrain import copy.omsg robot.mg
The memory of another system: a dry run, then all of it or nothing:
    omsgrain import memory.omsg notes.mif.json --user ada --dry-run
    omsgrain import memory.omsg notes.mif.json --user ada --atomic
A bundle that a trusted key has signed:
    omsgrain import memory.omsg robot-7.aimem.json --trust signer.pub --require-signature
"""
_STRATEGIES = ("skip_duplicates", "overwrite", "rename")
_BUNDLE = ("tenant", "allow_dna_updates", "dry_run")
"""The options that only bundles have, and documents of MIF ``dry_run``."""
_DOCUMENT = ("merge_strategy", "atomic", "keep_document", "passphrase_file", "user", "mode")
_HEAD = 4 << 10  # bytes that tell text from grains
_KNOWN = "a .mg file (JSON lines and tables of your own go in with ingest)"
"""The options that only documents of MIF have."""


_bundle_options = options(
    flag("--dry-run", help="Change nothing; report what would change."),
    flag("--require-signature", help="Refuse a file without the signature of a trusted key."),
    trust_option,
    flag("--allow-dna-updates",
         help="Let newer chunks replace DNA-class ones: preferences, decisions and "
              "the like."),
    click.option("--tenant", metavar="ID",
                 help="The tenant who gets the memory; by default that of the bundle."),
)  # fmt: skip
_document_options = options(
    click.option("--passphrase-file", type=EXISTING,
                 help="Decrypt the document (MIF 1.0) with the first line of this file."),
    click.option("--keep/--no-keep", "keep_document", default=True,
                 help="Keep what stood around the records, so that the document can be "
                 "exported again."),
    flag("--atomic", help="Import all records, or none."),
    click.option("--merge-strategy", type=click.Choice(_STRATEGIES),
                 default=_STRATEGIES[0],
                 help="What to do with a record whose id or text is already stored."),
    click.option("--user", metavar="ID",
                 help="The user who gets the memory of a MIF document."),
    mode_option,
)  # fmt: skip


@command("Import a .mg file, a table or a document.", EXAMPLES, name="import")
@store_argument(exists=False)
@argument(
    "file",
    type=click.Path(path_type=Path),
    help="The file to import; for memories in Markdown also a directory.",
)
@click.option(
    "--errors",
    type=click.Choice(["raise", "collect"]),
    default="raise",
    help="If a grain cannot be stored: store none, or the others.",
)
@flag("--allow-erased", help="Import also what was erased.")
@flag("--adapt", help="For a .mg file: convert grains in the dialect of another engine.")
@click.option(
    "--format",
    type=click.Choice(["auto", "mg", "mcap", "parquet", *NAMES, *FOREIGN]),
    default="auto",
    help="The format of FILE; auto looks into it.",
)
@click.option(
    "--trust-state-from",
    multiple=True,
    metavar="SOURCE",
    help="A DID, or a file of public keys: accept the verification statuses of a .mg FILE that "
    "this key has signed. Repeatable.",
)
@_bundle_options
@_document_options
@actor_option
@plain_option
@trust_options
@output.json_option
def import_(
    store: Where,
    file: Path,
    errors: Any,
    allow_erased: bool,
    adapt: bool,
    format: str,
    trust_state_from: tuple[str, ...],
    trust: tuple[str, ...],
    require_signature: bool,
    actor: str | None,
    as_json: bool,
    **given: Any,
) -> int:
    """Import the grains of FILE into STORE.

    The content of FILE says its format. An AIMEM bundle, as one document or as lines, is imported
    as a whole, or refused with all its defects. Chunks in conflict with stored ones are left out
    and listed.

    A signature beside FILE, FILE.sig, must be valid. With --trust it must be by a trusted key, and
    with --require-signature it must exist. Each part of a .mg file in parts has its own.

    A MIF document of either version becomes the memory of one --user, whatever owner it names; so
    do memories of MIF in JSON-LD, in a file or in the files of a directory. Invalid records and
    those that the store refuses are reported; the others are imported.

    So does the memory of another system: memory.jsonl of MCP's memory server, an export of mem0,
    or an agent file of Letta. FILE can also be a memory directory of Claude, a directory of the
    Open Knowledge Format, or the SQLite file of LangGraph's store. The report names every value
    that a store has no place for.

    From a Parquet table the blobs are imported, each compared with its address.

    From an MCAP file that `export` wrote the attached grains are imported as they are.

    From a bundle of areev or dejadb the grains are imported as they are.

    Any other FILE is a .mg container; if it does not exist, its parts NAME-0001.mg and so on are
    imported. Every byte is verified before the first grain is stored. With --adapt, a grain in the
    dialect of another engine is stored as a conforming grain, which keeps the foreign blob.
    Grains that are already stored are not changed, so an import can be repeated.

    If the import refused a grain, a record or a state, the exit code is that of the first refusal.
    """
    from omsgrain.interchange.parse import Trusted

    if require_signature and not trust:
        raise click.UsageError("--require-signature needs --trust")
    if format in ("auto", "mg", "mcap", "parquet"):
        refuse_pipe(file)
    named = _format_of(file) if format == "auto" else format
    trusted = Trusted(trust, resolver_in_use(), require_signature)
    document = {name: given.pop(name) for name in _DOCUMENT}
    if named in OF_RECORDS or document["passphrase_file"] is not None:
        others = [name for name in _BUNDLE if name != "dry_run"]
        refuse_given(DOCUMENTS, "errors", "trust_state_from", *others)
        if named not in OF_RECORDS or "mode" not in OF_RECORDS[named].load_options:
            refuse_given("a document of MIF 1.0 or 2.0", "mode")
        refuse_given(DOCUMENTS, "adapt")
        document |= {"format": named, "dry_run": given["dry_run"], "allow_erased": allow_erased}
        return _import_document(store, file, trusted, actor, as_json, **document)
    if named in FORMATS and FORMATS[named].holds_grains:
        from omsgrain.interchange.grain_bundle import import_grains, read_bundle

        refuse_given(CONTAINERS, *_BUNDLE, *document)
        refuse_given(FORMATS[named].title, "adapt", "trust_state_from")
        trusted.look(file)
        bundle = read_bundle(file)
        with _target(store, actor) as grains:
            report = import_grains(grains, bundle, errors=errors, allow_erased=allow_erased)
        if not as_json:
            output.warn([one.to_dict() for one in bundle.dropped])
        _tell_grains(report, as_json)
        return _exit_code(report)
    if named in FORMATS:
        refuse_given(BUNDLES, "errors", "adapt", "trust_state_from", *document)
        given |= {"allow_erased": allow_erased}
        return _import_bundle(store, file, trusted, actor, as_json, **given)
    refuse_given(TABLES if named == "parquet" else CONTAINERS, *_BUNDLE, *document)
    how = {"errors": errors, "allow_erased": allow_erased}
    if named == "mcap":
        from omsgrain.interchange.mcap_grains import import_mcap

        refuse_given("an MCAP file", "adapt", "trust_state_from")
        trusted.look(file)
        with _target(store, actor) as grains:
            report = import_mcap(grains, file, **how)
    elif named == "parquet":
        from omsgrain.store import parquet

        refuse_given(TABLES, "adapt", "trust_state_from")
        next(parquet.read_file(file), None)  # it is a table of grains
        trusted.look(file)
        with _target(store, actor) as grains:
            report = grains.parquet.read(file, **how)
    else:
        from omsgrain import container

        for part in container.parts(file):
            container.read(part).close()
            trusted.look(part)
        how |= {"adapt": adapt, "trust_state_from": trust_state_from}
        with _target(store, actor) as grains:
            report = grains.import_mg(file, **how)
    _tell_grains(report, as_json)
    return _exit_code(report)


def _exit_code(report: ImportReport) -> int:
    refused = [one.error for one in report.errors[:1]] or [error for _, error in report.refused]
    return refused[0].exit_code if refused else 0


def _format_of(file: Path) -> str:
    """What FILE is, by its content; a .mg file if nothing says that it is a document."""
    from omsgrain.formats.bag.mcap import is_mcap
    from omsgrain.interchange.convert import format_of_name
    from omsgrain.interchange.ingest import refuse_text
    from omsgrain.store.parquet import is_parquet

    if file.is_dir() and not location_of(file).exists():
        return sniff_directory(file)
    found = sniffed(file)
    if found is not None:
        return found
    if is_parquet(file):
        return "parquet"
    if is_mcap(file):
        return "mcap"
    if file.name.endswith(AIMEM.suffixes):
        return AIMEM.name
    if format_of_name(file) not in (None, "mg") or is_given(*_BUNDLE, *_DOCUMENT):
        sniff_file(file)  # says why it is no document
    if not file.name.endswith(".mg") and file.is_file():
        with file.open("rb") as stream:
            refuse_text(stream.read(_HEAD), _KNOWN)
    return "mg"


@contextmanager
def _target(store: Where, actor: str | None, *, dry_run: bool = False) -> Iterator[GrainStore]:
    """The store, which is made if it is not there; in a dry run an empty one for the moment."""
    with ExitStack() as stack:
        if dry_run and not location_of(store).exists():
            store = Path(stack.enter_context(TemporaryDirectory(prefix="omsgrain-")))
        yield stack.enter_context(open_store(store, actor=actor))


def _tell_grains(report: ImportReport, as_json: bool) -> None:
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
        return
    for item in report.errors[:SHOWN]:
        click.echo(output.safe(f"Rejected: grain {item.index}: {item.error}"), err=True)
    output.more(len(report.errors) - SHOWN, "rejects")
    for address, error in report.refused[:SHOWN]:
        click.echo(output.safe(f"State refused: {address}: {error}"), err=True)
    if report.claims:
        click.echo(
            f"{report.claims} states in the manifest: {report.merged} merged, "
            f"{len(report.refused)} refused, {report.waiting} about grains that are not stored",
            err=True,
        )
    if report.passed_over:
        click.echo(f"{report.passed_over} sync records skipped", err=True)
    if report.unproven:
        click.echo(f"{report.unproven} signatures cannot be verified: unknown keys", err=True)
    click.echo(
        f"{report.stored} stored, {report.duplicates} duplicates, {len(report.errors)} rejected"
    )


def _import_bundle(
    store: Where, file: Path, trusted: Trusted, actor: str | None, as_json: bool, **given: Any
) -> int:
    from omsgrain.interchange.aimem_import import import_bundle
    from omsgrain.interchange.parse import open_bundle

    new, dry_run = not location_of(store).exists(), given["dry_run"]
    try:
        with (
            open_bundle(file, trusted, scan=new) as (bundle, checked),
            _target(store, actor, dry_run=dry_run) as grains,
        ):
            summary = import_bundle(grains, bundle, signature=checked, **given)
    except DocumentError as error:
        if not as_json:
            _tell_problems(error)
        raise
    told = summary.to_dict()
    first = summary.conflicts[0] if summary.conflicts else None
    code = 0 if first is None else output.exit_of(first.code, first.decision.reason)
    if as_json:
        output.emit(told)
        return code
    conflicts = told["conflicts"]
    for one in conflicts[:SHOWN]:
        click.echo(output.safe(f"conflict: {one['id']}: {one['reason']}"), err=True)
    if len(conflicts) > SHOWN:
        reasons = Counter(one["reason"] for one in conflicts)
        counts = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
        click.echo(f"conflicts: {counts}", err=True)
    output.warn(told["warnings"])
    click.echo(
        f"{told['chunks_inserted']} chunks inserted, {told['chunks_updated']} updated, "
        f"{told['chunks_skipped_idempotent']} unchanged; {told['edges_inserted']} edges, "
        f"{told['entities_inserted']} entities, {told['chunk_entities_inserted']} links; "
        f"{summary.total_conflicts} in conflict" + (" (nothing was stored)" if dry_run else "")
    )
    return code


def _tell_problems(error: DocumentError) -> None:
    """Print all problems but the first, which is the error itself."""
    for one in error.problems[1:SHOWN]:
        where = f" (at {one.pointer})" if one.pointer else ""
        click.echo(output.safe(f"{one.rule}: {one.message}{where}"), err=True)
    output.more(error.total - SHOWN, "problems")


def _import_document(
    store: Where,
    file: Path,
    trusted: Trusted,
    actor: str | None,
    as_json: bool,
    *,
    user: str | None,
    format: str,
    mode: str | None,
    passphrase_file: Path | None,
    **given: Any,
) -> int:
    from omsgrain.interchange.mif_import import import_document
    from omsgrain.interchange.parse import read_document

    secret = passphrase(passphrase_file)
    known: dict[str, Any] = {"format": format if secret is None else "mif1"}
    known |= {} if secret is None else {"passphrase": secret}
    known |= {} if mode is None else {"mode": mode}
    came = read_document(file, user, trusted, **known)
    with _target(store, actor, dry_run=given["dry_run"]) as grains:
        report = import_document(grains, came, **given)
    if as_json:
        output.emit(report.to_dict())
    else:
        _tell_records(report)
    if report.failed:
        return FormatError.exit_code
    return output.exit_of(report.errors[0].code, report.errors[0].reason) if report.errors else 0


def _tell_records(report: MifReport) -> None:
    told = report.to_dict()
    for one in told["errors"][:SHOWN]:
        where, why = one["pointer"] or f"line {one.get('line', '?')}", one["message"]
        code = one.get("rule") or one.get("code")
        rule = "" if code is None else f"; {code}"
        click.echo(output.safe(f"{one['fate']}: {where}: {why}{rule}"), err=True)
    if len(told["errors"]) > SHOWN:
        output.more(len(told["errors"]) - SHOWN, "errors")
    warnings = Counter((one["rule"], one["message"]) for one in told["warnings"])
    first = {one["rule"]: one["pointer"] for one in reversed(told["warnings"])}
    for (rule, message), number in warnings.most_common(SHOWN):
        times = "" if number == 1 else f", {number} times"
        where = first[rule] and f" (at {first[rule]})"
        click.echo(output.safe(f"warning: {rule}{times}: {message}{where}"), err=True)
    counts: Counter[str] = Counter(one.fate for one in report.records)
    names = (
        "imported", "updated", "older", "renamed", "unchanged", "duplicate", "refused", "erased",
    )  # fmt: skip
    line = ", ".join(f"{counts[name]} {name}" for name in names)
    click.echo(line + ("" if report.stored else " (nothing was stored)"))
