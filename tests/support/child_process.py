# SPDX-License-Identifier: Apache-2.0
"""Run a piece of Python in a process of its own.

It is forked from one that has imported omsgrain and has done nothing else, since an import takes
longer than what most of these processes do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from textwrap import dedent
from threading import Lock
from typing import NamedTuple

from omsgrain.storage.base import CheckProblem, CheckReport
from omsgrain.storage.check import check_in_child

_LONGEST = 900  # seconds until a child is taken to hang
_NURSERY = """
import gc, json, os, sys
import omsgrain.store, omsgrain.storage.check, omsgrain.storage.lmdb.storage
gc.collect()
gc.freeze()  # or each child would copy what it looks through
print(flush=True)
for line in sys.stdin:
    job = json.loads(line)
    child = os.fork()
    if not child:
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    sys.exit()
for number, (name, flags) in enumerate(job["files"]):
    opened = os.open(name, flags, 0o600)
    os.dup2(opened, number)
    os.close(opened)
os.chdir(job["place"])
os.environ.clear()
os.environ.update(job["environment"])
sys.argv = ["-c", *job["args"]]
exec(compile(job["code"], "<string>", "exec"), {"__name__": "__main__"})
"""
_turn = Lock()


class Ended(NamedTuple):
    """How a process ended: with which code, less than 0 for a signal, and what it had said."""

    returncode: int
    stdout: str
    stderr: str


def ended(code: str, *args: object, cwd: Path | None = None) -> Ended:
    """Run the code to its end; it finds the arguments, as text, in ``sys.argv[1:]``."""
    if not _turn.acquire(blocking=False):  # another thread's is running, and may wait for this
        return _fresh(code, args, cwd)
    try:
        with TemporaryDirectory() as room:
            said, wrong = Path(room, "out"), Path(room, "err")
            new = os.O_WRONLY | os.O_CREAT
            job: dict[str, object] = {
                "code": dedent(code),
                "args": [*map(str, args)],
                "files": [(os.devnull, os.O_RDONLY), (str(said), new), (str(wrong), new)],
                "place": str(cwd or Path.cwd()),
                "environment": dict(os.environ),
            }
            return Ended(_born(job), said.read_text("utf-8"), wrong.read_text("utf-8"))
    finally:
        _turn.release()


def _fresh(code: str, args: Sequence[object], cwd: Path | None = None) -> Ended:
    command = [sys.executable, "-c", dedent(code), *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, timeout=_LONGEST)
    return Ended(done.returncode, done.stdout, done.stderr)


def _born(job: dict[str, object]) -> int:
    nursery = _nursery()
    assert nursery.stdin is not None and nursery.stdout is not None
    nursery.stdin.write(json.dumps(job) + "\n")
    nursery.stdin.flush()
    if not select([nursery.stdout], [], [], _LONGEST)[0]:
        nursery.kill()
        nursery.communicate()
        _nursery.cache_clear()
        raise TimeoutError(f"no end after {_LONGEST} s")
    return int(nursery.stdout.readline())


@cache
def _nursery() -> subprocess.Popen[str]:
    """One for the whole run; see `end`."""
    command = [sys.executable, "-c", _NURSERY]
    pipe = subprocess.PIPE
    nursery = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert nursery.stdout is not None
    nursery.stdout.readline()
    return nursery


def end() -> None:
    """End the process that the others are forked from."""
    if _nursery.cache_info().currsize:
        _nursery().communicate()
        _nursery.cache_clear()


def run(code: str, *args: object, fresh: bool = False) -> list[str]:
    """Run the code to its end.

    Args:
        code: what is run.
        args: for it, in ``sys.argv[1:]``.
        fresh: whether nothing may have been imported yet.

    Returns:
        The lines it printed. A child that fails fails the test, with what it said.
    """
    done = _fresh(code, args) if fresh else ended(code, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def check(path: Path, patience: float | None = None) -> CheckReport:
    """`check_in_child`, from the nursery; what is not as usual is left to the real one."""
    done = ended(_CHECK, path) if patience is None else None
    if done is None or done.returncode != 0:
        return check_in_child(path, patience)
    found = json.loads(done.stdout)
    problems = tuple(CheckProblem(**problem) for problem in found.pop("problems"))
    return CheckReport(problems=problems, **found)


_CHECK = """
import json, sys
from dataclasses import asdict
from pathlib import Path
from omsgrain.storage.check import check
print(json.dumps(asdict(check(Path(sys.argv[1])))))
"""
