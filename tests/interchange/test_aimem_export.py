# SPDX-License-Identifier: Apache-2.0
"""Exporting a tenant: what leaves, in which order, in which bundle, and what stays."""

from __future__ import annotations

import gc
import json
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

import omsgrain as og
from omsgrain import errors as err
from omsgrain import formats
from omsgrain.formats.aimem import document as bundle
from omsgrain.formats.aimem import document as stream
from omsgrain.formats.aimem import records as native
from omsgrain.formats.aimem.fields import ARRAYS
from omsgrain.formats.aimem.records import TABLE
from omsgrain.grain import Grain
from omsgrain.interchange.aimem_export import export_bundle, export_stream
from omsgrain.interchange.export import AimemExportReport
from omsgrain.privacy import load
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from support.aimem_memory import (
    ADA,
    GRACE,
    NOW,
    canonical,
    chunk,
    edge,
    entity,
    fill,
    link,
    name,
    sample,
)
from support.aimem_strategies import documents, embedding
from support.invented_people import EITHER, Clock, opened
from support.mif_imports import MAKERS


@pytest.fixture(params=EITHER)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[GrainStore]:
    with opened(request.param, tmp_path, Settings(actor="tester", clock=Clock(NOW))) as made:
        yield made


@pytest.fixture
def plain() -> Iterator[GrainStore]:
    with GrainStore(MemoryStorage(), Settings(clock=Clock(NOW))) as made:
        yield made


def only(store: GrainStore, tenant: str = ADA, **options: Any) -> bundle.Bundle:
    """The one bundle of an export, which is valid."""
    (found,) = export_bundle(store, tenant, **options)
    read = bundle.read_bundle(bundle.write_bundle(found))
    assert read.envelope["checksum"] == found.envelope["checksum"]
    return found


def ids(found: bundle.Bundle) -> list[str]:
    return [record["id"].rpartition(":")[2] for record in found.records["chunk"]]


