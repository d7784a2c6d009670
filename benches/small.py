# SPDX-License-Identifier: Apache-2.0
"""What a small machine asks: `python -m benches.small [--doc]`.

How long a cold start takes, how much an open store holds when nothing happens, what a durable put
costs, what memory budgets do, how large a store of small grains is; and what a core built for size
costs, if `make small` has built it. --doc puts the tables into docs/small.md.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import omsgrain as og
from benches import data, machine, page
from benches.measure import check
from benches.room import room
from benches.spawn import as_installed

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "small.md"
LIGHT = 10_000
BUDGETS = (None, "256MiB", "64MiB", "32MiB", "16MiB")
GROWN = 50_000
_BATCH = 100
_CORES = ("fast", "small")


def main() -> int:
    """Measure and print; with --doc write the page."""
    parser = argparse.ArgumentParser(prog="python -m benches.small", description=__doc__)
    parser.add_argument("--doc", action="store_true", help="write docs/small.md")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(_budget_child(*options.child)))
        return 0
    about = {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "versions": machine.versions(),
    }
    # On a disk, beside this file: /tmp may be memory.
    with room() as directory:
        parts = {
            "small-about": page.about(about),
            "small-start": _start(directory),
            "small-store": _store(directory),
            "small-budget": _budgets(directory),
            "small-core": _cores(),
        }
    print("\n\n".join(parts.values()))
    if options.doc:
        page.fill(PAGE, {name: part for name, part in parts.items() if part})
    return 0


def _python(code: str, *args: object) -> dict[str, float]:
    """Run code that prints JSON; adds how long all of it took."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        cwd=ROOT,
        env=as_installed(),
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, float] = json.loads(done.stdout or "{}")
    return found | {"seconds": time.perf_counter() - start}


_ANON = "from benches.machine import anonymous\nimport json, sys\n"
_IMPORTED = _ANON + "import omsgrain\nprint(json.dumps({'anonymous': anonymous()}))"
_OPENED = (
    _ANON
    + """
import omsgrain
store = omsgrain.open(sys.argv[1], memory_limit=sys.argv[2])
assert store.query(limit=1).results
print(json.dumps({'anonymous': anonymous()}))
"""
)
_ALONE = _ANON + "print(json.dumps({'anonymous': anonymous()}))"


def _start(directory: Path) -> str:
    path = directory / "memory.omsg"
    with og.open(path) as store:
        store.put_many(data.sensors(LIGHT))
    rows = []
    for name, code, args in (
        ("Python alone", _ALONE, ()),
        ("with omsgrain imported", _IMPORTED, ()),
        (f"with a store of {LIGHT:,} grains open, after a query", _OPENED, (path, "16MiB")),
    ):
        _python(code, *args)  # so that compiled modules are there
        found = [_python(code, *args) for _ in range(7)]
        seconds = statistics.median(one["seconds"] for one in found)
        memory = statistics.median(one["anonymous"] for one in found)
        rows.append((name, f"{seconds * 1e3:.0f} ms", f"{memory / 1e6:.1f} MB"))
    return page.table(("process", "from start to end", "memory beside files"), rows)


def _store(directory: Path) -> str:
    path = directory / "light.omsg"
    grains = data.sensors(LIGHT)
    with og.open(path, memory_limit="16MiB") as store:
        check(store.put_many(grains, errors="collect").stored == LIGHT, "all are new")
    with og.open(path, memory_limit="16MiB") as store:
        blobs = store.stats().blob_bytes / LIGHT
    files = sum(file.stat().st_size for file in path.iterdir())
    puts: dict[str, float] = {}
    for durability in ("commit", "relaxed"):
        with og.open(directory / f"{durability}.omsg", durability=durability) as store:
            store.put(grains[0])
            took = [_timed(lambda g=g: store.put(g)) for g in grains[1:400]]  # type: ignore[misc]
            puts[durability] = statistics.median(took)
    rows = (
        (f"{LIGHT:,} grains of the lightweight profile, as blobs", f"{blobs:.0f} bytes a grain"),
        ("the same as a store, with all indexes", f"{files / LIGHT:.0f} bytes a grain"),
        ("put of one, on the disk when it returns", f"{puts['commit'] * 1e6:.0f} us"),
        ('put of one, `durability="relaxed"`', f"{puts['relaxed'] * 1e6:.0f} us"),
    )
    return page.table(("what", "takes"), rows)


