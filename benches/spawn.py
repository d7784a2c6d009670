# SPDX-License-Identifier: Apache-2.0
"""Runs a row in a process of its own, whose thread pool has the size asked for."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benches.measure import ALL_CORES
from benches.peer import Absent
from benches.room import room

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True, slots=True)
class Samples:
    """What a child measured: seconds or bytes, and how many grains a sample is for."""

    ours: list[float]
    peer: list[float]
    items: int
    peer_items: int

    def joined(self, later: Samples) -> Samples:
        """These, and those of a later pass over the same work."""
        ours, peer = self.ours + later.ours, self.peer + later.peer
        return Samples(ours, peer, self.items, self.peer_items)


def as_installed() -> dict[str, str]:
    """The environment of a child whose start is timed: compiled modules are kept, as for users."""
    return {name: v for name, v in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def run(row: str, set: str, count: int, rounds: int, threads: int) -> Samples:
    """Measure a row.

    Raises:
        Absent: the peer is not installed.
        RuntimeError: the child failed; its last words are in the text.
    """
    env = {name: value for name, value in os.environ.items() if name != "OMSGRAIN_THREADS"}
    if threads != ALL_CORES:
        env["OMSGRAIN_THREADS"] = str(threads)
    with room() as directory:
        command = [
            sys.executable,
            "-m",
            "benches.child",
            row,
            set,
            str(count),
            str(rounds),
            str(directory),
        ]
        done = subprocess.run(command, env=env, cwd=HERE.parent, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{row} on {set}: {done.stderr.strip()}")
    found = json.loads(done.stdout)
    if isinstance(found, dict):
        raise Absent(found["absent"])
    return Samples(*found)
