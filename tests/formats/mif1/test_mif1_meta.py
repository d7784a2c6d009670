# SPDX-License-Identifier: Apache-2.0
"""The envelope of a MIF 1.0 document: checksum, consent, metadata."""

from __future__ import annotations

import copy
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given

from omsgrain.formats.mif1.document import CHECKSUM, DocumentConsent, Metadata
from omsgrain.formats.mif1.format import MIF1
from support.mif1_documents import DOCUMENTS, MINIMAL, PUBLISHED, SEP
from support.mif2_documents import spelled

# -- the checksum ---------------------------------------------------------------------------------


def with_checksum(whole: dict[str, Any], text: str) -> dict[str, Any]:
    return whole | {"export": whole["export"] | {"checksum": text}}


@given(DOCUMENTS)
def test_our_checksum_is_known_again(whole: dict[str, Any]) -> None:
    sealed = CHECKSUM.sealed(whole)
    assert CHECKSUM.verify(sealed) == "matched-jcs"
    other = sealed | {"one": "more"}
    assert CHECKSUM.verify(other) == "unknown"
    upper = sealed["export"]["checksum"].upper().replace("SHA256", "sha256")
    assert CHECKSUM.verify(with_checksum(sealed, upper)) == "matched-jcs"


def test_our_checksum_is_of_the_canonical_text() -> None:
    whole = {"mif_version": "1.0", "export": {"user_id": "u", "id": "exp_1", "checksum": "x"}}
    text = b'{"export":{"id":"exp_1","user_id":"u"},"mif_version":"1.0"}'
    assert CHECKSUM.of_document(whole) == f"sha256:{sha256(text).hexdigest()}"


@pytest.mark.parametrize("time", ["2026-01-03T10:45:00Z", "2026-01-03T10:45:00+00:00"])
@pytest.mark.parametrize("hashed", ["2026-01-03T10:45:00Z", "2026-01-03T10:45:00+00:00"])
def test_the_counts_of_the_reference_implementation(time: str, hashed: str) -> None:
    whole = copy.deepcopy(MINIMAL)
    whole["export"]["created_at"] = time
    whole["todos"] = [{}, {}]
    found = f"sha256:{sha256(f'12{hashed}'.encode()).hexdigest()}"
    assert CHECKSUM.verify(with_checksum(whole, found)) == "matched-shodh-counts"


def test_a_foreign_checksum_is_a_warning() -> None:
    for whole, expected in ((SEP, "unknown"), (PUBLISHED, "unknown"), (MINIMAL, None)):
        assert CHECKSUM.verify(whole) == expected
        rules = {warning.rule for warning in MIF1.load(spelled(whole)).warnings}
        assert ("unknown_checksum" in rules) == (expected == "unknown")


# -- the consent ----------------------------------------------------------------------------------

DAY = 86_400_000


@pytest.mark.parametrize(("block", "shares", "expires"), [
    ({}, True, None),
    ({"sharing_allowed": True}, True, None),
    ({"sharing_allowed": None, "retention_days": None}, True, None),
    ({"sharing_allowed": False, "retention_days": 30}, False, 5_000 + 30 * DAY),
    ({"retention_days": 0, "timestamp": "someday"}, True, 5_000),
    ({"retention_days": 1.0, "timestamp": "1970-01-03T00:00:00Z"}, True, 3 * DAY),
    ({"retention_days": 2**70}, True, 5_000 + 2**70 * DAY),
])  # fmt: skip
def test_the_meaning_of_a_consent(
    block: dict[str, Any], shares: bool, expires: int | None
) -> None:
    found = DocumentConsent.of(block)
    assert found is not None
    assert (found.shares, found.expires_at(5_000)) == (shares, expires)


def test_a_document_without_a_consent_has_none() -> None:
    assert DocumentConsent.of(None) is None


# -- metadata -------------------------------------------------------------------------------------


def test_metadata_counts_are_recomputed() -> None:
    counted = Metadata()
    assert counted.metadata()["total_memories"] == 0
    times = ["2026-02-02T00:00:00+02:00", "2026-02-01T23:00:00Z", "2026-02-03T00:00:00Z", "soon"]
    for kind, time in zip(["Task", "Task", "Error", "Task"], times, strict=True):
        counted.add("memory", {"type": kind, "created_at": time})
    counted.add("todo", {})
    counted.add("node", {"id": "b"})
    counted.add("edge", {"source": "a", "target": "b"})
    assert counted.metadata() == {
        "total_memories": 4,
        "total_todos": 1,
        "date_range": {"earliest": times[0], "latest": times[2]},
        "memory_types": {"Error": 1, "Task": 3},
    }
    assert counted.graph() == {"format": "adjacency_list", "node_count": 2, "edge_count": 1}
