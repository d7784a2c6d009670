# SPDX-License-Identifier: Apache-2.0
"""Whole bundles into a store: twice, by lines, in batches, killed half-way, and coming back."""

from __future__ import annotations

import base64
import json
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import omsgrain as og
from omsgrain import formats
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import RangeError, StoreError
from omsgrain.formats.aimem.document import Bundle
from omsgrain.formats.aimem.records import TABLE
from omsgrain.interchange.aimem_export import export_bundle, export_stream
from omsgrain.interchange.aimem_import import import_bundle
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import import_batch
from omsgrain.store.context import Settings, context_of
from omsgrain.store.import_batch import ImportStep
from omsgrain.store.source_index import open_sources
from support.aimem_imports import (
    NEWER,
    TIME,
    chunk,
    edge,
    entity,
    fates,
    holdings,
    lines,
    link,
    made,
    of_document,
    plain,
    reasons,
    stored,
    take,
    urn,
)
from support.aimem_strategies import TENANT, documents, embedding
from support.child_process import ended
from support.origins import find_origins

OTHER = "22222222-2222-4222-8222-222222222222"


@contextmanager
def opened(ring: KeyRing | None = None) -> Iterator[og.GrainStore]:
    with og.GrainStore(MemoryStorage(), Settings(keys=ring)) as store:
        yield store


@pytest.fixture(params=["plain", "sealed"])
def store(request: pytest.FixtureRequest, ring: KeyRing) -> Iterator[og.GrainStore]:
    with opened(ring if request.param == "sealed" else None) as store:
        yield store


@given(document=documents())
def test_a_second_import_of_anything_changes_nothing(document: dict[str, Any]) -> None:
    whole = of_document(document)
    with opened() as store, opened() as by_lines:
        first = import_bundle(store, whole)
        assert sum(first.counts.values()) == sum(map(len, whole.records.values()))
        before = holdings(store)
        again = import_bundle(store, whole, batch_size=2)
        assert {fate for _, fate in again.counts} <= {"unchanged", "conflict"}
        assert all(kind == "edge" for kind, fate in again.counts if fate == "conflict")
        assert holdings(store) == before
        told = import_bundle(by_lines, lines(whole), batch_size=2)
        assert holdings(by_lines) == before
        assert told.counts == first.counts


@given(document=documents())
def test_a_document_that_is_kept_comes_back(document: dict[str, Any]) -> None:
    whole = of_document(document)
    with opened() as store:
        summary = import_bundle(store, whole, keep_document=True, batch_size=2)
        if any(one.rule == "document_not_kept" for one in summary.warnings):
            twice = {("edge", fate) for fate in ("conflict", "updated", "unchanged")}
            assert summary.counts.keys() & twice  # one edge, said in two ways
            return
        grains = {grain.address: grain for grain in store}
        vectors = {
            address: formats.Vector("small", array("f", found["small"]).tobytes())
            for address in grains
            if "small" in (found := store.vectors.get(address))
        }
        dumped = formats.dump(grains.values(), format="aimem", vectors=vectors, embeddings=True)
        found_there = json.loads(dumped.data)
        zeros = {record["id"] for record in whole.records.get("chunk", ()) if _is_zero(record)}
        if not zeros:  # a vector without a direction is dropped, and told
            assert found_there["checksum"] == whole.envelope["checksum"]
        count = len(store)
        import_bundle(store, whole, keep_document=True)
        assert len(store) == count


def _is_zero(record: dict[str, Any]) -> bool:
    raw = base64.b64decode(record.get("embedding") or "")
    return bool(raw) and not any(array("f", raw))  # -0.0 is one, too


def many(count: int, start: int = 0, **fields: Any) -> list[dict[str, Any]]:
    return [chunk(n, f"content {n}", **fields) for n in range(start, start + count)]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_batches(store: og.GrainStore, size: int) -> None:
    edges = [edge(n % 7, (n + 1) % 7, weight=n / 20) for n in range(20)]
    whole = made(*many(7), edges=edges, entities=[entity()], links=[link(3)])
    summary = import_bundle(store, whole, batch_size=size)
    assert fates(summary) == {
        "chunk inserted": 7, "edge inserted": 7, "edge conflict": 13, "entity inserted": 1,
        "chunk_entity inserted": 1,
    }  # fmt: skip
    assert len(store) == 16
    assert len({one for one, _, _ in reasons(summary)}) == 7
    days = range(1, 9)
    newer = [edge(0, 1, created_at=f"2026-05-0{n}T00:00:00Z", weight=n / 99) for n in days]
    rising = made(*many(2), edges=newer)
    told = import_bundle(store, rising, batch_size=size)
    assert fates(told) == {"chunk unchanged": 2, "edge updated": 8}
    assert stored(store, f"{urn(0)} {urn(1)} causal")["confidence"] == 8 / 99
    assert len(store.history(stored(store, f"{urn(0)} {urn(1)} causal").address)) == 9


