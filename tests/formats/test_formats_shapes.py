# SPDX-License-Identifier: Apache-2.0
"""Records seen in one look, and field by field: what is said of them is the same."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain import _core
from omsgrain.conformance.aimem import sample, sealed
from omsgrain.formats.aimem import document
from omsgrain.formats.aimem.check import AimemChecker
from omsgrain.formats.mif1 import format as mif1
from omsgrain.formats.mif2 import format as mif2
from omsgrain.formats.schema import DocumentChecker, Shapes
from support import aimem_strategies, mif1_documents, mif2_documents
from support.edited_documents import damaged
from support.mif2_documents import spelled

MIF1 = st.one_of(
    mif1_documents.DOCUMENTS,
    st.sampled_from([mif1_documents.SEP, mif1_documents.PUBLISHED]),
)
MIF2 = st.one_of(
    mif2_documents.DOCUMENTS, st.sampled_from([mif2_documents.FULL, mif2_documents.DIALECT])
)
BUNDLES = aimem_strategies.documents().map(lambda whole: whole | {"checksum": "sha256:"})
"""Of the checksum the same is said in either case."""


def never(*_: Any) -> bool:
    return False


@given(st.one_of(MIF1, damaged(MIF1)))
def test_a_look_at_mif1(whole: Any) -> None:
    found = mif1.MIF1.validate(spelled(whole), layout="json")
    with patch.object(Shapes, "fit", never):
        assert mif1.MIF1.validate(spelled(whole), layout="json") == found


@given(st.one_of(MIF2, damaged(MIF2)))
def test_a_look_at_mif2(whole: Any) -> None:
    found = mif2.MIF2.validate(spelled(whole))
    with patch.object(Shapes, "fit", never):
        assert mif2.MIF2.validate(spelled(whole)) == found


@given(st.one_of(BUNDLES, damaged(BUNDLES)))
def test_a_look_at_aimem(whole: Any) -> None:
    found = document.validate(spelled(whole))
    with patch.object(Shapes, "fit", never):
        assert document.validate(spelled(whole)) == found


def test_a_look_is_enough_for_most() -> None:
    walked: list[str] = []

    def walk(self: Any, pointer: str, shape: str, value: Any) -> None:
        walked.append(shape)

    with patch.object(DocumentChecker, "_object", walk):
        mif1.MIF1.validate(spelled(mif1_documents.MINIMAL), layout="json")
        mif2.MIF2.validate(spelled(mif2_documents.MINIMAL))
    assert walked == ["document", "document"]


def test_a_look_is_enough_for_most_of_a_bundle() -> None:
    walked: list[str] = []
    fields = AimemChecker._fields

    def walk(self: AimemChecker, pointer: str, *more: Any) -> dict[str, Any]:
        walked.append(pointer)
        return fields(self, pointer, *more)

    whole = sample()
    whole["chunks"][1]["embedding"] = None  # each one is looked into
    with patch.object(AimemChecker, "_fields", walk):
        assert document.validate(spelled(sealed(whole))).total == 0
    assert walked == [""]


ROWS: list[Any] = [
    ("id", "str", None, "uuid", (), None, None, False, True),
    ("at", "str", None, "time", (), None, None, True, False),
    ("word", "str", None, ("a_", "bc-"), (), None, None, False, False),
    ("kind", "str", None, None, ("x", "y"), None, None, False, False),
    ("odd", "str", None, "", (), None, None, True, False),
    ("many", "int", None, None, (), 1, None, False, False),
    ("rate", "number", None, None, (), 0, 1, False, False),
    ("flag", "bool", None, None, (), None, None, False, False),
    ("tags", "array", "str", None, (), 1, 2, False, False),
    ("vector", "array", "number", None, (), None, None, False, False),
    ("inner", "object", "one", None, (), None, None, False, False),
    ("ones", "array", "one", None, (), None, None, False, False),
    ("any", "object", None, None, (), None, None, False, False),
    ("other", "object", "nobody", None, (), None, None, False, False),
]
LOOKS = ("rfc3339", "day", "path", "kebab", "prefixed", "version")
EITHER: list[Any] = [
    *((look, "str", None, look, (), None, None, False, False) for look in LOOKS),
    ("any", "any", None, None, (), None, None, False, False),
    ("either", "str", None, None, ("x",), None, None, False, False),
    ("either", "int", None, None, (), 1, 9, False, True),
]
OUTLINE = _core.Outline(
    [("one", ROWS), ("closed", EITHER), ("texts", [])],
    [("closed", []), ("texts", [EITHER[-2], EITHER[-1]])],
)
ID = {"id": "7C9e6679-7425-70de-944b-e07fc1f90ae7"}


@pytest.mark.parametrize("more", [
    {}, {"at": None}, {"at": "2026-04-01 09:30:00.123456789+02:00"}, {"word": "a_b-c"},
    {"kind": "y"}, {"odd": None}, {"many": 2**60}, {"rate": 1}, {"rate": -0.0}, {"flag": False},
    {"tags": []}, {"tags": ["a", "\U0001f600\U0001f600"]}, {"vector": [1, 0.5]}, {"inner": ID},
    {"ones": [ID, ID]}, {"any": {"x": [None]}}, {"x": object()},
])  # fmt: skip
def test_what_fits(more: dict[str, Any]) -> None:
    assert OUTLINE.fits("one", ID | more)


@pytest.mark.parametrize("more", [
    {"id": None}, {"id": "7c9e6679-7425-70de-944b-e07fc1f90ae"}, {"id": "\u00e9" * 18},
    {"id": "7c9e6679-7425-70de-944b-e07fc1f90ag7"}, {"at": "0000-01-01T00:00:00Z"}, {"at": ""},
    {"at": "2026-04-01"}, {"at": f"2026-04-01T09:30:00.{'1' * 33}Z"}, {"word": "a_"},
    {"word": "a_d"}, {"word": "a_\u00e9"}, {"kind": "z"}, {"odd": "x"}, {"many": 0},
    {"many": True}, {"many": 1.5}, {"many": 2**64}, {"rate": 1.5}, {"rate": float("nan")},
    {"flag": 0}, {"flag": None}, {"tags": [""]}, {"tags": ["abc"]}, {"tags": ["a", None]},
    {"tags": ("a",)}, {"vector": [True]}, {"inner": {}}, {"inner": None}, {"ones": [ID, {}]},
    {"any": []}, {"other": {}}, {1: 2}, {"\ud800": 1}, {"kind": "\ud800"},
])  # fmt: skip
def test_what_is_not_sure(more: dict[Any, Any]) -> None:
    assert not OUTLINE.fits("one", ID | more)


@pytest.mark.parametrize(("shape", "value"), [
    ("closed", {"either": "x"}), ("closed", {"either": 9}), ("texts", {}),
    ("texts", {"a": "x", "b": 1}),
    ("closed", {"either": 1, "rfc3339": "2026-04-01t09:30:00.5-02:00", "day": "2024-02-29",
                "path": "a_B/-/0", "kebab": "a-0-", "prefixed": "aB9:C-d", "version": "1.02.3"}),
    ("closed", {"either": "x", "any": None}), ("closed", {"either": "x", "any": [object()]}),
])  # fmt: skip
def test_one_way_of_several_fits(shape: str, value: dict[str, Any]) -> None:
    assert OUTLINE.fits(shape, value)


@pytest.mark.parametrize(("shape", "value"), [
    ("closed", {}), ("closed", {"either": "y"}), ("closed", {"either": 10}),
    ("closed", {"either": 1, "more": 1}), ("texts", {"a": "y"}), ("texts", {"a": None}),
    *(("closed", {"either": 1, look: text}) for look, text in [
        ("rfc3339", "2026-04-01 09:30:00Z"), ("rfc3339", "2026-04-01T09:30:00"),
        ("day", "2026-02-29"), ("day", "2026-04-01T"), ("day", "0000-01-01"), ("path", ""),
        ("path", "/a"), ("path", "a/"), ("path", "a//b"), ("path", "a.b"), ("path", "\u00e9"),
        ("prefixed", "a"), ("prefixed", ":a"), ("prefixed", "a:"), ("prefixed", "a-b:c"),
        ("prefixed", "a:9"), ("prefixed", "a:b:c"), ("prefixed", "a:\u00e9"), ("kebab", ""),
        ("kebab", "0a"), ("kebab", "aB"), ("kebab", "a_b"), ("version", "1.0"), ("version", ""),
        ("version", "1.0.0.0"), ("version", "1..0"), ("version", "1.0.0-rc"),
    ]),
])  # fmt: skip
def test_none_of_several_ways_fits(shape: str, value: dict[str, Any]) -> None:
    assert not OUTLINE.fits(shape, value)


def test_shapes_that_are_none() -> None:
    assert not OUTLINE.fits("two", ID)
    assert not OUTLINE.fits("one", [ID])
    assert not OUTLINE.fits("one", {})
    with pytest.raises(ValueError, match="kind"):
        _core.Outline([("one", [("id", "text", None, None, (), None, None, False, True)])])
    with pytest.raises(ValueError, match="shape"):
        _core.Outline([("one", ROWS)], [("two", [])])


def test_an_object_that_holds_itself_is_not_sure() -> None:
    row = ("more", "array", "one", None, (), None, None, False, False)
    outline = _core.Outline([("one", [row])])
    round: dict[str, Any] = {}
    round["more"] = [round]
    assert outline.fits("one", {"more": [{}, {"more": []}]})
    assert not outline.fits("one", round)
