# SPDX-License-Identifier: Apache-2.0
"""Bundles to grains and back: every valid bundle comes back, checksum included."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given

from aimem_bundles import documents
from omsgrain import _core
from omsgrain.formats.aimem import bundle, checksum, embedding
from omsgrain.formats.aimem.fields import ARRAYS
from omsgrain.formats.aimem.records import from_grain, to_grain


def text_of(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def with_checksum(document: dict[str, Any]) -> bytes:
    return text_of(document | {"checksum": checksum.of_document(text_of(document))})


@given(documents())
def test_a_valid_bundle_is_found_valid(document: dict[str, Any]) -> None:
    verdict = bundle.validate(with_checksum(document))
    assert verdict.problems == ()


@given(documents())
def test_records_come_back(document: dict[str, Any]) -> None:
    read = bundle.read(with_checksum(document))
    for kind, records in read.records.items():
        for i, record in enumerate(records):
            built = to_grain(kind, record, tenant=document["tenant_id"])
            found = from_grain(built.grain, {p.address: p for p in built.parts}.__getitem__)
            assert found is not None and found[0] == kind
            if built.vector is not None:
                found[1]["embedding"] = embedding.encode(built.vector)
            assert _core.canonical_json(text_of(found[1])) == _core.canonical_json(text_of(record))
            records[i] = found[1]
    again = bundle.write(bundle.Bundle(read.envelope, read.records))
    missing = [name for name in ARRAYS if name not in document]
    if not missing:
        assert json.loads(again)["checksum"] == read.envelope["checksum"]
