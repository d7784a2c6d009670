# SPDX-License-Identifier: Apache-2.0
"""The page about MIF in JSON-LD as grains says what the code does."""

from __future__ import annotations

import doctest
from typing import get_args

from omsgrain.formats.mif_ld.document import Layout
from omsgrain.formats.mif_ld.records import ORDER, SHAPES, VOLATILE
from omsgrain.formats.mif_ld.schema import load
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs" / "mif-ld-grains.md"


def test_examples() -> None:
    assert doctest.testfile(str(PAGE), module_relative=False).failed == 0


def test_tables() -> None:
    rows = [tuple(row) for row in table(PAGE, "member", "shapes", "field of the grain")]
    assert tuple(name for name, _, _ in rows) == ORDER
    of = {shape: _members(f"memory-{shape}.json") for shape in SHAPES}
    for name, shapes, _ in rows:
        assert shapes == ", ".join(shape for shape in SHAPES if name in of[shape])
    counters = {row[0]: row[1] for row in table(PAGE, "in", "members")}
    assert counters == {
        ".".join(way): "`, `".join(names) for way, names in VOLATILE.items()
    }  # fmt: skip
    assert tuple(row[0] for row in table(PAGE, "layout", "file", "what is in it")) == get_args(
        Layout
    )


def _members(name: str) -> set[str]:
    """The members of an object in a schema, with those of the schema that it refers to."""
    file, _, inside = name.partition("#/$defs/")
    node = load(file)["$defs"][inside] if inside else load(file)
    more = _members(node["$ref"]) if "$ref" in node else set()
    found: set[str] = more | node["properties"].keys()
    return found
