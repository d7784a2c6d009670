# SPDX-License-Identifier: Apache-2.0
"""Trees and records without secrets and personal data."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omsgrain.errors import SchemaError
from omsgrain.privacy.detectors import DEFAULT
from omsgrain.privacy.redact import Flags, redact_record, redact_value
from support.privacy_corpus import corpus

MAIL, PHONE, CARD = "bob@example.com", "+1 202-555-0143", "4111 1111 1111 1111"
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
)
TREES = st.recursive(
    SCALARS | st.sampled_from([MAIL, PHONE, CARD]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=8) | st.sampled_from([MAIL, "password", "id"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


def test_every_string_of_a_tree() -> None:
    tree = {
        "content": f"mail {MAIL}",
        "tags": ["x", f"tel {PHONE}"],
        "metadata": {"note": {"deep": [CARD]}, "count": 4111111111111111},
        MAIL: {"seen": True},
    }
    found = redact_value(tree)
    text = json.dumps(found.value)
    assert not any(secret in text for secret in (MAIL, PHONE, CARD))
    assert found.value["metadata"]["count"] == 4111111111111111
    assert list(found.value) == ["content", "tags", "metadata", "[REDACTED:email]"]
    assert set(found.found) == {"/content", "/tags/1", "/metadata/note/deep/0"}
    assert set(found.keys) == {"/[REDACTED:email]"}
    assert found.redacted_fields == ["credit_card", "email", "phone"]
    assert found.pii
    assert not found.secrets


def test_keys_that_become_the_same_stay_apart() -> None:
    tree = {MAIL: 1, "[REDACTED:email]": 2, "ann@example.com": 3}
    found = redact_value(tree)
    assert sorted(found.value.values()) == [1, 2, 3]
    assert found.value["[REDACTED:email]"] == 2
    assert redact_value(found.value).value == found.value


@pytest.mark.parametrize(
    ("tree", "type"),
    [
        ({"password": "correct horse battery staple"}, "password"),
        ({"dbPassword": "swordfish"}, "password"),
        ({"api_key": "0123456789abcdef0123"}, "api_key"),
        ({"clientSecret": "a1b2c3d4e5f6a7b8"}, "api_key"),
        ({"phone": "202 555 0143"}, "phone"),
        ({"phones": ["202 555 0143"]}, "phone"),
        ({"mobile": "2025550143"}, "phone"),
        ({"ssn": "123456789"}, "ssn"),
        ({"card_number": "6304000000000000"}, "credit_card"),
        ({"Authorization": "Basic Ym9iOmh1bnRlcjI="}, "token"),
        ({"name": "DB_PASSWORD", "value": "swordfish"}, "password"),
    ],
)
def test_a_key_reveals_a_secret_value(tree: dict[str, Any], type: str) -> None:
    found = redact_value(tree)
    assert found.redacted_fields == [type]
    assert f"[REDACTED:{type}]" in json.dumps(found.value)
    assert redact_value(found.value).value == found.value


@pytest.mark.parametrize(
    "tree",
    [
        {"password": ""}, {"password": None}, {"password": "********"}, {"password": "required"},
        {"token": "hello"}, {"api_key": "${API_KEY}"}, {"phone": "unknown"}, {"id": "mem_a1b2c3"},
        {"pass": 3}, {"secret": "I like jazz"}, {"compass": "north"},
        {"created_at": "2026-01-15T10:00:00Z", "id": "123e4567-e89b-12d3-a456-426614174000"},
    ],
)  # fmt: skip
def test_keys_that_reveal_nothing(tree: dict[str, Any]) -> None:
    found = redact_value(tree)
    assert found.value == tree
    assert not found.changed


def test_kept_values() -> None:
    tree = {"id": MAIL, "entities": [{"type": MAIL, "name": MAIL}], "x": {"y": {"z": MAIL}}}
    kept = redact_value(tree, keep=["/id", "/entities/*/type", "/x/**"])
    assert kept.value["id"] == MAIL
    assert kept.value["entities"] == [{"type": MAIL, "name": "[REDACTED:email]"}]
    assert kept.value["x"] == tree["x"]
    told = redact_value(tree, keep=lambda pointer: pointer.startswith("/x"))
    assert told.value["x"] == tree["x"]
    assert told.value["id"] == "[REDACTED:email]"
    with pytest.raises(SchemaError):
        redact_value(tree, keep=["id"])


@given(TREES)
def test_any_tree(tree: Any) -> None:
    before = json.dumps(tree)
    once = redact_value(tree)
    assert json.dumps(tree) == before
    assert redact_value(once.value).value == once.value
    assert once.changed == bool(once.found or once.keys)
    text = json.dumps(once.value)
    assert not any(secret in text for secret in (MAIL, PHONE, CARD))
    if not once.changed:
        assert once.value == tree


def test_depth_costs_no_stack() -> None:
    tree: Any = MAIL
    for _ in range(5_000):
        tree = [tree]
    value = redact_value(tree).value
    while isinstance(value, list):
        (value,) = value
    assert value == "[REDACTED:email]"


def test_all_types_under_one_marker_are_listed() -> None:
    found = redact_value({"content": f"password: {MAIL}"})
    assert found.value == {"content": "password: [REDACTED:password]"}
    assert found.redacted_fields == ["email", "password"]
    assert found.secrets
    assert found.pii


def test_a_record() -> None:
    record = {
        "id": "123e4567-e89b-12d3-a456-426614174000",
        "content": f"mail {MAIL}",
        "embeddings": {"model": "m", "dimensions": 2, "vector": [0.5, 0.25]},
    }
    found = redact_record(record, keep=["/id"])
    assert found.record == {"id": record["id"], "content": "mail [REDACTED:email]"}
    assert found.dropped == ("/embeddings",)
    assert found.flags.to_dict() == {
        "pii_detected": True,
        "secrets_detected": False,
        "redacted_fields": ["email"],
    }
    assert found.redactions == {
        "/content": [{"type": "email", "original_length": 15, "position": [5, 20]}]
    }
    assert found.changed


def test_a_record_with_nothing_keeps_its_embedding() -> None:
    record = {"content": "nothing", "embedding": {"model": "m", "vector": [1]}}
    found = redact_record(record)
    assert found.record is record
    assert (found.flags, found.dropped, found.changed) == (Flags(), (), False)


def test_flags_add_up() -> None:
    both = Flags(True, False, ("phone",)) | Flags(False, True, ("api_key", "phone"))
    assert both == Flags(True, True, ("api_key", "phone"))


def test_no_residue_in_a_tree() -> None:
    texts = [text for text in corpus() if text.labels]
    found = redact_value(
        {"a": [text.text for text in texts], "b": {t.text: 1 for t in texts}}, DEFAULT
    )
    for text, redacted, key in zip(texts, found.value["a"], found.value["b"], strict=True):
        assert not any(value in redacted or value in key for value in text.values())
