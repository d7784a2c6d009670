# SPDX-License-Identifier: Apache-2.0
"""Ask a store for grains, and what an answer looks like to machines and to people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omsgrain as og
from omsgrain.ops.plain import plain

if TYPE_CHECKING:
    from omsgrain.index.query import Order, Page

#: What a grain says, in the order of a sentence; of the fields that it has, these are shown.
_SAYS = (
    "observer_id",
    "subject",
    "relation",
    "object",
    "agreed_content",
    "conclusion",
    "description",
    "goal_state",
    "trigger",
    "tool_name",
    "code",
    "input",
    "content",
    "content_blocks",
    "context",
    "steps",
    "grantee_did",
    "scope",
)


def query(
    store: Path,
    filters: Mapping[str, Any],
    *,
    order: Order = "newest",
    limit: int = 50,
    cursor: str | None = None,
    count: bool = False,
    explain: bool = False,
) -> Page:
    """Answer one page of a query; filters and errors are those of ``GrainStore.query``.

    Raises:
        StoreError: there is no store at the path.
    """
    with og.open(store, readonly=True) as grains:
        return grains.query(
            **filters, order=order, limit=limit, cursor=cursor, count=count, explain=explain
        )


def envelope(page: Page) -> dict[str, Any]:
    """The page as JSON-ready values. Spec: OMS §28.1."""
    return {
        "results": [
            {
                "grain": plain(hit.grain.to_dict()),
                "score": hit.score,
                "matched_fields": list(hit.matched_fields),
                "content_address": hit.content_address,
            }
            for hit in page.results
        ],
        "total": page.total,
        "next_cursor": page.next_cursor,
        "plan": None if page.plan is None else asdict(page.plan),
    }


def gist(grain: og.Grain) -> str:
    """What a grain says, on one line."""
    said = (grain[name] for name in _SAYS if name in grain)
    return " ".join(v if isinstance(v, str) else _text(v) for v in said)


def _text(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)
