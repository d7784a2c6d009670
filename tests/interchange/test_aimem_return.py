# SPDX-License-Identifier: Apache-2.0
"""Out and in again: an export imported where it came from is a no-op. Spec: AIMEM §4, §5.2."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.fields import ARRAYS
from omsgrain.interchange.aimem_export import export_bundle, export_stream
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.memory.removal import erase_tenant
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from support.aimem_memory import ADA, NOW, canonical, chunk, fill, name, sample
from support.aimem_strategies import documents, embedding
from support.invented_people import EITHER, Clock, opened


@pytest.fixture(params=EITHER)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    with opened(request.param, tmp_path, Settings(clock=Clock(NOW))) as made:
        yield made


def full(store: GrainStore) -> None:
    """Records, an embedding, a record in parts, and grains that never were AIMEM."""
    document = sample()
    document["chunks"] += [
        chunk("large", note="\u00e9" * 700_000),
        chunk("v", embedding=embedding([1.0, 2.0])),
    ]
    fill(store, document)
    rain = {"type": "event", "content": "It rained.", "created_at": 5, "user_id": ADA}
    likes = {"type": "belief", "subject": "Ada", "relation": "mg:prefers", "object": "tea"}
    store.put(rain | {"importance": 0.5})
    store.put(likes | {"confidence": 1.0, "created_at": 6, "user_id": ADA})


def all_of(bundles: list[Bundle]) -> list[bytes]:
    return sorted(
        canonical(one for found in bundles for kind in found.records.values() for one in kind)
    )


@pytest.mark.parametrize("strict", [False, True])
def test_an_export_imported_again_is_a_no_op(store: GrainStore, strict: bool) -> None:
    full(store)
    count, before = len(store), export_bundle(store, ADA, strict=strict)
    for found in export_bundle(store, ADA, include_embeddings=True, strict=strict):
        summary = import_bundle(store, found).to_dict()
        assert summary["chunks_skipped_idempotent"] == len(found.records["chunk"])
        assert summary["conflicts"] == []
    assert len(store) == count and export_bundle(store, ADA, strict=strict) == before


@given(documents())
def test_any_bundle_goes_through_two_stores(document: dict[str, Any]) -> None:
    tenant, stores = document["tenant_id"], [GrainStore(MemoryStorage()) for _ in range(2)]
    envelope = {key: value for key, value in document.items() if key not in ARRAYS}
    records = {kind: document.get(array, []) for array, kind in ARRAYS.items()}
    import_bundle(stores[0], Bundle(envelope, records))
    first = export_bundle(stores[0], tenant, now=NOW)
    for found in first:
        import_bundle(stores[1], found)
    assert export_bundle(stores[1], tenant, now=NOW) == first
    data = b"".join(export_stream(stores[1], tenant, now=NOW))
    summary = import_bundle(stores[1], BytesIO(data)).to_dict()
    assert summary["chunks_skipped_idempotent"] == len(records["chunk"])


@pytest.mark.parametrize("strict", [False, True])
def test_erased_records_return_only_with_allow_erased(store: GrainStore, strict: bool) -> None:
    full(store)
    gone = export_bundle(store, ADA, strict=strict)
    erase_tenant(store, ADA, reason_code="gdpr17")
    changed = chunk("tea", "in other words", created_at="2027-01-01T00:00:00Z")
    gone.append(Bundle(gone[-1].envelope, {"chunk": [changed, chunk("new")]}))
    for found in gone:
        import_bundle(store, found)
    (left,) = export_bundle(store, ADA)
    assert [one["id"] for one in left.records["chunk"]] == [name("new")]
    for found in gone[:-1]:
        import_bundle(store, found, allow_erased=True)
    assert all_of(export_bundle(store, ADA)) == sorted([*all_of(gone[:-1]), *all_of([left])])
