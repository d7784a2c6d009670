# SPDX-License-Identifier: Apache-2.0
"""What was found, as one HTML page: nothing in it is fetched, and nothing a grain says can act.

The values stand in the page as data. Its scripts show them as text alone, and the policy in its
head lets these scripts run and no others.
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
    """The page that shows what ``inspect`` found."""
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
    before, *rest = whole.split("{{")  # cut once: what is filled in may hold braces
    pieces = [before]
    for one in rest:
        name, _, after = one.partition("}}")
        pieces += (parts[name], after)
    return "".join(pieces)


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


def _data(values: Mapping[str, Any]) -> str:
    """JSON that cannot end the element it stands in."""
    return json.dumps(values, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")
