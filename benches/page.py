# SPDX-License-Identifier: Apache-2.0
"""Tables in pages that people write: what stands between two marks is made of figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def about(found: Mapping[str, Any]) -> str:
    """When and on what something was measured."""
    machine, versions = found["machine"], found["versions"]
    flags = f" ({machine['cpu_flags']})" if machine["cpu_flags"] else ""
    return (
        f"Measured on {found['date']}: {machine['cpu']}, {machine['cores']} cores{flags}, "
        f"{machine['architecture']}, {machine['system']}, {machine['disk']}; "
        f"Python {versions['python']}, LMDB by py-lmdb {versions['lmdb']}."
    )


def fill(file: Path, parts: Mapping[str, str]) -> None:
    """Replace what stands between ``<!-- NAME -->`` and ``<!-- /NAME -->``.

    Raises:
        ValueError: the page has no such marks.
    """
    text = file.read_text(encoding="utf-8")
    for name, part in parts.items():
        marked = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = marked.subn(rf"\g<1>{_plain(part)}\n\g<2>", text)
        if count != 1:
            raise ValueError(f"{file.name}: marks of {name!r}, expected once, found {count} times")
    file.write_text(text, encoding="utf-8")


def _plain(part: str) -> str:
    """As a replacement that stands for itself."""
    return part.replace("\\", "\\\\")