def _budgets(directory: Path) -> str:
    rows = []
    for memory in BUDGETS:
        name = memory or "none"
        command = [sys.executable, "-m", "benches.small", "--child", str(directory), name, "x"]
        done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
        found = json.loads(done.stdout)
        rows.append((name, f"{found['peak'] / 1e6:.1f} MB", f"{found['rate']:,.0f}"))
    return page.table(("`memory_limit=`", "most memory beside the map", "grains/s"), rows)


def _budget_child(directory: str, memory: str, _: str) -> dict[str, float]:
    from benches.sampler import Sampler

    path = Path(directory) / f"budget-{memory}.omsg"
    before, seconds = machine.anonymous(), 0.0
    with Sampler() as watched:
        with og.open(path, memory_limit=None if memory == "none" else memory) as store:
            for first in range(0, GROWN, _BATCH):
                grains = data.standard(_BATCH, first)
                seconds += _timed(lambda g=grains: store.put_many(g))  # type: ignore[misc]
            seconds += _timed(store.close)
    return {"peak": watched.peak - before, "rate": GROWN / seconds}


def _timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


_CODEC = """
import json, os, sys, time
import importlib.util
os.environ["OMSGRAIN_THREADS"] = "1"
spec = importlib.util.spec_from_file_location("omsgrain._core", sys.argv[1])
core = importlib.util.module_from_spec(spec)
sys.modules["omsgrain._core"] = core
spec.loader.exec_module(core)
import omsgrain as og
from benches import data
grains = data.standard(5_000)
batch = og.encode_many(grains)
pairs = list(zip(batch.blobs, batch.addresses))
best = {}
for name, work in (("encode", lambda: og.encode_many(grains)),
                   ("verify", lambda: og.verify_many(pairs)),
                   ("decode", lambda: og.decode_many(batch.blobs))):
    took = []
    for _ in range(15):
        start = time.process_time()
        work()
        took.append(time.process_time() - start)
    best[name] = min(took) / len(grains)
print(json.dumps(best))
"""


def core_file(kind: str) -> Path:
    """Where cargo puts the core of a kind."""
    target = Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
    return target / ("release" if kind == "fast" else "small") / "lib_core.so"


def _cores() -> str:
    """The two kinds of core beside each other; empty unless both are built."""
    if not all(core_file(kind).exists() for kind in _CORES):
        print("no core built for size: run `make small`", file=sys.stderr)
        return ""
    best: dict[str, dict[str, float]] = {}
    for _ in range(3):  # in turns
        for kind in _CORES:
            found = _python(_CODEC, core_file(kind))
            old = best.get(kind, found)
            best[kind] = {name: min(found[name], old[name]) for name in found}
    rows = []
    sizes = {kind: core_file(kind).stat().st_size for kind in _CORES}
    rows.append(("size of the core", *(f"{sizes[kind] / 1e6:.2f} MB" for kind in _CORES)))
    for name in ("encode", "verify", "decode"):
        figures = [best[kind][name] for kind in _CORES]
        rows.append((f"{name}_many", *(f"{figure * 1e6:.2f} us" for figure in figures)))
    ratios = [f"{sizes['small'] / sizes['fast']:.2f}x"]
    ratios += [
        f"{best['small'][n] / best['fast'][n]:.2f}x" for n in ("encode", "verify", "decode")
    ]
    cells = [(*row, ratio) for row, ratio in zip(rows, ratios, strict=True)]
    return page.table(("one thread, standard grains", "fast", "for size", "ratio"), cells)


if __name__ == "__main__":
    sys.exit(main())
