# SPDX-License-Identifier: Apache-2.0
"""The parts of commands: their class with the page of ``--help``, arguments, types of options.

docs/make_commands.py builds the page about commands from the same texts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from omsgrain.errors import OmsError, SchemaError, library

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from omsgrain.storage.location import Where

F = TypeVar("F", bound=Callable[..., Any])

DONE = "Done."
USAGE = "The command line is wrong."
STORE_VARIABLE = "OMSGRAIN_STORE"
GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.ENVIRONMENT)
"""The sources of an option's value that the user gave."""
_ARGUMENTS = {
    "only_current": "current",
    "only_past": "current",
    "all_grains": "current",
    "no_sealed": "sealed",
    "object_json": "object",
    "passphrase_file": "passphrase",
    "latest_per": "per",
    "added": "indexed",
    "dropped": "indexed",
}
"""Parameters whose arguments in Python have other names."""
OTHERS = "That of the error, as docs/errors.md lists them; 1 if the system refused."


class DocumentedArgument(click.Argument):
    """An argument with a help text, which click has none for."""

    def __init__(
        self, *args: Any, help: str, unless: str | None = None, **attributes: Any
    ) -> None:
        super().__init__(*args, **attributes)
        self.text = help
        self.unless = unless  # the option that takes its place


def flag(*names: str, help: str) -> Callable[[F], F]:
    """An option that is given or not."""
    return click.option(*names, is_flag=True, help=help)


