# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/mcp.md: tools, resources, rules and limits."""

from __future__ import annotations

import re

from omsgrain.mcp.resources import RESOURCES, TEMPLATES
from omsgrain.mcp.service import RULES, McpOptions
from omsgrain.mcp.tools import TOOLS
from omsgrain.memory.limits import MOST, TYPES
from support.markdown_page import table
from support.paths import ROOT

PAGE = ROOT / "docs/mcp.md"


def test_tools() -> None:
    rows = table(PAGE, "tool", "arguments", "what it does")
    told = {name: re.findall(r"\w+", arguments) for name, arguments, _ in rows}
    assert told == {
        name: [argument.name for argument in tool.arguments] for name, tool in TOOLS.items()
    }


def test_resources() -> None:
    rows = table(PAGE, "resource", "what it says")
    known = [one["uri"] for one in RESOURCES] + [one["uriTemplate"] for one in TEMPLATES]
    assert [uri for uri, _ in rows] == known


def test_rules() -> None:
    rows = table(PAGE, "rule", "code", "when")
    assert rows == [[rule, error.code, says] for rule, (error, says) in RULES.items()]


def test_limits() -> None:
    told = {what: size for what, size, _ in table(PAGE, "what", "how much", "option")}
    options = McpOptions("ada")
    assert told["a document that is imported"] == f"{options.document >> 20} MB"
    assert told["a document that is given as text"] == f"{options.answer >> 20} MB"
    assert told["calls that work at once"].startswith(f"{options.at_work};")
    assert told["memories of one recall"] == str(MOST)
    text = PAGE.read_text("utf-8")
    assert all(f"`{kind}`" in text for kind in TYPES)
