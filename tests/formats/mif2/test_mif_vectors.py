# SPDX-License-Identifier: Apache-2.0
"""The vectors of MIF documents: all agree, cover the rules, and the runner notices a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omsgrain.conformance.vectors import run_vector, run_vectors
from omsgrain.formats.mif1.check import RULES as RULES_1
from omsgrain.formats.mif2.check import RULES as RULES_2
from omsgrain.formats.mif_ld.defects import CODES
from support.paths import ROOT

VECTORS = ROOT / "test_vectors"
#: Of texts that no vector can hold, or that the tests of the envelope and of the lines break.
ELSEWHERE = {
    "mif2": {"too_large", "too_many_bad", "too_deep", "not_object"},
    "mif1": {"unsupported_version", "too_large", "too_many_bad", "too_deep", "out_of_range",
             "not_json", "not_yaml", "no_header", "no_footer", "count_mismatch",
             "checksum_mismatch", "unknown_line", "encrypted", "unknown_algorithm",
             "invalid_encryption", "kdf_missing", "kdf_too_costly"},
    "mif-ld": set(),
}  # fmt: skip


def load(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    return vector


@pytest.mark.parametrize(
    ("format", "rules"), [("mif2", RULES_2), ("mif1", RULES_1), ("mif-ld", CODES)]
)
def test_all_agree_and_cover_the_rules(format: str, rules: dict[str, Any]) -> None:
    outcomes = [one for one in run_vectors(VECTORS) if one.id.startswith(f"{format}/")]
    assert [outcome for outcome in outcomes if not outcome.agrees] == []
    found = {rule for outcome in outcomes for rule in outcome.expected.split(", ")}
    assert found >= rules.keys() - ELSEWHERE[format]


@pytest.mark.parametrize("changes", [
    {"problems": [{"rule": "missing_field", "pointer": "/memories/0/content"}]},
    {"warnings": ["invalid_uuid"]}, {"grains": {}}, {"surprise": 1}, {"format": "mif1"},
    {"id": "mif2/good/other"}, {"document": "{}"}, {"fault": {"rule": "not_json", "pointer": ""}},
])  # fmt: skip
def test_a_wrong_vector_disagrees(changes: dict[str, Any]) -> None:
    vector = load("mif2/good/the-least")
    name = vector["id"]
    assert run_vector(vector, name).agrees
    assert not run_vector(vector | changes, name).agrees


@pytest.mark.parametrize(("name", "changes"), [
    ("told/a-citation-that-cannot-be-mended", {"dropped": []}),
    ("told/a-citation-that-cannot-be-mended", {"mode": "schema"}),
    ("told/no-duration-of-iso-8601", {"mode": "schema"}),
    ("bad/one-of-three-is-bad", {"problems": []}),
    ("good/markdown-of-0-1", {"mode": "strict"}), ("good/a-corpus", {"grains": {}}),
])  # fmt: skip
def test_a_wrong_vector_of_mif_in_json_ld_disagrees(name: str, changes: dict[str, Any]) -> None:
    vector = load(f"mif-ld/{name}")
    assert run_vector(vector, vector["id"]).agrees
    assert not run_vector(vector | changes, vector["id"]).agrees
