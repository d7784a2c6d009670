# SPDX-License-Identifier: Apache-2.0
"""What is allowed but looks like a mistake is written, with a warning."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import omsgrain as og
import oracle
from minimal import minimal


def quorum(threshold: int, *authorized: str) -> dict[str, Any]:
    """A policy that asks for several."""
    return {"mode": "quorum", "threshold": threshold, "authorized": list(authorized)}


DOUBTFUL: list[dict[str, Any]] = [
    minimal("belief", subjects="x"),
    minimal("belief", importanc=0.5),
    minimal("belief", usr_id="x"),
    minimal("belief", Namespace="x"),
    minimal("belief", relation="mg:adores"),
    minimal("belief", structural_tags=["phi:shoe_size"]),
    minimal("belief", structural_tags=["profile:gardening"]),
    minimal("belief", source_type="sensors"),
    minimal("event", role="users"),
    minimal("observation", observer_type="llm"),
    minimal("observation", observer_type="reflector"),
    minimal("observation", observer_type="classifier"),
    minimal("observation", observer_type="detector"),
    minimal("observation", observer_type="nose"),
    minimal("belief", created_at=1),
    minimal("belief", created_at=1_768_471_200),
    minimal("consent", created_at=99_999_999_999),
    minimal("belief", created_at="1970-01-21T11:14:31Z"),
    minimal("belief", invalidation_policy=quorum(3, "did:key:a", "did:key:b")),
    minimal("belief", invalidation_policy=quorum(2, "did:key:a", "did:key:a")),
    minimal("belief", invalidation_policy={"mode": "quorum", "threshold": 1}),
    minimal("belief", invalidation_policy={"mode": "locked", "authorized": ["did:key:a"]}),
    minimal(
        "belief",
        invalidation_policy={
            "mode": "timed",
            "locked_until": 1_768_471_200,
            "fallback_mode": "locked",
            "authorized": ["did:key:a"],
        },
    ),
]
FINE: list[dict[str, Any]] = [
    minimal("belief", x_subject="x", notes="x", labels=[], custom_name=1),
    minimal("belief", relation="adores"),
    minimal("belief", relation="mg:prefers"),
    minimal("belief", structural_tags=["phi:ssn", "profile:science", "mg:x", "shoe"]),
    minimal("belief", source_type="horoscope"),
    minimal("observation", observer_type="acme:nose"),
    minimal("observation", observer_type="trigger:cron"),
    minimal("observation", observer_type="llm", observer_model="m"),
    minimal("observation", observer_type="human"),
    minimal("belief", created_at=0),
    minimal("belief", created_at=100_000_000_000),
    minimal("belief", invalidation_policy=quorum(2, "did:key:a", "did:key:b")),
    minimal("belief", invalidation_policy={"mode": "locked"}),
    minimal("belief", invalidation_policy={"mode": "delegated", "authorized": ["did:key:a"]}),
]


@pytest.mark.parametrize("fields", DOUBTFUL, ids=str)
def test_one_warning(fields: dict[str, Any]) -> None:
    with pytest.warns(og.OmsWarning) as caught:
        blob = og.encode(fields)
    assert len(caught) == 1
    assert blob == oracle.encode(fields)
    text = str(caught[0].message)
    assert og.decode(blob).warnings == (text,)
    for batch in (og.encode_many([fields] * 2), og.encode_jsonl(json.dumps(fields).encode())):
        assert batch.blobs[0] == blob
        assert {item.message for item in batch.warnings} == {text}
        assert [item.index for item in batch.warnings] == list(range(len(batch)))


@pytest.mark.parametrize("fields", FINE, ids=str)
def test_no_warning(fields: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert og.decode(og.encode(fields)).warnings == ()
    assert not og.encode_many([fields]).warnings


def test_a_warning_names_its_line() -> None:
    lines = b"\n".join([b"", json.dumps(FINE[0]).encode(), b"", json.dumps(DOUBTFUL[0]).encode()])
    (item,) = og.encode_jsonl(lines).warnings
    assert (item.index, item.line) == (1, 4)


def test_several_warnings() -> None:
    fields = minimal("belief", subjects="x", relation="mg:adores")
    with pytest.warns(og.OmsWarning) as caught:
        og.encode(fields)
    assert len(caught) == 2