def lines(pieces: Iterator[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in b"".join(pieces).splitlines()]


def sizes(found: bundle.Bundle) -> list[int]:
    return [len(found.records[kind]) for kind in ARRAYS.values()]


# --- what was imported leaves as it came ---------------------------------------------------------


@given(documents())
def test_records_leave_as_they_came(document: dict[str, Any]) -> None:
    with GrainStore(MemoryStorage()) as store:
        fill(store, document, document["tenant_id"])
        found = only(store, document["tenant_id"])
    for array, kind in ARRAYS.items():
        records = document.get(array, [])
        bare = [{n: v for n, v in one.items() if n != "embedding" or v is None} for one in records]
        assert sorted(canonical(found.records[kind])) == sorted(set(canonical(bare)))


def test_records_leave_every_store(store: GrainStore) -> None:
    document = sample()
    fill(store, document)
    found = only(store)
    for array, kind in ARRAYS.items():
        assert sorted(canonical(found.records[kind])) == sorted(canonical(document[array]))
    assert found.envelope["exported_at"] == "2027-01-15T08:00:00Z"


def test_a_record_in_parts_leaves_whole(store: GrainStore) -> None:
    large = chunk("large", note="\u00e9" * 700_000)
    fill(store, {"chunks": [large, chunk("small")]})
    report = AimemExportReport()
    found = only(store, report=report)
    assert ids(found) == ["large", "small"]
    assert canonical(found.records["chunk"][:1]) == canonical([large])
    assert report.passed_over > 1 and report.losses == []


def test_chunks_leave_by_time_and_then_by_arrival(store: GrainStore) -> None:
    at = ["2026-04-02T00:00:00Z", "2026-04-01T00:00:00Z"]
    names = [f"c{i}" for i in range(12)]
    fill(store, {"chunks": [chunk(n, created_at=at[i % 2]) for i, n in enumerate(names)]})
    assert ids(only(store)) == [*names[1::2], *names[::2]]


def test_of_two_that_were_one_the_newer_leaves(plain: GrainStore) -> None:
    """As two stores have them that were merged."""
    records: list[tuple[Any, dict[str, Any]]] = [
        ("chunk", chunk("1")),
        ("chunk_entity", link("1", "e")),
    ]
    records += [("entity", entity("e") | more) for more in LATER]
    for kind, record in records:
        plain.put(TABLE.to_grain(kind, record, owner=ADA).grain)
    report = AimemExportReport()
    found = only(plain, report=report)
    assert [one["name"] for one in found.records["entity"]] == ["Bea"]
    assert [(loss.field, loss.record) for loss in report.losses] == [("id", "1 entities")]


LATER = [{"name": "Bea", "created_at": "2026-04-02T00:00:00Z"},
         {"name": "Ada", "created_at": "2026-04-01T00:00:00Z"}]  # fmt: skip


def test_the_same_store_and_time_give_the_same_bytes(store: GrainStore) -> None:
    fill(store, sample())
    once = bundle.write_bundle(only(store))
    assert bundle.write_bundle(only(store)) == once
    assert b"".join(export_stream(store, ADA)) == b"".join(export_stream(store, ADA))
    assert bundle.write_bundle(only(store, now=NOW + 1)) != once


def test_a_tenant_without_memory_has_an_empty_bundle(store: GrainStore) -> None:
    fill(store, sample(), GRACE)
    found = only(store, producer="robot-1")
    assert sizes(found) == [0, 0, 0, 0]
    assert (found.envelope["producer"], found.envelope["tenant_id"]) == ("robot-1", ADA)


def test_tenants_do_not_see_each_other(store: GrainStore) -> None:
    fill(store, sample(), ADA)
    fill(store, {"chunks": [chunk("tea", "Grace drinks coffee."), chunk("own")]}, GRACE)
    ada = b"".join(export_stream(store, ADA))
    grace = b"".join(export_stream(store, GRACE))
    assert GRACE.encode() not in ada and b"coffee" not in ada
    assert ADA.encode() not in grace and b"kettle" not in grace
    assert len(lines(iter([grace]))) == 3


# --- scopes --------------------------------------------------------------------------------------


def test_dna_only(store: GrainStore) -> None:
    fill(store, sample())
    found = only(store, scope="DNA_ONLY")
    assert ids(found) == ["tea", "pin"]
    assert sizes(found) == [2, 1, 1, 1]
    assert found.envelope["scope"] == "DNA_ONLY"


def test_since_is_an_instant_and_inclusive(store: GrainStore) -> None:
    fill(store, sample())
    found = only(store, scope="SINCE", since="2026-04-03T00:00:00.000Z")
    assert ids(found) == ["pin", "late"]
    assert sizes(found) == [2, 0, 0, 0]
    assert found.envelope["since"] == "2026-04-03T00:00:00.000Z"
    assert ids(only(store, scope="SINCE", since="2026-05-01T00:00:00.250001Z")) == []
    for hour in ("1h", timedelta(hours=1)):
        now = 1_775_178_000_000  # 2026-04-03T01:00:00Z
        found = only(store, scope="SINCE", since=hour, now=now)
        assert (ids(found), found.envelope["since"]) == (["pin", "late"], "2026-04-03T00:00:00Z")


@pytest.mark.parametrize("created_at", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_since_knows_times_that_a_grain_cannot_have(plain: GrainStore, created_at: str) -> None:
    fill(plain, {"chunks": [chunk("a", created_at=created_at)]})
    assert ids(only(plain, scope="SINCE", since=created_at)) == ["a"]


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({"scope": "ALL"}, "invalid_scope"),
        ({"scope": "SINCE"}, "since_missing"),
        ({"scope": "SINCE", "since": "yesterday"}, "invalid_timestamp"),
        ({"since": "2026-04-03T00:00:00Z"}, "invalid_scope"),
        ({"producer": "Robot"}, "invalid_producer"),
        ({"only_producer": ""}, "invalid_producer"),
        ({"tenant_id": "ada"}, "invalid_tenant"),
    ],
)
def test_invalid_queries(plain: GrainStore, options: dict[str, Any], rule: str) -> None:
    for export in (export_bundle, export_stream):
        with pytest.raises(err.SchemaError) as caught:
            export(plain, ADA, **options)
        assert caught.value.rule == rule


