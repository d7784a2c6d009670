# SPDX-License-Identifier: Apache-2.0
"""Python processes beside the test, which it talks to in lines; `omsgrain` as one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from tempfile import TemporaryFile
from textwrap import dedent
from types import TracebackType
from typing import IO, TypeVar

COMMAND = "from omsgrain.cli import main; main()"
Self = TypeVar("Self", bound="Command")
PATIENCE = 60.0  # seconds that something may take which usually takes less than one


class Process:
    """A Python process that speaks in lines."""

    def __init__(self, code: str, *args: object) -> None:
        command = [sys.executable, "-c", dedent(code), *map(str, args)]
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.child.kill()
        self.child.communicate()

    def hear(self) -> str:
        pipe: IO[str] | None = self.child.stdout
        assert pipe is not None
        return pipe.readline().strip()

    def say(self, line: str = "") -> None:
        pipe: IO[str] | None = self.child.stdin
        assert pipe is not None
        pipe.write(line + "\n")
        pipe.flush()


class Command:
    """A command of omsgrain that runs until it is told to end.

    Args:
        arguments: of it.
        said: a file for what it writes to stderr: a pipe that nobody reads would fill up.
        env: its environment; by default that of the test.

    Attributes:
        code: what it ended with.
        log: what it wrote to stderr, when it has ended.
    """

    def __init__(
        self,
        *arguments: object,
        said: IO[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._said = TemporaryFile("w+") if said is None else said
        self._from = self._said.tell()
        self.child = subprocess.Popen(
            [sys.executable, "-c", COMMAND, *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=self._said,
            text=True,
            env=env,
        )
        self.code: int | None = None
        self.log = ""

    def end(self, number: int) -> int:
        """Send a signal, and wait for the end."""
        if self.code is None:
            self.child.send_signal(number)
            self.wait()
        assert self.code is not None
        return self.code

    def wait(self) -> int:
        """Wait until it ends by itself."""
        said, _ = self.child.communicate(timeout=PATIENCE)
        self.hear(said)
        self.code, self.log = self.child.returncode, self._read()
        return self.code

    def hear(self, said: str) -> None:
        """Take in what it wrote to stdout at last."""

    def _read(self) -> str:
        self._said.seek(self._from)
        return self._said.read()

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.code is None:
            self.child.kill()
            self.child.communicate()
        self._said.close()
