# SPDX-License-Identifier: Apache-2.0
"""Kept data of documents and of other systems, as long as its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import _core
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import InvalidationDeniedError, NotFoundError
from omsgrain.formats.document import Manifest, manifest, open_manifest
from omsgrain.formats.mif2.format import MIF2 as MIF2_FORMAT
from omsgrain.formats.source import NAMES, Source
from omsgrain.grain import make
from omsgrain.interchange.mif_export import export_document
from omsgrain.interchange.mif_import import import_document
from omsgrain.memory import removal, verbs
from omsgrain.store.context import Settings
from support.aimem_imports import holdings
from support.counted_reads import CountedStorage
from support.invented_people import belief
from support.mif_imports import (
    MAKERS,
    NOW,
    USER,
    Maker,
    contents,
    current,
    kept_documents,
    opened,
    uuid,
)
from support.store_kinds import POSTGRES, SEALED_POSTGRES, made

MIF2 = MAKERS[0]
GRAPH: dict[str, Any] = {
    "entities": [{"id": "ent-1", "name": "Tea"}, {"id": "ent-2", "name": "Milk"}],
    "relationships": [],
}


def vendors(*numbers: int, **more: Any) -> dict[str, Any]:
    """Data of another system about some memories, and about no memory."""
    said = {uuid(number): {"note": f"about {number}"} for number in numbers}
    return {"other-memory": {"version": "1.2", "memory_metadata": said, **more}}


def document(*numbers: int, **members: Any) -> dict[str, Any]:
    memories = members.pop("memories", None)
    if memories is None:
        memories = [MIF2.memory(number, f"text {number}") for number in numbers]
    return MIF2.document(*memories, **{"vendor_extensions": vendors(*numbers), **members})


def rules(store: og.GrainStore, given: dict[str, Any], **options: Any) -> set[str]:
    report = import_document(store, MIF2.load(given), **options)
    return {one.rule for one in report.warnings if one.rule.startswith("document")}


def said(store: og.GrainStore, **options: Any) -> dict[str, Any]:
    """Data of other systems in a new document."""
    written = json.loads(export_document(store, USER, **options)[0].data)
    found: dict[str, Any] = written.get("vendor_extensions", {})
    return found


def kept(store: og.GrainStore, **options: Any) -> dict[str, Any]:
    data = export_document(store, USER, document="exp_a1b2", **options)[0].data
    found: dict[str, Any] = json.loads(data)
    return found


@pytest.mark.parametrize("kind", ["memory", "lmdb", "sealed lmdb", POSTGRES, SEALED_POSTGRES])
@pytest.mark.parametrize("purpose", ["transfer", "access"])
def test_a_kept_document_is_looked_up(tmp_path: Path, kind: str, purpose: str) -> None:
    """It read all of the user's grains: 130 ms with 20,000 of them, 310 ms if encrypted."""
    counted, read = CountedStorage(made(kind, tmp_path / "m.omsg")), list[tuple[int, int]]()
    with KeyRing.create(tmp_path / "x.keys", master=bytes(32)) as ring:
        settings = Settings(keys=ring if "sealed" in kind else None, clock=lambda: NOW)
        with og.GrainStore(counted, settings) as store:
            rules(store, document(1, 2))
            for many in (10, 500):
                grains = [belief(f"{many} {n}", user_id=USER) for n in range(many)]
                added = store.put_many(grains).addresses
                store.privacy.restrict(*filter(None, added[::2]), reason_code="asked")
                counted.rows = counted.calls = 0
                assert kept(store, purpose=purpose) == document(1, 2)
                read.append((counted.rows, counted.calls))
    assert read[0] == read[1]


@pytest.mark.parametrize("maker", MAKERS)
def test_a_document_whose_id_no_grain_can_have_is_known_by_its_hash(
    store: og.GrainStore, maker: Maker
) -> None:
    whole = maker.document(maker.memory(1, "tea"))
    whole["export_meta" if maker is MIF2 else "export"]["id"] = "\ufeffexp"
    import_document(store, maker.load(whole))
    (id,) = kept_documents(store)
    assert json.loads(export_document(store, USER, document=id)[0].data) == whole
    for other in ("\ufeffexp", "\ud800", "", MIF2.id(1)):
        with pytest.raises(NotFoundError):
            export_document(store, USER, document=other)