def test_a_user_id_that_is_no_tenant_id(plain: GrainStore) -> None:
    fill(plain, {"chunks": [chunk("a")]}, "ada")
    with pytest.raises(err.SchemaError):
        export_bundle(plain, "ada")
    assert ids(only(plain, "ada", tenant_id=ADA)) == ["a"]


# --- what stays ----------------------------------------------------------------------------------


def test_only_what_is_current_leaves(store: GrainStore) -> None:
    there = fill(
        store, {"chunks": [chunk("a"), chunk("b"), chunk("c")], "edges": [edge("a", "b")]}
    )
    newer = TABLE.to_grain(
        "chunk", chunk("a", "new", created_at="2026-06-01T00:00:00Z"), owner=ADA
    )
    store.supersede(there[name("a")], newer.grain)
    store.privacy.restrict(there[name("b")], reason_code="asked")
    store.retract(there[name("c")])
    found = only(store)
    assert [one["content"] for one in found.records["chunk"]] == ["new"]
    assert sizes(found) == [1, 0, 0, 0]


def test_a_preset_keeps_what_it_keeps_from_a_transfer(plain: GrainStore) -> None:
    strict = GrainStore(
        context_of(plain).inner, replace(context_of(plain).settings, preset=load("gdpr"))
    )
    fill(plain, sample())
    for export in (export_bundle, export_stream):
        with pytest.raises(err.OmsError) as caught:
            export(strict, ADA)
        with pytest.raises(err.OmsError) as as_file:
            strict.export_mg("/dev/null", user_id=ADA)
        assert (caught.value.code, caught.value.rule) == (
            as_file.value.code,
            as_file.value.rule,
        )
    assert sum(sizes(only(strict, purpose="access"))) == 9
    assert [one.operation for one in plain.audit.entries()].count("export") == 1


def test_sealed_grains_without_keys_are_refused(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings()) as store:
        fill(store, sample())
        without = GrainStore(context_of(store).inner)
        for export in (export_bundle, export_stream):
            with pytest.raises(err.KeyMissingError):
                export(without, ADA)


def test_a_forged_record_spoils_no_bundle(plain: GrainStore) -> None:
    """A writer can mark a grain as a chunk of any sort."""
    forged = [
        {"f": "aimem", "k": "chunk", "id": "no urn"},
        {"f": "aimem", "k": "chunk", "id": name("a"), "r": {"=": 1}},
        {"f": "aimem", "k": "edge", "id": name("a")},
        {"f": "aimem", "k": "chunk", "id": name("b"), "p": ["0" * 64]},
        {"f": "aimem", "k": "chunk", "id": name("c"), "p": ["x"]},
    ]
    for i, source in enumerate(forged):
        fields = {"type": "event", "content": f"e{i}", "created_at": 1, "user_id": ADA}
        plain.put(fields | {"x_src": json.dumps(source).encode()})
    fill(plain, {"chunks": [chunk("good")]})
    found = {one.envelope["producer"]: one for one in export_bundle(plain, ADA)}
    assert ids(found["robot-7"]) == ["good"]
    assert sizes(found["omsgrain"]) == [5, 0, 0, 0]
    for one in found.values():
        bundle.read_bundle(bundle.write_bundle(one))


def test_a_record_has_no_parts_of_another_tenant(store: GrainStore) -> None:
    built = TABLE.to_grain("chunk", chunk("large", note="\u00e9" * 700_000), owner=GRACE)
    store.put_many([*built.parts, built.grain])
    fields = {"type": "event", "content": "x", "created_at": 1, "user_id": ADA}
    store.put(fields | {"x_src": built.grain["x_src"]})
    found = only(store)
    assert [one["content"] for one in found.records["chunk"]] == ["x"]


