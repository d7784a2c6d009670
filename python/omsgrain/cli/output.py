# SPDX-License-Identifier: Apache-2.0
"""Output of all commands: JSON, errors, warnings and losses."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from omsgrain.cli.command import flag
from omsgrain.errors import (
    BY_CODE,
    ErasedError,
    FormatError,
    HashLengthError,
    InvalidationDeniedError,
    OmsError,
)

if TYPE_CHECKING:
    from omsgrain.formats.document import Loss

OS_ERROR = 1
INTERRUPTED, PIPE_CLOSED = 130, 141  # the exit codes of a shell for SIGINT and SIGPIPE

# Characters that control a terminal or reorder text: C0, DEL, C1, bidirectional controls. Also
# half surrogates, which no output can encode: Python decodes a name that is not UTF-8 to them.
_ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_HALF = re.compile("[\ud800-\udfff]")
# The login in a URL, or in a path made from a URL. The whole word matches, so that a long word
# without "@" is scanned once.
_LOGIN = re.compile(r"(:/{1,2}[^\s:]*):(\S*)")
_PASSWORD = re.compile(r"(password=)[^\s&']+", re.IGNORECASE)
_LONGEST = 1_000  # characters of a message

SHOWN = 10
"""Defects, warnings and refusals that are printed; the rest are counted."""


json_option = flag(
    "--json", "as_json", help="One JSON document on stdout; an error is JSON on stderr."
)


def safe(text: str) -> str:
    """Escape control characters: a grain must not control the reader's terminal."""
    return _ACTIVE.sub(lambda m: f"\\u{ord(m[0]):04x}", text)


def halved(text: str) -> bool:
    """Whether a text has half a surrogate pair, as an argument that is not UTF-8 has."""
    return _HALF.search(text) is not None


def masked(text: str) -> str:
    """Shorten a message, and mask the passwords of URLs in it."""
    text = _PASSWORD.sub(r"\1***", _LOGIN.sub(_mask_login, text))
    half = _LONGEST // 2
    return text if len(text) <= _LONGEST else f"{text[:half]} ... {text[-half:]}"


def _mask_login(found: re.Match[str]) -> str:
    _, at, host = found[2].rpartition("@")
    return f"{found[1]}:***@{host}" if at else found[0]


def dumps(value: Any, indent: int | None = None) -> str:
    """Return JSON text: non-ASCII letters unescaped, control characters escaped."""
    return safe(json.dumps(value, ensure_ascii=False, indent=indent))


def emit(value: Any) -> None:
    """Print JSON to stdout, always in UTF-8."""
    click.echo((dumps(value) + "\n").encode(), nl=False)


def report(error: Exception, *, as_json: bool) -> int | None:
    """Print the error to stderr and return the exit code; None if the class is unknown."""
    if isinstance(error, OmsError):
        text, values, code = str(error), error.to_dict(), error.exit_code
        if isinstance(error, HashLengthError):  # most often cut from a table
            text += "; --full and --json show whole addresses"
        if error.rule is not None:  # often only the rule gives the reason
            text += f"; rule {error.rule}"
    elif isinstance(error, click.ClickException):
        text, code = error.format_message(), error.exit_code
        if not as_json:
            # For a group without a command the message is its help page.
            shown = text if type(error).__name__ == "NoArgsIsHelpError" else masked(text)
            error.format_message = lambda: shown  # type: ignore[method-assign]
            error.show()
            return code
        values = {"code": "USAGE", "message": text}
    elif isinstance(error, click.Abort):
        text, code = "interrupted", INTERRUPTED
        values = {"code": "INTERRUPTED", "message": text}
    elif isinstance(error, OSError):
        name = errno.errorcode.get(error.errno or 0, "OS")
        text = error.strerror or str(error) or name
        if error.filename is not None:
            text += f": {os.fspath(error.filename)!r}"
        if type(error).__module__ == "ssl":  # errno does not apply, and the text is OpenSSL's
            name, text = (
                "TLS",
                f"certificates and keys must be PEM and belong together; found {text}",
            )
        values, code = {"code": name, "message": text}, OS_ERROR
    else:
        return None
    if as_json:
        short = {name: masked(v) if isinstance(v, str) else v for name, v in values.items()}
        click.echo(dumps({"error": short}), err=True)
    else:
        click.echo(f"Error: {safe(masked(text))}", err=True)
    return code


def exit_of(code: str | None, reason: str | None = None) -> int:
    """Return the exit code of an import that refused a record."""
    if code in BY_CODE:
        return BY_CODE[code].exit_code
    known: dict[str | None, type[OmsError]] = {"erased": ErasedError, "invalid": FormatError}
    return known.get(reason, InvalidationDeniedError).exit_code


def close_stdout() -> int:
    """Point stdout nowhere, so that the flush at exit does not complain about a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED


def done(as_json: bool, text: str, **values: Any) -> None:
    emit(values) if as_json else click.echo(safe(text))


def warn(warnings: list[dict[str, Any]], name: str = "") -> None:
    """Print the first warnings to stderr, and how many more there are."""
    of = f"{name}: " if name else ""
    for one in warnings[:SHOWN]:
        line = f"line {one['line']}" if one.get("line") is not None else ""
        place = " ".join(part for part in (line, one.get("pointer")) if part)
        where = f" (at {place})" if place else ""
        text = f"{of}warning: {one['rule']}: {one['message']}{where}"
        click.echo(safe(text), err=True)
    if len(warnings) > SHOWN:
        click.echo(safe(f"{of}… and {len(warnings) - SHOWN} more warnings"), err=True)


def more(number: int, what: str) -> None:
    """Print to stderr how many others are not listed."""
    if number > 0:
        click.echo(f"… and {number} more {what}", err=True)


def print_losses(losses: Sequence[Loss], total: int, added: Sequence[Loss]) -> None:
    """Print the losses and the added values to stderr, each field once."""
    _print_fields("lost", losses)
    more(total - len(losses), "losses")
    _print_fields("added", added)


def _print_fields(what: str, losses: Sequence[Loss]) -> None:
    counts = Counter((one.field, one.reason) for one in losses)
    for (field, reason), number in counts.most_common():
        times = f", {number} times" if number > 1 else ""
        click.echo(safe(f"{what}: {field}{times}: {reason}"), err=True)


def print_withheld(withheld: Mapping[str, int]) -> None:
    """Print to stderr how many records the store withholds, and why."""
    for reason, number in withheld.items():
        click.echo(f"withheld: {number}, {reason}", err=True)


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Return a number with its noun, such as "1 grain" or "2 grains"."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def problems(number: int) -> str:
    """Return a number of problems, such as "no problems"."""
    return plural(number, "problem") if number else "no problems"


def counted(records: Mapping[str, int]) -> str:
    """Return numbers of records by kind, as text."""
    words = {"chunk_entities": "links"}
    return ", ".join(f"{number} {words.get(name, name)}" for name, number in records.items())
