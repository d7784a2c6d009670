# SPDX-License-Identifier: Apache-2.0
"""What a run of ``benches.scale`` found: rows S8, and the tables of docs/scale.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benches import page
from benches.measure import Case, Row

FILE = Path(__file__).resolve().parent / "results" / "growth.json"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "scale.md"
GOAL = 10_000_000  # grains that the goals are about
MILLION = 1_000_000

Growth = dict[str, Any]


def load(file: Path = FILE) -> Growth:
    """Read the figures."""
    found: Growth = json.loads(file.read_text(encoding="utf-8"))
    return found


def seconds_at_end(found: Growth, grains: int = MILLION) -> float:
    """Seconds a grain of about the last so many."""
    last = found["steps"][-1]["grains"]
    late = [step for step in found["steps"] if step["grains"] > last - grains]
    return float(sum(s["seconds"] for s in late) / sum(s["count"] for s in late))


def seconds_at_start(found: Growth) -> float:
    """Seconds a grain of the first step."""
    first = found["steps"][0]
    return float(first["seconds"] / first["count"])


def peak(found: Growth) -> int:
    """The most memory that the process ever had beside the map, in bytes."""
    return max(int(step["anonymous"]) for step in found["steps"])


def line(found: Growth) -> str:
    """What the last step was, for who watches."""
    step = found["steps"][-1]
    return (
        f"{step['grains']:>12,} grains  {step['count'] / step['seconds']:>8,.0f} a second  "
        f"{step['anonymous'] / 1e6:.0f} MB"
    )


def rows() -> tuple[Row, ...]:
    """Rows S8, if the figures are there; with goals if they are of enough grains."""
    if not FILE.exists():
        return ()
    found = load(FILE)
    size = found["steps"][-1]["grains"]
    first = found["points"][0]
    judged = size >= GOAL
    start = f"the first {found['steps'][0]['count']:,}"

    def row(name: str, work: str, peer: str, goal: float, case: Case, **more: Any) -> Row:
        budget = f", memory={found['memory']}" if found["memory"] else ""
        text = f"{work} ({size:,} grains{budget}, {found['date']}, benches.scale)"
        kept = goal if judged else None
        return Row(name, text, peer, kept, lambda plan: case, sets=("-",), **more)

    end, begin = seconds_at_end(found), seconds_at_start(found)
    late, early = (p["flushed"]["p95"] for p in (found["points"][-1], first))
    most = float(peak(found))
    return (
        row("S8", "put_many of the last million", start, 0.6, Case(lambda: end, lambda: begin)),
        row(
            "S8-query",
            "query as in S5 at the end, p95",
            f"the same at {first['grains']:,}",
            0.5,
            Case(lambda: late, lambda: early),
        ),
        row(
            "S8-memory",
            "memory beside the map, at most",
            "nothing",
            300,
            Case(lambda: most, lambda: 0.0),
            unit="MB",
            kind="more",
        ),
    )


def write_page(found: Growth, file: Path = PAGE) -> None:
    """Put the tables into the page."""
    curves = FILE.with_suffix(".png")
    shown = f"\n\n![Curves](../benches/results/{curves.name})" if curves.exists() else ""
    budget = found["memory"] and f' The store was opened with memory="{found["memory"]}".'
    parts = {"growth": growth_table(found) + shown, "growth-end": end_table(found)}
    page.fill(file, parts | {"growth-about": page.about(found) + (budget or "")})


def growth_table(found: Growth) -> str:
    """One line a size."""
    million = MILLION
    heads = (
        "grains", "grains/s since the line before", "query p50 / p95, new grains",
        "query p50 / p95, index written", "get p95", "memory", "file", "of the blobs",
        "open cold / warm", "check", "backup",
    )  # fmt: skip
    lines = []
    before = 0
    for point in found["points"]:
        steps = [s for s in found["steps"] if before < s["grains"] <= point["grains"]]
        rate = sum(s["count"] for s in steps) / sum(s["seconds"] for s in steps)
        fresh, flushed, get = point["fresh"], point["flushed"], point["get"]
        lines.append(
            (
                f"{point['grains']:,}",
                f"{rate:,.0f}",
                f"{fresh['p50'] * million:.0f} / {fresh['p95'] * million:.0f} us",
                f"{flushed['p50'] * million:.0f} / {flushed['p95'] * million:.0f} us",
                f"{get['p95'] * million:.0f} us",
                f"{max(s['anonymous'] for s in steps) / 1e6:.0f} MB",
                f"{point['file_bytes'] / 1e6:,.0f} MB",
                f"{point['file_bytes'] / point['blob_bytes']:.2f}x",
                f"{point['cold']['open'] * 1e3:.1f} / {point['warm']['open'] * 1e3:.1f} ms",
                f"{point['check']:,.1f} s" if "check" in point else "",
                f"{point['backup']:,.1f} s" if "backup" in point else "",
            )
        )
        before = point["grains"]
    return page.table(heads, lines)


def end_table(found: Growth) -> str:
    """What follows for a machine, in proportion to the largest size that was measured."""
    point, checked = found["points"][-1], [p for p in found["points"] if "check" in p][-1]
    each = point["file_bytes"] / point["grains"]
    check_each = checked["check"] / checked["grains"]
    rate = 1 / seconds_at_end(found)
    lines = [
        (
            f"{disk // 10**9:,} GB of disk, half of it for the store",
            f"{disk / 2 / each / 1e6:,.0f} million grains",
            f"{disk / 2 / each / rate / 3_600:,.1f} h of putting without a pause",
            f"{disk / 2 / each * check_each / 3_600:,.1f} h",
        )
        for disk in (32 * 10**9, 100 * 10**9, 10**12)
    ]
    lines.append(
        ("a check overnight, 8 h", f"{8 * 3_600 / check_each / 1e6:,.0f} million", "", "8 h")
    )
    return page.table(("limit", "holds", "full, at the last rate, after", "check"), lines)


ROWS = rows()