def test_a_document_with_a_bad_record_is_kept_without_it(store: og.GrainStore) -> None:
    given = document(1, 2, 3, generator={"name": "other", "version": "1"}, x_more=[None])
    del given["memories"][1]["content"]
    assert "document_kept_in_part" in rules(store, given, dry_run=True)
    assert rules(store, given) == {"document_kept_in_part"}
    del given["memories"][1]
    assert json.dumps(kept(store)) == json.dumps(given)
    assert said(store) == vendors(1, 2, 3)


def test_of_a_document_without_a_good_record_the_rest_is_kept(store: og.GrainStore) -> None:
    given = document(1)
    given["memories"][0]["content"] = None
    assert rules(store, given) == {"document_kept_in_part"}
    assert kept(store) == {**given, "memories": []}


def test_refused_records_take_their_vendor_data_along(store: og.GrainStore) -> None:
    MIF2.take(store, MIF2.memory(1, "tea"))
    store.holds.add(current(store, uuid(1)).address, authority="court", reason_code="case")
    assert rules(store, document(1, 2)) == {"document_kept_in_part"}
    assert kept(store) == {**document(2)}


@pytest.mark.parametrize("strict", [False, True])
def test_vendor_data_is_exported(store: og.GrainStore, strict: bool) -> None:
    rules(store, document(1, 2))
    more = {
        **vendors(2, version="2.0", memory_metadata={uuid(2): {"tier": "hot"}}),
        "b": [1, None],
    }
    rules(store, document(2, 3, vendor_extensions=more))
    found = said(store, strict=strict)
    found.pop("omsgrain", None)
    assert found == {
        "other-memory": {
            "version": "2.0",
            "memory_metadata": {
                uuid(1): {"note": "about 1"},
                uuid(2): {"note": "about 2", "tier": "hot"},
            },
        },
        "b": [1, None],
    }
    losses = export_document(store, USER, format="mif1")[1].losses
    assert {one.field for one in losses} >= {
        "vendor_extensions/other-memory",
        "vendor_extensions/b",
    }


def test_vendor_data_follows_a_renamed_record(store: og.GrainStore) -> None:
    node = {"id": uuid(1), "name": uuid(1), "types": ["memory"]}
    graph = {"entities": [node], "relationships": []}
    MIF2.take(store, MIF2.memory(1, "tea"), vendor_extensions=vendors(1), knowledge_graph=graph)
    report = import_document(
        store, MIF2.load(document(1, knowledge_graph=graph)), merge_strategy="rename"
    )
    # The entity stands for the memory still.
    (new,) = {one.new_id for one in report.records if one.fate == "renamed"}
    assert len(report.errors) == 0
    found = said(store)["other-memory"]["memory_metadata"]
    assert set(found) == {uuid(1), new}


def test_grains_come_back_beside_what_other_systems_say(store: og.GrainStore) -> None:
    rules(store, document(1))
    event = {"type": "event", "content": "the door", "user_id": USER, "created_at": 5}
    store.put(event)
    data = export_document(store, USER)[0].data
    with opened() as other:
        report = import_document(other, data)
        assert report.count("imported") == 2
        assert make(event).address in {grain.address for grain in other}
        assert said(other) == said(store)
        assert (
            json.loads(export_document(other, USER)[0].data)["memories"]
            == (json.loads(data)["memories"])
        )


def test_our_vendor_data_of_a_memory_is_exported(store: og.GrainStore) -> None:
    of = {"memory_metadata": {uuid(1): {"importance": 0.7}}, "grains": {"0" * 64: "AAAA"}}
    rules(store, document(1, vendor_extensions={"omsgrain": of}))
    assert said(store) == {"omsgrain": {"memory_metadata": {uuid(1): {"importance": 0.7}}}}
    assert said(store, strict=True) == {}


def test_nothing_of_our_own_is_left_over(store: og.GrainStore) -> None:
    MIF2.take(store, MIF2.memory(1, "tea"))
    assert "vendor_extensions" not in json.loads(export_document(store, USER)[0].data)


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite"])
@pytest.mark.parametrize("tags", [[], ["hot"]])
def test_vendor_data_of_a_duplicate_is_reported_as_lost(
    store: og.GrainStore, strategy: str, tags: list[str]
) -> None:
    """The memory that it repeats leaves under another id, and keeps what is said of that one."""
    rules(store, document(1))
    again = document(2, memories=[MIF2.memory(2, "text 1", tags=tags)])
    rules(store, again, merge_strategy=strategy)
    assert said(store) == vendors(1)
    losses = export_document(store, USER)[1].losses
    assert [(one.record, one.field) for one in losses if one.record == uuid(2)] == [
        (uuid(2), "vendor_extensions")
    ]
    verbs.forget(store, USER, uuid(1))
    assert not export_document(store, USER)[1].losses


