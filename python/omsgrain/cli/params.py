# SPDX-License-Identifier: Apache-2.0
"""The types of arguments and options: stores, new files, sizes, times."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from omsgrain.cli.manual import STORE_VARIABLE, argument
from omsgrain.errors import UnsupportedError, packages_of
from omsgrain.storage.location import IN_MEMORY, StoreUrl, Where, is_url

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])

ADDRESS = "The address of a grain: 64 hex digits."
STORE = "A store: its directory, or postgresql://USER@HOST/DATABASE?tenant=NAME."
TOLD = "It must exist, or --create creates it."
BUNDLES, CONTAINERS, DOCUMENTS, TABLES = (
    "an AIMEM bundle", "a .mg file", "a MIF document", "a Parquet file",
)  # fmt: skip
"""The names of kinds of files in messages about options."""
EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)
"""The path of a file that is read."""

_NEW = "It is created if it does not exist."
_DASH = "-"
_INSTEAD = "'-' is not a file name here; use ./- for a file of that name"
_SIZE = re.compile(r"([1-9][0-9]{0,14})\s*([KMG]?)i?B?", re.IGNORECASE)
_SPAN = re.compile(r"([1-9][0-9]{0,5})([hdw])")
_HOURS = {"h": 1, "d": 24, "w": 168}
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30}


class StoreParam(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A path, or a URL, which is shown without its password from here on."""

    name = "store"

    def __init__(self, *, exists: bool = True, file_okay: bool = True) -> None:
        self._path = click.Path(exists=exists, file_okay=file_okay, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Where:
        """Read it."""
        if isinstance(value, StoreUrl):
            return value
        if is_url(value):
            return StoreUrl.parse(value)
        if value == IN_MEMORY:
            self.fail("a store in memory would be lost with this command; name a directory")
        if not self._path.exists:
            refuse_dash(value)
        path: Path = self._path.convert(value, param, ctx)
        return path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete it as a path."""
        return self._path.shell_complete(ctx, param, incomplete)


def store_argument(
    *, exists: bool = True, file_okay: bool = True, create: bool = False
) -> Callable[[F], F]:
    """The STORE of a command."""
    text = f"{STORE} {TOLD}" if create else STORE if exists else f"{STORE} {_NEW}"
    text = f"{text} By default that of {STORE_VARIABLE}."
    kind = StoreParam(exists=exists and not create, file_okay=file_okay)
    return argument("store", type=kind, help=text)


def options(*several: Callable[[Any], Any]) -> Callable[[F], F]:
    """Some options as one decorator; the help lists the last one first."""

    def decorated(command: F) -> F:
        for option in several:
            command = option(command)
        return command

    return decorated


def create_option(command: F) -> F:
    """``--create``, of a command that can create STORE: see ``store_argument``."""
    return click.option("--create", is_flag=True, help="Create STORE if it does not exist.")(
        command
    )


def trust_option(command: F) -> F:
    """``--trust``, of all commands that check signatures."""
    text = "A trusted key: a file with a public key, or a DID. Repeatable."
    return click.option("--trust", multiple=True, metavar="KEY", help=text)(command)


def log_format_option(command: F) -> F:
    """``--log-format``, of commands that run until a signal."""
    return click.option(
        "--log-format",
        type=click.Choice(["text", "json"]),
        default="text",
        show_default=True,
        help="The format of the log, on stderr.",
    )(command)


def size_option(name: str, default: str, text: str) -> Callable[[F], F]:
    """An option for a number of bytes, with a default."""
    return click.option(
        name, type=Size(), default=default, metavar="SIZE", show_default=True, help=text
    )


@contextmanager
def packages(extra: str, *modules: str) -> Iterator[None]:
    """Refuse the command if a module is missing that an extra of the package installs."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in modules:
            raise
        raise UnsupportedError(
            "the command needs more packages", expected=packages_of(extra)
        ) from None


def passphrase_option(command: F) -> F:
    """``--passphrase-file``, of commands that read encrypted documents."""
    text = "Decrypt a document of MIF 1.0 with the first line of this file."
    return click.option("--passphrase-file", type=EXISTING, help=text)(command)


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


def refuse_dash(value: str) -> None:
    """Refuse ``-`` as a path."""
    if value == _DASH:
        raise click.UsageError(_INSTEAD)


def refuse_pipe(path: Path) -> None:
    """Refuse a pipe, such as that of ``<(...)``: a second reading would wait without end."""
    if path.is_fifo():
        from omsgrain.formats.table import read_once

        raise read_once()


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
        """Read it."""
        if isinstance(value, int):
            return value
        found = _SIZE.fullmatch(value.strip())
        if found is None:
            self.fail("expected a number of bytes, such as 64MB", param, ctx)
        return int(found[1]) << _UNITS[found[2].upper()]


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


class Until(click.ParamType):  # type: ignore[type-arg]  # generic in newer versions of click
    """A time to come, in ms since 1970: RFC 3339, or in how many hours, days or weeks."""

    name = "until"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read it."""
        if isinstance(value, int):
            return value
        now = time.time_ns() // 1_000_000
        if found := _SPAN.fullmatch(value.strip()):
            return now + int(found[1]) * _HOURS[found[2]] * 3_600_000
        from omsgrain.formats import times

        parsed = times.parse(value.strip())
        if parsed is None:
            self.fail(f"{value!r} is not a time: use RFC 3339, or 12h, 30d, 4w", param, ctx)
        return parsed.millis
