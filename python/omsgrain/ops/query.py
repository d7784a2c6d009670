# SPDX-License-Identifier: Apache-2.0
"""Ask a store for grains, and what an answer looks like to machines and to people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import omsgrain as og
from omsgrain.errors import NotFoundError
from omsgrain.grain import plain
from omsgrain.ops.opening import open_store
from omsgrain.query.walk import created
from omsgrain.storage.location import Where

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omsgrain.query.query import Order, Page
    from omsgrain.storage.records import GrainStatus

#: What a grain says, in the order of a sentence; of the fields that it has, these are shown.
_ABOUT = ("observer_id", "subject")
_SAYS = (
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


@dataclass(frozen=True, slots=True)
class QueryAnswer:
    """What a query found.

    Attributes:
        page: the results.
        states: what became of each of them; None where all are sure to be current.
    """

    page: Page
    states: tuple[GrainStatus | None, ...] | None


def query(
    store: Where,
    filters: Mapping[str, Any],
    *,
    order: Order = "newest",
    limit: int = 50,
    cursor: str | None = None,
    count: bool = False,
    explain: bool = False,
    scan: bool = False,
) -> QueryAnswer:
    """Answer one page of a query; filters and errors are those of ``GrainStore.query``."""
    with open_store(store, readonly=True) as grains:
        page = grains.query(
            **filters,
            order=order,
            limit=limit,
            cursor=cursor,
            count=count,
            explain=explain,
            scan=scan,
        )
        states = None
        asked = filters.keys() & {"known_at", "verification_status"}
        if asked or filters.get("current", True) is not True:
            states = tuple(_state(grains, hit.content_address) for hit in page.results)
    return QueryAnswer(page, states)


def _state(grains: og.GrainStore, address: str) -> GrainStatus | None:
    try:
        return grains.state(address)
    except NotFoundError:  # another process has deleted it since
        return None


def envelope(page: Page, states: Sequence[GrainStatus | None] | None = None) -> dict[str, Any]:
    """The page as JSON-ready values, with the states of the grains if they are given.

    The envelope needs a score in each result. Those of a query have none: it is the time, scaled
    to 0..1 within the page: the newest has 1. Why a search ended early stands in the envelope only
    if one did.

    Spec: OMS §28.1
    """
    results = []
    times = [created(hit.grain) for hit in page.results]
    first, last = min(times, default=0), max(times, default=0)
    for number, hit in enumerate(page.results):
        score = hit.score
        if score is None:
            score = (times[number] - first) / (last - first) if last > first else 1.0
        row = {
            "grain": plain(hit.grain.to_dict()),
            "score": score,
            "matched_fields": list(hit.matched_fields),
            "content_address": hit.content_address,
        }
        if hit.snippet is not None:
            row["snippet"] = hit.snippet
        if states is not None:
            state = states[number]
            row["state"] = None if state is None else plain(asdict(state))
        results.append(row)
    return {
        "results": results,
        "total": page.total,
        "next_cursor": page.next_cursor,
        "plan": None if page.plan is None else asdict(page.plan),
    } | ({} if page.incomplete is None else {"incomplete": page.incomplete})


def standing(state: GrainStatus | None) -> str:
    """What became of a grain, in a few words; "current" where nothing did."""
    if state is None:
        return "deleted"
    words = ["superseded"] if state.superseded_by is not None else []
    if state.verification_status != "unverified":
        words.append(state.verification_status)
    words += [word for word in ("restricted", "held") if getattr(state, word)]
    return ", ".join(words) or "current"


def gist(grain: Mapping[str, Any]) -> str:
    """What a grain says, on one line."""
    if isinstance(grain, og.Grain) and grain.sealed:
        return "(sealed)"
    about = [grain[name] for name in _ABOUT if name in grain]
    # Who observed themselves is not said twice.
    said = [*about[:1], *(one for one in about[1:] if one != about[0]),
            *(grain[name] for name in _SAYS if name in grain)]  # fmt: skip
    return " ".join(v if isinstance(v, str) else _text(v) for v in said)


def _text(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)
