# SPDX-License-Identifier: Apache-2.0
"""Rows U: what it costs to have the library at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import omsgrain as og
from benches import data
from benches.measure import Case, Plan, Row, check, timed
from benches.spawn import HERE, as_installed

_RSS = """
import os, sys
if sys.platform == "linux":
    # Not getrusage, whose peak a child inherits from its parent.
    with open("/proc/self/statm") as statm:
        print(int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE"))
else:
    import resource
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _python(code: str, *args: str) -> str:
    command = [sys.executable, "-c", code, *args]
    done = subprocess.run(command, env=as_installed(), check=True, capture_output=True, text=True)
    return done.stdout


def import_time(plan: Plan) -> Case:
    check(_python("import omsgrain; print(omsgrain.__name__)").strip() == "omsgrain", "it imports")
    return Case(timed(lambda: _python("import omsgrain")), timed(lambda: _python("pass")))


def memory(plan: Plan) -> Case:
    return Case(
        lambda: float(_python("import omsgrain\n" + _RSS)),
        lambda: float(_python(_RSS)),
    )


_IDLE = """
import sys
import omsgrain
store = omsgrain.open(sys.argv[1], readonly=True)
assert store.query(limit=1).results
"""


def idle(plan: Plan) -> Case:
    """A process that has a store open and has asked it something."""
    path = str(plan.directory / "memory.omsg")
    with og.open(path) as store:
        check(store.put_many(data.standard(plan.count)).stored == plan.count, "all are new")
    return Case(lambda: float(_python(_IDLE + _RSS, path)), lambda: float(_python(_RSS)))


def stats(plan: Plan) -> Case:
    """The command, from its start to its end, on a store that is closed."""
    path = plan.directory / "memory.omsg"
    with og.open(path) as store:
        check(store.put_many(data.standard(plan.count)).stored == plan.count, "all are new")
    command = [str(Path(sys.executable).with_name("omsgrain")), "stats", str(path), "--json"]

    def ours() -> str:
        done = subprocess.run(
            command, env=as_installed(), check=True, capture_output=True, text=True
        )
        return done.stdout

    check(json.loads(ours())["grains"] == plan.count, "it counts the grains")
    return Case(timed(ours), timed(lambda: _python("pass")))


def wheel(plan: Plan) -> Case:
    options = ["--no-deps", "--no-build-isolation", "--quiet", "--wheel-dir", str(plan.directory)]
    command = [sys.executable, "-m", "pip", "wheel", *options, str(HERE.parent)]
    # Its build backend looks for a program that stands beside the interpreter.
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(command, check=True, env=env, stdout=sys.stderr)
    (built,) = plan.directory.glob("*.whl")
    return Case(lambda: float(built.stat().st_size), lambda: 0.0)


ROWS = (
    Row(
        "U1-import",
        'python -c "import omsgrain"',
        "python -c pass",
        80,
        import_time,
        sets=("-",),
        unit="ms",
        kind="more",
    ),
    Row(
        "U1-memory",
        "memory after the import",
        "python alone",
        30,
        memory,
        sets=("-",),
        unit="MB",
        kind="more",
    ),
    Row(
        "U1-idle",
        "memory with a store of 10,000 grains open, after a query",
        "python alone",
        30,
        idle,
        sets=("-",),
        count=10_000,
        unit="MB",
        kind="more",
    ),
    Row(
        "U1-stats",
        "omsgrain stats of a store of 10,000 grains",
        "python -c pass",
        150,
        stats,
        sets=("-",),
        count=10_000,
        unit="ms",
        kind="most",
    ),
    Row("U1-wheel", "the wheel", "nothing", 6, wheel, sets=("-",), unit="MB", kind="more"),
)
