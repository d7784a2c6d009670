# SPDX-License-Identifier: Apache-2.0
"""The README is short. Its figures come from the benchmarks, and each claim has its test."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from support.markdown_page import fences, table
from support.paths import ROOT

README, RESULTS, CLAIMS = ROOT / "README.md", ROOT / "benches/RESULTS.md", ROOT / "docs/claims.md"
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


@cache
def names_of(file: str) -> frozenset[str]:
    """The names of the tests of a file."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


CLAIMED = [row for row in table(CLAIMS, "page", "claim", "shown by")]


@pytest.mark.parametrize("row", CLAIMED, ids=lambda row: row[1])
def test_a_claim_stands_on_its_page_and_has_a_test(row: list[str]) -> None:
    page, claim, shown = row
    text = " ".join((ROOT / page).read_text("utf-8").split())
    assert claim in text
    for place in shown.split(", "):
        file, _, name = place.strip("`").partition("::")
        assert name in names_of(file), place


def test_each_bullet_of_the_readme_has_a_claim() -> None:
    text = README.read_text("utf-8")
    part = (
        text.split("## What you get")[1].split("## How fast")[0]
        + text.split("## Limits")[1].split("## Read on")[0]
    )
    bullets = re.findall(r"^- (.+?)(?=^- |^#|\Z)", part, re.MULTILINE | re.DOTALL)
    for bullet in bullets:
        words = " ".join(bullet.split())
        assert any(page == "README.md" and claim in words for page, claim, _ in CLAIMED), words


def test_links_of_the_readme_stay_in_the_project() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README.read_text("utf-8")):
        assert not Path(target).is_absolute()
