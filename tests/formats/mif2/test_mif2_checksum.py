# SPDX-License-Identifier: Apache-2.0
"""Checksums of MIF 2.0 documents: ours, that of counts, and unknown ones."""

from __future__ import annotations

import copy
import json
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given

import jcs
from omsgrain import formats
from omsgrain.formats.mif2.format import CHECKSUM, MIF2, of_counts
from support.conversion_pairs import FEWER
from support.mif2_documents import DIALECT, DOCUMENTS, FULL, MINIMAL, PLACEHOLDERS, spelled


def test_checksums_of_counts() -> None:
    counted = {"memories": [1, 2, 3], "todos": [1, 2], "projects": [1], "reminders": []}
    three = "sha256:4a93ceb01d16106acc8cb437585cfbba045a997dd788b19e8f4995e237a421d2"
    none = "sha256:fc6505fb34f1557709c934751b088712e77ccce474582669ba0ae1acb094d042"
    assert (of_counts(counted), of_counts({"todos": 7})) == (three, none)


@FEWER
@given(DOCUMENTS)
def test_ours_is_of_all_but_itself(whole: dict[str, Any]) -> None:
    bare = copy.deepcopy(whole)
    bare.get("export_meta", {}).pop("checksum", None)
    expected = f"sha256:{sha256(jcs.canonical(bare).encode()).hexdigest()}"
    assert CHECKSUM.of_document(whole) == expected
    sealed = CHECKSUM.sealed(whole)
    assert CHECKSUM.verify(sealed) == "matched-jcs"
    assert list(sealed["export_meta"])[-1] == "checksum"
    assert MIF2.validate(spelled(sealed)).total == 0


@pytest.mark.parametrize(("whole", "verdict"), [
    (MINIMAL, None),
    (PLACEHOLDERS, "unknown"),
    (FULL, "unknown"),
    (DIALECT, "matched-shodh-counts"),
    (DIALECT | {"reminders": [1]}, "unknown"),
    ({"export_meta": {"checksum": ""}}, None),
    ({"export_meta": None}, None),
])  # fmt: skip
def test_what_a_checksum_was_made_of(whole: dict[str, Any], verdict: str | None) -> None:
    assert CHECKSUM.verify(whole) == verdict


def test_a_change_is_seen_and_the_case_of_digits_is_not() -> None:
    sealed = copy.deepcopy(CHECKSUM.sealed(FULL))  # FULL is of all tests
    shouted = copy.deepcopy(sealed)
    shouted["export_meta"]["checksum"] = sealed["export_meta"]["checksum"].upper()
    assert CHECKSUM.verify(shouted) == "matched-jcs"
    sealed["memories"][0]["content"] += "!"
    assert CHECKSUM.verify(sealed) == "unknown"


def test_a_checksum_that_was_read_is_kept() -> None:
    for whole in (PLACEHOLDERS, DIALECT, CHECKSUM.sealed(FULL)):
        again = json.loads(formats.dump(MIF2.load(spelled(whole)), format="mif2").data)
        assert again["export_meta"]["checksum"] == whole["export_meta"]["checksum"]
        assert CHECKSUM.verify(again) == CHECKSUM.verify(whole)


def test_a_document_of_ours_that_is_written_in_part_has_a_checksum_of_that() -> None:
    loaded = MIF2.load(spelled(CHECKSUM.sealed(FULL)))
    whole = json.loads(formats.dump(loaded, format="mif2").data)
    part = json.loads(formats.dump(loaded, format="mif2", embeddings=False).data)
    assert "embeddings" in whole["memories"][0] and "embeddings" not in part["memories"][0]
    assert CHECKSUM.verify(whole) == CHECKSUM.verify(part) == "matched-jcs"
    assert whole["export_meta"]["checksum"] != part["export_meta"]["checksum"]
    assert whole == CHECKSUM.sealed(FULL)
