# SPDX-License-Identifier: Apache-2.0
"""Bundles to grains and back: every valid bundle comes back, checksum included."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given

import jcs
import omsgrain as og
from omsgrain import _core, formats
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import records as native
from omsgrain.formats.aimem.format import AIMEM
from omsgrain.formats.aimem.records import TABLE
from omsgrain.grain import make
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings
from support.aimem_strategies import TENANT, documents
from support.conversion_pairs import FEWER


def text_of(document: dict[str, Any]) -> bytes:
    return json.dumps(document).encode()


def with_checksum(document: dict[str, Any]) -> bytes:
    return text_of(document | {"checksum": jcs.checksum(document)})


@FEWER
@given(documents())
def test_records_come_back(document: dict[str, Any]) -> None:
    read = bundle.read_bundle(with_checksum(document))
    for kind, records in read.records.items():
        for record in records:
            bare = native.bare(kind, record)
            built = TABLE.to_grain(kind, bare, owner=document["tenant_id"])
            found = TABLE.from_grain(built.grain, {p.address: p for p in built.parts}.__getitem__)
            assert found is not None and found[0] == kind
            assert _core.canonical_json(text_of(found[1])) == _core.canonical_json(text_of(bare))


@given(documents())
def test_a_bundle_comes_back_through_grains(document: dict[str, Any]) -> None:
    data = with_checksum(document)
    loaded = AIMEM.load(data)
    again = formats.dump(loaded, format="aimem", embeddings=True)
    assert again.losses == []
    assert _core.canonical_json(again.data) == _core.canonical_json(data)


def test_parts_of_somebody_else_are_none() -> None:
    """A writer can name any address as that of a part."""
    document = {"id": "urn:aimem:p:1", "content": "x", "memory_type": "fact"}
    large = document | {"created_at": "2026-04-01T09:30:00Z", "note": "secret " * 200_000}
    built = TABLE.to_grain("chunk", large, owner=TENANT)
    assert built.parts
    mine = make(dict(built.grain) | {"user_id": "did:web:mallory.example"})
    for format in ("aimem", "mif2", "mif-ld"):
        with pytest.raises(err.FormatError):
            formats.dump([mine, *built.parts], format=format, user_id=TENANT)
    with pytest.raises(err.NotFoundError):
        formats.dump([built.grain], format="aimem")
    dumped = formats.dump([built.grain, *built.parts], format="aimem")
    assert (bundle.read_bundle(dumped.data).records["chunk"], dumped.losses) == ([large], [])


def test_a_sealed_grain_goes_by_what_is_in_it(ring: KeyRing) -> None:
    event = {"type": "event", "content": "It rained.", "created_at": 3, "user_id": TENANT}
    with og.GrainStore(MemoryStorage(), Settings(keys=ring)) as store:
        grain = store.get(store.put(event))
    assert grain.address != og.Grain(grain.blob).address
    (found,) = bundle.read_bundle(formats.dump([grain], format="aimem").data).records["chunk"]
    (again,) = bundle.read_bundle(
        formats.dump([og.Grain(grain.blob)], format="aimem").data
    ).records["chunk"]
    assert found == again and native.carried(found) == og.Grain(grain.blob)


def test_native_grains_become_chunks_and_come_back() -> None:
    grains = [
        og.Belief(subject="Ada", relation="mg:prefers", object="tea", created_at=1),
        og.Belief(
            subject="lamp", relation="mg:perceives", object="on", created_at=2, importance=0.5
        ),
        og.Event(content="It rained.", created_at=3),
    ]
    dumped = formats.dump(grains, format="aimem", tenant_id=TENANT, producer="robot-7")
    read = bundle.read_bundle(dumped.data)
    assert [native.carried(chunk) for chunk in read.records["chunk"]] == grains
    assert [chunk["memory_type"] for chunk in read.records["chunk"]] == [
        "preference",
        "fact",
        "episodic",
    ]
    strict = formats.dump(grains, format="aimem", tenant_id=TENANT, strict=True)
    assert {loss.field for loss in strict.losses} == {"confidence", "importance"}
