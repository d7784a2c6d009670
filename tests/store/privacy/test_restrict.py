# SPDX-License-Identifier: Apache-2.0
"""Restricting grains, one by one and those of a person. On every store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage.encrypted import EncryptedStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy import privacy
from support.invented_people import ANN, EVERYWHERE, NAMES, Clock, belief, current, opened
from support.known_grains import VECTORS

(VECTOR_6,) = (one.fields for one in VECTORS if one.name.startswith("6 "))
USER = {"user_id": "ann-17"}


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(actor="tester", clock=Clock())) as made:
        yield made


@pytest.mark.parametrize("user", [{}, USER])
def test_a_restricted_grain_leaves_results_and_stays(
    store: og.GrainStore, user: dict[str, str]
) -> None:
    address = store.put(belief("on", **user))
    other = store.put(belief("off", **user))
    store.privacy.restrict(address, reason_code="disputed")
    assert store.status(address).restricted
    assert current(store, subject="lamp", **user) == [other]
    assert current(store, subject="lamp", current=False, **user) == [address]
    assert store.get(address)["object"] == "on"
    store.privacy.unrestrict(address, reason_code="settled")
    assert not store.status(address).restricted
    assert current(store, subject="lamp", **user) == sorted([address, other])
    kinds = [change.kind for change in store.changes()]
    assert kinds == ["put", "put", "restrict", "restrict"]
    entries = list(store.audit.entries(operation="restrict"))
    assert [entry.reason_code for entry in entries] == ["disputed", "settled"]


def test_search_leaves_it_out(store: og.GrainStore) -> None:
    address = store.put(belief("lighthouse"))
    assert [hit.address for hit in store.search("lighthouse").results] == [address]
    store.privacy.restrict(address, reason_code="disputed")
    assert store.search("lighthouse").results == []


def test_restricting_twice_changes_nothing(store: og.GrainStore) -> None:
    address = store.put(belief("on"))
    store.privacy.restrict(address, reason_code="disputed")
    seen = store.stats().last_seq
    store.privacy.restrict(address, reason_code="disputed")
    assert store.stats().last_seq == seen
    assert len(list(store.audit.entries(operation="restrict"))) == 1


def test_a_past_grain_stays_past(store: og.GrainStore) -> None:
    old = store.put(belief("on"))
    new = store.supersede(old, belief("off"))
    store.privacy.restrict(old, reason_code="disputed")
    store.privacy.unrestrict(old, reason_code="settled")
    assert store.status(old).superseded_by == new
    assert current(store, subject="lamp") == [new]


@pytest.mark.parametrize("reason", ["", " ", None, "Ann asked", "\udcff", "x" * 257])
def test_a_reason_is_a_word(reason: Any) -> None:
    """Also of a handle that keeps no audit trail."""
    store = og.GrainStore(MemoryStorage(), Settings(audit=False))
    address = store.put(belief("on"))
    for act in (store.privacy.restrict, store.privacy.unrestrict):
        with pytest.raises(err.SchemaError):
            act(address, reason_code=reason)
    with pytest.raises(err.SchemaError):
        store.privacy.restrict(person=NAMES, reason_code=reason)
    for hold in (store.holds.add, store.holds.release):
        with pytest.raises(err.SchemaError):
            hold(address, authority="court", reason_code=reason)


def test_a_grain_that_is_not_there_is_not_restricted(store: og.GrainStore) -> None:
    with pytest.raises(err.NotFoundError):
        store.privacy.restrict("ab" * 32, reason_code="disputed")


LOCKS: list[tuple[dict[str, Any], str | None]] = [
    ({"mode": "locked"}, "locked"),
    ({"mode": "quorum", "threshold": 1, "authorized": [ANN]}, "quorum"),
    ({"mode": "soft_locked"}, None),
    ({"mode": "consent_cascade"}, None),
]


@pytest.mark.parametrize(("policy", "rule"), LOCKS)
def test_a_rule_about_no_person_stays_in_use(
    store: og.GrainStore, policy: dict[str, Any], rule: str | None
) -> None:
    """Restriction is a person's right, and no way round the policy of a safety rule."""
    safety = store.put(belief("never above 2 m/s", invalidation_policy=policy, author_did=ANN))
    if rule is None:
        store.privacy.restrict(safety, reason_code="disputed")
        assert store.status(safety).restricted
        assert len(list(store.reviews.pending())) == (policy["mode"] == "soft_locked")
    else:
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.privacy.restrict(safety, reason_code="disputed")
        assert denied.value.rule == rule
        assert current(store, subject="lamp") == [safety]
    for about in (USER, {"subject_did": ANN}):
        hers = store.put(belief("slow", invalidation_policy=policy, **about))
        store.privacy.restrict(hers, reason_code="disputed")
        assert store.status(hers).restricted


def test_an_author_takes_no_rule_out_of_use(store: og.GrainStore) -> None:
    """The author of a rule about no person cannot restrict it."""
    locked = store.put({**VECTOR_6, "author_did": ANN})
    plain = store.put(belief("off", author_did=ANN))
    report = store.privacy.restrict(person=[ANN], reason_code="disputed")
    assert (report.restricted, report.grains, report.locked) == (1, 2, 1)
    assert not store.status(locked).restricted and store.status(plain).restricted


def test_a_rule_does_not_leave_use_by_superseding(store: og.GrainStore) -> None:
    """It was here before, and takes the place of something that is restricted."""
    safety = store.put(belief("never above 2 m/s", invalidation_policy={"mode": "locked"}))
    bait = store.put(belief("bait", **USER))
    store.privacy.restrict(bait, reason_code="disputed")
    store.supersede(bait, store.get(safety))
    assert current(store, subject="lamp") == [safety]


def test_all_grains_of_a_person_are_restricted(store: og.GrainStore) -> None:
    own = [store.put(belief("on", **USER)), store.put(belief("off", subject_did=ANN))]
    named = store.put(belief("dim", subject="ann-17"))
    other = store.put(belief("red", user_id="bob-3"))
    report = store.privacy.restrict(person=NAMES, reason_code="disputed")
    assert (report.restricted, report.grains, report.complete) == (2, 2, True)
    assert [store.status(address).restricted for address in own] == [True, True]
    assert not any(store.status(address).restricted for address in (named, other))
    again = store.privacy.restrict(person=NAMES, reason_code="disputed")
    assert (again.restricted, again.grains) == (0, 2)
    (entry,) = store.audit.entries(operation="restrict")
    assert (entry.reason_code, entry.count) == ("disputed", 2)


def test_more_than_a_page_of_them(store: og.GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privacy, "_PAGE", 50)
    store.put_many([belief(str(n), author_did=ANN) for n in range(120)])
    report = store.privacy.restrict(person=[ANN], reason_code="disputed")
    assert report.restricted == 120
    assert current(store, subject="lamp") == []
    assert store.maintenance.check().ok


def test_unopened_grains_are_reported(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        store.put(belief("on", **USER))
        storage = context_of(store).storage
        assert isinstance(storage, EncryptedStorage)
        closed = og.GrainStore(storage.inner, Settings(clock=Clock()))
        report = closed.privacy.restrict(person=NAMES, reason_code="disputed")
        assert (report.restricted, report.unopened, report.complete) == (0, 1, False)
