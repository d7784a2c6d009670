# SPDX-License-Identifier: Apache-2.0
"""Remember, recall, forget, history: the verbs of ``ops.recall``, for the user of the server."""

from __future__ import annotations

from typing import Any

from mcp.types import CallToolResult

from omsgrain.ops import recall as verbs
from omsgrain.services.mcp.problems import answer
from omsgrain.services.mcp.service import Service

__all__ = ["forget", "history", "recall", "remember"]


def remember(service: Service, given: dict[str, Any]) -> CallToolResult:
    """Keep something."""
    return answer(verbs.remember(service.store, service.user, **given))


def recall(service: Service, given: dict[str, Any]) -> CallToolResult:
    """Find what is kept."""
    return answer(verbs.recall(service.store, service.user, **given))


def forget(service: Service, given: dict[str, Any]) -> CallToolResult:
    """Delete something that is kept."""
    return answer(verbs.forget(service.store, service.user, **given))


def history(service: Service, given: dict[str, Any]) -> CallToolResult:
    """Tell what became of something that is kept."""
    return answer(verbs.history(service.store, service.user, **given))
