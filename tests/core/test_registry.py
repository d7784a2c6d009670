# SPDX-License-Identifier: Apache-2.0
"""The registry: facts of OMS 1.2 by hand, and that the encoder does what the table says."""

import subprocess
import sys
from typing import Any

import msgpack
import pytest

import omsgrain as og
from omsgrain import registry
from omsgrain.registry import Field
from support.known_grains import DID
from support.paths import ROOT

ADDRESS = "3288d0d41cf49a1d428e404f0b6a6fe60388be9536937557f6139b813d53a520"
BELIEF = {
    "type": "belief",
    "subject": "user",
    "relation": "prefers",
    "object": "dark mode",
    "confidence": 0.9,
    "created_at": 1768471200000,
}
ACTION = {
    "type": "action",
    "tool_name": "add",
    "input": {"a": 1},
    "content": 2,
    "is_error": False,
    "created_at": 1768471200000,
}

SAMPLES: dict[str, Any] = {
    "string": "x",
    "bool": True,
    "int": 3,
    "int64": -3,
    "uint8": 3,
    "float64": 0.5,
    "datetime": 1768471200000,
    "address": ADDRESS,
    "did": DID,
    "bytes": b"x",
    "map": {"k": "v"},
    "object": "x",
    "any": [1],
}
NESTED_SAMPLES: dict[str, Any] = {
    "content_ref": {"uri": "file:a.png", "modality": "image"},
    "embedding_ref": {"vector_id": "v1", "model": "m", "dimensions": 3},
    "related_to": {"hash": ADDRESS, "relation_type": "similar"},
}


def sample(field: Field) -> Any:
    if field.name == "_elided":
        return {"user_id": "sha256:" + ADDRESS}
    if field.name == "content_blocks":
        return [{"type": "text"}]
    if field.name == "owner":
        return {"name": "Shelf Inc."}
    if field.name == "provenance_chain":
        return [{"source_hash": ADDRESS, "method": "goal_inference"}]
    if field.enum:
        return field.enum[0]
    if field.keys:
        return {key: SAMPLES[kind] for key, kind in field.keys}
    if field.nested:
        return [NESTED_SAMPLES[field.nested]]
    if field.kind.startswith("array["):
        return [SAMPLES[field.kind[6:-1]]]
    return SAMPLES[field.kind]


def grain_with(field: Field, value: Any) -> dict[str, Any]:
    """A grain with one field more; only an action has the second meaning of content."""
    base = ACTION if field is registry.field("content", "action") else BELIEF
    return base | {field.name: value}


def rows(**attributes: Any) -> list[Any]:
    """The fields with these attributes, as parameters of a test."""
    return [
        pytest.param(f, id=f"{f.scope}-{f.name}")
        for f in registry.FIELDS
        if all(getattr(f, name) == value for name, value in attributes.items())
    ]


def refusal(field: Field, value: Any) -> str:
    with pytest.raises(og.errors.OmsError) as caught:
        og.encode(grain_with(field, value))
    return caught.value.code


def test_sizes() -> None:
    assert len(registry.FIELDS) == 150
    assert [t.byte for t in registry.TYPES] == list(range(1, 11))
    assert {name: len(entries) for name, entries in registry.NESTED.items()} == {
        "content_ref": 6,
        "embedding_ref": 9,
        "related_to": 3,
    }
    assert {p.name: len(p.fields) for p in registry.PROFILES} == {
        "healthcare": 11,
        "legal": 10,
        "finance": 12,
        "robotics": 11,
        "science": 13,
        "consumer": 11,
    }
    assert len(registry.RELATED_TO_RELATION_TYPES) == 11
    assert len(registry.MG_RELATIONS) == 21
    assert len(registry.PHI_TAGS) == 18
    assert len(registry.INVALIDATION_MODES) == 8
    assert len(registry.LIGHTWEIGHT) == 7


@pytest.mark.parametrize(
    ("name", "type_name", "short"),
    [
        ("type", None, "t"),
        ("subject", "belief", "s"),
        ("user_id", None, "user"),
        ("session_id", None, "sid2"),
        ("content", None, "content"),
        ("content", "event", "content"),
        ("content", "episode", "content"),
        ("content", "action", "cnt"),
        ("content", "tool_call", "cnt"),
        ("content", "tool", "cnt"),
        ("stderr", "action", "err2"),
        ("depends_on", "goal", "depg"),
        ("_disclosure_of", None, "_do"),
    ],
)
def test_short_keys(name: str, type_name: str | None, short: str) -> None:
    assert registry.short_key(name, type_name) == short


