# SPDX-License-Identifier: Apache-2.0
"""Problems of a MIF 1.0 document: each rule broken once, and the cost of hostile documents.

``conformance/mif1.json`` breaks them at every field.
"""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given

from omsgrain import formats
from omsgrain.formats import DocumentError
from omsgrain.formats.mif1.check import RULES, WARNINGS, Mif1Limits
from omsgrain.formats.mif1.format import MIF1
from support.edited_documents import GONE, edited, rules
from support.mif1_documents import DOCUMENTS, MINIMAL, PUBLISHED, SEP
from support.mif2_documents import spelled

FAULTS = [
    ("/mif_version", GONE, "missing_field"),
    ("/mif_version", "2.0", "unsupported_version"),
    ("/export", "x", "invalid_type"),
    ("/consent/retention_days", 1.5, "invalid_type"),
    ("/consent/retention_days", -1, "out_of_range"),
]
PROBLEMS = [
    ("/memories/0", 7, "not_object"),
    ("/memories/0/id", GONE, "missing_field"),
    ("/memories/0/id", None, "invalid_type"),
    ("/memories/0/created_at", 1_772_352_000, "invalid_type"),
    ("/memories/0/created_at", "yesterday", "invalid_timestamp"),
    ("/memories/0/importance", 1.1, "out_of_range"),
    ("/memories/1/redactions/0/position", "12", "invalid_type"),
    ("/todos/0/created_at", "", "invalid_timestamp"),
]
TEXTS = [
    (b'{"mif_version":"1.0","memories":[', "not_json"),
    (b"\xef\xbb\xbf" * 2 + spelled(MINIMAL), "not_json"),
    (b'{"mif_version":"1.0","memories":[],"memories":[]}', "not_json"),
    (b'{"mif_version":"1.0","memories":[],"x":NaN}', "not_json"),
    (b'{"mif_version":"1.0","memories":[],"x":1e999}', "not_json"),
    (b'{"mif_version":"1.0","memories":[],"x":"\\ud800"}', "not_json"),
    (b'{"mif_version":"1.0","memories":[],"x":"\xff"}', "not_json"),
    (
        b'{"mif_version":"1.0","memories":[],"x":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
        "too_deep",
    ),
    (b'{"a":' * 1_000_000, "too_deep"),
    (spelled({"mif_version": "1.0", "encryption": {}}), "encrypted"),
]
WARNED = [
    (SEP, {"/mif_version": "1.3"}, "later_version", "/mif_version"),
    (SEP, {"/mif_version": 1.0}, "version_as_number", "/mif_version"),
    (SEP, {"/memories": GONE}, "missing_field", "/memories"),
    (SEP, {"/graph/edges/0/weight": GONE}, "missing_field", "/graph/edges/0/weight"),
    (SEP, {"/generator": "shodh"}, "invalid_type", "/generator"),
    (SEP, {"/metadata/privacy": []}, "invalid_type", "/metadata/privacy"),
    (SEP, {"/graph/node_count": "many"}, "invalid_type", "/graph/node_count"),
    (SEP, {"/export/user_id": 7}, "invalid_type", "/export/user_id"),
    (SEP, {"/graph": None}, "null_value", "/graph"),
    (SEP, {"/memories/0/tags": None}, "null_value", "/memories/0/tags"),
    (SEP, {"/memories/0/updated_at": "soon"}, "invalid_timestamp", "/memories/0/updated_at"),
    (SEP, {"/graph/edges/0/weight": 1.5}, "out_of_range", "/graph/edges/0/weight"),
    (SEP, {"/memories/0/type": "Dream"}, "unknown_value", "/memories/0/type"),
    (SEP, {}, "id_form", "/memories/1/id"),
    (SEP, {}, "id_form", "/todos/0/id"),
    (SEP, {"/export/id": "export-1"}, "id_form", "/export/id"),
    (SEP, {}, "invalid_checksum", "/export/checksum"),
    (PUBLISHED, {}, "unknown_checksum", "/export/checksum"),
    (SEP, {"/memories/0/content": ""}, "content_length", "/memories/0/content"),
    (SEP, {}, "invalid_vector", "/memories/0/embedding/vector"),
    (
        SEP,
        {"/memories/0/embedding/vector/3": 0.5},
        "dimension_mismatch",
        "/memories/0/embedding/vector",
    ),
    (
        SEP,
        {"/memories/1/redactions/0/position/1": 45},
        "redaction_span",
        "/memories/1/redactions/0/position",
    ),
    (SEP, {"/memories/1/id": "mem_c3d4..."}, "duplicate_id", "/memories/2/id"),
    (
        SEP,
        {"/memories/2/content": "API key is [REDACTED:api_key]"},
        "duplicate_content",
        "/memories/2/content",
    ),
    (SEP, {}, "unknown_end", "/graph/edges/0/source"),
    (
        SEP,
        {"/memories/0/relations": {"related_memories": ["mem_none"]}},
        "unknown_reference",
        "/memories/0/relations/related_memories/0",
    ),
    (SEP, {}, "count_differs", "/graph/edge_count"),
    (SEP, {"/export/user_id": "\ufeff"}, "owner_not_kept", "/export/user_id"),
]


