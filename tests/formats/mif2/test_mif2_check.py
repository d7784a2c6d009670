# SPDX-License-Identifier: Apache-2.0
"""Problems of a MIF 2.0 document: each rule broken once, and the cost of hostile documents.

``conformance/mif2.json`` breaks them at every field.
"""

from __future__ import annotations

import json
import re
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from omsgrain import formats
from omsgrain.formats import DocumentError
from omsgrain.formats.json_text import JsonLimits
from omsgrain.formats.mif2.check import RULES, WARNINGS
from omsgrain.formats.mif2.format import MIF2
from omsgrain.formats.problems import MOST
from support.edited_documents import GONE, edited, rules
from support.mif2_documents import DIALECT, DOCUMENTS, FULL, MINIMAL, PLACEHOLDERS, spelled

FAULTS = [
    ("/mif_version", GONE, "missing_field"),
    ("/mif_version", 2.0, "invalid_type"),
    ("/mif_version", "1.0", "unsupported_version"),
    ("/export_meta/privacy/redacted_fields/0", 1, "invalid_type"),
    ("/knowledge_graph/entities", {}, "invalid_type"),
]
PROBLEMS = [
    ("/memories/0", 7, "not_object"),
    ("/memories/0/id", GONE, "missing_field"),
    ("/memories/0/content", None, "invalid_type"),
    ("/memories/0/created_at", 1_772_352_000, "invalid_type"),
    ("/memories/0/tags", "garden", "invalid_type"),
    ("/memories/0/entities/0", "LMDB", "invalid_type"),
    ("/memories/0/entities/0/confidence", 1.5, "out_of_range"),
    ("/knowledge_graph/relationships/0", [], "not_object"),
]
TEXTS = [
    (b"", "not_json"),
    (b"[]", "not_object"),
    (b"null", "not_object"),
    (b'{"mif_version":"2.0","memories":[', "not_json"),
    (b"\xef\xbb\xbf" * 2 + spelled(MINIMAL), "not_json"),
    (spelled(MINIMAL).decode().encode("utf-16"), "not_json"),
    (b'{"mif_version":"2.0","memories":[],"memories":[]}', "not_json"),
    (b'{"mif_version":"2.0","memories":[],"x":NaN}', "not_json"),
    (b'{"mif_version":"2.0","memories":[],"x":-Infinity}', "not_json"),
    (b'{"mif_version":"2.0","memories":[],"x":1e999}', "not_json"),
    (b'{"mif_version":"2.0","memories":[],"x":"\\ud800"}', "not_json"),
    (b'{"mif_version":"2.0","memories":[],"x":"\xff"}', "not_json"),
    (
        b'{"mif_version":"2.0","memories":[],"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "too_deep",
    ),
    (b'{"a":' * 1_000_000, "too_deep"),
    (b"9" * 10_000_000, "not_json"),
]
WARNED = [
    (FULL, {"/mif_version": "2.7"}, "later_version", "/mif_version"),
    (FULL, {"/export_meta/checksum": ""}, "invalid_checksum", "/export_meta/checksum"),
    (FULL, {"/export_meta/id": "exp-1"}, "invalid_uuid", "/export_meta/id"),
    (FULL, {"/memories/0/parent_id": "mem-1"}, "invalid_uuid", "/memories/0/parent_id"),
    (
        FULL,
        {"/memories/0/related_memory_ids": ["", "x"]},
        "invalid_uuid",
        "/memories/0/related_memory_ids/0",
    ),
    (FULL, {"/memories/0/created_at": "today"}, "invalid_timestamp", "/memories/0/created_at"),
    (
        FULL,
        {"/memories/0/memory_type": "Dream State"},
        "invalid_memory_type",
        "/memories/0/memory_type",
    ),
    (
        FULL,
        {"/memories/0/updated_at": "2026-02-20T10:14:59+01:00"},
        "times_out_of_order",
        "/memories/0/updated_at",
    ),
    (
        FULL,
        {"/knowledge_graph/entities/1/id": "ent-001"},
        "duplicate_id",
        "/knowledge_graph/entities/1/id",
    ),
    (
        FULL,
        {"/memories/1/content": FULL["memories"][0]["content"]},
        "duplicate_content",
        "/memories/1/content",
    ),
    (FULL, {}, "dimension_mismatch", "/memories/0/embeddings/vector"),
    (
        FULL,
        {"/knowledge_graph/entities/1/id": "ent-009"},
        "unknown_entity",
        "/knowledge_graph/relationships/0/source_entity_id",
    ),
    (
        FULL,
        {"/memories/0/parent_id": "b2c3d4e5-f6a7-2901-2cde-f12345678902"},
        "unknown_reference",
        "/memories/0/parent_id",
    ),
    (DIALECT, {"/todos/0": "Buy a can."}, "foreign_record", "/todos/0"),
    (DIALECT, {"/todos/0/tags/0": 7}, "foreign_record", "/todos/0/tags/0"),
    (DIALECT, {"/reminders": {}}, "foreign_record", "/reminders"),
    (DIALECT, {"/knowledge_graph/episodes": 7}, "foreign_record", "/knowledge_graph/episodes"),
    (FULL, {"/export_meta/user_id": "\ufeff"}, "owner_not_kept", "/export_meta/user_id"),
]


@pytest.mark.parametrize(("pointer", "value", "rule"), FAULTS)
def test_reasons_to_refuse_a_document(pointer: str, value: Any, rule: str) -> None:
    data = spelled(edited(FULL, {pointer: value}))
    verdict = MIF2.validate(data)
    assert (rules(verdict.faults), verdict.problems) == ([(rule, pointer)], ())
    with pytest.raises(DocumentError) as caught:
        MIF2.load(data)
    assert (caught.value.code, caught.value.rule) == ("ERR_FORMAT", rule)


