# SPDX-License-Identifier: Apache-2.0
"""The vectors of bundles: all agree, cover every rule, and the runner notices a wrong one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from omsgrain.conformance.vectors import run_vector, run_vectors
from omsgrain.formats.aimem.check import RULES
from support.paths import ROOT

VECTORS = ROOT / "test_vectors"


def load(name: str) -> dict[str, Any]:
    vector: dict[str, Any] = json.loads((VECTORS / f"{name}.json").read_text("utf-8"))
    return vector


def test_all_agree_and_cover_the_rules() -> None:
    outcomes = [one for one in run_vectors(VECTORS) if one.id.startswith("aimem/")]
    assert len(outcomes) > 200
    assert [outcome for outcome in outcomes if not outcome.agrees] == []
    elsewhere = {"content_too_long", "not_object", "too_large", "too_long", "unknown_kind"}
    of_bundles = {rule for rule in RULES if not rule.startswith("signature_")}
    assert {outcome.expected for outcome in outcomes} >= of_bundles - elsewhere


@pytest.mark.parametrize("changes", [
    {"problems": [{"rule": "bad_format", "pointer": ""}]}, {"status": 422}, {"warnings": ["x"]},
    {"checksum": "sha256:0"}, {"surprise": 1}, {"id": "aimem/good/other"},
    {"bundle": "{}"}, {"form": "lines"},
])  # fmt: skip
def test_a_wrong_vector_disagrees(changes: dict[str, Any]) -> None:
    vector = load("aimem/good/nothing-changed")
    assert run_vector(vector, vector["id"]).agrees
    assert not run_vector(vector | changes, "aimem/good/nothing-changed").agrees


def test_a_vector_without_a_key_disagrees() -> None:
    vector = load("aimem/bad/a-chunk-twice")
    assert run_vector(vector, vector["id"]).agrees
    for key in vector.keys() - {"bundle", "id"}:
        rest = {name: value for name, value in vector.items() if name != key}
        assert not run_vector(rest, vector["id"]).agrees
