# SPDX-License-Identifier: Apache-2.0
"""The names of files, brought to the disk: without its name a file that is synced is lost."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["sync_directory"]


def sync_directory(path: Path) -> None:
    """Make the names in a directory durable."""
    if os.name != "posix":
        return  # elsewhere a directory cannot be opened to be synced
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
