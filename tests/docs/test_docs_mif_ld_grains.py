# SPDX-License-Identifier: Apache-2.0
"""The page about MIF in JSON-LD as grains says what the code does."""

from __future__ import annotations

import doctest

from omsgrain.formats.mif_ld.document import LAYOUTS
from omsgrain.formats.mif_ld.records import MEMBERS, VOLATILE
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs" / "mif-ld-grains.md"


def test_examples() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_tables() -> None:
    rows = [tuple(row) for row in table(PAGE, "member", "shapes", "field of the grain")]
    assert rows == [(one.name, one.shapes, one.grain or "") for one in MEMBERS]
    counters = {row[0]: row[1] for row in table(PAGE, "in", "members")}
    assert counters == {
        ".".join(way): "`, `".join(names) for way, names in VOLATILE.items()
    }  # fmt: skip
    assert tuple(row[0] for row in table(PAGE, "layout", "file", "what is in it")) == LAYOUTS
