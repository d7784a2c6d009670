# SPDX-License-Identifier: Apache-2.0
"""A Python process beside the test, which it talks to in lines."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from typing import IO


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
