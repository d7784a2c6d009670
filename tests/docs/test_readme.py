# SPDX-License-Identifier: Apache-2.0
"""The README is short, and its figures come from the benchmarks."""

from __future__ import annotations

import re
from pathlib import Path

from support.markdown_page import fences, table
from support.paths import ROOT

README, RESULTS = ROOT / "README.md", ROOT / "benches/RESULTS.md"
UNITS = {"us": 1.0, "ms": 1e3, "s": 1e6}


def microseconds(cell: str) -> float:
    """The time at the start of a cell, such as ``20.2 us``."""
    value, unit = cell.split(":")[0].split()
    return float(value) * UNITS[unit]


def test_it_is_short() -> None:
    lines = README.read_text("utf-8").splitlines()
    assert len(lines) <= 120
    (program,) = [block for block in fences(README) if block.language == "python"]
    typed = [line for line in program.text.splitlines() if line.startswith((">>> ", "... "))]
    assert len(typed) <= 12


def test_its_figures_are_those_of_the_benchmarks() -> None:
    columns = "# / work / a sample / threads / ours / against / peer / figure / goal / ".split(
        " / "
    )
    measured: dict[str, list[tuple[str, str]]] = {}
    for name, *_, ours, _against, peer, _figure, _goal, _verdict in table(RESULTS, *columns):
        measured.setdefault(name, []).append((ours, peer))
    rows = table(README, "work", "omsgrain", "compared with")
    assert len(rows) == 3
    for work, ours, peer in rows:
        (name,) = re.findall(r"\(([\w-]+)\)$", work)
        times = (microseconds(ours), microseconds(peer))
        assert times in [(microseconds(a), microseconds(b)) for a, b in measured[name]], work


def test_links_of_the_readme_stay_in_the_project() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README.read_text("utf-8")):
        assert not Path(target).is_absolute()
