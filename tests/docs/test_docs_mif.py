# SPDX-License-Identifier: Apache-2.0
"""The tables of the page about formats, as far as they are about MIF, are those of the code."""

from __future__ import annotations

from omsgrain.formats.mif1 import check as mif1
from omsgrain.formats.mif2 import check as mif2
from support.conversion_pairs import PAIRS, lost_fields
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/formats.md"
TITLES = {"aimem": "AIMEM", "mif1": "MIF 1.0", "mif2": "MIF 2.0", "mif-ld": "MIF in JSON-LD"}


def _yes(value: bool) -> str:
    return "yes" if value else ""


def _bare(rows: list[list[str]]) -> list[list[str]]:
    return [[cell.replace("`", "") for cell in row] for row in rows]


def test_fields_of_2_0() -> None:
    rows = table(PAGE, "of MIF 2.0", "field", "kind", "required", "null is taken", "what")
    assert _bare(rows) == _bare([
        [shape, one.name, one.kind, _yes(one.required), _yes(one.nullable), one.says]
        for shape, fields in mif2.SHAPES.items()
        for one in fields
    ])  # fmt: skip


def test_fields_of_1_0() -> None:
    rows = table(PAGE, "of MIF 1.0", "field", "kind", "required", "in the SEP", "what")
    assert _bare(rows) == _bare([
        [shape, one.name, one.kind, _yes(one.required), _yes(one.own), one.says]
        for shape, fields in mif1.SHAPES.items()
        for one in fields
    ])  # fmt: skip


def test_what_is_lost() -> None:
    rows = [row[:3] + sorted(row[3].replace("`", "").split(", "))
            for row in table(PAGE, "from", "to", "of", "lost")]  # fmt: skip
    assert rows == [
        [TITLES[one], TITLES[other], kind, *sorted(lost)]
        for one, other in PAIRS
        for kind, lost in sorted(lost_fields(one, other).items())
    ]
