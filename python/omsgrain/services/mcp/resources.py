# SPDX-License-Identifier: Apache-2.0
"""What can be read without a tool: one memory, the newest ones, how many there are."""

from __future__ import annotations

import json
from typing import Final
from urllib.parse import unquote

from mcp.types import ReadResourceResult, Resource, ResourceTemplate, TextResourceContents

from omsgrain.errors import NotFoundError
from omsgrain.ops import recall as verbs
from omsgrain.services.mcp.problems import Json
from omsgrain.services.mcp.service import Service

__all__ = ["RESOURCES", "TEMPLATES", "read"]

_SCHEME: Final = "omsgrain://"
_RECENT, _STATS, _MEMORY = (f"{_SCHEME}{name}" for name in ("recent", "stats", "memory/"))
_JSON: Final = "application/json"
_NEWEST: Final = 20
_LONGEST: Final = 4_096

RESOURCES: Final = [
    Resource(
        uri=_RECENT,
        name="recent",
        title="Recent memories",
        description=f"The {_NEWEST} newest memories.",
        mime_type=_JSON,
    ),
    Resource(
        uri=_STATS,
        name="stats",
        title="Statistics",
        description="How many current grains the user has, and of when the newest is.",
        mime_type=_JSON,
    ),
]
TEMPLATES: Final = [
    ResourceTemplate(
        uri_template=f"{_MEMORY}{{id}}",
        name="memory",
        title="A memory",
        description="One memory, whole, by its id or content address.",
        mime_type=_JSON,
    )
]


def read(service: Service, uri: str) -> ReadResourceResult:
    """Read a resource.

    Raises:
        NotFoundError: there is none.
    """
    text = json.dumps(_value(service, uri), ensure_ascii=False)
    return ReadResourceResult(contents=[TextResourceContents(uri=uri, mime_type=_JSON, text=text)])


def _value(service: Service, uri: str) -> Json:
    if uri == _RECENT:
        return verbs.recall(service.store, service.user, limit=_NEWEST)
    if uri == _STATS:
        return verbs.stats(service.store, service.user)
    if uri.startswith(_MEMORY) and len(uri) <= _LONGEST:
        return verbs.get(service.store, service.user, unquote(uri.removeprefix(_MEMORY)))
    raise NotFoundError("no such resource")
