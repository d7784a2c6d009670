# SPDX-License-Identifier: Apache-2.0
"""Bundles on the command line: for ``import``, ``export``, ``verify``; and ``convert``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from omsgrain.cli import output
from omsgrain.cli.manual import Manual, argument
from omsgrain.cli.mif import mode_option, passphrase, shape_option
from omsgrain.cli.newpath import NewPath
from omsgrain.cli.opening import trust_options
from omsgrain.formats.problems import DocumentError
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.formats.document import Loss
    from omsgrain.ops.bundles import DocumentFindings

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = 10  # conflicts, warnings and losses printed one by one; the rest are counted

CONVERT = """
MIF to AIMEM and back; what AIMEM cannot hold goes along, so nothing is lost:
    omsgrain convert notes.mif.json notes.aimem.json --user ada
    omsgrain convert notes.aimem.json again.mif.json
For a reader that takes no member but those of its format; what it costs is told:
    omsgrain convert notes.mif.json plain.aimem.json --user ada --strict
A directory of notes in Markdown, as one file:
    omsgrain convert notes/ notes.mg
"""

_FORMATS = ("mg", "aimem", "mif2", "mif1", "mif-ld")


def trust_option(command: F) -> F:
    """``--trust``, of all commands that check signatures."""
    return click.option(
        "--trust",
        multiple=True,
        metavar="KEY",
        help="Whose signatures count: a file with a public key, or a DID. Repeatable.",
    )(command)


def passphrase_option(command: F) -> F:
    """``--passphrase-file``, of what reads documents that may be encrypted."""
    return click.option(
        "--passphrase-file",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="What opens an encrypted document of MIF 1.0: the first line of this file.",
    )(command)


BUNDLES = "an AIMEM bundle"
CONTAINERS = "a .mg file"
IMPORT = ("tenant", "allow_dna_updates", "dry_run")
SIGNED = ("trust", "require_signature")
"""The options of every import that are about the signature in FILE.sig."""
EXPORT = (
    "tenant", "tenant_id", "lines", "scope", "since", "producer", "include_embeddings",
    "embedding_model", "key", "key_url", "strict",
)  # fmt: skip
"""The options that only bundles have."""


def import_options(command: F) -> F:
    """What only the import of a bundle is told."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Change nothing; say what would be done."),
        click.option("--require-signature", is_flag=True,
                     help="Refuse a file that nobody whom you --trust has signed."),
        trust_option,
        click.option("--allow-dna-updates", is_flag=True,
                     help="Let newer chunks replace preferences, decisions and the like."),
        click.option("--tenant", metavar="ID", help="Whose memory it becomes, if another's."),
    ):  # fmt: skip
        command = option(command)
    return command


def export_options(command: F) -> F:
    """What only the export of a bundle is told."""
    for option in (
        click.option("--strict", is_flag=True, help="No member that the format does not name."),
        click.option("--key-url", metavar="URL", help="Where the key is published; with --sign."),
        click.option("--sign", "key", type=click.Path(dir_okay=False, path_type=Path),
                     help="Sign with the private key in this file; writes FILE.sig too."),
        click.option("--model", "embedding_model", metavar="NAME",
                     help="The model of the embeddings, if there are several."),
        click.option("--embeddings", "include_embeddings", is_flag=True,
                     help="With the embeddings, from which content can be guessed."),
        click.option("--producer", metavar="NAME", default="omsgrain", show_default=True,
                     help="The namespace of what was never AIMEM."),
        click.option("--since", metavar="TIME", help="Chunks from then on: 2026-01-15T10:00:00Z."),
        click.option("--scope", type=click.Choice(["FULL", "DNA_ONLY", "SINCE"]),
                     help="Which chunks: all, what is never silently lost, or --since a time."),
        click.option("--stream", "lines", is_flag=True,
                     help="By lines, for memories of any size; so is a FILE.ndjson."),
        click.option("--tenant-id", metavar="ID",
                     help="What the bundle calls the tenant: a UUID or a URI, if ID is neither."),
        click.option("--tenant", metavar="ID", help="Whose memory: the user_id of the grains."),
        click.option("--format", type=click.Choice(_FORMATS),
                     help="By default told by the name of FILE."),
    ):  # fmt: skip
        command = option(command)
    return command


def is_given(*names: str) -> bool:
    """Whether one of some options was given."""
    source = click.get_current_context().get_parameter_source
    return any(source(name) is ParameterSource.COMMANDLINE for name in names)


