# SPDX-License-Identifier: Apache-2.0
"""The tables of the page about MIF in JSON-LD are those of the code."""

from __future__ import annotations

from omsgrain.formats.mif_ld.defects import CODES
from omsgrain.formats.mif_ld.validate import MODES
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/mif-ld.md"


def test_codes() -> None:
    rows = table(PAGE, "code", "what is wrong", "found by", "how to repair it")
    assert [[cell.replace("`", "") for cell in row] for row in rows] == [
        [code, one.says, _found_by(one.keywords, one.warning), one.hint]
        for code, one in CODES.items()
    ]


def _found_by(keywords: tuple[str, ...], warning: bool) -> str:
    return ", ".join(keywords) or ("mode extra" if warning else "its content")


def test_modes() -> None:
    rows = table(PAGE, "mode", "what it does")
    assert [row[0].strip("`") for row in rows] == list(MODES)