@pytest.mark.parametrize(("pointer", "value", "rule"), FAULTS)
def test_reasons_to_refuse_a_document(pointer: str, value: Any, rule: str) -> None:
    data = spelled(edited(SEP, {pointer: value}))
    verdict = MIF1.validate(data)
    assert (rules(verdict.faults), verdict.problems) == ([(rule, pointer)], ())
    with pytest.raises(DocumentError) as caught:
        MIF1.load(data)
    assert (caught.value.code, caught.value.rule) == ("ERR_FORMAT", rule)


@pytest.mark.parametrize("whole", [[], None, 7])
def test_only_objects_are_documents(whole: Any) -> None:
    assert rules(MIF1.validate(spelled(whole), layout="json").faults) == [("not_object", "")]


@pytest.mark.parametrize(("pointer", "value", "rule"), PROBLEMS)
def test_reasons_to_skip_a_record(pointer: str, value: Any, rule: str) -> None:
    data = spelled(edited(SEP, {pointer: value}))
    verdict = MIF1.validate(data)
    assert (verdict.faults, rules(verdict.problems)) == ((), [(rule, pointer)])
    loaded = MIF1.load(data)
    assert rules(loaded.problems) == [(rule, pointer)]
    # All but the one are taken, and come back.
    parts = pointer.split("/")
    record = "/".join(parts[: next(i for i, part in enumerate(parts) if part.isdigit()) + 1])
    assert json.loads(formats.dump(loaded, format="mif1").data) == edited(SEP, {record: GONE})


@pytest.mark.parametrize(("data", "rule"), TEXTS)
def test_texts_that_are_no_document(data: bytes, rule: str) -> None:
    assert [problem.rule for problem in MIF1.validate(data, layout="json").faults] == [rule]
    with pytest.raises(DocumentError) as caught:
        MIF1.load(data, layout="json")
    assert caught.value.rule == rule


@pytest.mark.parametrize(("whole", "edits", "rule", "pointer"), WARNED)
def test_accepted_with_a_warning(
    whole: dict[str, Any], edits: dict[str, Any], rule: str, pointer: str
) -> None:
    whole = edited(whole, edits)
    loaded = MIF1.load(spelled(whole))
    assert (rule, pointer) in rules(loaded.warnings)
    assert loaded.problems == ()
    assert json.dumps(json.loads(formats.dump(loaded, format="mif1").data)) == json.dumps(whole)


def test_a_good_document_has_no_warnings() -> None:
    assert MIF1.load(spelled(MINIMAL)).warnings == ()


@given(DOCUMENTS)
def test_an_accepted_document_has_no_problems(whole: dict[str, Any]) -> None:
    verdict = MIF1.validate(spelled(whole))
    assert (verdict.faults, verdict.problems, verdict.total) == ((), (), 0)


def test_every_rule_is_broken_here_or_beside() -> None:
    """The rest is what lines, YAML and envelopes break, in their own files."""
    here = {rule for *_, rule in FAULTS} | {rule for *_, rule in PROBLEMS}
    here |= {rule for _, rule in TEXTS} | {"too_large"}
    beside = {"not_yaml", "no_header", "no_footer", "count_mismatch", "checksum_mismatch"}
    beside |= {"unknown_line", "unknown_algorithm", "invalid_encryption", "kdf_missing"}
    assert here | beside | {"kdf_too_costly", "too_many_bad"} == set(RULES)
    assert {rule for _, _, rule, _ in WARNED} | {"line_member"} == set(WARNINGS)


def test_one_bad_record_of_a_thousand() -> None:
    memory = MINIMAL["memories"][0]
    memories = [memory | {"id": f"mem_{i:04x}", "content": f"Note {i}"} for i in range(1_000)]
    del memories[500]["content"]
    loaded = MIF1.load(spelled(MINIMAL | {"memories": memories}))
    assert rules(loaded.problems) == [("missing_field", "/memories/500/content")]
    del memories[500]
    assert json.loads(formats.dump(loaded, format="mif1").data)["memories"] == memories
    assert len(loaded.grains) == 999 + 2  # a page of addresses, and the manifest


def test_a_document_that_is_too_large_is_not_parsed() -> None:
    data = b'{"mif_version":"1.0","memories":["' + b"x" * 4_000_000
    tracemalloc.start()
    verdict = MIF1.validate(data, limits=Mif1Limits(document=1_000_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rules(verdict.faults) == [("too_large", "")]
    assert peak < 500_000


def test_two_memories_of_one_short_id_are_two() -> None:
    memory = SEP["memories"][0] | {"id": "a"}
    verdict = MIF1.validate(spelled(SEP | {"memories": [memory, memory]}))
    told = [one.pointer for one in verdict.warnings if one.rule == "duplicate_content"]
    assert told == ["/memories/1/content"]
