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
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import omsgrain as og
from benches import agree, data, machine, plot, report, spawn
from benches.measure import Row
from benches.rows import ROWS


def main() -> int:
    """Run, print, write; 1 if a row could not be measured. A lost row is no failure."""
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(ROWS))
    parser.add_argument("--rounds", type=int, default=7, help="samples of each side (7)")
    parser.add_argument("--scale", type=float, default=1.0, help="times as many grains (1)")
    parser.add_argument("--out", type=Path, help="write all files to this directory")
    parser.add_argument("--agree", nargs="+", type=Path, metavar="FILE", help="compare runs")
    options = parser.parse_args()
    if options.agree:
        return agree.main(options.agree)
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"no such row: {', '.join(sorted(unknown))}")
    chosen = [ROWS[name] for name in ROWS if not options.rows or name in options.rows]
    about = _about(options.rounds, options.scale)
    results, failed = _measure(chosen, options.rounds, options.scale)
    full = not options.rows and options.scale == 1
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        _write(results, about, options.out, options.out)
    elif full and not failed:
        folder = spawn.HERE / "results"
        folder.mkdir(exist_ok=True)
        _write(results, about, folder, spawn.HERE)
    return int(failed)


def _measure(rows: list[Row], rounds: int, scale: float) -> tuple[list[report.Result], bool]:
    results, failed = [], False
    for row in rows:
        for name in row.sets:
            for threads in row.threads:
                count = max(16, int((row.count or data.COUNTS.get(name, 1)) * scale))
                try:
                    samples = spawn.run(row.id, name, count, rounds, threads)
                except RuntimeError as error:
                    print(error, file=sys.stderr)
                    failed = True
                    continue
                results.append(report.judge(row, name, threads, samples))
                print(" | ".join(report.line(results[-1])), flush=True)
    return results, failed


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


def _write(results: list[report.Result], about: dict[str, Any], data_in: Path, page: Path) -> None:
    (data_in / "latest.json").write_text(report.to_json(results, about), encoding="utf-8")
    (page / "RESULTS.md").write_text(report.to_markdown(results, about), encoding="utf-8")
    if not plot.bars(results, data_in / "ratios.png"):
        print("no plot: matplotlib is not installed", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
