# SPDX-License-Identifier: Apache-2.0
"""An answer as JSON-ready values, and a grain and its state in a few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from omsgrain.grain import Grain, plain
from omsgrain.query.query import Page
from omsgrain.query.walk import created
from omsgrain.storage.records import GrainStatus

# The fields that a grain shows, in the order of a sentence.
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


def envelope(page: Page, states: Sequence[GrainStatus | None] | None = None) -> dict[str, Any]:
    """The page as JSON-ready values, with the states of the grains if they are given.

    The envelope needs a score in each result. Those of a query have none: it is the time, scaled
    to 0..1 within the page: the newest has 1. If a search ended
    early, the envelope says why; if it did not wait, how many grains the index lacks.

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
            "content_address": hit.address,
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
    } | {name: said for name in ("incomplete", "behind") if (said := getattr(page, name))}


def standing(state: GrainStatus | None) -> str:
    """The state of a grain in a few words, such as "current"."""
    if state is None:
        return "deleted"
    words = ["superseded"] if state.superseded_by is not None else []
    if state.verification_status != "unverified":
        words.append(state.verification_status)
    words += [word for word in ("restricted", "held") if getattr(state, word)]
    return ", ".join(words) or "current"


def gist(grain: Mapping[str, Any]) -> str:
    if isinstance(grain, Grain) and grain.sealed:
        return "(sealed)"
    about = [grain[name] for name in _ABOUT if name in grain]
    # An observer who is the subject too is named once.
    said = [*about[:1], *(one for one in about[1:] if one != about[0]),
            *(grain[name] for name in _SAYS if name in grain)]  # fmt: skip
    return " ".join(v if isinstance(v, str) else _text(v) for v in said)


def _text(value: Any) -> str:
    return json.dumps(plain(value), ensure_ascii=False)