def test_vendor_data_stays_with_records_that_stay(store: og.GrainStore) -> None:
    old = MIF2.memory(1, "old", created_at="2020-01-01T00:00:00Z")
    said_of = vendors(1, 2, of={"ent-1": "hot", uuid(77): "a session"})
    given = MIF2.document(old, MIF2.memory(2, "new"), knowledge_graph=GRAPH,
                          vendor_extensions=said_of)  # fmt: skip
    rules(store, given)
    assert said(store) == said_of
    found = said(store, since="2026-01-01T00:00:00Z", include_graph=False)["other-memory"]
    assert found["memory_metadata"] == {uuid(2): {"note": "about 2"}}
    assert found["of"] == {uuid(77): "a session"}
    store.delete(current(store, uuid(2)).address)
    assert set(said(store)["other-memory"]["memory_metadata"]) == {uuid(1)}


def test_forgetting_takes_vendor_data_along(store: og.GrainStore) -> None:
    rules(store, document(1, 2))
    rules(store, document(3, vendor_extensions=vendors(1)))  # of what is not in it
    verbs.forget(store, USER, uuid(1))
    assert said(store) == vendors(2)
    assert rules(store, document(1, 2)) == {"document_kept_in_part"}
    assert said(store) == vendors(2)
    before = holdings(store)
    rules(store, document(1, 2))
    assert holdings(store) == before
    assert not any(b"about 1" in grain.blob for grain in store)
    assert "document_kept_in_part" not in rules(store, document(1, 2), allow_erased=True)
    assert said(store) == vendors(1, 2)


def test_a_grain_deleted_for_good_comes_with_no_import(store: og.GrainStore) -> None:
    rules(store, document(1, 2))
    removal.delete(store, current(store, uuid(1)).address, erased="forgotten")
    rules(store, document(1, 2))
    assert not left(store, b"about 1")
    assert len(contents(store)) == 1


def test_protected_memories_are_not_forgotten(store: og.GrainStore) -> None:
    rules(store, document(1, 2))
    store.holds.add(current(store, uuid(1)).address, authority="court", reason_code="case")
    before = holdings(store)
    with pytest.raises(InvalidationDeniedError):
        verbs.forget(store, USER, uuid(1))
    assert holdings(store) == before
    assert said(store) == vendors(1, 2)


def test_the_text_of_a_document_goes_with_what_is_forgotten(store: og.GrainStore) -> None:
    data = json.dumps(document(1, 2)).replace(": ", " :  ").encode()
    import_document(store, MIF2_FORMAT.load(data, exact=True))
    verbs.forget(store, USER, uuid(1))
    assert not any(b"text 1" in grain.blob or b"about 1" in grain.blob for grain in store)
    assert said(store) == vendors(2)


def test_an_erased_person_does_not_come_back(store: og.GrainStore) -> None:
    rules(store, document(1, 2))
    store.privacy.erase([USER], reason_code="asked")
    assert "document_not_kept" in rules(store, document(1, 2))
    assert not kept_documents(store)
    assert said(store) == {}


# -- what is deleted ------------------------------------------------------------------------------


def left(store: og.GrainStore, text: bytes) -> bool:
    return any(text in grain.blob for grain in store)


def test_deleting_takes_vendor_data_along(store: og.GrainStore) -> None:
    rules(store, document(1, 2))
    removal.delete(store, current(store, uuid(1)).address)
    assert not left(store, b"about 1")
    assert said(store) == vendors(2)
    # It is no erasure: it may come again.
    rules(store, document(1, 2))
    assert said(store) == vendors(1, 2)


def test_protected_memories_are_not_deleted(store: og.GrainStore) -> None:
    rules(store, document(1, 2))
    address = current(store, uuid(1)).address
    store.holds.add(address, authority="court", reason_code="case")
    before = holdings(store)
    with pytest.raises(InvalidationDeniedError):
        removal.delete(store, address)
    assert holdings(store) == before
    with pytest.raises(NotFoundError):
        removal.delete(store, "f" * 64)


