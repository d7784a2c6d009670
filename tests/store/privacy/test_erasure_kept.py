# SPDX-License-Identifier: Apache-2.0
"""Erasing a person: what a hold or a minimum retention keeps, and what waits. On every store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.privacy import load
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy import erasure
from support.erasure_stores import BEN, USER, below, erase, is_gone
from support.invented_people import ANN, DAY, NOW, SHOP, Clock, belief, current, opened

HELD = {"mode": "hold"}


# --- what must be kept ---------------------------------------------------------------------------


@pytest.mark.parametrize("fields", [USER, {"author_did": ANN}])
def test_held_grains_stay_restricted_and_go_later(
    store: og.GrainStore, fields: dict[str, Any]
) -> None:
    held = store.put(belief("evidence", **fields))
    gone = [store.put(belief("lit", **USER)), store.put(belief("dim", author_did=ANN))]
    store.holds.add(held, authority="court", reason_code="litigation")
    report = erase(store)
    assert report.kept == ((held, "hold"),)
    assert report.incomplete == ("kept",)
    assert store.get(held)["object"] == "evidence"
    assert store.status(held).restricted
    assert current(store) == []
    assert all(is_gone(store, address) for address in gone)
    assert [entry.kind for entry in store.privacy.due()] == ["release"]
    waiting = store.privacy.run_due()
    assert (waiting.waiting, waiting.complete) == (1, False)
    assert store.get(held)["object"] == "evidence"
    store.holds.release(held, authority="court", reason_code="settled")
    assert store.privacy.run_due().complete
    assert is_gone(store, held)
    assert [entry.kind for entry in store.privacy.due()] == ["scrub"]
    assert store.privacy.run_due(everything=True).complete
    assert store.privacy.due() == []
    ring = context_of(store).settings.keys
    if ring is not None:
        assert ring.of_user("ann-17") is None
    assert store.audit.verify().ok


def test_asked_twice_it_waits_once(store: og.GrainStore) -> None:
    held = store.put(belief("evidence", **USER))
    store.holds.add(held, authority="court", reason_code="litigation")
    assert erase(store).kept == erase(store).kept == ((held, "hold"),)
    assert [entry.kind for entry in store.privacy.due()] == ["release"]


def test_finished_erasures_wait_no_more(store: og.GrainStore) -> None:
    held = store.put(belief("evidence", **USER))
    store.holds.add(held, authority="court", reason_code="litigation")
    assert not erase(store).complete
    store.holds.release(held, authority="court", reason_code="settled")
    assert erase(store).complete
    assert is_gone(store, held)
    assert store.privacy.run_due(everything=True).complete
    assert store.privacy.due() == []


def test_a_hold_in_a_grain_keeps_it(store: og.GrainStore) -> None:
    held = store.put(belief("lit", **USER, invalidation_policy=HELD))
    below_it = store.put(belief("dim", **USER, derived_from=[held]))
    report = erase(store)
    assert (report.kept, report.keys) == (((held, "hold"),), 0)
    assert is_gone(store, below_it)


def test_a_hold_over_what_derives_from_it(store: og.GrainStore) -> None:
    policy = {"mode": "hold", "scope": "subtree"}
    held = store.put(belief("lit", **USER, invalidation_policy=policy))
    child = store.put(belief("dim", **USER, derived_from=[held]))
    report = erase(store)
    assert dict(report.kept) == {held: "hold", child: "hold"}
    assert store.get(child)["object"] == "dim"


def test_a_minimum_retention_keeps_it_for_its_time(store: og.GrainStore, clock: Clock) -> None:
    kept = store.put(belief("lit", **USER, retention_policy={"minimum_retention_years": 2}))
    report = erase(store)
    assert report.kept == ((kept, "oms.retention-policy"),)
    clock.now += 3 * 366 * DAY
    assert store.privacy.run_due().complete
    assert is_gone(store, kept)


def test_grains_that_a_preset_keeps(tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'name = "house"\ntitle = "House"\n\n[[keep]]\nid = "events"\nyears = 1\n'
        'when = { types = ["event"] }\nreason = "so"\nsource = "us"\n'
    )
    settings = Settings(clock=Clock(), preset=load(rules))
    with opened("sealed memory", tmp_path, settings) as store:
        event = store.put({"type": "event", "content": "hello", "created_at": NOW, **USER})
        store.put(belief("lit", **USER))
        report = erase(store)
        assert report.kept == ((event, "house.events"),)
        assert (report.keys, report.erased) == (0, 1)


def test_grains_put_after_the_order_stay(store: og.GrainStore) -> None:
    held = store.put(belief("evidence", **USER))
    store.holds.add(held, authority="court", reason_code="litigation")
    erase(store)
    fresh = store.put(belief("new", **USER))
    store.holds.release(held, authority="court", reason_code="settled")
    assert store.privacy.run_due().complete
    assert is_gone(store, held)
    assert store.get(fresh)["object"] == "new"


def test_a_hold_over_a_lineage_of_others(store: og.GrainStore) -> None:
    policy = {"mode": "hold", "scope": "lineage", "authorized": [SHOP]}
    first = store.put(belief("lit", **USER))
    last = store.supersede(first, belief("dim", **BEN, invalidation_policy=policy))
    other = store.put(belief("red", **USER))
    report = erase(store)
    assert report.kept == ((first, "hold"),)
    assert store.get(first)["object"] == "lit"
    assert is_gone(store, other)
    assert store.get(last)["object"] == "dim"


def test_a_hold_that_came_in_between(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        address = store.put(belief("lit", **USER))
        place = erasure._place

        def holding(*args: Any, **options: Any) -> Any:
            monkeypatch.setattr(erasure, "_place", place)
            placed = place(*args, **options)
            holder.append(address)
            return placed

        holder: list[str] = []
        monkeypatch.setattr(erasure, "_place", holding)
        sync = type(context_of(store).inner).sync

        def syncing(self: Any) -> None:
            if holder:
                store.holds.add(holder.pop(), authority="court", reason_code="late")
            sync(self)

        monkeypatch.setattr(type(context_of(store).inner), "sync", syncing)
        report = erase(store)
        assert (report.keys, report.kept) == (0, ((address, "hold"),))
        assert store.get(address)["object"] == "lit"


# --- what waits --------------------------------------------------------------------------------


def test_scrubbing_may_wait(store: og.GrainStore, clock: Clock) -> None:
    store.put(belief("lit", **USER))
    report = erase(store, scrub="queued", within_days=3)
    assert (report.scrubbed, report.scrub_due) == (False, NOW + 3 * DAY)
    assert report.incomplete == ("scrub",)
    (entry,) = store.privacy.due()
    assert (entry.kind, entry.deadline, entry.address) == ("scrub", NOW + 3 * DAY, None)
    assert store.privacy.run_due().finished == 0
    clock.now += 3 * DAY
    assert store.privacy.run_due().finished == 1
    assert store.privacy.due() == []


def test_scrubbing_that_fails_is_queued(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.put(belief("lit", **USER))

    def full(self: object) -> None:
        raise err.StoreError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(type(context_of(store).inner), "compact", full)
        report = erase(store)
        assert (report.scrubbed, report.incomplete) == (False, ("scrub",))
        assert report.scrub_due == NOW + 30 * DAY
        assert store.privacy.run_due(everything=True).waiting == 1
    assert store.privacy.run_due(everything=True).complete
    assert store.privacy.due() == []


def test_a_resumed_erasure_reports_unopened_grains(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        store.put(belief("red", **BEN, subject_did=ANN))
        keyless = og.GrainStore(below(store), Settings(clock=Clock()))
        clear = keyless.put(belief("dim", author_did=ANN))
        with monkeypatch.context() as patch:
            patch.setattr(erasure, "_carry_out", None)
            with pytest.raises(TypeError):
                keyless.privacy.erase([ANN], reason_code="gdpr17")
        report = keyless.privacy.run_due()
        assert is_gone(keyless, clear)
        assert (report.waiting, report.finished, report.complete) == (1, 0, False)