def test_facts() -> None:
    field = registry.field
    assert (field("confidence").minimum, field("confidence").maximum) == (0, 1)
    assert field("goal_state").enum == ("active", "satisfied", "failed", "suspended")
    assert field("consolidation_level").enum == (0, 1, 2, 3)
    assert "llm" in field("observer_type").open_enum
    assert field("content", "action").kind == "any"
    assert field("content").kind == "string"
    assert field("output_schema").since == "1.3"
    assert field("related_to").nested == "related_to"
    assert dict(field("trusted_timestamp").keys) == {"tsp_response": "bytes", "tsa_uri": "string"}
    assert {f.name for f in registry.FIELDS if f.index_layer} == {
        "superseded_by",
        "system_valid_to",
        "verification_status",
        "access_count",
        "last_accessed_at",
    }
    assert {f.name for f in registry.FIELDS if f.supersede_only} == {
        "supersession_justification",
        "supersession_auth",
        "invalidation_type",
        "invalidation_reason",
        "invalidation_initiator",
    }
    assert {f.name for f in registry.FIELDS if not f.elidable} == {
        "type",
        "relation",
        "confidence",
        "created_at",
        "goal_state",
        "source_type",
        "priority",
        "observer_type",
        "observation_mode",
        "observation_scope",
        "compression_ratio",
        "invalidation_policy",
        "_elided",
        "_disclosure_of",
    }
    assert {t.name: t.legacy + t.later for t in registry.TYPES if t.legacy} == {
        "belief": ("fact",),
        "event": ("episode",),
        "state": ("checkpoint",),
        "workflow": ("workflow",),
        "action": ("tool_call", "tool"),
        "observation": ("observation",),
        "goal": ("goal",),
    }
    assert [(a.old, a.name) for a in registry.ALIASES if a.negate] == [
        (("success", "ok"), "is_error")
    ]


@pytest.mark.parametrize(("name", "type_name"), [("sbject", None), ("subject", "fct")])
def test_unknown_names_are_key_errors(name: str, type_name: str | None) -> None:
    with pytest.raises(KeyError):
        registry.field(name, type_name)


def test_no_two_fields_of_a_type_share_a_key() -> None:
    names = {f.name for f in registry.FIELDS}
    for grain_type in registry.TYPES:
        keys = {registry.short_key(name, grain_type.name) for name in names}
        assert len(keys) == len(names) == 149
    for entries in registry.NESTED.values():
        assert len({e.short for e in entries}) == len(entries)


def test_everything_is_documented() -> None:
    docs = [t.doc for t in registry.TYPES] + [f.doc for f in registry.FIELDS]
    docs += [e.doc for entries in registry.NESTED.values() for e in entries]
    docs += [f.doc for p in registry.PROFILES for f in p.fields]
    assert all(0 < len(doc) <= 100 and not doc.endswith(".") for doc in docs)


def test_profile_fields_bear_the_prefix() -> None:
    for profile in registry.PROFILES:
        assert all(f.name.startswith(profile.prefix) for f in profile.fields)
        assert all(f.short == f.name and f.scope == profile.name for f in profile.fields)


def test_the_page_is_up_to_date() -> None:
    subprocess.run([sys.executable, ROOT / "docs" / "make_fields.py", "--check"], check=True)


def test_importing_does_not_parse() -> None:
    code = "from omsgrain import registry; assert registry._table.cache_info().currsize == 0"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_attribute() -> None:
    with pytest.raises(AttributeError):
        registry.NOPE  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("field", rows(index_layer=False))
def test_encode_writes_the_short_key(field: Field) -> None:
    fields = grain_with(field, BELIEF["type"] if field.name == "type" else sample(field))
    blob = og.encode(fields)
    assert field.short in msgpack.unpackb(blob[9:])
    assert og.decode(blob).to_dict() == fields


@pytest.mark.parametrize("field", rows(index_layer=True))
def test_encode_refuses_index_layer(field: Field) -> None:
    assert refusal(field, sample(field)) == "ERR_SCHEMA"


@pytest.mark.parametrize("field", rows(kind="float64"))
def test_integers_become_floats(field: Field) -> None:
    blob = og.encode(grain_with(field, 1))
    assert blob == og.encode(grain_with(field, 1.0))
    assert type(og.decode(blob)[field.name]) is float
    assert refusal(field, True) == "ERR_SCHEMA"


@pytest.mark.parametrize("field", [p for p in rows() if p.values[0].minimum is not None])
def test_ranges_hold(field: Field) -> None:
    assert field.minimum is not None
    assert refusal(field, field.minimum - 1) == "ERR_RANGE"
    og.encode(grain_with(field, field.minimum))
    if field.maximum is not None:
        assert refusal(field, field.maximum + 1) == "ERR_RANGE"
        og.encode(grain_with(field, field.maximum))


@pytest.mark.parametrize("field", [p for p in rows() if p.values[0].enum])
def test_closed_enums_are_closed(field: Field) -> None:
    assert refusal(field, 9 if field.kind == "int" else "nothing of the kind") == "ERR_SCHEMA"


@pytest.mark.parametrize("field", [p for p in rows() if p.values[0].open_enum])
def test_open_enums_are_open(field: Field) -> None:
    value = "acme:other"
    fields = grain_with(field, [value] if field.kind.startswith("array") else value)
    assert og.decode(og.encode(fields)).to_dict() == fields
