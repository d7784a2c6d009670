# SPDX-License-Identifier: Apache-2.0
"""Allowed values that look like a mistake are written with a warning."""

from __future__ import annotations

import json
import warnings
from typing import Any

import pytest

import omsgrain as og
import oracle
from support.minimal_grains import A, minimal


def quorum(threshold: int, *authorized: str) -> dict[str, Any]:
    """A policy that asks for several."""
    return {"mode": "quorum", "threshold": threshold, "authorized": list(authorized)}


DOI = {
    "citation_type": "doi",
    "identifier": "10.1000/182",
    "citation_role": "supports",
    "retrieved_at": 1_768_471_200_000,
}
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
    minimal("observation", observation_mode="reflective"),
    minimal("belief", contradicted=True),
    minimal("belief", ct=True),
    minimal("belief", owner={"seat": "Bern"}),
    minimal("belief", owner={"name": 5}),
    minimal("belief", provenance_chain=[{"source_hash": A, "method": "m"}, {"method": "m"}]),
    minimal("belief", provenance_chain=[{"source_hash": "x", "method": "m"}]),
    minimal("belief", provenance_chain=[{"source_hash": A, "method": "m", "weight": 1.5}]),
    minimal("event", token_usage={"input_tokens": -1}),
    minimal("event", token_usage={"output_tokens": "many"}),
    minimal("belief", content_refs=[{"citation_type": "tweet", "identifier": "1"}]),
    minimal("belief", content_refs=[DOI | {"citation_role": "likes"}]),
    minimal("belief", derived_from=[DOI | {"retrieved_at": "yesterday"}]),
    # What a later version of OMS owns.
    minimal("belief", embedding_text="x"),
    minimal("goal", et="x"),
    minimal("belief", skname="x"),
    minimal("event", practice_count=1),
    minimal("belief", rec_status="applied"),
    minimal("belief", rstat="applied"),
    minimal("reasoning", tref="x"),
    minimal("belief", twf=A),
    minimal("workflow", nodes=["a"]),
    minimal("workflow", bind={}),
    minimal("action", tool_phase="call"),
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
    minimal("observation", observation_mode="reflective", observation_scope="session"),
    minimal("observation", observation_mode="passive"),
    minimal("belief", owner={"name": "Shelf Inc.", "seat": "Bern"}),
    minimal("belief", provenance_chain=[{"source_hash": A, "method": "m", "weight": 1}]),
    minimal("event", token_usage={"input_tokens": 5, "cache_read_tokens": 0, "tier": "x"}),
    minimal("belief", content_refs=[DOI, {"uri": "cas://x", "modality": "image"}]),
    minimal("belief", derived_from=[A, DOI | {"content_hash": "sha256:" + A}]),
    # Names that only the type of a later version owns.
    minimal("belief", nodes=[], kind="x", name="x", version="1", config={}, tool_phase="x"),
]


@pytest.mark.parametrize("fields", DOUBTFUL, ids=str)
def test_one_warning(fields: dict[str, Any]) -> None:
    with pytest.warns(og.errors.OmsWarning) as caught:
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
    with pytest.warns(og.errors.OmsWarning) as caught:
        og.encode(fields)
    assert len(caught) == 2


@pytest.mark.parametrize(("byte", "version"), [(11, "1.4"), (12, "1.5"), (13, "1.6")])
def test_a_type_byte_of_a_later_version(byte: int, version: str) -> None:
    with pytest.warns(og.errors.OmsWarning, match=f"OMS {version}"):
        blob = og.encode({"type": "x", "created_at": 0}, type_byte=byte)
    assert og.decode(blob).fields["type"] == "x"


@pytest.mark.parametrize(
    ("name", "version"), [("skill", "1.4"), ("recommendation", "1.5"), ("trigger", "1.6")]
)
def test_a_type_of_a_later_version_is_refused_with_its_version(name: str, version: str) -> None:
    with pytest.raises(og.errors.UnknownTypeError, match=f"OMS {version}"):
        og.encode({"type": name, "created_at": 0})


@pytest.mark.parametrize(
    ("name", "version"), [("embedding_text", "1.4"), ("rstat", "1.5"), ("tcron", "1.6")]
)
def test_the_warning_names_the_version(name: str, version: str) -> None:
    with pytest.warns(og.errors.OmsWarning, match=f"OMS {version}"):
        og.encode(minimal("belief", **{name: "x"}))
