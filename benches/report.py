# SPDX-License-Identifier: Apache-2.0
"""From samples to results, and from results to JSON and a Markdown table."""

from __future__ import annotations

import json
import statistics
from dataclasses import asdict, dataclass
from typing import Any

from benches import reasons
from benches.measure import ALL_CORES, UNITS, Row
from benches.spawn import Samples


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table.

    Attributes:
        row: the row's name.
        work: what was done.
        set: on which grains.
        threads: size of the thread pool; 0: as many as there are cores.
        against: the peer.
        unit: of ours and peer.
        ours: median, per one of ``of``.
        peer: the same of the peer.
        figure: ratio peer / ours, or what ours takes more; by ``kind``.
        kind: ``ratio`` or ``more``.
        goal: what the figure should be; None: shown for comparison only.
        won: the goal is reached.
        items: how many of them a sample has.
        peer_items: the same of the peer.
        of: ``grains`` or ``queries``.
        samples: all samples, in seconds or bytes.
    """

    row: str
    work: str
    set: str
    threads: int
    against: str
    unit: str
    ours: float
    peer: float
    figure: float
    kind: str
    goal: float | None
    won: bool | None
    items: int
    peer_items: int
    of: str
    samples: dict[str, list[float]]


def judge(row: Row, set: str, threads: int, samples: Samples) -> Result:
    """Compare the medians."""
    unit = UNITS[row.unit]
    ours = statistics.median(samples.ours) / (unit * samples.items)
    peer = statistics.median(samples.peer) / (unit * samples.peer_items)
    ratio = row.kind == "ratio"
    figure = peer / ours if ratio else ours - peer
    goal = row.goal if threads == row.threads[0] else None
    won = None if goal is None else (figure >= goal if ratio else figure <= goal)
    return Result(
        row=row.id,
        work=row.work,
        set=set,
        threads=threads,
        against=row.peer,
        unit=row.unit,
        ours=ours,
        peer=peer,
        figure=figure,
        kind=row.kind,
        goal=goal,
        won=won,
        items=samples.items,
        peer_items=samples.peer_items,
        of=row.of,
        samples={"ours": samples.ours, "peer": samples.peer},
    )


def to_json(results: list[Result], about: dict[str, Any]) -> str:
    """Everything, for later runs to compare with."""
    return json.dumps({**about, "results": [asdict(r) for r in results]}, indent=1) + "\n"


def line(result: Result) -> list[str]:
    """The cells of a result."""
    r = result
    ratio = r.kind == "ratio"
    goal = "" if r.goal is None else f"{r.goal:g}x" if ratio else f"at most {r.goal:+g} {r.unit}"
    each = r.set if r.of == "grains" else f"{r.of}, {r.set}"
    return [
        r.row,
        r.work,
        r.set if r.items == 1 else f"{r.items:,} {each}",
        "all" if r.threads == ALL_CORES else str(r.threads),
        f"{r.ours:.3g} {r.unit}",
        r.against,
        f"{r.peer:.3g} {r.unit}",
        f"{r.figure:.2f}x" if ratio else f"{r.figure:+.1f} {r.unit}",
        goal,
        {None: "", True: "won", False: "**lost**"}[r.won],
    ]


HEADS = ("#", "work", "a sample", "threads", "ours", "against", "peer", "figure", "goal", "")


def by_how_much(r: Result) -> str:
    """How far a lost row is from its goal, and who is faster."""
    assert r.goal is not None
    if r.kind == "more":
        return f"{r.figure:+.1f} {r.unit} of {r.goal:+g} {r.unit}"
    faster = "ours is smaller" if r.unit in ("B", "MB") else "ours is faster"
    other = "the peer's is smaller" if r.unit in ("B", "MB") else "the peer is faster"
    who = faster if r.figure >= 1 else other
    return (
        f"{r.figure:.2f}x of {r.goal:g}x: {who}, {r.goal / r.figure:.1f} times short of the goal"
    )


def lost(results: list[Result]) -> list[str]:
    """One item a lost row: by how much, and why."""
    items = []
    for r in results:
        if r.won is False:
            why = reasons.of(r.row, r.set) or "No reason is noted yet."
            name = r.row if r.set == "-" else f"{r.row} {r.set}"
            items.append(f"- **{name}** ({by_how_much(r)}). {why}")
    return items


def _section(title: str, lines: list[str]) -> list[str]:
    return ["", f"## {title}", "", *lines] if lines else []


def to_markdown(results: list[Result], about: dict[str, Any]) -> str:
    """The table, with what it was measured on."""
    judged = [r for r in results if r.won is not None]
    slower = sum(r.kind == "ratio" and r.figure < 1 for r in judged)
    machine, versions, sizes = about["machine"], about["versions"], about["sizes"]
    rows = ["| " + " | ".join(cells) + " |" for cells in map(line, results)]
    return "\n".join(
        [
            "# Measured against peers",
            "",
            f"`make bench` wrote this on {about['date']}. "
            f"{sum(bool(r.won) for r in judged)} of {len(judged)} goals were reached; "
            f"in {slower} rows the peer was faster.",
            "",
            f"- Machine: {machine['cpu']}, {machine['cores']} cores ({machine['cpu_flags']}), "
            f"{machine['system']}, {machine['architecture']}, stores on {machine['disk']}; "
            f"load at the start {machine['load']}.",
            "- Versions: " + ", ".join(f"{name} {v}" for name, v in versions.items()) + ".",
            "- Grains: " + "; ".join(f"{name}: {size}" for name, size in sizes.items()) + ".",
            f"- Ours and the peer took turns, {about['rounds']} times each (passes over "
            f"all rows: {about['passes']}); the figures are medians per grain, or "
            "per query where the column says queries. A ratio is the peer's time over ours, in S7 "
            "its size: above 1 we are faster, or smaller. "
            "Results were checked before the clock ran. Where a peer packs, its input has short "
            "keys already. A row without a goal is there for comparison.",
            "",
            "| " + " | ".join(HEADS) + " |",
            "|" + "---|" * len(HEADS),
            *rows,
            *_section("Lost, by how much, and why", lost(results)),
            *_section(
                "Not measured yet",
                [
                    f"- **{name}**: {work}"
                    for name, work in reasons.not_built(r.row for r in results)
                ],
            ),
            "",
        ]
    )
