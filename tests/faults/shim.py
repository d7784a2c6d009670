# SPDX-License-Identifier: Apache-2.0
"""The library of ``shim.c``: built with the C compiler, and moved from within the process."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from enum import IntEnum
from pathlib import Path

SOURCE = Path(__file__).with_name("shim.c")


class Kind(IntEnum):
    """The fault at the n-th change of a file; numbers are those of ``shim.c``."""

    COUNT = 1
    KILL = 2
    """The process is killed before it."""
    TEAR = 3
    """It is done by half, and the process killed."""
    FAIL_IO = 4
    """It fails, once, as a broken disk does."""
    FAIL_FULL = 5
    """It fails, and so does each later one that needs space."""
    SHORT_WRITE = 6
    """It is done by half, and says so."""
    SHORT_READ = 7
    """All reads give half of what was asked for, at most."""


DEADLY = (Kind.KILL, Kind.TEAR)
FAILING = (Kind.FAIL_IO, Kind.FAIL_FULL, Kind.SHORT_WRITE)


def compiler() -> str | None:
    """The C compiler, where there is one and the shim can be loaded."""
    return shutil.which("cc") if sys.platform == "linux" else None


def build(directory: Path) -> Path:
    """Build the library."""
    made = directory / "shim.so"
    command = ["cc", "-O1", "-shared", "-fPIC", "-o", str(made), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return made


def environment(library: Path) -> dict[str, str]:
    """The environment of a process that runs under the library."""
    return {**os.environ, "LD_PRELOAD": str(library)}


class Shim:
    """The controls of a process that runs under the library."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL(None)
        self._library.fault_arm.argtypes = (ctypes.c_int, ctypes.c_long, ctypes.c_char_p)
        self._library.fault_count.restype = ctypes.c_long
        self._library.fault_clock.argtypes = (ctypes.c_long,)

    def arm(self, kind: Kind, at: int, under: Path) -> None:
        """From now on the change of that number, from 1, below a directory is the one."""
        self._library.fault_arm(kind, at, os.fsencode(under))

    def rest(self) -> int:
        """Let everything be as it is; how many changes there were."""
        changes = int(self._library.fault_count())
        self._library.fault_arm(0, 0, b"/")
        return changes

    def clock(self, seconds: int) -> None:
        """Move the clock: so many seconds ahead of the right time, or behind it below zero."""
        self._library.fault_clock(seconds)
