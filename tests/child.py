# SPDX-License-Identifier: Apache-2.0
"""Run a piece of Python in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent


def run(code: str, *args: object) -> list[str]:
    """Run the code to its end; it finds the arguments, as text, in ``sys.argv[1:]``.

    Returns:
        The lines it printed. A child that fails fails the test, with what it said.
    """
    done = subprocess.run(
        [sys.executable, "-c", dedent(code), *map(str, args)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
