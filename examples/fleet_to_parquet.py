# SPDX-License-Identifier: Apache-2.0
"""Verify a directory of .mg files and make Parquet tables of them, in parallel.

    python examples/fleet_to_parquet.py MISSIONS TABLES [--dask tcp://scheduler:8786]

Each file is a separate task. A task verifies every byte of its file before it writes a row, and a
table appears complete or not at all. A damaged file is reported and makes no table; the other
files do. Without --dask the tasks run in processes of this machine. With --dask they run on the
workers of a Dask cluster, which must see both directories. `convert` depends on neither, so Ray
needs only `ray.remote(convert)`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import omsgrain as og
from omsgrain import container
from omsgrain.errors import OmsError


def convert(source: Path, target: Path) -> dict[str, Any]:
    """Verify one .mg file and make a table of it; what became of it, as JSON-ready values."""
    told: dict[str, Any] = {"file": source.name}
    try:
        with container.read(source) as file:
            report = file.verify(errors="collect")
        if report.problems:
            first = report.problems[0].error
            return told | {"problems": len(report.problems), "first": first.to_dict()}
        with TemporaryDirectory() as directory, og.open(f"{directory}/one.omsg") as store:
            store.import_mg(source)
            written = store.parquet.write(target / f"{source.stem}.parquet", purpose="move")
    except OmsError as error:
        return told | {"problems": 1, "first": error.to_dict()}
    return told | {"grains": written.grains, "bytes": written.bytes}


@contextmanager
def executor(dask: str | None) -> Iterator[Executor]:
    """What runs the tasks: this machine's cores, or a cluster; both are called the same way."""
    if dask is None:
        with ProcessPoolExecutor() as processes:
            yield processes
        return
    from distributed import Client

    with Client(dask) as client:
        yield client.get_executor()


def main(arguments: list[str]) -> int:
    """Run; the exit code is 1 if a file was damaged."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("missions", type=Path)
    parser.add_argument("tables", type=Path)
    parser.add_argument("--dask", metavar="ADDRESS")
    given = parser.parse_args(arguments)
    given.tables.mkdir(parents=True, exist_ok=True)
    files = sorted(given.missions.glob("*.mg"))
    with executor(given.dask) as tasks:
        done = [tasks.submit(convert, file, given.tables) for file in files]
        reports = [task.result() for task in done]
    for report in reports:
        print(json.dumps(report))
    return int(any("problems" in report for report in reports))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
