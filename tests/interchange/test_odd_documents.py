# SPDX-License-Identifier: Apache-2.0
"""Messages about documents with long or private names, and invalid paths and rules."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

import omsgrain as og
from omsgrain import Event, formats
from omsgrain.errors import FormatError, OmsError
from omsgrain.formats import ontology
from omsgrain.formats.mif1 import document as layouts
from omsgrain.formats.mif_ld.validate import judge
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.interchange.mif_import import import_document
from omsgrain.policy.presets import Preset
from omsgrain.policy.rule_files import read_rules
from omsgrain.privacy import explain, load
from omsgrain.privacy.detectors.custom import pattern_detector
from omsgrain.storage.memory import MemoryStorage
from support import mif_ld_documents as documents
from support.mif1_documents import EXAMPLES as MIF1

LONG = "Ada " * 5_000
NAMES = [LONG, "ada@example.com"]


@pytest.mark.parametrize("name", NAMES, ids=["long", "private"])
@pytest.mark.parametrize(
    "document",
    [
        lambda name: {**documents.FULL_1X, "properties": {name: {"a": [1]}}},
        lambda name: {**documents.ONTOLOGY, "namespaces": {name: 5}},
        lambda name: {**documents.ONTOLOGY, "namespaces": {name: {"children": {"x": 5}}}},
    ],
    ids=["property", "namespace", "below it"],
)
def test_odd_names_of_json_ld_are_not_shown(document: Callable[[str], Any], name: str) -> None:
    verdict = judge(document(name))
    for one in verdict.findings:
        assert name not in json.dumps(one.to_dict(), ensure_ascii=False)
        assert len(str(one.to_dict())) < 1_000


def test_names_of_the_format_are_shown() -> None:
    bad = {**documents.FULL_1X, "@context": 5, "properties": {"mif:size": {"a": {"b": 1}}}}
    assert [one.pointer for one in judge(bad).findings] == ["/@context", "/properties/mif:size"]


@pytest.mark.parametrize("name", NAMES, ids=["long", "private"])
def test_odd_names_of_yaml_are_not_shown(name: str) -> None:
    text = f'mif_version: "1.0"\nx:\n  ? {json.dumps(name)}\n  : {{a: 1, a: 2}}\n'
    with pytest.raises(OmsError) as refusal:
        formats.load(text.encode(), format="mif1")
    assert (refusal.value.field, refusal.value.line) == ("/x/…/a", 4)


RULES = """name = "own"
title = "ours"
[[require]]
id = "one"
reason = "r"
source = "s"
"""
GRAIN = Event(content="lamp", subject="x", created_at=1)


@pytest.mark.parametrize(
    "rest",
    [
        "values = {confidence = [0x" + "f" * 5_000 + "]}",
        f'values = {{subject = ["{LONG}"]}}',
        f'fields = ["subject"]\n"{LONG}" = 1',
        f'fields = ["subject"]\n[[{"x" * 20_000}]]',
    ],
    ids=["a huge number", "a long value", "a long key", "a long table"],
)
def test_rules_that_say_too_much_are_refused_in_short(rest: str) -> None:
    with pytest.raises(FormatError) as refusal:
        read_rules((RULES + rest).encode(), "a file")
    assert len(str(refusal.value)) < 300


def test_refused_values_are_shortened() -> None:
    many = ", ".join(f'"{"v" * 300}{n}"' for n in range(1_000))
    rule = read_rules(f"{RULES}values = {{subject = [{many}]}}".encode(), "a file").rules[0]
    preset = Preset(("own",), ("ours",), (rule,))
    with pytest.raises(OmsError) as refusal:
        preset.check_put(GRAIN)
    assert len(str(refusal.value)) < 1_000
    assert f"v{999}" in explain(preset)[0].asks


@pytest.mark.parametrize("which", [None, 1.5, [None], object()])
def test_unknown_presets(which: Any) -> None:
    with pytest.raises(OmsError) as refusal:
        load(which)
    assert refusal.value.code == "ERR_SCHEMA"


@pytest.mark.parametrize(
    ("kind", "pattern"), [(None, "ab"), ("abc", None), ("abc", b"ab"), ("abc", re.compile(b"ab"))]
)
def test_what_is_no_pattern(kind: Any, pattern: Any) -> None:
    with pytest.raises(OmsError) as refusal:
        pattern_detector(kind, pattern)
    assert refusal.value.code == "ERR_SCHEMA"


def test_long_names_of_an_ontology_are_shortened() -> None:
    types = [
        {"name": "a", "base": "semantic", "subtype_of": [LONG]},
        {"name": "b", "base": "semantic", "subtype_of": ["c"]},
        {"name": "c", "base": "semantic", "schema": {"required": [LONG]}},
    ]
    found = ontology.load([{**documents.ONTOLOGY, "entity_types": types}], strict=False).reports[0]
    told = (*found.problems, *found.warnings)
    assert {"ONT-SUBTYPE-UNKNOWN", "ONT-SUBTYPE-REQUIRED"} <= {one.rule for one in told}
    assert all(len(one.message) < 400 for one in told)


def test_an_address_that_is_not_unicode_is_none() -> None:
    for call in (
        lambda: og.verify(GRAIN.blob, "\ud800"),
        lambda: og.verify_many([(GRAIN.blob, GRAIN.address), (GRAIN.blob, "\ud800")]),
    ):
        with pytest.raises(OmsError) as refusal:
            call()
        assert refusal.value.code == "ERR_HASH_LENGTH"
    pairs = [(GRAIN.blob, "\ud800"), (GRAIN.blob, GRAIN.address)]
    report = og.verify_many(pairs, errors="collect")
    assert (report.verified, [bad.index for bad in report.errors]) == (1, [0])


@pytest.mark.parametrize("path", ["a\0b", "\ud800", LONG, '{"type": "event"}' * 900],
                         ids=["zero", "not Unicode", "long", "a document"])  # fmt: skip
@pytest.mark.parametrize("call", [formats.load, og.encode_jsonl])
def test_an_invalid_path_is_not_shown(call: Callable[[str], Any], path: str) -> None:
    with pytest.raises(OmsError) as refusal:
        call(path)
    assert refusal.value.code == "ERR_SCHEMA"
    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize("size", [0, -1, -(10**5_000), None, "9" * 5_000],
                         ids=["0", "-1", "huge", "none", "text"])  # fmt: skip
def test_a_batch_of_no_records(size: Any) -> None:
    data = layouts.spell(MIF1[0])
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        import_document(store, data, batch_size=size)
    assert refusal.value.code == "ERR_RANGE"
    assert len(str(refusal.value)) < 200
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        import_bundle(store, io.BytesIO(), batch_size=size)
    assert refusal.value.code == "ERR_RANGE"
    with og.GrainStore(MemoryStorage()) as store, pytest.raises(OmsError) as refusal:
        store.put_many([GRAIN], batch_size=size)
    assert len(str(refusal.value)) < 200