def test_of_two_current_chunks_of_one_urn_the_newer_leaves(plain: GrainStore) -> None:
    fill(plain, {"chunks": [chunk("a", "new", created_at="2026-06-01T00:00:00Z"), chunk("a")]})
    report = AimemExportReport()
    assert [one["content"] for one in only(plain, report=report).records["chunk"]] == ["new"]
    assert report.lost == 1


# --- natives -------------------------------------------------------------------------------------


def test_natives_leave_under_our_own_producer(store: GrainStore) -> None:
    fill(store, sample())
    native_one = {"type": "event", "content": "It rained.", "created_at": 5, "user_id": ADA}
    address = store.put(native_one | {"importance": 0.5})
    found = {one.envelope["producer"]: one for one in export_bundle(store, ADA, producer="me")}
    assert list(found) == ["me", "robot-7"]
    (made,) = found["me"].records["chunk"]
    whole = Grain(store.get(address).blob)
    assert made["id"] == name(whole.address[:32], "me") and made["content"] == "It rained."
    assert native.carried(made) == whole
    report = AimemExportReport()
    stripped = export_bundle(store, ADA, strict=True, report=report)
    assert native.MEMBER not in stripped[0].records["chunk"][0]
    assert [loss.field for loss in report.losses] == ["importance"]


@pytest.mark.parametrize("strict", [False, True])
def test_invented_values_are_reported_as_added(plain: GrainStore, strict: bool) -> None:
    """A chunk has a type and a time, and a memory of MIF may lack both."""
    T = "2026-04-01T00:00:00Z"
    said: list[tuple[dict[str, Any], set[str]]] = [
        ({"created_at": T}, {"memory_type"}),
        ({"created_at": T, "memory_type": "observation"}, set()),
        ({"created_at": "yesterday", "memory_type": "decision"}, {"created_at"}),
        ({"created_at": "", "memory_type": "observation"}, {"created_at"}),
        ({"created_at": "yesterday"}, {"memory_type", "created_at"}),
        ({"created_at": "1970-01-01", "memory_type": "preference"}, set()),
        ({"created_at": "1970-01-01T00:00:00Z", "memory_type": "observation"}, set()),
    ]
    memories = [MAKERS[0].memory(i, f"memory {i}") for i in range(len(said))]
    for memory, (fields, _) in zip(memories, said, strict=True):
        for name_ in ("created_at", "memory_type"):
            memory.pop(name_, None)
        memory |= fields
    MAKERS[0].take(plain, *memories, user_id=ADA)
    plain.put({"type": "state", "context": {"at": "home"}, "created_at": 0, "user_id": ADA})
    report = AimemExportReport()
    chunks = only(plain, strict=strict, report=report).records["chunk"]
    by_id = {one["id"]: one["content"] for one in chunks}
    found: dict[str, set[str]] = {}
    for one in report.added:
        found.setdefault(by_id[name(one.record[:32], "omsgrain")], set()).add(one.field)
    assert found == {f"memory {i}": fields for i, (_, fields) in enumerate(said) if fields}
    assert report.lost == len(report.losses) and bool(report.losses) is strict
    dumped = formats.dump(list(plain), format="aimem", tenant_id=ADA, strict=strict)
    assert {(one.field) for one in dumped.added} == {"memory_type", "created_at"}


def test_one_bundle_a_producer(store: GrainStore) -> None:
    foreign = {"id": name("f", "cloud"), "created_at": "2026-04-05T00:00:00Z"}
    fill(
        store,
        {
            "chunks": [chunk("a"), chunk("f") | foreign],
            "edges": [edge("a", "a"), edge("a", "f") | {"target_id": foreign["id"]}],
            "entities": [entity("e"), entity("lone")],
            "chunk_entities": [link("a", "e"), link("f", "e") | {"chunk_id": foreign["id"]}],
        },
    )
    report = AimemExportReport()
    cloud, robot = export_bundle(store, ADA, report=report)
    assert [one.envelope["producer"] for one in (cloud, robot)] == ["cloud", "robot-7"]
    assert sizes(cloud) == [1, 0, 1, 1] and sizes(robot) == [1, 1, 2, 1]
    assert [(loss.field) for loss in report.losses] == ["edge"]
    for one in (cloud, robot):
        bundle.read_bundle(bundle.write_bundle(one))
    with pytest.raises(err.UnsupportedError) as caught:
        export_stream(store, ADA)
    assert caught.value.rule == "several_producers"
    first, *rest = lines(export_stream(store, ADA, only_producer="cloud"))
    assert first["checksum"] == cloud.envelope["checksum"] and len(rest) == 3
    assert sizes(only(store, only_producer="nobody")) == [0, 0, 0, 0]
    whole = only(store, together=True, report=(told := AimemExportReport()))
    assert sizes(whole) == [2, 2, 2, 2] and whole.envelope["producer"] == "omsgrain"
    assert (told.named, told.producers, told.lost) == (("cloud", "robot-7"), ("omsgrain",), 0)
    assert only(store, together=True, only_producer="cloud") == cloud


