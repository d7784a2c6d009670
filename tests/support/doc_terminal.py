# SPDX-License-Identifier: Apache-2.0
"""Lines of `omsgrain` as a page shows them, run in this process."""

from __future__ import annotations

import io
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from omsgrain.cli import run

COMMAND = "omsgrain"


def typed(line: str) -> tuple[int, str]:
    """Run one line, with what ``<`` and ``>`` say; its exit code, and all that it says.

    stdout and stderr come as a terminal mixes them; what went to a file is not among it.
    """
    words = shlex.split(line, comments=True)
    assert words[0] == COMMAND, line
    given, written = _taken(words, "<"), _taken(words, ">")
    said, kept = (
        io.TextIOWrapper(io.BytesIO(), "utf-8", newline="\n", write_through=True) for _ in "12"
    )
    stdin = io.TextIOWrapper(io.BytesIO(Path(given).read_bytes() if given else b""))
    with (
        mock.patch.object(sys, "stdin", stdin),
        redirect_stdout(said if written is None else kept),
        redirect_stderr(said),
    ):
        code = run(words[1:])
    if written is not None:
        Path(written).write_bytes(_read(kept))
    return code, _read(said).decode()


def _taken(words: list[str], sign: str) -> str | None:
    """Take a redirection out of a command line; the name of its file."""
    if sign not in words:
        return None
    at = words.index(sign)
    name = words[at + 1]
    del words[at : at + 2]
    return name


def _read(stream: io.TextIOWrapper) -> bytes:
    stream.seek(0)
    return bytes(stream.buffer.read())