def refuse_given(kind: str, *names: str) -> None:
    """Refuse options that were given and that a file of this kind has no use for."""
    context = click.get_current_context()
    flags = {param.name: param.opts[0] for param in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{flags[name]} does not go with {kind}")


def import_bundle(store: Where, file: Path, as_json: bool, **given: Any) -> int:
    """Take a bundle in, and tell what became of each record."""
    from omsgrain.ops import formats

    try:
        with output.progress(None, "records", as_json):
            summary = formats.import_aimem(store, file, **given)
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
    warn(told["warnings"])
    click.echo(
        f"{told['chunks_inserted']} chunks inserted, {told['chunks_updated']} updated, "
        f"{told['chunks_skipped_idempotent']} unchanged; {told['edges_inserted']} edges, "
        f"{told['entities_inserted']} entities, {told['chunk_entities_inserted']} links; "
        f"{summary.total_conflicts} in conflict"
        + (" (nothing was stored)" if given["dry_run"] else "")
    )
    return code


def _tell_problems(error: DocumentError) -> None:
    """Print all problems but the first, which is the error itself."""
    for one in error.problems[1:SHOWN]:
        where = f" (at {one.pointer})" if one.pointer else ""
        click.echo(output.safe(f"{one.rule}: {one.message}{where}"), err=True)
    if error.total > SHOWN:
        click.echo(f"… and {error.total - SHOWN} more problems", err=True)


def export_bundle(store: Where, file: Path, as_json: bool, **given: Any) -> None:
    """Write a tenant's memory, and say to which files."""
    from omsgrain.formats.aimem.fields import ARRAYS
    from omsgrain.ops import formats

    if given["tenant"] is None:
        raise click.UsageError("--tenant says whose memory is exported")
    if given["key_url"] is not None and given["key"] is None:
        raise click.UsageError("--key-url goes with --sign")
    if given["embedding_model"] is not None and not given["include_embeddings"]:
        raise click.UsageError("--model goes with --embeddings")
    given["lines"] = given["lines"] or file.name.endswith(".ndjson")
    given["scope"] = given["scope"] or ("FULL" if given["since"] is None else "SINCE")
    with output.progress(None, "records", as_json):
        written, report = formats.export_aimem(store, file, **given)
    if as_json:
        lost = [asdict(one) for one in report.losses]
        files = [one.to_dict() for one in written]
        told = {"files": files, "records": report.counts, "losses": lost, "lost": report.lost}
        added = [asdict(one) for one in report.added]
        output.emit(told | {"added": added, "withheld": report.withheld})
        return
    tell_losses(report.losses, report.lost)
    tell_added(report.added)
    tell_withheld(report.withheld)
    counts = _counts({name: report.counts.get(kind, 0) for name, kind in ARRAYS.items()})
    for one in written:
        of = f": {counts}" if len(written) == 1 else ""
        by = "" if one.signed_by is None else f"; signed by {one.signed_by}"
        click.echo(output.safe(f"{one.path}{of}{by}"))
    if len(written) > 1:
        click.echo(counts)


def warn(warnings: list[dict[str, Any]], name: str = "") -> None:
    """Print the first warnings to stderr, and how many there are; of a file, if it is named."""
    of = f"{name}: " if name else ""
    for one in warnings[:SHOWN]:
        line = f"line {one['line']}" if one.get("line") is not None else ""
        place = " ".join(part for part in (line, one.get("pointer")) if part)
        where = f" (at {place})" if place else ""
        text = f"{of}warning: {one['rule']}: {one['message']}{where}"
        click.echo(output.safe(text), err=True)
    if len(warnings) > SHOWN:
        click.echo(output.safe(f"{of}… and {len(warnings) - SHOWN} more warnings"), err=True)


def tell_losses(losses: Sequence[Loss], total: int) -> None:
    """Print to stderr what cannot be held, each once."""
    counts = Counter((one.field, one.reason) for one in losses)
    for (field, reason), number in counts.most_common():
        click.echo(output.safe(f"lost: {field}, {number} times: {reason}"), err=True)
    if total > len(losses):
        click.echo(f"… and {total - len(losses)} more losses", err=True)


def tell_added(added: Sequence[Loss]) -> None:
    """Print to stderr which values were made up, each once."""
    counts = Counter((one.field, one.reason) for one in added)
    for (field, reason), number in counts.most_common():
        click.echo(output.safe(f"added: {field}, {number} times: {reason}"), err=True)


def tell_withheld(withheld: Mapping[str, int]) -> None:
    """Print to stderr how many records the store keeps back, and why."""
    for reason, number in withheld.items():
        click.echo(f"withheld: {number}, {reason}", err=True)


def line(document: DocumentFindings) -> str:
    """A good bundle on one line."""
    return f"{document.name}: {_counts(document.records)}"


def _counts(records: dict[str, int]) -> str:
    words = {"chunk_entities": "links"}
    return ", ".join(f"{number} {words.get(name, name)}" for name, number in records.items())


@click.command(cls=Manual, short_help="Make a file of another format.", examples=CONVERT)
@argument(
    "source",
    type=click.Path(exists=True, path_type=Path),
    help="A file of any format, or a directory of MIF in JSON-LD.",
)
@argument("target", type=NewPath(dir_okay=True), help="The new file; its name says its format.")
@click.option("--format", metavar="NAME",
              shell_complete=lambda c, p, begun: [f for f in _FORMATS if f.startswith(begun)],
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
    from omsgrain.ops.convert import convert as convert_file

    if given["encrypt"] and passphrase_file is None:
        raise click.UsageError("--encrypt needs --passphrase-file")
    done = convert_file(source, target, passphrase=passphrase(passphrase_file), **given)
    told = done.to_dict()
    if as_json:
        output.emit(told)
        return 0
    warn(told["warnings"])
    tell_losses(done.losses, len(done.losses))
    tell_added(done.added)
    click.echo(output.safe(f"{done.grains} grains, {done.source} to {done.target}: {target}"))
    return 0
