# SPDX-License-Identifier: Apache-2.0
"""Measures all rows, or those named: `python -m benches [ROW...]`.

With --agree FILE... nothing is measured: do several runs say the same of who wins?

A full run writes results/latest.json, results/ratios.png and RESULTS.md; one of some rows, or of
another size, only prints, unless --out names a directory.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import omsgrain as og
from benches import agree, data, machine, plot, report, spawn
from benches.measure import Row
from benches.peer import Absent
from benches.rows import ROWS


def main() -> int:
    """Run, print, write; 1 if a row could not be measured. A lost row is no failure."""
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3, help="samples of each side a pass (3)")
    parser.add_argument("--passes", type=int, default=2, help="times through all rows (2)")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many grains (1)")
    parser.add_argument("--out", type=Path, help="write all files to this directory")
    parser.add_argument("--agree", nargs="+", type=Path, metavar="FILE", help="compare runs")
    options = parser.parse_args()
    if options.agree:
        return agree.main(options.agree)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen = [ROWS[name] for name in ROWS if not options.rows or name in options.rows]
    about = _about(options.rounds * options.passes, options.scale)
    about["passes"] = options.passes
    results, missing, failed = _measure(chosen, options.rounds, options.passes, options.scale)
    full = not options.rows and options.scale == 1
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        _write(results, missing, about, options.out, options.out)
    elif full and not failed:
        folder = spawn.HERE / "results"
        folder.mkdir(exist_ok=True)
        _write(results, missing, about, folder, spawn.HERE)
    return int(failed)


def _measure(
    rows: list[Row], rounds: int, passes: int, scale: float
) -> tuple[list[report.Result], list[report.Missing], bool]:
    """Go through all rows several times: a machine is slow for minutes, not only for a sample."""
    taken: dict[tuple[str, str, int], spawn.Samples] = {}
    missing: dict[tuple[str, str, int], report.Missing] = {}
    failed = False
    for number in range(passes):
        print(f"pass {number + 1} of {passes}", file=sys.stderr, flush=True)
        for row, name, threads in _variants(rows):
            key = (row.id, name, threads)
            count = max(16, int((row.count or data.COUNTS.get(name, 1)) * scale))
            try:
                samples = spawn.run(row.id, name, count, rounds, threads)
            except Absent as gone:
                missing[key] = report.Missing(
                    row.id, row.work, name, threads, row.peer, absent=str(gone)
                )
                continue
            except RuntimeError as error:
                print(error, file=sys.stderr)
                failed = True
                continue
            taken[key] = samples if key not in taken else taken[key].joined(samples)
    results = []
    for row, name, threads in _variants(rows):
        if (row.id, name, threads) in taken:
            results.append(report.judge(row, name, threads, taken[row.id, name, threads]))
            print(" | ".join(report.line(results[-1])))
    for one in missing.values():
        print(" | ".join(report.line_of_missing(one)))
    return results, list(missing.values()), failed


def _variants(rows: list[Row]) -> Iterator[tuple[Row, str, int]]:
    """Each row on each of its sets, with each number of threads."""
    for row in rows:
        for name in row.sets:
            for threads in row.threads:
                yield row, name, threads


def _about(rounds: int, scale: float) -> dict[str, Any]:
    sizes = {}
    for name, make in data.SETS.items():
        count = max(16, int(data.COUNTS[name] * scale))
        lengths = [len(blob) for blob in og.encode_many(make(count)).blobs]
        mean = statistics.mean(lengths)
        sizes[name] = f"{count} a batch, {mean:.0f} bytes each ({min(lengths)} to {max(lengths)})"
    return {
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d"),
        "machine": machine.describe(),
        "versions": machine.versions(),
        "sizes": sizes,
        "rounds": rounds,
    }


def _write(
    results: list[report.Result],
    missing: list[report.Missing],
    about: dict[str, Any],
    data_in: Path,
    page: Path,
) -> None:
    lines = report.to_json(results, about, missing)
    (data_in / "latest.json").write_text(lines, encoding="utf-8")
    text = report.to_markdown(results, about, missing)
    (page / "RESULTS.md").write_text(text, encoding="utf-8")
    if not plot.bars(results, data_in / "ratios.png"):
        print("no plot: matplotlib is not installed", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
