# SPDX-License-Identifier: Apache-2.0
"""The surface of a store: its verbs, its parts, and the verbs of the parts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.store.context import StorePart, context_of
from support.invented_people import belief

PARTS = {
    *("audit", "consumers", "graph", "holds", "maintenance", "parquet", "privacy", "reviews"),
    *("paths", "trust", "vectors"),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[og.GrainStore]:
    with og.open(tmp_path / "s.omsg") as store:
        yield store


def test_a_store_shows_its_verbs_and_its_parts(store: og.GrainStore) -> None:
    shown = {name for name in dir(store) if not name.startswith("_")}
    assert shown >= PARTS
    assert len(shown - PARTS) <= 29
    for name in PARTS - {"audit"}:
        part = getattr(store, name)
        assert isinstance(part, StorePart)
        assert context_of(part) is context_of(store)


def test_a_store_says_where_it_is(store: og.GrainStore, tmp_path: Path) -> None:
    store.put(belief("on"))
    assert repr(store) == f"<GrainStore {str(tmp_path / 's.omsg')!r}, 1 grains>"
    with og.open(tmp_path / "s.omsg", readonly=True) as reader:
        assert "read-only" in repr(reader)
    store.close()
    assert "closed" in repr(store)


def test_active_holds_are_listed_with_their_grains(store: og.GrainStore) -> None:
    first, second = store.put(belief("on")), store.put(belief("off"))
    assert list(store.holds.active()) == []
    store.holds.add(second, authority="court", reason_code="case-7")
    store.holds.add(first, authority="court", reason_code="case-8")
    store.holds.add(first, authority="auditor", reason_code="year-end")
    found = [(address, hold.authority) for address, hold in store.holds.active()]
    assert found == [(first, "court"), (first, "auditor"), (second, "court")]
    store.holds.release(second, authority="court", reason_code="closed")
    assert {address for address, _ in store.holds.active()} == {first}


def test_many_vectors_are_stored_together_or_not_at_all(store: og.GrainStore) -> None:
    first, second = store.put(belief("on")), store.put(belief("off"))
    store.vectors.add_many([(first, [1.0, 0.0]), (second, [0.0, 1.0])], model="m")
    assert [(one.name, one.dimension) for one in store.vectors.models()] == [("m", 2)]
    assert list(store.vectors.get(second)["m"]) == [0.0, 1.0]
    assert [entry.operation for entry in store.audit.entries()][-1] == "vector"
    with pytest.raises(err.NotFoundError):
        store.vectors.add_many([(first, [0.5, 0.5]), ("ab" * 32, [1.0, 1.0])], model="m")
    assert list(store.vectors.get(first)["m"]) == [1.0, 0.0]


def test_a_person_is_restricted_and_unrestricted(store: og.GrainStore) -> None:
    own = [store.put(belief(word, user_id="ann-17")) for word in ("on", "off")]
    other = store.put(belief("dim", user_id="ben"))
    report = store.privacy.restrict(person=["ann-17"], reason_code="disputed")
    assert (report.restricted, report.grains, report.complete) == (2, 2, True)
    assert [hit.address for hit in store.query().results] == [other]
    assert store.privacy.restrict(person=["ann-17"], reason_code="disputed").restricted == 0
    assert store.privacy.unrestrict(person=["ann-17"], reason_code="settled").restricted == 2
    assert not any(store.status(address).restricted for address in own)


def test_several_grains_are_restricted_at_once(store: og.GrainStore) -> None:
    own = [store.put(belief(word, user_id="ann-17")) for word in ("on", "off")]
    with pytest.raises(err.NotFoundError):
        store.privacy.restrict(own[0], "ab" * 32, reason_code="disputed")
    assert not store.status(own[0]).restricted
    assert store.privacy.restrict(*own, reason_code="disputed").restricted == 2
    with pytest.raises(err.SchemaError):
        store.privacy.restrict(reason_code="disputed")
    with pytest.raises(err.SchemaError):
        store.privacy.restrict(own[0], person=["ann-17"], reason_code="disputed")


def test_flush_writes_the_memtable(store: og.GrainStore) -> None:
    store.put(belief("on"))
    store.flush()
    assert store.stats().watermark == 1
