# SPDX-License-Identifier: Apache-2.0
"""Each claim of the README and of the security page names a test that exists."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from support.markdown_page import table
from support.paths import ROOT

CLAIMED = list(table(ROOT / "docs/claims.md", "page", "claim", "shown by"))


@cache
def names_of(file: str) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse((ROOT / file).read_text("utf-8"))
    return frozenset(node.name for node in tree.body if isinstance(node, ast.FunctionDef))


def part(page: str, start: str, end: str | None = None) -> str:
    """Return the text of a page from one heading to another, or to its end."""
    text = (ROOT / page).read_text("utf-8").split(f"## {start}\n")[1]
    return text if end is None else text.split(f"## {end}\n")[0]


def assert_claimed(page: str, text: str) -> None:
    """Assert that each bullet of a text has a claim in the table."""
    blocks = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    for bullet in re.findall(r"^- (.+?)(?=^- |^#|\n\n|\Z)", blocks, re.MULTILINE | re.DOTALL):
        words = " ".join(bullet.split())
        assert any(at == page and claim in words for at, claim, _ in CLAIMED), words


@pytest.mark.parametrize("row", CLAIMED, ids=lambda row: row[1])
def test_a_claim_is_on_its_page_and_has_a_test(row: list[str]) -> None:
    page, claim, shown = row
    text = " ".join((ROOT / page).read_text("utf-8").split())
    assert claim in text
    for place in shown.split(", "):
        file, _, name = place.strip("`").partition("::")
        assert name in names_of(file), place


def test_each_bullet_of_the_readme_has_a_claim() -> None:
    assert_claimed("README.md", part("README.md", "What you get", "Who uses it for what"))
    assert_claimed("README.md", part("README.md", "Limits", "Read on"))


def test_each_bullet_about_encryption_and_keys_has_a_claim() -> None:
    assert_claimed("docs/security.md", part("docs/security.md", "What is encrypted", "Threats"))
    assert_claimed("docs/security.md", part("docs/security.md", "Keys"))