@pytest.mark.parametrize(("pointer", "value", "rule"), PROBLEMS)
def test_reasons_to_skip_a_record(pointer: str, value: Any, rule: str) -> None:
    data = spelled(edited(FULL, {pointer: value}))
    verdict = MIF2.validate(data)
    assert (verdict.faults, rules(verdict.problems)) == ((), [(rule, pointer)])
    loaded = MIF2.load(data)
    assert rules(loaded.problems) == [(rule, pointer)]
    # All but the one are taken, and come back.
    where = re.match(r"/.*?/[0-9]+", pointer)
    assert where is not None
    left = edited(FULL, {where[0]: GONE})
    assert json.loads(formats.dump(loaded, format="mif2").data) == left


@pytest.mark.parametrize(("data", "rule"), TEXTS, ids=range(len(TEXTS)))
def test_texts_that_are_no_document(data: bytes, rule: str) -> None:
    assert [problem.rule for problem in MIF2.validate(data).faults][:1] == [rule]
    with pytest.raises(DocumentError) as caught:
        MIF2.load(data)
    assert caught.value.rule == rule


@pytest.mark.parametrize(("whole", "edits", "rule", "pointer"), WARNED)
def test_accepted_with_a_warning(
    whole: dict[str, Any], edits: dict[str, Any], rule: str, pointer: str
) -> None:
    data = spelled(edited(whole, edits))
    loaded = MIF2.load(data)
    assert (rule, pointer) in rules(loaded.warnings)
    assert loaded.problems == ()
    assert (
        formats.dump(loaded, format="mif2").data
        == json.dumps(json.loads(data), ensure_ascii=False, separators=(",", ":")).encode()
    )


def test_every_rule_is_broken_somewhere() -> None:
    broken = {rule for *_, rule in FAULTS + PROBLEMS} | {rule for _, rule in TEXTS}
    with_checksum = {"checksum_mismatch"}  # see test_mif2_checksum
    assert broken | with_checksum | {"too_large", "too_many_bad"} == set(RULES)
    assert {rule for _, _, rule, _ in WARNED} == set(WARNINGS)


def test_documents_of_others_are_taken() -> None:
    assert rules(MIF2.validate(spelled(MINIMAL)).warnings) == []
    assert rules(MIF2.validate(spelled(PLACEHOLDERS)).warnings) == [
        ("invalid_checksum", "/export_meta/checksum")
    ]
    assert rules(MIF2.validate(spelled(FULL)).warnings) == [
        ("dimension_mismatch", "/memories/0/embeddings/vector")
    ]
    assert rules(MIF2.validate(spelled(DIALECT)).warnings) == []
    for whole in (MINIMAL, PLACEHOLDERS, FULL, DIALECT):
        assert MIF2.validate(spelled(whole)).total == 0


@given(DOCUMENTS)
def test_allowed_values_are_accepted(whole: dict[str, Any]) -> None:
    verdict = MIF2.validate(spelled(whole))
    assert (verdict.faults, verdict.problems, verdict.total) == ((), (), 0)


def test_one_bad_record_of_a_thousand() -> None:
    memories: list[Any] = [
        MINIMAL["memories"][0] | {"id": f"00000000-0000-4000-8000-{i:012}", "content": f"No. {i}"}
        for i in range(1_000)
    ]
    memories[500] = memories[500] | {"content": ["not", "text"]}
    loaded = MIF2.load(spelled(MINIMAL | {"memories": memories}))
    (problem,) = loaded.problems
    assert (problem.rule, problem.pointer) == ("invalid_type", "/memories/500/content")
    assert (problem.expected, problem.found) == ("a string", "an array")
    assert len(json.loads(formats.dump(loaded, format="mif2").data)["memories"]) == 999


def test_problems_are_counted_beyond_a_thousand() -> None:
    verdict = MIF2.validate(spelled(MINIMAL | {"memories": [{}] * 5_000}))
    assert (len(verdict.problems), verdict.total) == (MOST, 15_000)


def test_problems_show_no_content() -> None:
    secret = "Ada-has-a-secret"
    for pointer, value, _ in FAULTS + PROBLEMS:
        given = [secret] if isinstance(value, list | dict | str) else {secret: secret}
        verdict = MIF2.validate(spelled(edited(FULL, {pointer: given})))
        told = (*verdict.faults, *verdict.problems, *verdict.warnings)
        assert secret not in json.dumps([problem.to_dict() for problem in told])


def test_limits() -> None:
    data = spelled(FULL)
    assert rules(MIF2.validate(data, limits=JsonLimits(document=len(data) - 1)).faults) == [
        ("too_large", "")
    ]
    assert MIF2.validate(data, limits=JsonLimits(document=len(data))).total == 0
    assert MIF2.validate(data, limits=JsonLimits(depth=4)).faults[0].rule == "too_deep"
    assert MIF2.validate(data, limits=JsonLimits(depth=5)).total == 0


def test_hostile_sizes_are_cheap() -> None:
    """Findings are bounded, and memory is a few times the document."""
    text = "A" * 2_000_000
    for memories in ([7] * 50_000, [{"id": text, "content": 7, "created_at": text}]):
        data = spelled(MINIMAL | {"memories": memories})
        tracemalloc.start()
        try:
            verdict = MIF2.validate(data)
            held = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert verdict.total == len(memories) and len(verdict.problems) <= MOST
        assert held < 12 * len(data)