def test_an_export_needs_no_files(store: GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export writes no sealed grain to the disk unencrypted."""
    fill(store, sample())

    def none(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr("omsgrain.crypto.seal.SpooledTemporaryFile", none)
    assert len(lines(export_stream(store, ADA))) == 10
    assert only(store).records["chunk"]


def test_an_export_that_is_to_end_ends_before_its_first_piece(store: GrainStore) -> None:
    fill(store, sample())

    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    with pytest.raises(Ended):
        export_stream(store, ADA, alive=end)


# --- embeddings ----------------------------------------------------------------------------------


def test_embeddings_leave_when_they_are_asked_for(store: GrainStore) -> None:
    given_one = embedding([1.0, -0.5])
    fill(store, {"chunks": [chunk("a", embedding=given_one), chunk("b", embedding=None)]})
    found = only(store, include_embeddings=True)
    assert [one.get("embedding") for one in found.records["chunk"]] == [given_one, None]
    assert found.envelope["embedding_model"] == "small"
    assert found.envelope["embedding_dim"] == 2
    without = only(store)
    assert "embedding_model" not in without.envelope
    assert "embedding" not in without.records["chunk"][0]


def test_a_bundle_has_embeddings_of_one_model(store: GrainStore) -> None:
    there = fill(store, {"chunks": [chunk("a", embedding=embedding([1.0])), chunk("b")]})
    store.vectors.add(there[name("b")], [0.5, 0.5], model="large")
    with pytest.raises(err.UnsupportedError) as caught:
        export_bundle(store, ADA, include_embeddings=True)
    assert caught.value.found == "large, small"
    report = AimemExportReport()
    found = only(store, include_embeddings=True, embedding_model="large", report=report)
    assert found.envelope["embedding_dim"] == 2
    assert ["embedding" in one for one in found.records["chunk"]] == [False, True]
    assert [loss.record for loss in report.losses] == [name("a")]
    none = only(store, include_embeddings=True, embedding_model="tiny")
    assert "embedding_model" not in none.envelope


def test_models_of_other_tenants_are_not_shown(store: GrainStore) -> None:
    fill(store, {"chunks": [chunk("a", embedding=embedding([1.0]))]}, ADA, "of-ada")
    fill(store, {"chunks": [chunk("a", embedding=embedding([1.0]))]}, GRACE, "of-grace")
    assert only(store, include_embeddings=True).envelope["embedding_model"] == "of-ada"


def test_two_dimensions_of_one_model(store: GrainStore) -> None:
    """Each tenant's vectors leave as they came; of one tenant those of the usual dimension."""
    fill(store, {"chunks": [chunk("a", embedding=embedding([1.0]))]}, GRACE, "m")
    fill(store, {"chunks": [chunk(n, embedding=embedding([1.0, 2.0])) for n in "ab"]}, ADA, "m")
    fill(store, {"chunks": [chunk("c", embedding=embedding([1.0, 2.0, 3.0]))]}, ADA, "m")
    report = AimemExportReport()
    found = only(store, include_embeddings=True, report=report)
    assert found.envelope["embedding_dim"] == 2
    assert sum("embedding" in one for one in found.records["chunk"]) == 2
    assert [(loss.record, loss.field) for loss in report.losses] == [("1 chunks", "embedding")]


# --- by lines ------------------------------------------------------------------------------------


def test_a_stream_is_the_bundle(store: GrainStore) -> None:
    fill(store, sample() | {"chunks": [*sample()["chunks"], chunk("v", embedding=embedding([1]))]})
    whole = only(store, include_embeddings=True)
    data = b"".join(export_stream(store, ADA, include_embeddings=True, piece=1))
    scanned = stream.scan(BytesIO(data))
    assert scanned.envelope == whole.envelope and list(scanned.counts.values()) == sizes(whole)
    for kind, record in stream.records(BytesIO(data)):
        assert record in whole.records[kind]


def test_an_export_is_noted_once_without_the_tenant(store: GrainStore) -> None:
    fill(store, sample())
    only(store)
    list(export_stream(store, ADA, actor="service"))
    noted = [one for one in store.audit.entries() if one.operation == "export"]
    assert [one.details["grains"] for one in noted] == [9, 9]
    assert [one.actor for one in noted] == ["tester", "service"]
    assert ADA not in repr(noted) and store.audit.verify().ok


def test_a_removal_ends_a_running_stream(store: GrainStore) -> None:
    there = fill(store, {"chunks": [chunk("a"), chunk("b")]})
    acts: list[Callable[[], object]] = [
        lambda: store.privacy.restrict(there[name("a")], reason_code="asked"),
        lambda: store.delete(there[name("b")]),
    ]
    for act in acts:
        pieces = export_stream(store, ADA, piece=1)
        next(pieces)
        act()
        with pytest.raises(err.StoreError):
            list(pieces)


def test_new_or_superseded_grains_do_not_change_a_stream(store: GrainStore) -> None:
    there = fill(store, {"chunks": [chunk("a"), chunk("b")]})
    before = b"".join(export_stream(store, ADA))
    pieces = export_stream(store, ADA, piece=1)
    first = next(pieces)
    newer = TABLE.to_grain(
        "chunk", chunk("a", "new", created_at="2026-06-01T00:00:00Z"), owner=ADA
    )
    store.supersede(there[name("a")], newer.grain)
    fill(store, {"chunks": [chunk("c")]})
    assert first + b"".join(pieces) == before


def test_a_changed_embedding_ends_a_stream(store: GrainStore) -> None:
    there = fill(store, {"chunks": [chunk("a", embedding=embedding([1.0]))]})
    pieces = export_stream(store, ADA, include_embeddings=True, piece=1 << 20)
    next(pieces)
    store.vectors.add(there[name("a")], struct.pack("<f", 2.0), model="small")
    with pytest.raises(err.StoreError):
        list(pieces)


def test_a_stream_holds_few_records_at_a_time(plain: GrainStore, long: bool) -> None:
    count = 20_000 if long else 1_500
    grains = [
        TABLE.to_grain("chunk", chunk(f"c{i}", "word " * 20), owner=ADA).grain
        for i in range(count)
    ]
    plain.put_many(grains)
    del grains
    gc.collect()
    pieces = export_stream(plain, ADA, piece=1)
    next(pieces)
    seen, most = 0, 0
    for _ in pieces:
        seen += 1
        if seen % 200 == 0:
            alive = [one for one in gc.get_objects() if type(one) is Grain]
            held = [one for one in gc.get_objects() if type(one) is dict and "memory_type" in one]
            most = max(most, len(alive) + len(held))
    assert seen == count and most < 600


def test_nothing_of_it_is_open_between_pieces(tmp_path: Path) -> None:
    """A snapshot that waited for a slow reader would keep the writer from growing the file."""
    with og.open(tmp_path / "s.omsg") as store:
        fill(store, sample())
        pieces = export_stream(store, ADA, piece=1)
        next(pieces)
        for i in range(4):
            store.put_many(
                [TABLE.to_grain("chunk", chunk(f"n{i}", "x" * 60_000), owner=GRACE).grain]
            )
            store.maintenance.compact()
        assert len(list(pieces)) == 9
