# SPDX-License-Identifier: Apache-2.0
"""Make the page of commands from their ``--help``; docs/make_site.py calls it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

from omsgrain.cli import omsgrain
from omsgrain.cli.command import DocumentedArgument, Manual, contexts

INTRO = """\
# Commands

The `--help` of each command, on one page. Replace words in capitals by your values: ADDRESS is the
address of a grain, TENANT the id of a tenant. You can pass a repeatable option more than once.
Results go to stdout, messages to stderr; the exit status is that of the error
([error codes](../errors.md)).

Shell completion: `eval "$(_OMSGRAIN_COMPLETE=bash_source omsgrain)"`, or `zsh_source`; for fish
`_OMSGRAIN_COMPLETE=fish_source omsgrain | source`.

| command | what it does |
|---|---|
"""
SPECIAL = re.compile(r"(`[^`]*`)|([|<*\[\]_])")


def text(said: str) -> str:
    """Return a help text as Markdown: special characters outside code are escaped."""
    return SPECIAL.sub(lambda m: m[1] or f"\\{m[2]}", " ".join(said.split()))


def usage(context: click.Context) -> str:
    """Return the usage line of a command."""
    return " ".join([context.command_path, *context.command.collect_usage_pieces(context)])


def option(context: click.Context, given: click.Option) -> str:
    """Return the table row of an option."""
    record = given.get_help_record(context)
    assert record is not None
    names, says = record
    names = names.replace("|", r"\|")
    return f"| `{names}` | {text(says)} |"


def page(context: click.Context) -> Iterator[str]:
    """Yield the lines of one command."""
    command = context.command
    assert isinstance(command, Manual), context.command_path
    depth = "##" if len(context.command_path.split()) == 2 else "###"
    yield from (f"{depth} {context.command_path}", "", "```text", usage(context), "```", "")
    for paragraph in (command.help or "").split("\n\n"):
        yield from (text(paragraph), "")
    params = command.get_params(context)
    arguments = [one for one in params if isinstance(one, DocumentedArgument)]
    if arguments:
        yield from ("| argument | what it is |", "|---|---|")
        yield from (f"| `{one.human_readable_name}` | {text(one.text)} |" for one in arguments)
        yield ""
    yield from ("| option | what it does |", "|---|---|")
    yield from (option(context, one) for one in params if isinstance(one, click.Option))
    yield from ("", "| exit status | when |", "|---|---|")
    yield from (f"| {code} | {text(says)} |" for code, says in command.statuses())
    yield from ("", "```sh")
    for line in command.examples:
        yield line[4:] if line.startswith("    ") else f"# {line}"
    yield from ("```", "")


def content() -> str:
    """Return the page."""
    root, *all_commands = contexts(omsgrain, "omsgrain")
    rows = []
    for context in all_commands:
        if context.parent is root:
            name, link = context.info_name, context.command_path.replace(" ", "-")
            says = context.command.get_short_help_str(limit=200)
            rows.append(f"| [`{name}`](#{link}) | {text(says)} |")
    lines = [line for context in all_commands for line in page(context)]
    return INTRO + "\n".join(rows) + "\n\n" + "\n".join(lines).rstrip("\n") + "\n"
