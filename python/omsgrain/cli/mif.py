# SPDX-License-Identifier: Apache-2.0
"""MIF documents on the command line: for ``import`` and ``export``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from omsgrain.cli import output
from omsgrain.cli.opening import first_line
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.interchange.report import MifReport

F = TypeVar("F", bound=Callable[..., Any])

SHOWN = 10  # records and warnings printed one by one; the rest are counted
DOCUMENTS = "a MIF document"
STRATEGIES = ("skip_duplicates", "overwrite", "rename")
IMPORT = ("merge_strategy", "atomic", "keep_document", "passphrase_file", "user", "mode")
EXPORT = (
    "layout", "include_graph", "redact_pii", "scan", "document", "passphrase_file", "local",
    "shape",
)  # fmt: skip
"""The options that only these documents have."""
SHARED = ("since", "include_embeddings", "strict")
"""Those that bundles have as well."""
CHANGING = (*SHARED, "layout", "include_graph", "redact_pii", "scan", "shape")
"""Those that a document which is given back as it came has no use for."""

mode_option = click.option(
    "--mode",
    type=click.Choice(("schema", "lenient", "extra")),
    help="How strict MIF in JSON-LD is judged, as validate has it; by default schema.",
)
"""Of all commands that read such documents."""

shape_option = click.option(
    "--shape",
    type=click.Choice(("0.1", "1.x")),
    help="Of MIF in JSON-LD: what memories are brought into; by default each has its own, or 0.1.",
)
"""Of all commands that write such documents."""

_passphrase = click.option(
    "--passphrase-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The first line of this file opens, or seals, the document (MIF 1.0).",
)


def import_options(command: F) -> F:
    """What only the import of such a document is told."""
    for option in (
        _passphrase,
        click.option("--keep/--no-keep", "keep_document", default=True, show_default=True,
                     help="Keep what stood around the records, to give the document back."),
        click.option("--atomic", is_flag=True, help="All records, or none of them."),
        click.option("--merge-strategy", type=click.Choice(STRATEGIES),
                     default=STRATEGIES[0], show_default=True,
                     help="What becomes of a record whose id or text is stored already."),
        click.option("--user", metavar="ID", help="Whose memory a MIF document becomes."),
        mode_option,
    ):  # fmt: skip
        command = option(command)
    return command


def export_options(command: F) -> F:
    """What only the export of such a document is told."""
    for option in (
        _passphrase,
        shape_option,
        click.option("--local", is_flag=True, help="With memories of the namespace _local."),
        click.option("--document", metavar="ID",
                     help="Give this document back, as it was imported."),
        click.option("--redact", "redact_pii", is_flag=True,
                     help="Without secrets and personal data."),
        click.option("--scan/--no-scan", default=True, show_default=True,
                     help="Warn of secrets and personal data in the document."),
        click.option("--graph/--no-graph", "include_graph", default=True, show_default=True,
                     help="With entities, and what relates them."),
        click.option("--layout", type=click.Choice(["json", "yaml", "jsonl"]),
                     help="Of MIF 1.0; by default told by the name of FILE."),
    ):  # fmt: skip
        command = option(command)
    return command


def format_of_name(file: Path) -> str | None:
    """The version that a file is called by; None if it is called by none."""
    from omsgrain.ops.mif import layout_of_name

    layout = layout_of_name(file)
    return None if layout is None else "mif2" if layout == "json" else "mif1"


def passphrase(file: Path | None) -> str | None:
    """The passphrase of documents that are encrypted, if its file was given."""
    return None if file is None else first_line(file, "--passphrase-file")


def import_document(store: Where, file: Path, as_json: bool, **given: Any) -> int:
    """Take a document in, and tell what became of its records."""
    from omsgrain.ops import mif

    secret = passphrase(given.pop("passphrase_file"))
    if given["mode"] is None:
        del given["mode"]
    if secret is not None:
        given |= {"passphrase": secret, "format": "mif1"}
    with output.progress(None, "records", as_json):
        report = mif.import_mif(store, file, user_id=given.pop("user"), **given)
    if as_json:
        output.emit(report.to_dict())
    else:
        _tell(report)
    return _code(report)


def _code(report: MifReport) -> int:
    """The code of the first record that was refused, or of an invalid document."""
    from omsgrain.errors import FormatError

    if report.failed:
        return FormatError.exit_code
    return output.exit_of(report.errors[0].code, report.errors[0].reason) if report.errors else 0


def _tell(report: MifReport) -> None:
    told = report.to_dict()
    for one in told["errors"][:SHOWN]:
        where, why = one["pointer"] or f"line {one.get('line', '?')}", one["message"]
        code = one.get("rule") or one.get("code")
        rule = "" if code is None else f"; {code}"
        click.echo(output.safe(f"{one['fate']}: {where}: {why}{rule}"), err=True)
    if len(told["errors"]) > SHOWN:
        click.echo(f"… and {len(told['errors']) - SHOWN} more errors", err=True)
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


def export_document(store: Where, file: Path, as_json: bool, **given: Any) -> None:
    """Write a user's memory as a document."""
    from omsgrain.cli.formats import tell_added, tell_losses, tell_withheld, warn
    from omsgrain.formats.document import Loss
    from omsgrain.ops import mif

    user = given.pop("user")
    if user is None:
        raise click.UsageError("--user says whose memory is exported")
    given["passphrase"] = passphrase(given.pop("passphrase_file"))
    with output.progress(None, "records", as_json):
        done = mif.export_mif(store, file, user_id=user, **given)
    if as_json:
        output.emit(done.to_dict())
        return
    tell_losses([Loss(**one) for one in done.report["losses"]], done.report["lost"])
    tell_added([Loss(**one) for one in done.report.get("added", [])])
    tell_withheld(done.report.get("withheld", {}))
    warn(done.report.get("warnings", []))
    ends = "_exported"
    counts = {k.removesuffix(ends): v for k, v in done.report.items() if k.endswith(ends)}
    said = ", ".join(f"{number} {name}" for name, number in counts.items())
    click.echo(output.safe(f"{done.path}: {said or f'{done.bytes} bytes'}"))
