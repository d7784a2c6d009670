# SPDX-License-Identifier: Apache-2.0
"""The hashes of hidden values: over which bytes, and what they do not hide."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

import pytest
from hypothesis import given, settings

import omsgrain as og
from omsgrain.crypto import disclosure
from omsgrain.crypto.disclosure import disclose, guessable, packed, view_of
from omsgrain.errors import OmsWarning
from support.minimal_grains import minimal
from support.random_grains import grains

LONG = "Kirchweg 17, 8123 Ebmatingen"  # long enough not to be warned of
FIELDS = minimal("belief", subject=LONG)


def test_hashes_by_hand() -> None:
    """Spec: OMS §10.1.1."""
    for name, value, data in (
        ("user_id", "alice-123", b"\xa9alice-123"),
        ("confidence", 0.95, b"\xcb\x3f\xee\x66\x66\x66\x66\x66\x66"),
        ("context", {"k": "v"}, b"\x81\xa1k\xa1v"),
        ("x", {"b": 1, "a": [None, -1, True]}, b"\x82\xa1a\x93\xc0\xff\xc3\xa1b\x01"),
        ("related_to", [{"weight": 0, "hash": "h"}], b"\x91\x82\xa1h\xa1h\xa1w\x00"),
        ("x_related_to", [{"hash": "h"}], b"\x91\x81\xa4hash\xa1h"),
    ):  # fmt: skip
        assert packed(name, value) == data
        assert disclosure.digest(name, value) == hashlib.sha256(data).digest()


@settings(max_examples=settings().max_examples // 2)
@given(grains())
def test_hidden_fields_are_marked_in_the_payload(fields: dict[str, Any]) -> None:
    by_msgpack = og.Grain(og.encode(fields))
    by_cbor = og.Grain(og.encode(fields, encoding="cbor"))
    for name, value in by_msgpack.fields.items():
        assert packed(name, value) in by_msgpack.blob
        assert packed(name, by_cbor[name]) == packed(name, value)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("x", True, True), ("x", None, True), ("x", 2**63, True), ("x", 0.123456789, True),
        ("x", "short", True), ("x", "x" * 15, True), ("x", "x" * 16, False), ("x", "é" * 8, False),
        ("x", "2026-01-15", True), ("x", "2026-01-15T10:00:00.123456+01:00", True),
        ("x", "2026-01-15 and more", False), ("x", bytes(15), True), ("x", bytes(16), False),
        ("x", [], True), ("x", {}, True), ("x", [1, 2, 3], True), ("x", [1, 2, 3, 4], False),
        ("x", {"a_long_name_of_a_key": True}, True), ("x", {"a": {"b": ["y" * 16]}}, False),
        ("epistemic_status", "certain", True), ("basis", "legitimate_interest", True),
        ("invalidation_type", "expression_of_concern", True),
        ("x", "expression_of_concern", False),
    ],
)  # fmt: skip
def test_guessable(name: str, value: Any, found: bool) -> None:
    assert guessable(name, value) is found


def test_guessable_values_are_warnings() -> None:
    whole = og.Grain(og.encode(FIELDS | {"session_id": "s-1", "success_count": 3}))
    with pytest.warns(OmsWarning) as caught:
        view = disclose(whole, ["session_id", "subject", "success_count"])
    assert [str(note.message).split(":")[0] for note in caught] == ["session_id", "success_count"]
    assert caught[0].filename == __file__
    assert view.warnings == tuple(str(note.message) for note in caught)
    assert not any("s-1" in note for note in view.warnings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert view_of(whole, ["session_id"]).warnings
        assert disclose(whole, ["subject"]).warnings == ()
