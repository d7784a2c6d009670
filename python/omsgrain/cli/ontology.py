# SPDX-License-Identifier: Apache-2.0
"""``omsgrain ontology``: check and show ontologies, and suggest entities by them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import EXISTING, Chapter, argument, flag, refuse_pipe
from omsgrain.cli.validate import flat, line
from omsgrain.errors import FormatError

if TYPE_CHECKING:
    from omsgrain.formats.ontology.load import LoadReport

CHECK = """
An ontology, and memories that use it:
    omsgrain ontology check garden-notes.yaml --memories watering.memory.json
"""
SHOW = """
All types and fields, with inherited ones:
    omsgrain ontology show garden-notes.yaml
"""
SUGGEST = """
Which entity does a note suggest?
    omsgrain ontology suggest notes/valve.memory.md --ontology garden-notes.yaml --all
"""

_PATHS = click.Path(exists=True, path_type=Path)


@click.group(
    cls=Chapter,
    short_help="Check and show ontologies, and suggest entities.",
    examples=CHECK + SHOW.lstrip("\n") + SUGGEST.lstrip("\n"),
)
def ontology() -> None:
    """Check ontologies in YAML or JSON, show them, and suggest entities by them.

    Nothing is fetched: name also the ontologies that yours extends. Each command has --json.
    """


@ontology.command(
    short_help="Check ontologies, and memories against them.",
    examples=CHECK,
    exits={0: "No errors; with --strict, no warnings either.", 70: "There are errors."},
)
@argument(
    "files",
    type=_PATHS,
    nargs=-1,
    required=True,
    help="Ontologies, in YAML, JSON or JSON-LD, or directories of them.",
)
@click.option(
    "--memories",
    type=_PATHS,
    multiple=True,
    metavar="PATH",
    help="Memories whose entities are checked: a file or a directory. Repeatable.",
)
@flag("--strict", help="Treat warnings as errors.")
@output.json_option
def check(files: tuple[Path, ...], memories: tuple[Path, ...], strict: bool, as_json: bool) -> int:
    """Check each of FILES alone and all of them together."""
    from omsgrain.interchange import ontology as verbs

    for file in files:
        refuse_pipe(file)  # each alone, then all together
    found = verbs.check(files, memories)
    if as_json:
        output.emit(found.to_dict())
    else:
        for report in (*found.reports, *found.memories):
            _print_report(report)
    return 0 if found.is_ok(strict=strict) else FormatError.exit_code


def _print_report(report: LoadReport) -> None:
    for problem in report.problems:
        click.echo(output.safe(line(report.source, problem)), err=True)
    for problem in report.warnings:
        click.echo(output.safe(f"warning: {line(report.source, problem)}"), err=True)
    errors, warnings = len(report.problems), len(report.warnings)
    what = "good" if report.ok else output.plural(errors, "error")
    also = ", " + output.plural(warnings, "warning") if warnings else ""
    name = f" ({report.ontology})" if report.ontology else ""
    click.echo(output.safe(flat(f"{report.source}{name}: {what}{also}")))


@ontology.command(short_help="Show an ontology with all it inherits.", examples=SHOW)
@argument("file", type=EXISTING, help="An ontology, in YAML or JSON.")
@click.option(
    "--with",
    "extended",
    type=EXISTING,
    multiple=True,
    metavar="FILE",
    help="An ontology that it extends. Repeatable.",
)
@output.json_option
def show(file: Path, extended: tuple[Path, ...], as_json: bool) -> None:
    """Show the types of the ontology in FILE with all their fields, and the origin of each."""
    from omsgrain.interchange import ontology as verbs

    values = verbs.show(file, extended)
    if as_json:
        output.emit(values)
        return
    for row in _lines(values):
        click.echo(output.safe(row))


def _lines(values: dict[str, Any]) -> list[str]:
    from_others = f", extends {', '.join(values['extends'])}" if values["extends"] else ""
    lines = [f"{values['id'] or 'no id'} {values['version'] or ''}{from_others}".rstrip()]
    lines += [f"  not loaded: {name}" for name in values["missing"]]
    for space in values["namespaces"]:
        hint = f" ({space['type_hint']})" if space["type_hint"] else ""
        instead = f", replaces {space['replaces']}" if space["replaces"] else ""
        lines.append(f"  namespace {space['path']}{hint}{instead}")
    for one in values["entity_types"]:
        above = f" < {', '.join(one['subtype_of'])}" if one["subtype_of"] else ""
        lines.append(f"  type {one['name']} ({one['base']}){above}, of {one['ontology']}")
        for name, field in one["fields"].items():
            must = " required" if name in one["required"] else ""
            origin = f" by {field['trait']}" if field["trait"] else ""
            lines.append(f"    {name}{must}{origin}")
        lines += [f"    memory must have {member}, by {trait}"
                  for member, trait in one["requires"].items()]  # fmt: skip
    for one in values["relationships"]:
        ends = [", ".join(one[end]) or "*" for end in ("from", "to")]
        both = " <-> " if one["symmetric"] else " -> "
        lines.append(f"  relationship {one['name']}: {both.join(ends)}")
    state = "enabled" if values["discovery"]["enabled"] else "not enabled"
    lines.append(f"  discovery {state}, {len(values['discovery']['patterns'])} patterns")
    return lines


@ontology.command(short_help="Suggest an entity and a namespace for a file.", examples=SUGGEST)
@argument("file", type=EXISTING, help="A text.")
@click.option(
    "--ontology",
    "ontologies",
    type=EXISTING,
    multiple=True,
    required=True,
    metavar="FILE",
    help="The ontology; repeat it for those that it extends.",
)
@click.option(
    "--name", metavar="PATH", help="The path to match against file patterns; by default FILE."
)
@flag("--all", "disabled", help="Use ontologies whose discovery is not enabled, too.")
@output.json_option
def suggest(
    file: Path, ontologies: tuple[Path, ...], name: str | None, disabled: bool, as_json: bool
) -> None:
    """Suggest an entity and a namespace for FILE, by patterns of its text and its path.

    Each suggestion names the pattern that matched. The format defines no scores.
    """
    from omsgrain.interchange import ontology as verbs

    found, enabled = verbs.suggest_for(file, ontologies, name=name, disabled=disabled)
    if as_json:
        output.emit({"enabled": enabled, "suggestions": [one._asdict() for one in found]})
        return
    for one in found:
        what = " in ".join(part for part in (one.entity, one.namespace) if part)
        kind = f" ({one.memory_type})" if one.memory_type else ""
        by = f"{one.kind} {one.pattern!r} at {one.ontology}{one.pointer}"
        click.echo(output.safe(f"{what}{kind}: {by}"))
    if not enabled and not disabled:
        click.echo("discovery is not enabled in this ontology; use --all",
                   err=True)  # fmt: skip
    elif not found:
        click.echo("no pattern matches", err=True)
