# SPDX-License-Identifier: Apache-2.0
"""``omsgrain conformance`` and ``omsgrain vectors``: check rules of formats, run vectors."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli import output
from omsgrain.cli.command import (
    DIRECTORY,
    EXISTING,
    NewPath,
    Seconds,
    argument,
    command,
    flag,
    refuse_given,
)
from omsgrain.cli.console import Console, TextTable, progress
from omsgrain.formats.source import NAMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omsgrain.conformance.http import CaseOutcome
    from omsgrain.conformance.rule import RuleVerdict

FAILED = 1
_TOKENS = ("token", "export_only_token", "import_only_token", "admin_token")
_SERVER = ("erase", "draft_only", *_TOKENS, "ca", "timeout")
_OURS = ("spec", "level", "rules", "form", "file")

EXAMPLES = """
Try all rules on this build; write the table of docs/conformance.md:
    omsgrain conformance
    omsgrain conformance --format markdown --output conformance.md

Run vectors of another engine; try a server, with the token of a test tenant:
    omsgrain conformance --vectors test_vectors
    omsgrain conformance --aimem-url http://127.0.0.1:8080 --token omg_...
"""
VECTORS = """
The vectors of a clone:
    omsgrain vectors test_vectors
"""


@command(
    "Check every rule of the formats, on this build or a server.",
    EXAMPLES,
    exits={0: "All pass.", FAILED: "A rule, a vector or a case fails."},
)
@click.option(
    "--spec",
    type=click.Choice(["oms", *NAMES]),
    help="Only rules of one specification.",
)
@click.option(
    "--level",
    type=click.IntRange(1, 3),
    metavar="N",
    help="Only rules up to this level of conformance.",
)
@click.option(
    "--rule",
    "rules",
    multiple=True,
    metavar="ID",
    help="One rule, or all whose id begins with this text. Repeatable.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "markdown", "json"]),
    help="The form of the report; by default a table of failures.",
)
@click.option(
    "--output",
    "file",
    type=NewPath(stdout=True),
    help="Write the report to a file.",
)
@click.option("--vectors", type=DIRECTORY, metavar="DIR", help="Run test vectors instead.")
@click.option(
    "--aimem-url", "url", metavar="URL", help="Check a server: the URL before /v1/brain."
)
@click.option(
    "--token",
    envvar="OMSGRAIN_TOKEN",
    show_envvar=True,
    metavar="TOKEN",
    help="A token with the scopes import and export.",
)
@click.option("--export-only-token", metavar="TOKEN", help="A token with the scope export only.")
@click.option("--import-only-token", metavar="TOKEN", help="A token with the scope import only.")
@click.option("--admin-token", metavar="TOKEN", help="A token with the scope admin; see --erase.")
@flag("--erase", help="At the end ERASE the tenant's memory, and check that it is empty.")
@flag("--draft-only", help="Only what the draft itself requires.")
@click.option(
    "--timeout",
    type=Seconds(0.1, 3_600),
    default=30.0,
    metavar="SECONDS",
    help="The longest time to wait for a response: 0.1 to 3600.",
)
@click.option(
    "--ca", type=EXISTING, help="Certificates to trust in addition to the system's, PEM."
)
@output.json_option
def conformance(as_json: bool, **given: Any) -> int:
    """Check every rule of OMS 1.2, AIMEM, MIF 2.0, MIF 1.0 and MIF in JSON-LD on this build.

    With --vectors, run a directory of test vectors. With --aimem-url, check a server over HTTP
    against the AIMEM draft. Use tokens of a test tenant: the run imports some hundred chunks,
    under new names each time.
    """
    url, vectors = given.pop("url"), given.pop("vectors")
    _refuse_mixed(url, vectors, given["token"])
    if vectors is not None:
        return _run_vectors(vectors, as_json)
    if url is not None:
        return _ask(url, given, as_json)
    return _try(given, as_json)


def _refuse_mixed(url: str | None, vectors: Path | None, token: str | None) -> None:
    """Refuse options that would have no effect."""
    if url is None:
        refuse_given("a check without --aimem-url", *_SERVER)
    elif vectors is not None:
        raise click.UsageError("--vectors and --aimem-url exclude each other")
    elif not token:
        raise click.UsageError("--aimem-url needs --token")
    if url or vectors:
        refuse_given("--aimem-url" if url else "--vectors", *_OURS)


def _try(given: dict[str, Any], as_json: bool) -> int:
    from omsgrain.conformance import report
    from omsgrain.conformance.rule import RULES, choose, run

    form = given["form"] or ("json" if as_json else "table")
    if as_json and form != "json":
        raise click.UsageError("--json needs --format json")
    chosen = choose(RULES, spec=given["spec"], level=given["level"], ids=given["rules"])
    verdicts: list[RuleVerdict] = []
    with progress(len(chosen), "rules", as_json) as advance:
        for verdict in run(chosen):
            verdicts.append(verdict)
            advance(1)
    counts = report.counted(verdicts)
    if form == "table":
        _print_table(verdicts, counts, given["file"])
    else:
        text = (
            report.markdown(verdicts)
            if form == "markdown"
            else json.dumps(report.as_json(verdicts), ensure_ascii=False, indent=2) + "\n"
        )
        if given["file"] is None:
            click.echo(output.safe(text).encode(), nl=False)
        else:
            given["file"].write_text(text, encoding="utf-8")
    return FAILED if counts["failed"] or not counts["passed"] else 0


def _print_table(
    verdicts: Sequence[RuleVerdict], counts: dict[str, int], file: Path | None
) -> None:
    """Print the failures, or all verdicts if a few rules were chosen."""
    from omsgrain.conformance.report import WORDS, tried

    if file is not None:
        raise click.UsageError("--output needs --format markdown or json")
    few = 40
    shown = verdicts if len(verdicts) <= few else [v for v in verdicts if v.passed is not True]
    if shown:
        table = TextTable.of("rule", "section", "result", "tried", "expected", "found")
        for one in shown:
            row = (one.rule.id, one.rule.section, WORDS[one.passed], tried(one),
                   one.expected, one.found)  # fmt: skip
            table.rows.append(tuple(output.safe(text or "") for text in row))
        Console().table(table)
    click.echo(
        "{rules} rules: {passed} passed, {failed} failed, {left_out} left out".format(**counts)
    )


def _ask(url: str, given: dict[str, Any], as_json: bool) -> int:
    from omsgrain.conformance.http import ask
    from omsgrain.conformance.probe import TenantTokens

    tokens = TenantTokens(*(given[name] for name in _TOKENS))
    options = {name: given[name] for name in ("draft_only", "erase", "timeout", "ca")}
    outcomes: list[CaseOutcome] = []
    with progress(None, "cases", as_json) as advance:
        for outcome in ask(url, tokens, **options):
            outcomes.append(outcome)
            advance(1)
    counts = {
        "passed": sum(one.passed is True for one in outcomes),
        "failed": sum(one.passed is False for one in outcomes),
        "left_out": sum(one.passed is None for one in outcomes),
    }
    if as_json:
        output.emit(counts | {"cases": [asdict(one) for one in outcomes]})
    else:
        words = {True: "passed", False: "FAILED", None: "left out"}
        table = TextTable.of("case", "draft", "by", "result", "expected", "found")
        for one in outcomes:
            row = (one.name, one.section, one.basis, words[one.passed], one.expected, one.found)
            table.rows.append(tuple(output.safe(text or "") for text in row))
        Console().table(table)
        click.echo("{passed} passed, {failed} failed, {left_out} left out".format(**counts))
    return FAILED if counts["failed"] or not counts["passed"] else 0


@command("Run test vectors.", VECTORS, exits={0: "All agree.", FAILED: "One does not agree."})
@argument(
    "directory",
    default="test_vectors",
    type=DIRECTORY,
    help="The directory of the vectors; by default test_vectors.",
)
@output.json_option
def vectors(directory: Path, as_json: bool) -> int:
    """Run the test vectors under DIRECTORY, and print a table of them."""
    return _run_vectors(directory, as_json)


def _run_vectors(directory: Path, as_json: bool) -> int:
    """Run vectors and print the outcomes, also for ``conformance --vectors``."""
    from omsgrain.conformance.vectors import run_vectors

    outcomes = list(run_vectors(directory))
    wrong = [outcome for outcome in outcomes if not outcome.agrees]
    if as_json:
        output.emit(
            {
                "vectors": len(outcomes),
                "agree": len(outcomes) - len(wrong),
                "disagree": [{"id": o.id, "problem": o.problem} for o in wrong],
            }
        )
        return FAILED if wrong else 0
    table = TextTable.of("vector", "expected", "result")
    for outcome in outcomes:
        expected = outcome.expected if len(outcome.expected) < 64 else outcome.expected[:16] + "…"
        result = "agrees" if outcome.agrees else f"DISAGREES: {outcome.problem}"
        table.rows.append((outcome.id, output.safe(expected), output.safe(result)))
    Console().table(table)
    click.echo(
        f"{len(outcomes)} vectors, {len(outcomes) - len(wrong)} agree, {len(wrong)} disagree"
    )
    return FAILED if wrong else 0
