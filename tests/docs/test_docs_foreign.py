# SPDX-License-Identifier: Apache-2.0
"""The tables about the memory of other systems, and about recordings, are those of the code."""

from __future__ import annotations

from dataclasses import asdict

from omsgrain.formats.bag import base as bag
from omsgrain.formats.bag import cdr, protobuf
from omsgrain.formats.foreign.base import LIMITS, RULES
from omsgrain.formats.foreign.langgraph import LANGGRAPH
from omsgrain.formats.source import FOREIGN
from omsgrain.interchange.bag import LARGEST
from omsgrain.interchange.mcap_export import ATTACHED
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/formats.md"


def test_rules() -> None:
    assert table(PAGE, "rule", "what is wrong") == [[n, says] for n, says in RULES.items()]


def test_each_format_has_a_row() -> None:
    rows = table(PAGE, "format", "in the file", "becomes")
    assert list(dict.fromkeys(row[0] for row in rows)) == list(FOREIGN)


def test_limits_of_recordings() -> None:
    rows = table(PAGE, "limit", "at most", "of a recording")
    limits = {
        **asdict(bag.LIMITS), "fields": cdr.FIELDS, "depth": cdr.DEPTH, "values": cdr.VALUES,
        "largest": LARGEST, "attached": ATTACHED, "protobuf": protobuf.LARGEST,
    }  # fmt: skip
    assert {name: int(most.replace(",", "")) for name, most, _ in rows} == limits


def test_limits() -> None:
    rows = table(PAGE, "limit", "at most", "what it limits")
    assert {row[0]: int(row[1].replace(",", "")) for row in rows} == asdict(LIMITS)
    assert f"{LANGGRAPH.limits.document:,} of a database" in PAGE.read_text("utf-8")
