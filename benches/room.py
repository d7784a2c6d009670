# SPDX-License-Identifier: Apache-2.0
"""Where a benchmark keeps its files while it runs."""

from __future__ import annotations

import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["room"]

_ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C raises already; by these a process would leave its files behind."""


@contextmanager
def room() -> Iterator[Path]:
    """A directory beside this file, removed at the end, however that comes but by SIGKILL.

    It is not in /tmp, which may be memory, where a sync costs nothing.
    """
    before = [signal.signal(one, lambda number, _: sys.exit(128 + number)) for one in _ENDING]
    try:
        here = Path(__file__).resolve().parent
        with tempfile.TemporaryDirectory(prefix="tmp-", dir=here) as directory:
            yield Path(directory)
    finally:
        for one, action in zip(_ENDING, before, strict=True):
            signal.signal(one, action)
