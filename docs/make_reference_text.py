# SPDX-License-Identifier: Apache-2.0
"""The text of the reference: docstrings as Markdown, signatures as the source has them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

HEADER = "<!-- Made by docs/make_reference.py from docstrings and docs/make_reference.toml. -->"
WIDTH = 88
SPECIAL = re.compile(r"(`[^`]*`)|([|<*\[\]_])")
HEADS = ("Args", "Attributes", "Raises", "Returns", "Yields")


def quoted(text: str) -> str:
    """Write strings as the source does."""
    return re.sub(r"'([^'\"]*)'", r'"\1"', text)


def indented(text: str) -> str:
    """Indent every line."""
    return "\n".join(f"    {line}" for line in text.splitlines())


def escaped(text: str) -> str:
    """Return prose of a docstring as Markdown: special characters outside code are escaped."""
    once = re.sub(r"``([^`]+)``", r"`\1`", " ".join(text.split()))
    return SPECIAL.sub(lambda m: m[1] or f"\\{m[2]}", once)


def prose(doc: str) -> Iterator[str]:
    """Yield the lines of a docstring in the style of Google, as Markdown."""
    head = ""
    lines: list[str] = []
    for line in [*inspect.cleandoc(doc).splitlines(), ""]:
        section = re.fullmatch(rf"({'|'.join(HEADS)}):", line)
        if section or not line or (head and not line.startswith(" ")):
            yield from _passage(head, lines)
            lines = []
            head = section[1] if section else "" if not line else head
        if line and not section:
            lines.append(line)


def _passage(head: str, lines: list[str]) -> Iterator[str]:
    if not lines:
        return
    if not head:
        yield from (escaped("\n".join(lines)), "")
        return
    items: list[str] = []
    for line in lines:
        if re.match(r" {4}\S", line) and (head != "Returns" or not items):
            items.append(line.strip())
        else:
            items[-1] += f" {line.strip()}"
    yield from (f"**{head}**" if head != "Args" else "**Arguments**", "")
    for item in items:
        names, colon, text = item.partition(": ")
        if head in ("Returns", "Yields") or not colon:
            yield f"- {escaped(item)}"
        else:
            shown = ", ".join(f"`{name.strip()}`" for name in names.split(","))
            yield f"- {shown}: {escaped(text)}"
    yield ""