def argument(name: str, *, help: str, **attributes: Any) -> Callable[[F], F]:
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
        for param in self.params:
            if isinstance(param, click.Option) and param.show_default is None:
                param.show_default = True
        self.examples = examples.strip("\n").splitlines()
        self.exits = {0: DONE, 2: USAGE} | dict(exits or {})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line; one argument too few means the store of the environment."""
        store = os.environ.get(STORE_VARIABLE)
        expected = [one for one in self.params if isinstance(one, click.Argument)]
        if store and expected and expected[0].name == "store" and not ctx.resilient_parsing:
            found, _, _ = self.make_parser(ctx).parse_args(list(args))
            needed = [
                one.name
                for one in expected
                if one.nargs == 1 and (one is expected[0] or _is_needed(one, found))
            ]
            if not all(isinstance(found.get(name), str) for name in needed):
                args = [store, *args]
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run; an error names an option where the Python API has an argument."""
        try:
            return super().invoke(ctx)
        except OmsError as error:
            self._name_option(ctx, error)
            raise
        except FileExistsError as error:
            if any(param.name == "replace" for param in self.params):
                error.strerror = f"{error.strerror} (--replace replaces it)"
            raise

    def _name_option(self, ctx: click.Context, error: OmsError) -> None:
        if (error.line, error.offset, error.rule) != (None, None, None):
            return  # a place in a file, or the rule of a format or a policy
        name, slash, rest = (error.field or "").removeprefix("/").partition("/")
        for param in self.params:
            own = param.name or ""
            is_given = isinstance(param, click.Option) and ctx.get_parameter_source(own) in GIVEN
            if is_given and _ARGUMENTS.get(own, own) == name:
                error.field = max(param.opts, key=len) + (f" /{rest}" if slash else "")

    def statuses(self) -> list[tuple[str, str]]:
        """Each exit status and its meaning, the general one at the end."""
        return [(str(code), self.exits[code]) for code in sorted(self.exits)] + [("else", OTHERS)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
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


def command(
    short_help: str,
    examples: str,
    *,
    exits: Mapping[int, str] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Manual]:
    """Make a function a command; ``short_help`` is its line in the list of commands."""
    more: dict[str, Any] = {"short_help": short_help, "examples": examples, "exits": exits}
    return click.command(name, cls=Manual, **more)


def _is_needed(one: click.Argument, found: Mapping[str, Any]) -> bool:
    unless = one.unless if isinstance(one, DocumentedArgument) else None
    return one.required if unless is None else not isinstance(found.get(unless), str)


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


# -- arguments and options ------------------------------------------------------------------------


ADDRESS = "The address of a grain: 64 hex digits."
STORE = "A store: its directory, or postgresql://USER@HOST/DATABASE?tenant=NAME."
TOLD = "It must exist, or --create creates it."
BUNDLES, CONTAINERS, DOCUMENTS, TABLES = (
    "an AIMEM bundle", "a .mg file", "a MIF document", "a Parquet file",
)  # fmt: skip
"""The names of kinds of files in messages about options."""
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The path of a file that is read."""
DIRECTORY = click.Path(exists=True, file_okay=False, path_type=Path)
"""The path of a directory that exists."""

_NEW = "It is created if it does not exist."
_DASH = "-"
_INSTEAD = "'-' is not a file name here; use ./- for a file of that name"


class StoreParam(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A path, or a URL, which is shown without its password from here on."""

    name = "store"

    def __init__(self, *, exists: bool = True, file_okay: bool = True) -> None:
        self._path = click.Path(exists=exists, file_okay=file_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        from omsgrain.storage.location import IN_MEMORY, StoreUrl, is_url  # not for --version

        if isinstance(value, StoreUrl):
            return value
        if is_url(value):
            return StoreUrl.parse(value)
        if value == "":  # which Python takes for the directory
            self.fail("expected a name", param, ctx)
        if value == IN_MEMORY:
            self.fail("a store in memory would be lost with this command; name a directory")
        if not self._path.exists:
            refuse_dash(value)
        path: Path = self._path.convert(value, param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._path.shell_complete(ctx, param, incomplete)


def store_argument(
    *, exists: bool = True, file_okay: bool = True, create: bool = False, required: bool = True
) -> Callable[[F], F]:
    """The STORE of a command."""
    text = f"{STORE} {TOLD}" if create else STORE if exists else f"{STORE} {_NEW}"
    text = f"{text} By default that of {STORE_VARIABLE}."
    kind = StoreParam(exists=exists and not create, file_okay=file_okay)
    return argument("store", type=kind, help=text, required=required)


def options(*several: Callable[[Any], Any]) -> Callable[[F], F]:
    """Some options as one decorator; the help lists the last one first."""

    def decorated(command: F) -> F:
        for option in several:
            command = option(command)
        return command

    return decorated


create_option = flag("--create", help="Create STORE if it does not exist.")
"""Of a command that can create STORE: see ``store_argument``."""


trust_option = click.option(
    "--trust",
    multiple=True,
    metavar="KEY",
    help="A trusted key: a file with a public key, or a DID. Repeatable.",
)
"""Of all commands that check signatures."""


log_format_option = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="The format of the log, on stderr.",
)
"""Of commands that run until a signal."""


def size_option(name: str, default: str, text: str) -> Callable[[F], F]:
    """An option for a number of bytes, with a default."""
    return click.option(name, type=Size(), default=default, metavar="SIZE", help=text)


def need(extra: str, *modules: str) -> None:
    """Refuse the command if a module is missing that an extra of the package installs."""
    for module in modules:
        library(extra, module, "the command needs more packages")


passphrase_option = click.option(
    "--passphrase-file",
    type=EXISTING,
    help="Decrypt a document of MIF 1.0 with the first line of this file.",
)
"""Of commands that read encrypted documents."""


mode_option = click.option(
    "--mode",
    type=click.Choice(("schema", "lenient", "extra")),
    help="How strictly MIF in JSON-LD is validated; by default schema. See validate.",
)
"""Of all commands that read such documents."""

shape_option = click.option(
    "--shape",
    type=click.Choice(("0.1", "1.x")),
    help="The shape of MIF in JSON-LD; by default each memory keeps its own, or gets 0.1.",
)
"""Of all commands that write such documents."""


class BackupParam(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A place of backups: a path, or a URL of object storage."""

    name = "place"

    def __init__(self, *, exists: bool = False) -> None:
        self._path = StoreParam(exists=exists)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        from omsgrain.storage.location import is_url  # not for --version

        if isinstance(value, str) and is_url(value) and not value.startswith("postgres"):
            return value
        return self._path.convert(value, param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        return self._path.shell_complete(ctx, param, incomplete)


class NewPath(click.Path):
    """The path of a file or a directory that is written. ``-`` is no name for one."""

    def __init__(
        self, *, stdout: bool = False, dir_okay: bool = False, file_okay: bool = True
    ) -> None:
        super().__init__(dir_okay=dir_okay, file_okay=file_okay, path_type=Path)
        self._stdout = stdout

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read it; None is stdout."""
        if value == _DASH:
            return None if self._stdout else self.fail(_INSTEAD, param, ctx)
        if value == "":  # which Python takes for the directory
            self.fail("expected a name", param, ctx)
        return super().convert(value, param, ctx)


def target_option(text: str, *, stdout: bool = True, required: bool = False) -> Callable[[F], F]:
    """The new file that a command writes."""
    kind = NewPath(stdout=stdout)
    return click.option("-o", "--output", "target", type=kind, required=required, help=text)


def refuse_dash(value: str) -> None:
    """Refuse ``-`` as a path."""
    if value == _DASH:
        raise click.UsageError(_INSTEAD)


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe, such as that of ``<(...)``: a second reading would wait without end."""
    if path.is_fifo():
        from omsgrain.formats.table import read_once

        raise read_once()


def pairs(texts: tuple[str, ...], form: str) -> dict[str, str]:
    """Split texts such as NAME=VALUE; ``form`` is the metavar of their option."""
    found: dict[str, str] = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not name or not sign or not value:
            raise click.BadParameter(f"{text!r} is not {form}")
        if name in found:
            raise click.BadParameter(f"{name} is given twice")
        found[name] = value
    return found


def is_given(*names: str) -> bool:
    """Whether one of some options was given."""
    source = click.get_current_context().get_parameter_source
    return any(source(name) is ParameterSource.COMMANDLINE for name in names)


def refuse_given(kind: str, *names: str) -> None:
    """Refuse given options that do not apply to this kind of file."""
    flags = {param.name: param.opts[0] for param in click.get_current_context().command.params}
    for name in names:
        if is_given(name):
            raise click.UsageError(f"{flags[name]} does not go with {kind}")


class Size(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A number of bytes, such as 64MB."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from omsgrain.storage.location import bytes_of

        try:
            found = bytes_of(value, "/size")
        except SchemaError:
            found = 0
        if found < 1:
            self.fail("expected a number of bytes, such as 64MB or 64MiB", param, ctx)
        return found


class Seconds(click.FloatRange):
    """A number of seconds between two others."""

    name = "seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Read it; NaN is within no range, but no comparison says so."""
        found: float = super().convert(value, param, ctx)
        if math.isnan(found):
            self.fail("expected a number of seconds", param, ctx)
        return found


class SpanParam(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A span of time, such as 12h or 30d, checked and left as it is."""

    name = "span"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from omsgrain.query import times

        text: str = value.strip()
        if not times.nanoseconds(text):
            self.fail(f"{value!r} is not a span of time: use 100ms, 90m, 30d", param, ctx)
        return text


class When(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A time in ms since 1970; a span such as 1h counts back from now, or with ``ahead`` on."""

    name = "time"

    def __init__(self, *, ahead: bool = False) -> None:
        self._ahead = ahead

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        from omsgrain.query import times

        try:
            return times.millis(value, field="", now=times.now(), ahead=self._ahead)
        except OmsError as error:
            self.fail(f"{value!r} is not a time: use {error.expected}", param, ctx)


class Asked(When):
    """A time for a query, checked and left as it is: pages of one age belong together."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        super().convert(value, param, ctx)
        return value
