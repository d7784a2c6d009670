# SPDX-License-Identifier: Apache-2.0
"""The side channel: whatever a record was, it comes back as it was."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
from omsgrain.errors import FormatError
from omsgrain.formats.source import KEY, Source, apply, difference, same

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**25), 10**25),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0, 0.0, -0.0, 1, 1.0, True, "e\u0301", "\u00e9", "\ud800", ""]),
    st.text(max_size=4),
)
KEYS = st.sampled_from(["a", "b", "=", "+", "-", "~", "o", "@", "e\u0301"])
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)


def _grain(value: object) -> og.Grain:
    fields = {"type": "belief", "subject": "Ada", "relation": "prefers", "object": "tea"}
    return og.decode(og.encode({**fields, "confidence": 1.0, "created_at": 0, KEY: value}))


@given(JSON, JSON)
def test_a_difference_restores_the_original(rebuilt: object, original: object) -> None:
    found = difference(rebuilt, original)
    assert same(apply(rebuilt, found), original)
    assert (found is None) == same(rebuilt, original)


@given(JSON, JSON)
def test_it_survives_a_grain(rebuilt: object, original: object) -> None:
    source = Source("aimem", "chunk", "urn:aimem:p:\u00e9", difference(rebuilt, original))
    back = Source.of(_grain(source.to_bytes()))
    assert back is not None
    assert (back.id, back.parts) == (source.id, ())
    assert same(apply(rebuilt, back.residual), original)


def test_only_what_differs_is_said() -> None:
    rebuilt = {"id": 1, "tags": ["a"], "inner": {"x": 1, "y": 2}, "list": [{"z": 1}, {"z": 2}]}
    original = {"id": 1, "tags": ["a", "b"], "inner": {"x": 1, "y": 3}, "more": None}
    original["list"] = [{"z": 1}, {"z": 2.0}]
    assert difference(rebuilt, original) == {
        "+": {"more": None},
        "~": {
            "tags": {"=": ["a", "b"]},
            "inner": {"~": {"y": {"=": 3}}},
            "list": {"@": {"1": {"~": {"z": {"=": 2.0}}}}},
        },
        "o": ["id", "tags", "inner", "more", "list"],
    }
    assert difference(original, original) is None


@pytest.mark.parametrize(
    "value",
    [
        "text",
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b'{"f":"a","k":"b"}',
        b'{"f":"a","k":"b","id":1}',
        b'{"f":"a","k":"b","id":"c","p":1}',
        b'{"f":"a","k":"b","id":"c","p":[1]}',
        b"[" * 100_000,
    ],
)
def test_an_invalid_side_channel_is_ignored(value: object) -> None:
    assert Source.of(_grain(value)) is None


@pytest.mark.parametrize(
    "found",
    [{"~": {"b": {"=": 1}}}, {"@": {"0": {"=": 1}}}, {"o": ["b"]}, {"+": 1}, {"@": {"x": {}}}],
)
def test_a_residual_that_does_not_fit(found: dict[str, object]) -> None:
    with pytest.raises(FormatError) as refused:
        apply(json.loads('{"a": 1}'), found)
    assert refused.value.rule == "residual"