def test_parts_and_duplicates_go_with_what_is_deleted(store: og.GrainStore) -> None:
    text = "a long text " * 100_000
    MIF2.take(store, MIF2.memory(1, text), MIF2.memory(2, text), MIF2.memory(3, "short"))
    removal.delete(store, current(store, uuid(1)).address)
    assert not left(store, b"a long text")
    assert contents(store) == ["short"]


def test_a_version_leaves_what_others_need(store: og.GrainStore) -> None:
    long = "a long text " * 100_000
    rules(store, document(1, memories=[MIF2.memory(1, long)]))
    old = current(store, uuid(1)).address
    rules(store, document(1, memories=[MIF2.memory(1, long + "!")]))
    removal.delete(store, old)
    assert said(store) == vendors(1)
    written = json.loads(export_document(store, USER)[0].data)
    assert [one["content"] for one in written["memories"]] == [long + "!"]


@pytest.mark.parametrize("format", NAMES)
def test_deleting_removes_data_of_documents_of_every_format(
    store: og.GrainStore, format: str
) -> None:
    MIF2.take(store, MIF2.memory(1, "tea"), keep_document=False)
    grain = current(store, uuid(1))
    plain = _core.address(grain.blob)
    around = {
        "x_said": {"deep": [{uuid(1): "about 1"}, {"id": uuid(1), "note": "about 1"}, 7]},
        "x_grains": {plain: "about 1"},
        "version": "1",
    }
    found = Manifest(format, "one", around, {"/memories": [plain]})
    store.put_many(manifest(found, created_at=1, user_id=USER, text=b"about 1"))
    removal.delete(store, grain.address)
    assert not left(store, b"about 1")
    (whole,) = [one for one in store if Source.of(one) is not None]
    opened_ = open_manifest(whole, store.get)
    assert opened_ is not None
    assert opened_.envelope == {"x_said": {"deep": [{}, 7]}, "x_grains": {}, "version": "1"}


@pytest.mark.parametrize("strategy", ["skip_duplicates", "overwrite", "rename"])
@pytest.mark.parametrize("tags", [[], ["hot"]])
@pytest.mark.parametrize("way", ["delete", "forget", "mentions"])
def test_vendor_data_of_a_duplicate_goes_with_the_original(
    store: og.GrainStore, strategy: str, tags: list[str], way: str
) -> None:
    by = {"source": {"agent_name": "ann"}}
    rules(store, document(1, memories=[MIF2.memory(1, "text 1", **by)]))
    memories = [MIF2.memory(2, "text 1", tags=tags, **by), MIF2.memory(3, "other")]
    again = document(2, 3, memories=memories)
    again["export_meta"]["id"] = "exp_again"
    rules(store, again, merge_strategy=strategy)
    if way == "forget":
        verbs.forget(store, USER, uuid(1))
    elif way == "delete":
        for grain in [*store]:
            if grain.type == "observation" and grain["object"] == "text 1":
                removal.delete(store, grain.address)
    else:
        removal.erase(store, ["ann"], reason_code="asked", mentions="erase")
    assert not left(store, b"text 1")
    assert not left(store, b"about 1")
    assert not left(store, b"about 2")
    assert said(store) == vendors(3)


def test_vendor_data_of_a_duplicate_stays_with_its_id(store: og.GrainStore) -> None:
    rules(store, document(1))
    rules(store, document(2, memories=[MIF2.memory(2, "text 1")]))
    rules(store, document(2))  # another text under the id
    verbs.forget(store, USER, uuid(1))
    assert not left(store, b"text 1") and not left(store, b"about 1")
    assert said(store) == vendors(2)
    verbs.forget(store, USER, uuid(2))
    assert not left(store, b"about 2")


def test_mentions_go_with_what_documents_of_others_say(store: og.GrainStore) -> None:
    seen = MIF2.memory(1, "text 1", source={"agent_name": "ann"})
    rules(store, document(1, 2, memories=[seen, MIF2.memory(9, "text 1"), MIF2.memory(2, "b")]))
    removal.clear_mentions(store, ["ann"])
    store.privacy.erase(["ann"], reason_code="asked", mentions="erase")
    assert not left(store, b"about 1")
    assert not left(store, b"text 1")
    assert said(store) == vendors(2)
