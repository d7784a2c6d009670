# SPDX-License-Identifier: Apache-2.0
"""Is every byte of a store what it must be? Run as ``python -m omsgrain.store.check DIRECTORY``.

It runs in a process of its own: LMDB trusts its pages, and a damaged one can end the process that
reads it, or lead it round for ever. That is a finding too.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from omsgrain.errors import OmsError
from omsgrain.store.base import CheckReport, Problem
from omsgrain.store.check_blobs import BlobCheck
from omsgrain.store.checking import examine
from omsgrain.store.layout import broken_pages
from omsgrain.store.lmdb import LmdbStore
from omsgrain.store.opening import DATA_FILE

__all__ = ["check", "check_in_child"]

_SLOWEST = 1 << 20  # bytes a second that a check reads at the least; ten times that is usual
_START = 60.0  # seconds for a process to begin on a busy machine


def check_in_child(path: Path, patience: float | None = None) -> CheckReport:
    """Check the store at a path in a process of its own.

    Args:
        path: the store's directory.
        patience: seconds until the process is killed; None: in proportion to the file.
    """
    if patience is None:
        file = path / DATA_FILE
        patience = _START + (file.stat().st_size if file.exists() else 0) / _SLOWEST
    command = [sys.executable, "-m", "omsgrain.store.check", str(path)]
    try:
        child = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=patience
        )
    except subprocess.TimeoutExpired:
        return _unread(f"no end after {patience:.0f} s")
    if child.returncode != 0:
        how = f"signal {-child.returncode}" if child.returncode < 0 else "an error"
        return _unread(how)
    found = json.loads(child.stdout)
    problems = tuple(Problem(**problem) for problem in found.pop("problems"))
    return CheckReport(problems=problems, **found)


def _unread(how: str) -> CheckReport:
    problem = Problem("file", None, f"the file could not be read to its end ({how})")
    return CheckReport(False, (problem,), 0, 0)


def check(path: Path) -> CheckReport:
    """Check the store at a path in this process."""
    try:
        store = LmdbStore(path, readonly=True)
    except OmsError as error:
        return CheckReport(False, (Problem("file", None, error.message),), 0, 0)
    try:
        with store.read() as reader:
            broken = broken_pages(store.descriptor(), *reader.commit())
            first = (Problem("file", None, broken),) if broken else ()
            return examine(reader, BlobCheck(reader), first)
    except OmsError as error:
        return CheckReport(False, (Problem("file", None, str(error)),), 0, 0)
    finally:
        store.close()


if __name__ == "__main__":
    print(json.dumps(asdict(check(Path(sys.argv[1])))))
