# SPDX-License-Identifier: Apache-2.0
"""The code fences and the tables of a Markdown page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ANCHOR = re.compile(r'<a id="[^"]*"></a>')


@dataclass(frozen=True, slots=True)
class Fence:
    """A block between two lines of backticks; ``line`` is that of its first line, from 1."""

    language: str
    line: int
    text: str


def fences(page: Path) -> Iterator[Fence]:
    """Yield the fenced blocks of a page."""
    language, start = "", 0
    block: list[str] | None = None
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if not line.startswith("```"):
            if block is not None:
                block.append(line)
        elif block is None:
            language, start, block = line[3:].strip(), number + 1, []
        else:
            yield Fence(language, start, "\n".join(block) + "\n")
            block = None
    assert block is None, f"{page.name}: the fence before line {start} is not closed"


def table(page: Path, *header: str) -> list[list[str]]:
    """Return the rows of the one table with this header; anchors and code marks are taken off."""
    rows: list[list[str]] = []
    found = inside = False
    for line in page.read_text("utf-8").splitlines():
        plain = _ANCHOR.sub("", line).strip()
        cells = [cell.strip().strip("`") for cell in plain.strip("|").split("|")]
        if cells == list(header):
            assert not found, f"{page.name}: two tables {header}"
            found = inside = True
        elif not line.startswith("|"):
            inside = False
        elif inside and set(line) - set("|- "):
            rows.append(cells)
    assert rows, f"{page.name}: no table {header}"
    return rows
