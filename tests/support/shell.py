# SPDX-License-Identifier: Apache-2.0
"""Command lines run in this process, and the grains that they are run on."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.cli import run
from omsgrain.errors import BY_CODE
from support.minimal_grains import minimal

USAGE = 2
TIME = 1_768_471_200_000


class Shell:
    """Runs command lines in this process and keeps what the last one printed."""

    def __init__(
        self, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._capture = capfdbinary
        self._monkeypatch = monkeypatch
        self.out = self.err = b""

    def __call__(self, *args: object, stdin: bytes | io.BytesIO = b"") -> int:
        stream = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(stream))
        code = run([str(arg) for arg in args])
        sys.stdout.flush()
        self.out, self.err = self._capture.readouterr()
        return code

    def json(self, *args: object, stdin: bytes = b"") -> Any:
        """The JSON output of a command that succeeds."""
        assert self(*args, "--json", stdin=stdin) == 0, self.err
        return json.loads(self.out)

    def refused(self, *args: object, stdin: bytes = b"") -> tuple[int, Any]:
        """The exit code of a command that did a part, and what it prints with --json."""
        code = self(*args, "--json", stdin=stdin)
        assert code != 0, self.out
        return code, json.loads(self.out)

    def error(self, *args: object, stdin: bytes = b"") -> tuple[int, dict[str, Any]]:
        """The exit code and the error that a command prints with --json."""
        code = self(*args, "--json", stdin=stdin)
        return code, json.loads(self.err)["error"]


def belief(n: int, **more: Any) -> dict[str, Any]:
    return minimal("belief", subject=f"s{n}", **more)


def lines(*dicts: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(fields).encode() + b"\n" for fields in dicts)


def count(path: Path) -> int:
    with og.open(path, readonly=True) as grains:
        return len(grains)


def lamp(what: str, at: int = 0, **more: Any) -> dict[str, Any]:
    """A belief about a lamp, so many milliseconds after `TIME`."""
    return {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.9,
        "created_at": TIME + at,
        **more,
    }


def exit_code(code: str) -> int:
    """The exit code for an error code."""
    return BY_CODE[code].exit_code
