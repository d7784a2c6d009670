# SPDX-License-Identifier: Apache-2.0
"""The tables of the page about MIF in JSON-LD are those of the code."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from omsgrain.formats.mif_ld import schema
from omsgrain.formats.mif_ld.defects import BY_KEYWORD, CODES, code_of
from omsgrain.formats.mif_ld.validate import MODES
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/mif-ld.md"


def test_codes() -> None:
    found_by: dict[str, set[str]] = {}
    for name in schema.NAMES:
        for code, keyword in _finds(schema.load(name)):
            found_by.setdefault(code, set()).add(keyword)
    rows = table(PAGE, "code", "what is wrong", "found by", "how to repair it")
    assert [(row[0].strip("`"), row[3]) for row in rows] == [*CODES.items()]
    told = {row[0].strip("`"): set(row[2].replace("`", "").split(", ")) for row in rows}
    assert {code: words for code, words in told.items() if words != found_by.get(code)} == {
        code: {"its content" if code in ("MIF-KIND", "MIF-SHAPE") else "mode extra"}
        for code in CODES.keys() - found_by.keys()
    }


def _finds(node: Any) -> Iterator[tuple[str, str]]:
    """The codes of a schema, each with a keyword that finds it."""
    for keyword in node.keys() & BY_KEYWORD:
        if keyword != "additionalProperties" or node[keyword] is False:
            yield code_of(keyword, node[keyword], node.get("x-code")), keyword
    inside = [*node.get("properties", {}).values(), *node.get("$defs", {}).values()]
    # Of other branches the ``anyOf`` itself is told.
    inside += [one for one in node.get("anyOf", ()) if one.get("type") in ("object", "array")]
    inside += [node[name] for name in ("items", "additionalProperties") if node.get(name)]
    for one in inside:
        yield from _finds(one)


def test_modes() -> None:
    rows = table(PAGE, "mode", "what it does")
    assert [row[0].strip("`") for row in rows] == list(MODES)
