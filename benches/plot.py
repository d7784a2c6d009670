# SPDX-License-Identifier: Apache-2.0
"""Bars of the ratios and curves over the size, if matplotlib is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


def curves(growth: dict[str, Any], path: Path) -> bool:
    """Draw what ``benches.scale`` found, over the number of grains.

    Returns:
        False if matplotlib is not installed; nothing was written.
    """
    try:
        import matplotlib
    except ImportError:
        return False
    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps, points = growth["steps"], growth["points"]
    all_sizes = [step["grains"] for step in steps]
    sizes = [point["grains"] for point in points]
    figure, panels = pyplot.subplots(2, 2, figsize=(9, 6), sharex=True)
    (rate, query), (memory, size) = panels
    rate.plot(all_sizes, [step["count"] / step["seconds"] for step in steps])
    rate.set_title("grains a second, put_many, all indexes", fontsize=9)
    for name, label in (("fresh", "right after new grains"), ("flushed", "index written")):
        for part, style in (("p95", "-"), ("p50", ":")):
            figures = [point[name][part] * 1e6 for point in points]
            colour = "C0" if name == "fresh" else "C1"
            query.plot(sizes, figures, style, color=colour, label=f"{part}, {label}")
    query.set_title("query for the newest 10 of a robot, us", fontsize=9)
    query.legend(fontsize=7)
    memory.plot(all_sizes, [step["anonymous"] / 1e6 for step in steps])
    memory.set_title("most memory beside the map, MB", fontsize=9)
    size.plot(sizes, [point["file_bytes"] / point["blob_bytes"] for point in points])
    size.set_title("data file, times the blobs", fontsize=9)
    for panel in panels.flat:
        panel.set_ylim(bottom=0)
        panel.grid(alpha=0.3)
        panel.xaxis.set_major_formatter(lambda x, _: f"{x / 1e6:g}M" if x else "0")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
    return True
