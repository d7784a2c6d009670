# SPDX-License-Identifier: Apache-2.0
"""Do several runs say the same? `python -m benches --agree A.json B.json C.json`.

A row's winner is who was faster; besides, a goal was reached or not. Within a tenth of even, or of
the goal, a run says neither: the machine varies by more. Each row is shown with the figures of the
runs and their spread, and those that contradict each other are named.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches.page import table

Key = tuple[str, str, int]

EVEN = 1.1
"""Figures so near to a line stand on neither side of it."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """What several runs say of a row.

    Attributes:
        row: its name.
        set: on which grains.
        threads: size of the thread pool; 0: as many as there are cores.
        figures: of each run; a row that a run lacks is shorter.
        winners: who was faster (``ours`` or ``peer``), or whether a difference was small enough;
            of the runs in which that is clear.
        goals: whether the goal was reached, of the runs in which that is clear.
    """

    row: str
    set: str
    threads: int
    figures: tuple[float, ...]
    winners: frozenset[str]
    goals: frozenset[bool]

    @property
    def spread(self) -> float:
        """How far apart the figures are, as a part of the least."""
        low, high = min(self.figures), max(self.figures)
        return (high - low) / abs(low) if low else 0.0

    @property
    def differs(self) -> str:
        """What the runs do not agree on; empty if they agree."""
        parts = []
        if len(self.winners) > 1:
            parts.append("who wins")
        if len(self.goals) > 1:
            parts.append("the goal")
        return " and ".join(parts)


def compare(runs: Sequence[dict[str, Any]]) -> list[Agreement]:
    """Put the runs' results side by side, in the order of the first."""
    found: dict[Key, list[dict[str, Any]]] = {}
    for run in runs:
        for result in run["results"]:
            key = (result["row"], result["set"], result["threads"])
            found.setdefault(key, []).append(result)
    return [
        Agreement(
            *key,
            figures=tuple(float(r["figure"]) for r in results),
            winners=frozenset(who for r in results if (who := _winner(r)) is not None),
            goals=frozenset(won for r in results if (won := _goal(r)) is not None),
        )
        for key, results in found.items()
    ]


def _winner(result: dict[str, Any]) -> str | None:
    if result["kind"] == "ratio":
        if _near(result["figure"], 1):
            return None
        return "ours" if result["figure"] > 1 else "peer"
    goal = _goal(result)
    return None if goal is None else "ours" if goal else "peer"


def _goal(result: dict[str, Any]) -> bool | None:
    if result["won"] is None or _near(result["figure"], result["goal"]):
        return None
    return bool(result["won"])


def _near(figure: float, line: float) -> bool:
    return line / EVEN <= figure <= line * EVEN


def main(files: Sequence[Path]) -> int:
    """Print the table; 1 if the runs do not agree."""
    runs = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    rows = compare(runs)
    cells = [
        (
            row.row,
            row.set,
            str(row.threads or "all"),
            " ".join(f"{figure:.2f}" for figure in row.figures),
            f"{row.spread:.0%}",
            " or ".join(sorted(row.winners)) or "even",
            " or ".join("reached" if goal else "missed" for goal in sorted(row.goals)),
            f"**{row.differs}**" if row.differs else "",
        )
        for row in rows
    ]
    heads = ("row", "grains", "threads", "figures", "spread", "faster", "goal", "differs in")
    print(table(heads, cells))
    missing = [row.row for row in rows if len(row.figures) < len(runs)]
    apart = [row.row for row in rows if row.differs]
    print(
        f"\n{len(rows)} rows of {len(runs)} runs; {len(apart)} differ: {', '.join(apart) or '-'}"
    )
    if missing:
        print(f"not in every run: {', '.join(missing)}")
    return int(bool(apart or missing))
