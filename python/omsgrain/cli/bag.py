# SPDX-License-Identifier: Apache-2.0
"""The options for recordings of ``omsgrain ingest``, and how their report is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from omsgrain.cli import output
from omsgrain.cli.command import SpanParam, options, size_option

if TYPE_CHECKING:
    from omsgrain.interchange.bag import BagDifference, BagReport, BagSelection, TopicReport

NAMES: Final = ("topics", "every", "sample", "inline")
"""The options for recordings only."""

bag_options = options(
    size_option("--inline", "256", "Recordings: copy binary values up to this size; longer "
                "ones are referenced."),
    click.option("--sample", type=click.IntRange(1), metavar="N",
                 help="Recordings: only each Nth message of a topic."),
    click.option("--every", type=SpanParam(), metavar="SPAN",
                 help="Recordings: one message of a topic in this time, such as 100ms."),
    click.option("--topic", "topics", multiple=True, metavar="NAME",
                 help="Recordings: only messages of this topic; * is any text. Repeatable."),
)  # fmt: skip


def selection_of(given: dict[str, Any]) -> BagSelection:
    """Return the messages that the options choose, and take these options away."""
    from omsgrain.interchange.bag import BagSelection

    chosen = {name: given.pop(name) for name in NAMES}
    if chosen["every"] is not None and chosen["sample"] is not None:
        raise click.UsageError("--every and --sample exclude each other")
    return BagSelection(**chosen)


def print_report(report: BagReport) -> None:
    """Print what became of the messages of each topic, and what was not stored."""
    for one in report.topics.values():
        click.echo(output.safe(_line(one)))
    for what, names in (("attachment", report.attachments), ("metadata record", report.metadata)):
        if names:
            shown = ", ".join(names[: output.SHOWN]) + (" …" if len(names) > output.SHOWN else "")
            click.echo(output.safe(f"not stored: {output.plural(len(names), what)}: {shown}"))
    for found in report.differences[: output.SHOWN]:
        click.echo(output.safe(f"Warning: {_difference(found)}"), err=True)
    output.more(len(report.differences) - output.SHOWN, "differences")


def _difference(found: BagDifference) -> str:
    if found.stated is None:
        return f"{found.where} was not compared with what was read: {found.read}"
    read = "nothing" if found.read is None else found.read
    return f"{found.where}: {found.what}: {found.stated} stated, {read} read"


def _line(one: TopicReport) -> str:
    counts = [
        (one.observed, "observed"),
        (one.skipped, "between samples"),
        (one.left_out, f"left out ({one.reason})"),
        (one.rejected, "rejected"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count) or "none observed"
    if one.referenced:
        said += (
            f"; {output.plural(one.referenced, 'value')} referenced, "
            f"{one.referenced_bytes} bytes not copied"
        )
    if one.not_finite:
        said += f"; {output.plural(one.not_finite, 'number')} not finite, kept as text"
    if one.nulls:
        said += f"; {output.plural(one.nulls, 'null')} without a field"
    kind = ", ".join(text for text in (one.schema, one.encoding) if text)
    return f"{one.topic} ({kind}): {output.plural(one.messages, 'message')}: {said}"
