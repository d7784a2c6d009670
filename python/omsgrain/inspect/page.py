# SPDX-License-Identifier: Apache-2.0
"""The result as one HTML page: it fetches nothing, and no text of a grain can run as code.

The page contains the values as data, and its scripts show them as text. The policy in its head
allows these scripts only.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final

_SCRIPTS: Final = ("page.js", "grains.js", "graph.js")


def page(values: Mapping[str, Any]) -> str:
    """Return the page for the result of ``inspect``."""
    script = "\n".join(_text(name) for name in _SCRIPTS)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "TITLE": html.escape(str(values["source"])),
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "STYLE": _text("page.css"),
        "SCRIPT": script,
        "DATA": _data(values),
    }
    whole = _text("page.html")
    before, *rest = whole.split("{{")  # split once: inserted text may contain braces
    pieces = [before]
    for one in rest:
        name, _, after = one.partition("}}")
        pieces += (parts[name], after)
    return "".join(pieces)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _data(values: Mapping[str, Any]) -> str:
    """Return JSON that cannot end its HTML element."""
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
