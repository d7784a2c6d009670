# SPDX-License-Identifier: Apache-2.0
"""Memories judged at one look, and by a walk: what is said of them is the same."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.formats.mif_ld import schema
from omsgrain.formats.mif_ld.validate import MODES, judge, shape_at_sight
from support.edited_documents import damaged
from support.mif_ld_cases import BASES, OPTIONS, edited
from support.mif_ld_documents import (
    FULL,
    FULL_1X,
    MEMORIES,
    MINIMAL,
    MINIMAL_1X,
    OF_0_1,
    OF_1_X,
    REINFORCED,
    TIMES,
)
from support.mif_ld_rules import CASES

ASKED = st.fixed_dictionaries(
    {},
    optional={
        "mode": st.sampled_from(MODES),
        "shape": st.sampled_from(["0.1", "1.x"]),
        "kind": st.sampled_from(["memory", "citation"]),
        "strict_published": st.booleans(),
    },
)
EXAMPLES = st.sampled_from([*OF_0_1, *OF_1_X])
WORDS = st.text("aZ0-_/.:P ", max_size=6)
HEADS = st.sampled_from(["https://", "urn:", "urn:mif:", "P", "1.0.", ""])
DAY = r"[0-9]{4}-[01][0-9]-[0-3][0-9]"
TEXTS = st.one_of(
    TIMES,
    st.builds("{}{}".format, HEADS, WORDS),
    st.from_regex(DAY + r"([Tt ]2[0-3]:59:(59|60)(\.0)?([Zz]|[+-]00:59))?\n?"),
)


def say_the_same(document: Any, **asked: Any) -> None:
    found = judge(document, **asked)
    with patch("omsgrain.formats.mif_ld.validate.shape_at_sight", return_value=None):
        walked = judge(document, **asked)
    assert walked == found
    for one, other in zip(found.findings, walked.findings, strict=True):
        assert getattr(one, "value", None) == getattr(other, "value", None)


@given(st.one_of(MEMORIES, EXAMPLES, damaged(MEMORIES), damaged(EXAMPLES)), ASKED)
def test_of_good_and_of_damaged_ones(document: Any, asked: dict[str, Any]) -> None:
    say_the_same(document, **asked)


@given(EXAMPLES, st.data(), TEXTS)
def test_of_texts_that_look_nearly_so(document: Any, data: st.DataObject, text: str) -> None:
    texts = [key for key, value in document.items() if isinstance(value, str)]
    say_the_same(document | {data.draw(st.sampled_from(texts)): text})


def test_of_every_rule_broken_once() -> None:
    for case in CASES:
        document = edited(BASES[case.base], case.place, case.value)
        for mode in MODES:
            say_the_same(document, mode=mode, **OPTIONS.get(case.base, {}))


@pytest.mark.parametrize(
    ("document", "shape"),
    [
        (MINIMAL, "0.1"), (FULL, "0.1"), (REINFORCED, "0.1"), (MINIMAL_1X, "1.x"),
        (edited(FULL_1X, "/@type", "Concept") | {"relationships": [], "provenance": {}}, "1.x"),
    ],
)  # fmt: skip
def test_a_look_is_enough_for_most(document: Any, shape: str) -> None:
    assert shape_at_sight(document, None, False) == shape


@pytest.mark.parametrize("time", ["2026-03-01T08:00:00+00:00", "2026-03-01T08:00:00.25-05:00"])
def test_a_look_is_enough_for_times_of_any_zone(time: str) -> None:
    assert schema.date_time(time)
    assert shape_at_sight(MINIMAL | {"created": time}, None, False) == "0.1"


@pytest.mark.parametrize("document", [
    MINIMAL | {"conceptType": "fact"}, MINIMAL | {"created": "2026-03-01 08:00:00Z"},
    MINIMAL | {"namespace": "a//b"}, MINIMAL | {"relationships": [{"type": "uses"}]},
    MINIMAL | {"temporal": {"valid_from": None}}, MINIMAL_1X | {"properties": {"x": []}},
    MINIMAL | {"@context": "https://example.org/#a#b"}, [MINIMAL], None,
])  # fmt: skip
def test_what_is_not_sure(document: Any) -> None:
    assert shape_at_sight(document, None, False) is None


def test_another_shape_than_is_asked_for_is_not_sure() -> None:
    assert shape_at_sight(MINIMAL, "1.x", False) is None
    assert shape_at_sight(REINFORCED, None, True) is None
