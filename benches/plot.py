# SPDX-License-Identifier: Apache-2.0
"""Bars of the ratios, if matplotlib is there."""

from __future__ import annotations

from pathlib import Path

from benches.measure import ALL_CORES
from benches.report import Result


def bars(results: list[Result], path: Path) -> bool:
    """Draw a bar for each ratio and a mark at its goal.

    Returns:
        False if matplotlib is not installed; nothing was written.
    """
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = [r for r in reversed(results) if r.kind == "ratio"]
    names = [
        f"{r.row} {r.set}" + ("" if r.threads == ALL_CORES else f", {r.threads} thr.")
        for r in shown
    ]
    figure, axes = pyplot.subplots(figsize=(8, 1 + 0.26 * len(shown)))
    colours = [{True: "#2a7f62", False: "#c0504d", None: "#9aa5b1"}[r.won] for r in shown]
    lengths = [r.figure - 1 for r in shown]
    axes.barh(range(len(shown)), lengths, left=1, color=colours)
    goals = [(i, r.goal) for i, r in enumerate(shown) if r.goal is not None]
    axes.plot([goal for _, goal in goals], [i for i, _ in goals], "k|", markersize=9, label="goal")
    axes.axvline(1, color="black", linewidth=0.6)
    axes.set_xscale("log")
    axes.set_xticks([0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100])
    axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}x")
    axes.set_yticks(range(len(shown)), names, fontsize=7)
    axes.set_xlabel("times as fast as the peer")
    axes.legend(loc="lower right")
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    return True
