# SPDX-License-Identifier: Apache-2.0
"""``omsgrain ingest``: put grains into a store."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import bag, field_map, output
from omsgrain.cli.command import (
    EXISTING,
    NewPath,
    argument,
    command,
    flag,
    refuse_given,
    store_argument,
)
from omsgrain.cli.console import progress
from omsgrain.cli.open import open_store, plain_option, trust_options
from omsgrain.errors import FormatError, NoTypeError
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from omsgrain.errors import OmsError
    from omsgrain.interchange.bag import BagReport, BagSelection
    from omsgrain.interchange.ingest import IngestStep
    from omsgrain.store import GrainStore

EXAMPLES = """
Rows of another program: write a mapping, look at it, and use it:
    omsgrain ingest --suggest readings.csv > readings.toml
    omsgrain ingest memory.omsg readings.csv --mapping readings.toml --errors collect
All lines of a chunk or none; then the good lines, with the bad ones in a file:
    omsgrain ingest memory.omsg grains.jsonl
    omsgrain ingest memory.omsg grains.jsonl --errors collect --rejects rejects.jsonl
Sensors of a robot's recording, ten messages a second:
    omsgrain ingest memory.omsg drive.mcap --topic /scan --topic "/po*" --every 100ms
From another program, encrypted with the keys of the users:
    omsgrain ingest memory.omsg - --keys people.keys --master master.key < grains.jsonl
