# SPDX-License-Identifier: Apache-2.0
"""Erasing a tenant: all of it goes, nothing of anybody else, and it does not come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from omsgrain import errors as err
from omsgrain.formats.aimem.fields import ARRAYS
from omsgrain.formats.aimem.records import TABLE
from omsgrain.formats.document import Manifest, manifest
from omsgrain.grain import Grain
from omsgrain.interchange.aimem_export import export_bundle, export_stream
from omsgrain.memory.removal import erase_tenant
from omsgrain.storage.base import Writer
from omsgrain.store import GrainStore, source_tombstones
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy import erasure
from support.aimem_memory import ADA, GRACE, NOW, canonical, chunk, entity, fill, name, sample
from support.aimem_strategies import embedding
from support.erasure_stores import below, is_sealed, rows
from support.invented_people import EITHER, Clock, opened


@pytest.fixture(params=EITHER)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    with opened(request.param, tmp_path, Settings(actor="tester", clock=Clock(NOW))) as made:
        yield made


def everything() -> dict[str, Any]:
    """A document with a record in parts and an embedding."""
    document = sample()
    large = chunk("large", note="\u00e9" * 700_000)
    document["chunks"] += [large, chunk("v", embedding=embedding([1.0, 2.0]))]
    return document


def count(store: GrainStore, tenant: str = ADA) -> int:
    return sum(len(r) for one in export_bundle(store, tenant) for r in one.records.values())


def test_all_of_a_tenant_goes(store: GrainStore, tmp_path: Path) -> None:
    fill(store, everything())
    page = Manifest("aimem", "sha256:0", {"producer": "robot-7"}, {"chunks": ["0" * 64]})
    store.put_many(manifest(page, created_at=1, user_id=ADA))
    about = {"type": "belief", "confidence": 0.5, "created_at": 2, "relation": "is", "object": "x"}
    store.put(about | {"subject": ADA})  # nobody's, but it bears the name
    list(export_stream(store, ADA))
    report = erase_tenant(store, ADA, reason_code="gdpr17")
    assert report.complete and report.kept == () and report.named == ()
    assert len(store) == 0 and count(store) == 0
    left = rows(store) + b"".join(
        path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
    )
    for content in (ADA.encode(), b"what tea says", b"kettle", b"robot-7"):
        assert content not in left
    assert store.audit.verify().ok and store.maintenance.check().ok
    assert "erase" in [one.operation for one in store.audit.entries()]


def test_the_text_index_forgets_it(tmp_path: Path) -> None:
    with opened("lmdb", tmp_path, Settings()) as store:
        fill(store, everything())
        assert store.search("kettle").results
        erase_tenant(store, ADA, reason_code="gdpr17")
        assert not store.search("kettle").results
        assert not any(b"kettle" in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())


def test_nothing_of_another_tenant_goes(store: GrainStore) -> None:
    """The same content of two tenants is two grains."""
    for tenant in (ADA, GRACE):
        fill(store, everything(), tenant)
    names = {"type": "belief", "subject": ADA, "relation": "knows", "object": ADA}
    other = names | {"confidence": 0.5, "created_at": 2, "user_id": GRACE}
    address = store.put(other)
    before = {one.envelope["producer"]: one.records for one in export_bundle(store, GRACE, now=1)}
    report = erase_tenant(store, ADA, reason_code="gdpr17")
    after = {one.envelope["producer"]: one.records for one in export_bundle(store, GRACE, now=1)}
    assert after == before and count(store) == 0
    assert [one for one, _ in report.named] == [store.get(address).address]


def test_a_did_as_a_tenant_takes_nothing_of_another(store: GrainStore) -> None:
    did = "did:web:example.org:ada"
    fill(store, sample(), did)
    other = {"type": "event", "content": "x", "created_at": 2, "user_id": GRACE}
    address = store.put(other | {"author_did": did})
    erase_tenant(store, did, reason_code="gdpr17")
    assert store.get(address)["content"] == "x" and len(store) == 1


def test_erased_grains_do_not_come_back(store: GrainStore) -> None:
    fill(store, everything())
    fill(store, sample(), GRACE)
    erase_tenant(store, ADA, reason_code="gdpr17")
    again = [
        TABLE.to_grain(
            "chunk", chunk("tea", memory_type="preference", tags=["drink"]), owner=ADA
        ).grain,
        TABLE.to_grain("chunk", chunk("tea", "other words, the same name"), owner=ADA).grain,
        TABLE.to_grain("entity", entity("kettle", name="other"), owner=ADA).grain,
    ]
    report = store.put_many(again, errors="collect")
    assert [bad.error.code for bad in report.errors] == ["ERR_ERASED"] * 3
    with context_of(store).storage.read() as reader:
        asked = [("chunk", name("tea")), ("entity", name("tea")), ("chunk", name("new"))]
        assert source_tombstones.erased(reader, ADA, asked) == [True, False, False]
        assert source_tombstones.erased(reader, GRACE, asked) == [False] * 3
    fill(store, {"chunks": [chunk("new")]})  # the tenant itself may come again
    fill(store, {"chunks": [chunk("tea", "of Grace", tags=["x"])]}, GRACE)
    assert count(store) == 1


def test_a_record_allowed_back_is_like_any_other(store: GrainStore) -> None:
    fill(store, {"chunks": [chunk("a")]})
    erase_tenant(store, ADA, reason_code="gdpr17")
    (address,) = store.put_many(
        [TABLE.to_grain("chunk", chunk("a", "back"), owner=ADA).grain], allow_erased=True
    ).addresses
    assert address is not None and count(store) == 1
    newer = chunk("a", "newer", created_at="2026-06-01T00:00:00Z")
    store.supersede(address, TABLE.to_grain("chunk", newer, owner=ADA).grain)
    assert count(store) == 1
    erase_tenant(store, ADA, reason_code="gdpr17")
    report = store.put_many(
        [TABLE.to_grain("chunk", newer | {"tags": ["x"]}, owner=ADA).grain], errors="collect"
    )
    assert count(store) == 0 and len(report.errors) == 1


def test_a_stream_that_runs_ends(store: GrainStore) -> None:
    fill(store, everything())
    fill(store, sample(), GRACE)
    pieces, other = export_stream(store, ADA, piece=1), export_stream(store, GRACE, piece=1)
    for one in (pieces, other):
        next(one)
        next(one)
    erase_tenant(store, ADA, reason_code="gdpr17")
    with pytest.raises(err.ErasedError):
        next(pieces)
    assert len(list(other)) == 8


def test_a_stream_that_was_read_ahead_ends(store: GrainStore) -> None:
    """What is in memory of a page must not leave either."""
    fill(store, {"chunks": [chunk(f"c{i}") for i in range(20)]})
    pieces = export_stream(store, ADA, piece=1)
    assert len([next(pieces) for _ in range(5)]) == 5
    erase_tenant(store, ADA, reason_code="gdpr17", scrub="queued")
    with pytest.raises(err.ErasedError):
        next(pieces)


def test_a_second_erasure_ends_a_stream_between_the_two(store: GrainStore) -> None:
    fill(store, {"chunks": [chunk("a")]})
    erase_tenant(store, ADA, reason_code="gdpr17")
    fill(store, {"chunks": [chunk("b"), chunk("c")]})
    pieces = export_stream(store, ADA, piece=1)
    next(pieces)
    erase_tenant(store, ADA, reason_code="gdpr17")
    fill(store, {"chunks": [chunk("d")]})
    with pytest.raises(err.ErasedError):
        list(pieces)
    assert count(store) == 1


def test_an_export_after_the_order_finds_nothing(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The grains are still there, as they are after a crash."""
    fill(store, everything())

    def crash(*args: Any, **options: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(erasure, "_carry_out", crash)
        with pytest.raises(KeyboardInterrupt):
            erase_tenant(store, ADA, reason_code="gdpr17")
    assert len(store) > 0 and count(store) == 0
    assert b"what tea says" not in b"".join(export_stream(store, ADA))
    fill(store, {"chunks": [chunk("new")]})
    assert count(store) == 1
    store.privacy.run_due()
    # What was sealed with a key that was to be destroyed goes with it.
    assert count(store) == (0 if is_sealed(store) else 1)


def test_held_grains_stay_and_are_not_exported(store: GrainStore) -> None:
    there = fill(store, sample())
    store.holds.add(there[name("pin")], authority="court", reason_code="litigation")
    report = erase_tenant(store, ADA, reason_code="gdpr17")
    assert report.incomplete == ("kept",) and count(store) == 0
    store.holds.release(there[name("pin")], authority="court", reason_code="litigation")
    store.privacy.run_due(everything=True)
    assert count(store) == 0
    with below(store).read() as reader:
        blobs = [Grain(blob) for _, blob in reader.page(0)]
    assert all(one.sealed for one in blobs)


def test_tombstones_are_marks_and_not_names(store: GrainStore) -> None:
    fill(store, sample())
    erase_tenant(store, ADA, reason_code="gdpr17")
    assert b"urn:aimem" not in rows(store)

    def lifted(writer: Writer) -> list[bool]:
        grain = TABLE.to_grain("chunk", chunk("tea"), owner=ADA).grain
        source_tombstones.lift(writer, [grain.blob])
        return source_tombstones.erased(
            writer, ADA, [("chunk", name("tea")), ("chunk", name("pin"))]
        )

    assert context_of(store).storage.write(lifted) == [False, True]


def test_an_export_is_what_was_there(store: GrainStore) -> None:
    """Erasing one tenant in between changes nothing of what another gets."""
    fill(store, sample(), GRACE)
    fill(store, sample(), ADA)
    erase_tenant(store, ADA, reason_code="gdpr17")
    (found,) = export_bundle(store, GRACE)
    for array, kind in ARRAYS.items():
        assert sorted(canonical(found.records[kind])) == sorted(canonical(sample()[array]))
