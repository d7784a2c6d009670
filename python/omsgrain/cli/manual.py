# SPDX-License-Identifier: Apache-2.0
"""The layout of ``--help``: description, arguments, options, exit status, examples.

docs/make_commands.py builds the page about commands from the same texts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

DONE = "Done."
USAGE = "The command line is wrong."
STORE_VARIABLE = "OMSGRAIN_STORE"
OTHERS = "That of the error, as docs/errors.md lists them; 1 if the system refused."


class DocumentedArgument(click.Argument):
    """An argument with a help text, which click has none for.

    Attributes:
        text: the help text.
    """

    def __init__(self, *args: Any, help: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.text = help


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[F], F]:
    """An argument of a command."""
    return click.argument(name, cls=DocumentedArgument, help=help, **attributes)


class Manual(click.Command):
    """A command with exit statuses and examples in its help.

    Attributes:
        examples: lines of text, and command lines that begin with four spaces.
        exits: exit status -> what it means, as far as this command has its own.
    """

    def __init__(
        self, *args: Any, examples: str, exits: Mapping[int, str] | None = None, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.examples = examples.strip("\n").splitlines()
        self.exits = {0: DONE, 2: USAGE} | dict(exits or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line; one argument too few means the store of the environment."""
        store = os.environ.get(STORE_VARIABLE)
        expected = [one for one in self.params if isinstance(one, click.Argument)]
        if store and expected and expected[0].name == "store" and not ctx.resilient_parsing:
            found, _, _ = self.make_parser(ctx).parse_args(list(args))
            needed = [one.name for one in expected if one.nargs == 1 and one.required]
            if not all(isinstance(found.get(name), str) for name in needed):
                args = [store, *args]
        return super().parse_args(ctx, args)

    def statuses(self) -> list[tuple[str, str]]:
        """Each exit status and its meaning, the general one at the end."""
        return [(str(code), self.exits[code]) for code in sorted(self.exits)] + [("else", OTHERS)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the page."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        arguments = [one for one in self.get_params(ctx) if isinstance(one, DocumentedArgument)]
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([(one.human_readable_name, one.text) for one in arguments])
        self.format_options(ctx, formatter)
        with formatter.section("Exit status"):
            formatter.write_dl(self.statuses())
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n" if line else "\n")
        self.format_epilog(ctx, formatter)


class Chapter(Manual, click.Group):
    """A group of commands, with exit statuses and examples in its help."""

    command_class = Manual

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; for an unknown name, suggest the nearest one."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(name, self.list_commands(ctx), 1)
            if near:
                raise click.UsageError(f"no such command {name!r}: did you mean {near[0]}?", ctx)
        return super().resolve_command(ctx, args)


def contexts(
    command: click.Command, name: str, above: click.Context | None = None
) -> Iterator[click.Context]:
    """A command and its subcommands, each in its own context."""
    context = click.Context(command, parent=above, info_name=name)
    yield context
    if isinstance(command, click.Group):
        for each in command.list_commands(context):
            found = command.get_command(context, each)
            assert found is not None, each
            yield from contexts(found, each, context)