@pytest.mark.parametrize("size", [0, -1, True, 1.5])
def test_no_such_batch(store: og.GrainStore, size: Any) -> None:
    with pytest.raises(RangeError):
        import_bundle(store, made(), batch_size=size)


def test_a_failure_leaves_whole_batches(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = made(*many(10)), 0
    record = import_batch.record

    def failing(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise StoreError("the disk is full")
        return record(*args, **options)

    monkeypatch.setattr(import_batch, "record", failing)
    with pytest.raises(StoreError):
        import_bundle(store, whole, batch_size=3)
    assert len(store) == 6
    assert fates(import_bundle(store, whole, batch_size=3)) == {
        "chunk unchanged": 6, "chunk inserted": 4,
    }  # fmt: skip


KILLED = """
import os, sys
import omsgrain as og
from omsgrain.store import import_batch
from omsgrain.interchange.aimem_import import import_bundle
path, file, batches = sys.argv[1], sys.argv[2], int(sys.argv[3])
record, done = import_batch.record, 0
def counted(*args, **options):
    global done
    if done == batches:
        os.kill(os.getpid(), 9)
    done += 1
    return record(*args, **options)
import_batch.record = counted
with og.open(path) as store, open(file, "rb") as source:
    import_bundle(store, source, batch_size=5)
"""


def test_killed_between_batches_and_run_again(tmp_path: Path) -> None:
    given = many(12, embedding=embedding([1.0, 2.0]))
    whole = lines(made(*given, edges=[edge(0, 1)], entities=[entity()], links=[link(2)]))
    file, path = tmp_path / "b.ndjson", tmp_path / "memory.omsg"
    file.write_bytes(whole.getvalue())
    for batches in (1, 1):
        assert ended(KILLED, path, file, batches).returncode == -9
    with og.open(path) as store, opened() as once:
        assert len(store) == 10
        with file.open("rb") as source:
            summary = import_bundle(store, source)
        assert fates(summary)["chunk unchanged"] == 10
        assert fates(summary)["chunk inserted"] == 2
        import_bundle(once, whole)
        assert holdings(store) == holdings(once)
        assert store.maintenance.check().ok
        assert store.audit.verify().ok


def test_concurrent_changes_are_decided_again(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another import of the same chunk gets between deciding and storing."""
    record, others = import_batch.record, [chunk(content="coffee"), chunk(2, "milk")]

    def late(*args: Any, **options: Any) -> Any:
        if others:
            take(store, others.pop(0), *([others.pop()] if others else []))
        return record(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(import_batch, "record", late)
        summary = take(store, chunk(), chunk(2, "milk"), chunk(3))
    assert fates(summary) == {"chunk conflict": 1, "chunk unchanged": 1, "chunk inserted": 1}
    assert reasons(summary) == [(urn(1), "created_at_conflict", ())]
    assert stored(store, urn(1))["object"] == "coffee"
    assert len(store) == 3


def natives() -> list[dict[str, Any]]:
    base = {"user_id": TENANT, "created_at": 1_768_471_200_123}
    return [
        {"type": "belief", "subject": "rover", "relation": "sees", "object": "a door",
         "confidence": 0.25, "session_id": "s", **base},
        {"type": "event", "content": "the door opened", "structural_tags": ["door"], **base},
        {"type": "goal", "description": "charge", "goal_state": "active", "priority": 2, **base,
         "invalidation_policy": {"mode": "locked"}},
        {"type": "observation", "observer_id": "cam", "observer_type": "human",
         "subject": "door", "object": {"open": True}, **base},
    ]  # fmt: skip


@pytest.mark.parametrize("strict", [False, True])
def test_native_grains_that_come_back(store: og.GrainStore, strict: bool) -> None:
    for fields in natives():
        store.put(fields)
    take(store, chunk(), edges=[edge(1, 1)])
    before = holdings(store)
    for whole in export_bundle(store, TENANT, strict=strict):
        for source in (whole, lines(whole)):
            summary = import_bundle(store, source, batch_size=2)
            assert {fate for _, fate in summary.counts} == {"unchanged"}
    assert holdings(store) == before


def test_native_grains_in_another_store() -> None:
    with opened() as store, opened() as other:
        for fields in natives():
            store.put(fields)
        for whole in export_bundle(store, TENANT):
            assert fates(import_bundle(other, whole)) == {"chunk inserted": 4}
            assert holdings(other) == holdings(store)
            assert fates(import_bundle(other, whole)) == {"chunk unchanged": 4}
            theirs = import_bundle(other, whole, tenant=OTHER)
            assert fates(theirs) == {"chunk inserted": 4}
        mine = [grain for grain in other if grain["user_id"] == OTHER]
        assert len(mine) == 4
        assert all("x_src" in grain for grain in mine)


@pytest.mark.parametrize("strict", [False, True])
def test_a_native_grain_that_was_changed_on_its_way(store: og.GrainStore, strict: bool) -> None:
    address = store.put(natives()[1])
    (whole,) = export_bundle(store, TENANT, strict=strict)
    (record,) = whole.records["chunk"]
    record |= {"content": "the door closed", "content_hash": None}
    bad = import_bundle(store, whole)
    assert [reason for _, reason, _ in reasons(bad)] == ["created_at_conflict"]
    assert len(store) == 1
    if not strict:  # with its whole address it is found whatever its time
        newer = Bundle(whole.envelope, {"chunk": [record | {"created_at": NEWER}]})
        assert fates(import_bundle(store, newer)) == {"chunk updated": 1}
        assert store.status(address).superseded_by == stored(store, record["id"]).address
        assert fates(import_bundle(store, newer)) == {"chunk unchanged": 1}


def test_a_carried_grain_of_somebody_else_is_a_chunk(store: og.GrainStore) -> None:
    """Or a bundle could write into the memory of another tenant."""
    with opened() as elsewhere:
        elsewhere.put(natives()[0] | {"user_id": OTHER})
        (whole,) = export_bundle(elsewhere, OTHER)
    assert fates(import_bundle(store, whole, tenant=TENANT)) == {"chunk inserted": 1}
    (grain,) = store
    assert (grain["user_id"], "x_src" in grain) == (TENANT, True)
    assert fates(import_bundle(store, whole, tenant=TENANT)) == {"chunk unchanged": 1}


def test_our_own_stream_comes_back(store: og.GrainStore, tmp_path: Path) -> None:
    take(store, *many(5), edges=[edge(0, 1)], entities=[entity()], links=[link(2)])
    before = holdings(store)
    file = tmp_path / "b.ndjson"
    file.write_bytes(b"".join(export_stream(store, TENANT)))
    with file.open("rb") as source, opened() as other:
        assert {fate for _, fate in import_bundle(store, source).counts} == {"unchanged"}
        source.seek(0)
        import_bundle(other, source)
        assert holdings(store) == before == holdings(other)


def test_find_origins(store: og.GrainStore) -> None:
    long = chunk("x" * 200)
    take(store, chunk(), long, chunk(2))
    take(store, chunk(content="coffee", created_at=NEWER))
    names = [urn(1), urn("x" * 200), urn(2), urn("none"), urn(1)]
    found = find_origins(store, names, user_id=TENANT)
    assert {name: [one.current for one in several] for name, several in found.items()} == {
        urn(1): [True, False], urn("x" * 200): [True], urn(2): [True],
    }  # fmt: skip
    assert [one.grain["object"] for one in found[urn(1)]] == ["coffee", "tea at four"]
    for one in (one for several in found.values() for one in several):
        assert store.get(one.address) == one.grain
    hits = store.query(origin=urn("x" * 200), user_id=TENANT).results
    assert [hit.address for hit in hits] == [found[urn("x" * 200)][0].address]
    assert find_origins(store, names, user_id=OTHER) == {}
    with open_sources(context_of(store), TENANT) as snapshot:
        one = found[urn(2)][0]
        assert snapshot.get(plain(one.grain)) == one
        assert snapshot.begins(one.address[:32], one.grain["created_at"]) == one
        assert snapshot.begins("0" * 32, one.grain["created_at"]) is None
    with open_sources(context_of(store), OTHER) as snapshot:
        assert snapshot.get(plain(one.grain)) is None
        assert snapshot.begins(one.address[:32], one.grain["created_at"]) is None


def test_a_tenant_of_whom_nothing_is_here_costs_one_look_up(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    take(store, *many(3), tenant=OTHER)
    asked: list[str] = []

    class Counting:
        def __init__(self, reader: Any) -> None:
            self._reader = reader

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            return getattr(self._reader, name)

    with open_sources(context_of(store), TENANT) as snapshot:
        monkeypatch.setattr(snapshot, "_plain", Counting(snapshot._plain))
        assert snapshot.find([urn(n) for n in range(500)]) == {}
    assert asked == ["term_count"]


def test_a_step_that_is_refused_does_nothing(store: og.GrainStore) -> None:
    """Of a record in parts, the parts do not stay either; what went meanwhile is decided again."""
    record = chunk(extra="x" * 2_000_000)
    built = TABLE.to_grain("chunk", record, owner=TENANT)
    locked = store.put(natives()[2])
    parts = tuple(built.parts)
    steps = [
        ImportStep(urn(1), (), built.grain, parts, replaces="ab" * 32),
        ImportStep(urn(1), (), built.grain, parts, replaces=locked, justification="so"),
        ImportStep(urn(2), (), TABLE.to_grain("chunk", chunk(2), owner=TENANT).grain),
    ]
    outcomes = import_batch.record(context_of(store), steps, user_id=TENANT, since=1).outcomes
    assert [outcome.moved for outcome in outcomes] == [True, False, False]
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]
    assert len(store) == 2
    assert TIME < NEWER
