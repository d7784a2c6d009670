# SPDX-License-Identifier: Apache-2.0
"""Fuzz what is parsed in Python: `PYTHONPATH=tests python -m fuzz [TARGET...]`.

Each target runs in a process of its own. One that dies, of an alarm or of too much memory, leaves
its input, and the target is started again for a part of its time.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fuzz import running, watching
from fuzz.table import TARGETS

CRASHERS = Path(__file__).parents[1] / "crashers"
_DEATHS = 5  # of one target: the same input would be found again and again


def main() -> int:
    """Run what the command line asks for; 1 if anything was found."""
    asked = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    asked.add_argument("targets", nargs="*", metavar="TARGET", help="by default all")
    asked.add_argument("--seconds", type=float, default=60, help="for each target (60)")
    asked.add_argument("--seed", type=int, default=int(time.time()), help="repeats a run")
    asked.add_argument("--keep", type=Path, default=CRASHERS, help="where to keep what is found")
    asked.add_argument("--list", action="store_true", help="name the targets")
    asked.add_argument("--here", help=argparse.SUPPRESS)
    given = asked.parse_args()
    if given.list:
        print(*TARGETS, sep="\n")
        return 0
    if unknown := [name for name in given.targets if name not in TARGETS]:
        asked.error(f"no such target: {unknown[0]}; there are {', '.join(TARGETS)}")
    if given.here is not None:
        return _here(given.targets[0], given.seconds, given.seed, given.keep, Path(given.here))
    names = given.targets or list(TARGETS)
    found = [name for name in names if _apart(name, given.seconds, given.seed, given.keep)]
    if found:
        print(f"found something: {', '.join(found)} (see {given.keep})")
    return bool(found)


def _here(name: str, seconds: float, seed: int, kept: Path, now: Path) -> int:
    """Try a target in this process."""
    with tempfile.TemporaryDirectory(prefix="fuzz-") as room:
        watch = watching.Watch(now)
        tally = running.fuzz(TARGETS[name], Path(room), seed=seed, seconds=seconds, watch=watch)
    print(f"{name}: seed {seed}, {tally}", flush=True)
    for where in tally.found:
        print(f"  {where}")
    running.keep(kept / name, tally.found.values())
    return bool(tally.found)


def _apart(name: str, seconds: float, seed: int, kept: Path) -> bool:
    """Try a target in processes of its own; whether anything was found."""
    found, share = False, seconds
    for death in range(_DEATHS):
        with tempfile.TemporaryDirectory(prefix="fuzz-") as room:
            now = Path(room) / "now"
            command = [sys.executable, "-m", "fuzz", name, "--seconds", str(share)]
            command += ["--seed", str(seed + death), "--keep", str(kept), "--here", str(now)]
            done = subprocess.run(command, check=False)
            share = seconds / _DEATHS
            if done.returncode in (0, 1):
                return found or done.returncode == 1
            found = True
            paths = running.keep(kept / name, [watching.last(now)])
            print(f"{name}: died with {done.returncode} (see {paths[0]})", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
