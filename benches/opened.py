# SPDX-License-Identifier: Apache-2.0
"""How long a new process takes to open a store: `python -m benches.opened STORE`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import omsgrain as og
from benches.machine import anonymous
from benches.measure import check
from benches.spawn import as_installed

_ROOT = Path(__file__).resolve().parents[1]


def opened_in_child(path: Path) -> dict[str, dict[str, float]]:
    """Open it with nothing of it in memory, and again; this process must not have it open."""
    _forget(path / "data.mdb")
    return {name: _child(path) for name in ("cold", "warm")}


def _child(path: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "benches.opened", str(path)]
    done = subprocess.run(
        command, cwd=_ROOT, env=as_installed(), check=True, capture_output=True, text=True
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _forget(file: Path) -> None:
    """Ask the system to drop a file from memory, where it can be asked."""
    if hasattr(os, "posix_fadvise"):
        fd = os.open(file, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def main(path: str) -> None:
    """Open, ask one question, say what it took."""
    for module in ("omsgrain.store", "omsgrain.storage.lmdb.storage", "omsgrain.query.query"):
        import_module(module)  # is no part of opening
    before = anonymous()
    start = time.perf_counter()
    with og.open(path, readonly=True) as store:
        opened = time.perf_counter()
        found = store.query(subject="robot-7", limit=1)
        asked = time.perf_counter()
        memory = anonymous() - before
    check(len(found.results) == 1, "it is found")
    seconds = {"open": opened - start, "query": asked - opened}
    print(json.dumps({**seconds, "anonymous": memory}))


if __name__ == "__main__":
    main(*sys.argv[1:])
