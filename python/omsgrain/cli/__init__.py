# SPDX-License-Identifier: Apache-2.0
"""The command line: one file per command group, loaded when one of its commands is called.

`main` is the only place where an exception becomes a message and an exit code. Results go to
stdout, everything said about them to stderr; with ``--json`` both are JSON.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import BufferedReader, BufferedWriter, FileIO, RawIOBase, TextIOWrapper
from typing import Any

import click

from omsgrain.cli import output
from omsgrain.cli.manual import Chapter

#: Command -> the module of this package that holds it, and its name there.
COMMANDS = {
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
    "hold": ("change", "hold"),
    "release": ("change", "release"),
    "delete": ("change", "delete"),
    "restrict": ("people", "restrict"),
    "unrestrict": ("people", "unrestrict"),
    "consent": ("people", "consent"),
    "report": ("people", "report"),
    "erase": ("people", "erase"),
    "due": ("people", "due"),
    "verify": ("verify", "verify"),
    "validate": ("validate", "validate"),
    "ontology": ("ontology", "ontology"),
    "export": ("export", "export"),
    "import": ("imports", "import_"),
    "sync": ("sync", "sync"),
    "convert": ("convert", "convert"),
    "audit": ("audit", "audit"),
    "policy": ("policy", "policy"),
    "stats": ("maintenance", "stats"),
    "check": ("maintenance", "check"),
    "rebuild": ("maintenance", "rebuild"),
    "compact": ("maintenance", "compact"),
    "backup": ("maintenance", "backup"),
    "restore": ("maintenance", "restore"),
    "token": ("token", "token"),
    "serve": ("serve", "serve"),
    "mcp": ("mcp", "mcp"),
    "bridge": ("bridge", "bridge"),
    "keys": ("keys", "keys"),
    "keygen": ("keys", "keygen"),
    "sign": ("keys", "sign"),
    "disclose": ("disclose", "disclose"),
    "bench": ("bench", "bench"),
    "vectors": ("conformance", "vectors"),
    "conformance": ("conformance", "conformance"),
    "demo": ("demo", "demo"),
}

EXAMPLES = """
Put grains into a store, export them to a file, and verify the file:
    omsgrain ingest memory.omsg grains.jsonl
    omsgrain export memory.omsg memory.mg
    omsgrain verify memory.mg
Help for a command:
    omsgrain query --help
"""
COMPLETION = (
    'Shell completion: eval "$(_OMSGRAIN_COMPLETE=bash_source omsgrain)" (or zsh_source); '
    "for fish: _OMSGRAIN_COMPLETE=fish_source omsgrain | source."
)


class LazyGroup(Chapter):
    """A group that imports a command when it is needed, so that ``--version`` stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order of a grain's life."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command's module."""
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name]
        command = getattr(import_module(f"omsgrain.cli.{module}"), name)
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run, and treat a closed pipe and Ctrl-C here, before click does it its own way."""
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
    """Run one command line and return its exit code; nothing but a bug passes as an exception."""
    options = args[: list(args).index("--")] if "--" in args else args
    try:
        result = omsgrain.main(list(args), prog_name="omsgrain", standalone_mode=False)
        sys.stdout.flush()
    except BrokenPipeError:
        return output.close_stdout()
    except Exception as raised:
        error = raised
        if isinstance(raised, UnicodeEncodeError) and output.halved("".join(args)):
            error = click.UsageError("an argument is not UTF-8")  # as a name of a file may be
        if (code := output.report(error, as_json="--json" in options)) is None:
            raise
        try:
            sys.stdout.flush()
        except OSError:  # the interpreter would try again at exit, and report the error
            output.close_stdout()
        return code
    return result if isinstance(result, int) else 0


class _ClosedStdin(FileIO):
    """A stdin that the caller closed: reading it is an error, not the end of the input."""

    def readinto(self, buffer: Any) -> int:
        raise OSError(errno.EBADF, "stdin is closed")

    def readall(self) -> bytes:
        raise OSError(errno.EBADF, "stdin is closed")


def main() -> None:
    """The console script."""
    if sys.stdin is None:  # closed by the caller, as in `omsgrain ... <&-`
        sys.stdin = TextIOWrapper(BufferedReader(_ClosedStdin(os.devnull)))
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))
    if isinstance(getattr(sys.stdout, "buffer", None), RawIOBase):
        # PYTHONUNBUFFERED: half a write would be no error.
        whole = BufferedWriter(sys.stdout.buffer)
        sys.stdout = TextIOWrapper(whole, encoding=sys.stdout.encoding, write_through=True)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # characters that it cannot write are escaped
            stream.reconfigure(errors="backslashreplace")
    sys.exit(run(sys.argv[1:]))
