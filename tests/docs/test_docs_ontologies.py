# SPDX-License-Identifier: Apache-2.0
"""The page about ontologies agrees with the code."""

from __future__ import annotations

from omsgrain.formats.ontology.discover import INSTRUCTIONS, PROGRAMS
from omsgrain.formats.ontology.integrity import MOST, RULES, WARNINGS
from omsgrain.formats.ontology.load import DEPTH, LARGEST
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/ontologies.md"


def test_rules() -> None:
    rows = table(PAGE, "rule", "what is wrong")
    assert {row[0].strip("`"): row[1] for row in rows} == RULES
    rows = table(PAGE, "warning", "what is reported")
    assert {row[0].strip("`"): row[1] for row in rows} == WARNINGS


def test_limits() -> None:
    text = " ".join(PAGE.read_text("utf-8").split())
    assert f"at most {LARGEST >> 20} MiB and {DEPTH} levels" in text
    assert f"{MOST:,} fields" in text and f"at most {PROGRAMS:,}" in text
    assert f"more than {INSTRUCTIONS:,} instructions" in text
