# SPDX-License-Identifier: Apache-2.0
"""Bounds of a single input: memory and time. A process beyond them dies and leaves the input.

The input under work stands in a mapped file, so that whoever started the process can read it
after any death. Time is bounded by an alarm that kills, since nothing in Python runs while the
core is at work: of the processor's time, so that a busy machine is not at fault. Memory is bounded
by a limit of the process, on what it had when it was ready.
"""

from __future__ import annotations

import mmap
import resource
import signal
import struct
from pathlib import Path
from typing import Final

_SIZE: Final = struct.Struct(">I")
_SPACE: Final = 4 << 20
_MEMORY: Final = 512 << 20
"""Bytes that inputs may take, beside what the target took when it was ready."""
_TIME: Final = 10.0
"""Seconds that an input may take: a hundred times what the slowest takes."""


class Watch:
    """Bounds the inputs of this process.

    Args:
        path: a file for the input under work.
    """

    def __init__(self, path: Path, *, memory: int = _MEMORY, time: float = _TIME) -> None:
        path.write_bytes(bytes(_SPACE))
        with path.open("r+b") as file:
            self._now = mmap.mmap(file.fileno(), _SPACE)
        self._memory, self._time = memory, time
        self._bounded = False
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def next(self, data: bytes) -> None:
        """Say which input comes, and bound it."""
        if not self._bounded:
            self._bound()
        self._now[: _SIZE.size + len(data)] = _SIZE.pack(len(data)) + data
        signal.setitimer(signal.ITIMER_PROF, self._time)

    def rest(self) -> None:
        """Bound nothing until the next."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _bound(self) -> None:
        self._bounded = True
        taken = _taken()
        if taken is not None:
            most = taken + self._memory
            resource.setrlimit(resource.RLIMIT_DATA, (most, resource.RLIM_INFINITY))


def _taken() -> int | None:
    """Bytes of private memory of this process; None where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    for line in status.read_text().splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) << 10
    return None


def last(path: Path) -> bytes:
    """The input that a process was at when it died."""
    with path.open("rb") as file:
        size = _SIZE.unpack(file.read(_SIZE.size))[0]
        return file.read(size)