"""

_FOREIGN = " Rows of another program need a mapping: omsgrain ingest --suggest FILE writes one."


@dataclass(slots=True)
class IngestTally:
    consumed: int = 0
    stored: int = 0
    duplicates: int = 0
    rejected: int = 0
    warnings: int = 0
    seconds: float = 0.0
    reject_files: list[str] = field(default_factory=list)
    first_warnings: list[str] = field(default_factory=list)
    first_reject: OmsError | None = None
    bags: BagReport | None = None
    name: str = ""  # of the input that is read

    def add(self, name: str, step: IngestStep) -> list[str]:
        """Count one step of an input; return the lines to print."""
        room = output.SHOWN - len(self.first_warnings)
        new = [
            f"{name}, line {line}: {text}" if line else f"{name}: {text}"
            for line, text in step.warnings[:room]
        ]
        self.first_warnings += new
        lines = [f"Warning: {text}" for text in new]
        lines += [
            f"Rejected: {name}: {e}" for e in step.rejected[: max(0, output.SHOWN - self.rejected)]
        ]
        self.consumed += step.consumed
        self.stored += step.stored
        self.duplicates += step.duplicates
        self.rejected += len(step.rejected)
        self.warnings += len(step.warnings)
        if step.rejected and self.first_reject is None:
            self.first_reject = step.rejected[0]
        return lines

    def to_dict(self) -> dict[str, Any]:
        rate = round((self.stored + self.duplicates) / self.seconds) if self.seconds else 0
        return {
            "stored": self.stored,
            "duplicates": self.duplicates,
            "rejected": self.rejected,
            "warnings": self.warnings,
            "first_warnings": self.first_warnings,
            "bytes": self.consumed,
            "seconds": round(self.seconds, 3),
            "grains_per_second": rate,
            "reject_files": self.reject_files,
            **({} if self.bags is None else {"bag": self.bags.to_dict()}),
        }


class Rejects:
    """The rejects of one input as JSON lines; the first reject creates the file."""

    def __init__(self, path: Path, tally: IngestTally, *, numbered: bool) -> None:
        self._path = path
        self._tally = tally
        self._numbered = numbered
        self._file: Any = None

    def write(self, name: str, errors: list[OmsError]) -> None:
        if errors and self._file is None:
            self._file = self._create()
            self._tally.reject_files.append(self._file.name)
        for error in errors:
            self._file.write(output.dumps({"input": name, **error.to_dict()}) + "\n")

    def _create(self) -> Any:
        number, path = 1, self._path
        while True:  # "x" never overwrites a file
            try:
                return path.open("x", encoding="utf-8")
            except FileExistsError:
                if not self._numbered:
                    raise
            number += 1
            path = self._path.with_name(f"{self._path.name.removesuffix('.jsonl')}.{number}.jsonl")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _is_table(name: str) -> bool:
    from omsgrain.interchange.rows import format_of

    return format_of(name) is not None


@command(
    "Put grains into a store.",
    EXAMPLES,
    exits={0: "All grains are stored, by this call or an earlier one."},
)
@store_argument(exists=False, required=False)
@argument(
    "files",
    nargs=-1,
    type=click.Path(exists=True, readable=True, allow_dash=True),
    help='Files of grains, or recordings; "-", or none, is stdin.',
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["auto", "json", "jsonl", "csv", "tsv", "parquet", "blob"]),
    default="auto",
    help="The format of the input; auto looks at its name and its first bytes.",
)
@click.option(
    "--suggest",
    type=EXISTING,
    help="Print a mapping for the rows of this file, from its first 1,000 rows, and end.",
)
@field_map.mapping_options
@bag.bag_options
@click.option(
    "--errors",
    type=click.Choice(["raise", "collect"]),
    default="raise",
    help="At a bad grain: stop, or continue and write it to FILE.rejects.jsonl.",
)
@click.option(
    "--rejects",
    "rejects_path",
    type=NewPath(),
    help="Write all rejects to this new file (needed with stdin).",
)
@click.option(
    "--encoding",
    type=click.Choice(["msgpack", "cbor"]),
    help="The codec of the grains; by default msgpack.",
)
@flag("--compress", help="Compress payloads with zstd.")
@click.option(
    "--sensitivity",
    type=click.Choice(["public", "internal", "pii", "phi"]),
    help="The lowest sensitivity of a grain; its tags may raise it. By default public.",
)
@click.option(
    "--profile",
    type=click.Choice(["extended", "standard", "lightweight"]),
    help="The limits of size and depth; by default extended.",
)
@flag("--require-signatures", help="Accept only grains with a valid signature.")
@flag("--index-text", help="Add the grains to the text index too; searches wait less.")
@flag("--allow-erased", help="Store also grains that were erased.")
@plain_option
@trust_options
@output.json_option
def ingest(
    store: Where | None,
    files: tuple[str, ...],
    form: Any,
    suggest: Path | None,
    errors: Any,
    rejects_path: Path | None,
    require_signatures: bool,
    index_text: bool,
    allow_erased: bool,
    as_json: bool,
    **given: Any,
) -> int:
    """Put grains from FILES into STORE.

    FILES can be recordings of a robot: MCAP, or directories of rosbag2. Each message becomes an
    Observation that says where it comes from; the output lists what became of each topic.

    With --mapping, or --as and --map, rows of CSV, TSV, Parquet or foreign JSON become grains.
    Otherwise input is JSON (an object or an array), JSON lines, a blob, or signed grains in their
    envelopes, one or many in a row. Lines are stored in chunks of 8 MiB. With --errors raise, no
    grain of the chunk with the bad grain is stored. With --errors collect, the exit code is that
    of the first reject. With --keys, users' grains are encrypted.
    """
    if suggest is not None:
        field_map.print_suggestion(suggest, form)
        return 0
    if store is None:
        raise click.UsageError("Missing argument 'STORE'.")
    inputs = files or ("-",)
    if "-" in inputs and not files and sys.stdin.isatty():
        raise click.UsageError("no FILES, and stdin is a terminal; use '-' to type grains")
    if errors == "collect" and rejects_path is None and "-" in inputs:
        raise click.UsageError("--errors collect needs --rejects PATH when it reads stdin")
    if rejects_path is not None and errors != "collect":
        raise click.UsageError("--rejects needs --errors collect")
    if rejects_path is not None and rejects_path.exists():
        raise click.UsageError(f"{str(rejects_path)!r} exists; --rejects needs a new file")
    selection = _bags(inputs, given)
    mapping = field_map.mapping_of(given, of_bag=selection is not None)
    if mapping is None and form == "auto":
        table = next((name for name in inputs if _is_table(name)), None)
        form = "csv" if table else form
    if mapping is None and form in ("csv", "tsv", "parquet"):
        text = "rows of a table need --mapping FILE, or --as and --map"
        raise click.UsageError(f"{text}; omsgrain ingest --suggest FILE writes a mapping")
    feed = "ingest" if index_text else "idle"
    opening = partial(open_store, store, require_signatures=require_signatures, text_index=feed)
    how = {
        "format": form,
        "errors": errors,
        "options": {name: value for name, value in given.items() if value},  # of encoding
        "allow_erased": allow_erased,
        "mapping": mapping,
    }
    tally = IngestTally()
    try:
        _ingest(opening, inputs, how, selection, rejects_path, tally, as_json)
    except BaseException as error:
        if as_json:
            output.emit(tally.to_dict())
        else:
            _print_stop(tally, error, errors)
        raise
    _print(tally, as_json)
    return 0 if tally.first_reject is None else tally.first_reject.exit_code


def _ingest(
    opening: Callable[[], GrainStore],
    inputs: tuple[str, ...],
    how: dict[str, Any],
    selection: BagSelection | None,
    rejects_path: Path | None,
    tally: IngestTally,
    as_json: bool,
) -> None:
    from omsgrain.formats.compressed import SUFFIX

    known = [name for name in inputs if name != "-" and not name.endswith(SUFFIX)]
    sizes = [Path(name).stat().st_size for name in known]
    total = sum(sizes) if "-" not in inputs and all(sizes) else None
    start = time.perf_counter()
    try:
        with ExitStack() as stack:
            grains = stack.enter_context(opening())
            advance = stack.enter_context(progress(total, "bytes", as_json))
            common = None
            if rejects_path is not None:
                common = Rejects(rejects_path, tally, numbered=False)
                stack.callback(common.close)
            for name in inputs:
                rejects = common or Rejects(Path(f"{name}.rejects.jsonl"), tally, numbered=True)
                stack.callback(rejects.close)
                tally.name = name
                for step in _steps(grains, name, how, selection, tally):
                    lines = tally.add(name, step)
                    rejects.write(name, step.rejected)
                    for text in () if as_json else lines:
                        click.echo(output.safe(text), err=True)
                    advance(step.consumed)
    finally:
        tally.seconds = time.perf_counter() - start


def _steps(
    grains: GrainStore,
    name: str,
    how: dict[str, Any],
    selection: BagSelection | None,
    tally: IngestTally,
) -> Iterator[IngestStep]:
    if selection is not None:
        from omsgrain.interchange.bag import BagReport
        from omsgrain.interchange.bag_import import import_bag

        given = {option: value for option, value in how.items() if option != "format"}
        tally.bags = tally.bags or BagReport()
        yield from import_bag(grains, name, selection, report=tally.bags, **given)
        return
    from omsgrain.interchange.ingest import ingest

    source = nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb")
    with source as stream:
        yield from ingest(grains, stream, name=name, **how)


def _bags(inputs: tuple[str, ...], given: dict[str, Any]) -> BagSelection | None:
    """Return which messages are chosen, if the inputs are recordings."""
    from omsgrain.formats.bag.rosbag2 import is_bag

    selection = bag.selection_of(given)
    found = [name for name in inputs if name != "-" and is_bag(name)]
    if len(found) == len(inputs):
        return selection
    if found:
        raise click.UsageError("recordings and other files do not go together")
    if folder := next((name for name in inputs if name != "-" and Path(name).is_dir()), None):
        text = "is a directory without metadata.yaml; of a recording without it, name the files"
        raise click.UsageError(f"{output.safe(folder)!r} {text}")
    refuse_given("files that are no recordings", *bag.NAMES)
    return None


def _print_stop(tally: IngestTally, error: BaseException, errors: str) -> None:
    """Say how far it came, and how to go on."""
    if not tally.name:
        return
    name = "stdin" if tally.name == "-" else output.safe(tally.name)
    text = f"Stopped in {name}: {tally.stored} stored."
    line = getattr(error, "line", None)
    is_bad_bag = tally.bags is not None and isinstance(error, FormatError)
    if tally.stored and not is_bad_bag:
        text += " Run it again to resume: stored grains count as duplicates."
    is_header = line == 1 and _is_table(tally.name)
    if isinstance(error, NoTypeError):
        text += _FOREIGN
    elif errors == "raise" and (is_bad_bag or (line is not None and not is_header)):
        text += " With --errors collect it stores all but the bad ones."
    click.echo(text, err=True)


def _print(tally: IngestTally, as_json: bool) -> None:
    if as_json:
        output.emit(tally.to_dict())
        return
    output.more(tally.warnings - output.SHOWN, "warnings")
    output.more(tally.rejected - output.SHOWN, "rejects")
    if isinstance(tally.first_reject, NoTypeError):
        click.echo(_FOREIGN.strip(), err=True)
    if tally.bags is not None:
        bag.print_report(tally.bags)
    counts = tally.to_dict()
    click.echo(
        f"{tally.stored} stored, {tally.duplicates} duplicates, {tally.rejected} rejected, "
        f"{tally.seconds:.2f} s, {counts['grains_per_second']} grains/s"
    )
    for path in tally.reject_files:
        click.echo(output.safe(f"rejects: {path}"))
