# SPDX-License-Identifier: Apache-2.0
"""``omsgrain validate``: find the defects of documents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import argument, command, flag
from omsgrain.cli.console import progress

if TYPE_CHECKING:
    from omsgrain.formats.problems import Problem
    from omsgrain.interchange.validate import FileFindings

EXAMPLES = """
A memory, and a directory of memories:
    omsgrain validate watering.memory.json
    omsgrain validate notes/ --quiet
Warnings beyond the schemas:
    omsgrain validate watering.memory.json --mode extra
"""


@command(
    "Find the defects of documents, with hints.",
    EXAMPLES,
    exits={0: "All are valid, perhaps with warnings.", 70: "At least one is not valid."},
)
@argument("files", nargs=-1, required=True, metavar="FILE...",
          type=click.Path(exists=True, readable=True, path_type=Path),
          help="Documents of any format, or directories of them.")  # fmt: skip
@click.option("--mode", type=click.Choice(("schema", "lenient", "extra")), default="schema",
              help="As strict as the schemas; lenient with citations; or "
                                      "with warnings beyond the schemas.")  # fmt: skip
@click.option("--kind", type=click.Choice(
                  ("memory", "citation", "entity-reference", "ontology", "corpus")
              ), help="The kind of MIF in JSON-LD; by default from its content.")  # fmt: skip
@click.option("--shape", type=click.Choice(("0.1", "1.x")),
              help="The shape of memories; by default from their content.")  # fmt: skip
@flag("--published", help="For shape 0.1, use the schema as it was published.")
@flag("-q", "--quiet", help="Print only problems.")
@output.json_option
def validate(
    files: tuple[Path, ...], published: bool, quiet: bool, as_json: bool, **given: Any
) -> int:
    """Find the defects of documents: the place, the value, and how to fix it.

    For MIF in JSON-LD it checks memories of shape 0.1 and 1.x, citations, references to entities,
    and ontologies, also in YAML. A file has one document, an array, lines, a corpus, or a memory
    in Markdown. Documents of other formats are checked by their own rules, as `verify` does. In a
    directory, the files with the names of memory files are checked.

    Each defect is reported once, with a stable code. In mode lenient, a citation that cannot be
    repaired is an error, and the memory is read without it. Mode extra also compares the times of
    memories in all FILEs with one another.

    The exit code is that of the first file with an error. An unknown format is an error.
    """
    from omsgrain.interchange.validate import files_of
    from omsgrain.interchange.validate import validate as validate_files

    listed = list(files_of(files))
    with progress(len(listed), "files", as_json or quiet) as advance:
        found = validate_files(listed, strict_published=published, advance=advance, **given)
    if as_json:
        output.emit({"files": [one.to_dict() for one in found]})
    else:
        for one in found:
            _print_findings(one, quiet)
        if not quiet:
            bad = sum(one.exit_code != 0 for one in found)
            click.echo(f"{len(found) - bad} good, {bad} bad")
    return next((one.exit_code for one in found if one.exit_code), 0)


def _print_findings(checked: FileFindings, quiet: bool) -> None:
    for problem in checked.errors:
        click.echo(output.safe(line(checked.name, problem)), err=True)
    output.more(checked.total - len(checked.errors), "errors")
    for problem in checked.warnings:
        click.echo(output.safe(f"warning: {line(checked.name, problem)}"), err=True)
    if not quiet and not checked.exit_code:
        many = "" if checked.documents == 1 else f", {checked.documents} documents"
        click.echo(output.safe(flat(f"{checked.name}: {checked.format}{many}, good")))


def flat(text: str) -> str:
    """Return a text on one line; a line end in a name must not look like another finding."""
    return text.replace("\n", "\\n")


def line(name: str, problem: Problem) -> str:
    """Return a problem on one line, with the value."""
    where = f"{name}, line {problem.line}" if problem.line is not None else name
    if problem.pointer:
        where += f":{problem.pointer}"
    value = getattr(problem, "value", None)
    got = f" (got {value})" if value is not None else ""
    if value is None and problem.expected is not None:
        got = f" (expected {problem.expected})"
    hint = getattr(problem, "hint", "")
    return flat(f"{where}: {problem.message}{got}.{' ' if hint else ''}{hint} [{problem.rule}]")
