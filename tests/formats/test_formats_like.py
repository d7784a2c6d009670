# SPDX-License-Identifier: Apache-2.0
"""Whether a blob says what it was made of: value for value, of the same types."""

from __future__ import annotations

from typing import Any

import pytest

from omsgrain import _core
from omsgrain.grain import options

SAID: dict[str, Any] = {
    "type": "event",
    "created_at": 7,
    "namespace": "notes",
    "content": "tea",
    "content_refs": [{"modality": "document", "uri": "u"}],
    "x_float": 1.0,
    "x_whole": 1,
    "x_true": True,
    "x_bytes": b"a",
    "x_map": {"a": [None, 0.0, {"b": 1}], "b": "c"},
}


@pytest.mark.parametrize(("edit", "ordered", "same"), [
    ({}, True, True),
    ({"x_map": {"b": "c", "a": [None, 0.0, {"b": 1}]}}, False, True),
    ({"x_map": {"b": "c", "a": [None, 0.0, {"b": 1}]}}, True, False),
    ({"content_refs": [{"uri": "u", "modality": "document"}]}, False, True),
    ({"content_refs": [{"u": "u", "modality": "document"}]}, False, False),
    ({"content": "teA"}, True, False), ({"content": None}, True, False),
    ({"created_at": 7.0}, True, False), ({"x_float": 1}, True, False),
    ({"x_whole": 1.0}, True, False), ({"x_whole": True}, True, False),
    ({"x_true": 1}, True, False), ({"x_bytes": "a"}, True, False),
    ({"x_map": {"a": [None, -0.0, {"b": 1}], "b": "c"}}, True, False),
    ({"x_map": {"a": [None, 0.0, {"b": 1}]}}, True, False),
    ({"x_map": {"a": [None, 0.0], "b": "c"}}, True, False),
    ({"x_map": {"a": [None, 0.0, {"b": 1}, 1], "b": "c"}}, True, False),
    ({"x_more": 1}, True, False), ({"x_more": None}, True, False),
])  # fmt: skip
def test_whether_a_blob_says_what_it_was_made_of(
    edit: dict[str, Any], ordered: bool, same: bool
) -> None:
    batch = _core.encode_many([SAID], options(), False)
    assert batch.errors() == []
    assert batch.is_like([SAID | edit], ordered) == [same]


def test_what_a_grain_says_otherwise() -> None:
    """Texts are composed and nulls are dropped, so that the record is made in another way."""
    changed = [SAID | {"content": "e\u0301"}, SAID | {"x_more": None}, {"type": "none"}, SAID]
    batch = _core.encode_many(changed, options(), False)
    assert batch.indices() == [0, 1, 3]
    assert batch.is_like(changed, True) == [False, False, True]


def test_an_object_of_very_many_names() -> None:
    names = {f"x_{i:06}"[::-1]: i for i in range(60_000)}
    many = {**names, "type": "event", "created_at": 7, "content": "tea"}
    inside = {"type": "event", "created_at": 7, "content": "tea", "x_map": names}
    batch = _core.encode_many([many, inside], options(), False)
    assert batch.is_like([many, inside], False) == [True, True]
    changed = {**names, "999950_x": -1}
    assert batch.is_like([{**many, **changed}, {**inside, "x_map": changed}], False) == [False] * 2
