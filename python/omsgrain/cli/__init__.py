# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command group, imported when one of its commands runs.

`main` is the only place that turns an exception into a message and an exit code. Results go to
stdout, messages to stderr; with ``--json`` both are JSON.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, RawIOBase, TextIOWrapper
from typing import Any, Final

import click

from omsgrain.cli import output
from omsgrain.cli.command import STORE_VARIABLE, Chapter

#: The groups of ``--help``: each command's module in this package, and its name there.
GROUPS: Final = {
    "Grains": {
        "init": ("maintenance", "init"),
        "ingest": ("ingest", "ingest"),
        "query": ("query", "query"),
        "search": ("query", "search"),
        "get": ("show", "get"),
        "show": ("show", "show"),
        "inspect": ("inspect", "inspect"),
        "supersede": ("change", "supersede"),
        "mark": ("change", "mark"),
        "state": ("change", "state"),
        "history": ("history", "history"),
        "provenance": ("history", "provenance"),
        "duplicates": ("history", "duplicates"),
        "reviews": ("change", "reviews"),
        "delete": ("change", "delete"),
    },
    "Documents and files": {
        "import": ("imports", "import_"),
        "export": ("export", "export"),
        "convert": ("convert", "convert"),
        "verify": ("verify", "verify"),
        "validate": ("validate", "validate"),
        "ontology": ("ontology", "ontology"),
    },
    "People": {
        "report": ("people", "report"),
        "erase": ("people", "erase"),
        "restrict": ("people", "restrict"),
        "unrestrict": ("people", "unrestrict"),
        "consent": ("people", "consent"),
        "hold": ("change", "hold"),
        "release": ("change", "release"),
        "policy": ("policy", "policy"),
        "due": ("people", "due"),
    },
    "Trust": {
        "keygen": ("keys", "keygen"),
        "sign": ("keys", "sign"),
        "disclose": ("disclose", "disclose"),
        "keys": ("keys", "keys"),
        "audit": ("audit", "audit"),
    },
    "Services": {
        "serve": ("serve", "serve"),
        "mcp": ("mcp", "mcp"),
        "bridge": ("bridge", "bridge"),
        "token": ("token", "token"),
        "sync": ("sync", "sync"),
    },
    "Maintenance": {
        "stats": ("maintenance", "stats"),
        "paths": ("maintenance", "paths"),
        "check": ("maintenance", "check"),
        "rebuild": ("maintenance", "rebuild"),
        "retain": ("retain", "retain"),
        "compact": ("maintenance", "compact"),
        "backup": ("backup", "backup"),
        "backups": ("backup", "backups"),
        "restore": ("backup", "restore"),
        "bench": ("bench", "bench"),
    },
    "Formats": {
        "vectors": ("conformance", "vectors"),
        "conformance": ("conformance", "conformance"),
    },
}
COMMANDS: Final = {name: place for group in GROUPS.values() for name, place in group.items()}

EXAMPLES = """
Put grains into a store, export them to a file, and verify the file:
    omsgrain ingest memory.omsg grains.jsonl
    omsgrain export memory.omsg memory.mg
    omsgrain verify memory.mg
Help for a command:
    omsgrain query --help
"""
#: The index of environment variables in ``--help``.
VARIABLES: Final = {
    STORE_VARIABLE: "The store, for a command line that leaves out STORE.",
    "OMSGRAIN_KEYS": "The key file: --keys.",
    "OMSGRAIN_MASTER": "The master key of the key file: --master.",
    "OMSGRAIN_MEMORY": "The memory limit of an open store: --memory.",
    "OMSGRAIN_THREADS": "The most threads for a batch: one a core without it.",
    "OMSGRAIN_TOKEN": "The token for a server, of sync and conformance.",
    "OMSGRAIN_BROKER_PASSWORD": "The password for the broker of bridge.",
}
COMPLETION = (
    'Shell completion: eval "$(_OMSGRAIN_COMPLETE=bash_source omsgrain)" (or zsh_source); '
    "for fish: _OMSGRAIN_COMPLETE=fish_source omsgrain | source."
)


class LazyGroup(Chapter):
    """A group that imports a command when it is needed, so that ``--version`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under the names of their groups."""
        width = formatter.width - 6 - max(map(len, COMMANDS))
        for title, group in GROUPS.items():
            found = {name: self.get_command(ctx, name) for name in group}
            lines = [(name, one.get_short_help_str(width)) for name, one in found.items() if one]
            with formatter.section(title):
                formatter.write_dl(lines, col_max=30)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(import_module(f"omsgrain.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, the commands, and the index of environment variables."""
        super().format_options(ctx, formatter)
        with formatter.section("Environment variables"):
            formatter.write_dl(list(VARIABLES.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run, and handle a closed pipe and Ctrl-C before click does."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            return output.close_stdout()
        except KeyboardInterrupt:
            raise click.Abort from None


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        import omsgrain

        click.echo(f"omsgrain {omsgrain.__version__}")
        ctx.exit()


@click.group(
    cls=LazyGroup,
    examples=EXAMPLES,
    epilog=COMPLETION,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 99},
)
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_print_version,
    help="Show the version and exit.",
)
def omsgrain() -> None:
    """Git objects for agent memory: memory grains (OMS 1.2) and their store.

    A STORE is a directory such as memory.omsg, or postgresql://USER@HOST/DATABASE?tenant=NAME.
    """


def run(args: Sequence[str]) -> int:
    """Run one command line and return its exit code; only a bug raises."""
    options = args[: list(args).index("--")] if "--" in args else args
    try:
        result = omsgrain.main(list(args), prog_name="omsgrain", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return output.close_stdout()
    except Exception as raised:
        error = raised
        if isinstance(raised, UnicodeEncodeError) and output.halved("".join(args)):
            error = click.UsageError("an argument is not UTF-8")  # such as a file name
        if (code := output.report(error, as_json="--json" in options)) is None:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # Python would flush again at exit and report the error
            output.close_stdout()
        return code
    return result if isinstance(result, int) else 0


class _ClosedStdin(FileIO):
    """A stdin that the caller closed: reading raises an error instead of returning no bytes."""

    def readinto(self, buffer: Any) -> int:
        raise OSError(errno.EBADF, "stdin is closed")

    def readall(self) -> bytes:
        raise OSError(errno.EBADF, "stdin is closed")


def main() -> None:
    if sys.stdin is None:  # the caller closed it: `omsgrain ... <&-`
        sys.stdin = TextIOWrapper(BufferedReader(_ClosedStdin(os.devnull)))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    if isinstance(getattr(sys.stdout, "buffer", None), RawIOBase):
        # With PYTHONUNBUFFERED, a partial write would raise no error.
        whole = BufferedWriter(sys.stdout.buffer)
        sys.stdout = TextIOWrapper(whole, encoding=sys.stdout.encoding, write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # escapes characters that the encoding lacks
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
