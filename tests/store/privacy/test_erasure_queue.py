# SPDX-License-Identifier: Apache-2.0
"""The queue of erasures, and doing what is due. On every store."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.json_values import time_text
from omsgrain.privacy import load
from omsgrain.storage import erasure_queue
from omsgrain.storage.base import Writer
from omsgrain.storage.encrypted import EncryptedStorage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import BLOBS, DUE, SEQUENCE
from omsgrain.store.context import Settings, context_of
from support.invented_people import DAY, EVERYWHERE, NOW, Clock, belief, consent, current, opened

CASCADE = {"mode": "consent_cascade"}
USER: dict[str, Any] = {"user_id": "ann-17"}


def cascading(store: og.GrainStore, grant: str, what: str = "on", **fields: Any) -> str:
    return store.put(
        belief(what, processing_basis=grant, **{"invalidation_policy": CASCADE, **fields})
    )


# The rows


def test_entries_come_back_by_their_deadlines() -> None:
    store = MemoryStorage()
    rng = Random(7)
    wanted = [(rng.randrange(5), {"kind": "consent", "seq": n, "consent": 1}) for n in range(50)]
    wanted += [(rng.randrange(5), {"kind": "scrub", "left": [n]}) for n in range(20)]
    keys = store.write(lambda w: [erasure_queue.add(w, at, what) for at, what in wanted])
    assert len(set(keys)) == len(wanted)
    with store.read() as reader:
        found = list(erasure_queue.due(reader))
        assert [entry.key for entry in found] == sorted(keys)
        by_key = {entry.key: (entry.deadline, dict(entry.what)) for entry in found}
        assert by_key == dict(zip(keys, wanted, strict=True))
        assert [e for e in erasure_queue.due(reader, 2)] == [e for e in found if e.deadline <= 2]
    store.write(lambda w: erasure_queue.done(w, keys[0]))
    assert store.write(lambda w: erasure_queue.drop(w, {1, 2, 60})) == 2
    with store.read() as reader:
        assert {entry.key for entry in erasure_queue.due(reader)} == set(keys[3:])


def test_a_writer_may_take_out_what_it_meets() -> None:
    store = MemoryStorage()

    def work(writer: Writer) -> int:
        for n in range(10):
            erasure_queue.add(writer, n, {"kind": "consent", "seq": n, "consent": 1})
        for entry in erasure_queue.due(writer):
            erasure_queue.done(writer, entry.key)
        return len(list(erasure_queue.due(writer)))

    assert store.write(work) == 0


def test_a_time_before_1970_is_refused() -> None:
    with pytest.raises(err.RangeError):
        MemoryStorage().write(lambda w: erasure_queue.add(w, -1, {"kind": "consent"}))


@pytest.mark.parametrize(
    ("key", "row"),
    [
        (b"short", b"\x80"),
        (bytes(16), b"\x80"),
        (bytes(16), b""),
        (bytes(16), b"\xc1"),
        (bytes(16), b"\x01"),
        (bytes(16), b"\x81\xa4kind\x01"),
        (bytes(16), b"\x82\xa4kind\xa1x\xa3seq\xa1y"),
        (bytes(16), b"\x82\xa4kind\xa7consent\xa3seq\x01"),
    ],
)
def test_a_damaged_row_is_reported(key: bytes, row: bytes) -> None:
    store = MemoryStorage()
    store.write(lambda w: w.set_row(DUE, key, row))
    with store.read() as reader, pytest.raises(err.IntegrityError):
        list(erasure_queue.due(reader))


# Withdrawn consents


def test_due_grains_are_erased_in_time(store: og.GrainStore, clock: Clock) -> None:
    grant = store.put(consent())
    gone = [cascading(store, grant), cascading(store, grant, "off", **USER)]
    stays = store.put(belief("dim", processing_basis=grant))
    report = store.privacy.withdraw_consent(grant, sla_days=10)
    assert store.privacy.run_due().erased == 0
    assert [entry.overdue for entry in store.privacy.due()] == [False, False]
    clock.now = NOW + 10 * DAY
    assert [entry.overdue for entry in store.privacy.due()] == [True, True]
    done = store.privacy.run_due()
    assert (done.erased, done.kept, done.complete) == (2, (), True)
    # The free space of the files still has their bytes.
    assert [entry.kind for entry in store.privacy.due()] == ["scrub"]
    assert done.scrub_due == NOW + 40 * DAY
    assert store.privacy.run_due().scrub_due == done.scrub_due
    store.maintenance.compact()
    assert store.privacy.due() == [] and store.privacy.run_due().scrub_due is None
    assert not any(store.exists(address) for address in gone)
    assert store.exists(stays)
    assert store.exists(grant)
    assert store.exists(report.withdrawal)
    assert store.privacy.run_due().erased == 0
    (entry,) = store.audit.entries(operation="erase")
    assert entry.reason_code == "consent_withdrawn"
    assert store.audit.verify().ok
    assert store.privacy.withdraw_consent(grant).queued == ()


def test_everything_is_done_before_its_time(store: og.GrainStore) -> None:
    grant = store.put(consent())
    gone = cascading(store, grant, **USER)
    deadline = store.privacy.withdraw_consent(grant).deadline
    assert deadline is not None
    assert store.privacy.due(deadline - 1) == []
    assert len(store.privacy.due(deadline)) == 1
    assert store.privacy.run_due(now=deadline - 1).erased == 0
    assert store.privacy.run_due(everything=True).erased == 1
    assert not store.exists(gone)


def test_times_are_given_in_all_forms(store: og.GrainStore) -> None:
    grant = store.put(consent())
    cascading(store, grant, **USER)
    deadline = store.privacy.withdraw_consent(grant, sla_days=7).deadline
    assert deadline == NOW + 7 * DAY
    for until, found in (("6d", 0), ("7d", 1), (timedelta(days=7), 1), (time_text(deadline), 1)):
        assert len(store.privacy.due(until)) == found
    for now, erased in ((timedelta(days=1), 0), ("1d", 0), (f"@{deadline // 1000}", 1)):
        assert store.privacy.run_due(now=now).erased == erased
    for refused in (
        lambda: store.privacy.due("soon"),
        lambda: store.privacy.run_due(now="soon"),
        lambda: store.privacy.retention_due("soon"),
    ):
        with pytest.raises(err.SchemaError):
            refused()


@pytest.mark.parametrize("user", [{}, USER])
def test_held_grains_stay_restricted_and_reported(
    store: og.GrainStore, clock: Clock, user: dict[str, Any]
) -> None:
    grant = store.put(consent())
    held = cascading(store, grant, **user)
    store.holds.add(held, authority="court", reason_code="litigation")
    store.privacy.withdraw_consent(grant)
    done = store.privacy.run_due(everything=True)
    assert (done.erased, done.kept, done.complete) == (0, ((held, "hold"),), False)
    assert store.status(held).restricted
    assert current(store, subject="lamp", **user) == []
    assert len(store.privacy.due()) == 1
    seen = store.stats().last_seq
    assert store.privacy.run_due(everything=True).kept == ((held, "hold"),)
    assert store.stats().last_seq == seen
    store.holds.release(held, authority="court", reason_code="over")
    assert store.privacy.run_due(everything=True).erased == 1
    assert not store.exists(held)


def test_a_minimum_retention_is_kept(store: og.GrainStore) -> None:
    grant = store.put(consent())
    kept = cascading(store, grant, retention_policy={"minimum_retention_years": 2})
    store.privacy.withdraw_consent(grant)
    done = store.privacy.run_due(everything=True)
    assert [address for address, _ in done.kept] == [kept]
    assert store.privacy.run_due(now=NOW + 800 * DAY).erased == 1


def test_a_consent_that_was_given_again_erases_nothing(store: og.GrainStore) -> None:
    grant = store.put(consent())
    kept = cascading(store, grant)
    store.retract(store.privacy.withdraw_consent(grant).withdrawal, reason="a mistake")
    done = store.privacy.run_due(everything=True)
    assert (done.erased, done.dropped, done.complete) == (0, 1, True)
    assert store.exists(kept)
    assert store.privacy.due() == []


def test_held_grains_stay_restricted_when_the_consent_returns(
    store: og.GrainStore,
) -> None:
    """The person may have asked for it since: only who has looked ends it."""
    grant = store.put(consent())
    kept = cascading(store, grant)
    store.holds.add(kept, authority="court", reason_code="litigation")
    withdrawal = store.privacy.withdraw_consent(grant).withdrawal
    assert [address for address, _ in store.privacy.run_due(everything=True).kept] == [kept]
    store.privacy.restrict(kept, reason_code="disputed")
    store.retract(withdrawal, reason="a mistake")
    store.holds.release(kept, authority="court", reason_code="settled")
    done = store.privacy.run_due(everything=True)
    assert (done.erased, done.dropped, done.complete) == (0, 1, True)
    assert store.status(kept).restricted and store.privacy.due() == []
    store.privacy.unrestrict(kept, reason_code="looked_at")
    assert kept in [hit.address for hit in store.query(subject="lamp").results]


def test_each_of_two_consents_can_erase(store: og.GrainStore) -> None:
    first, second = store.put(consent()), store.put(consent(1))
    root = cascading(store, first, invalidation_policy={**CASCADE, "scope": "subtree"})
    child = cascading(store, second, "child", derived_from=[root])
    for grant in (second, first):
        assert child in store.privacy.withdraw_consent(grant).queued
    assert len(store.privacy.due()) == 3
    undone = store.privacy.withdraw_consent(second).withdrawal
    store.retract(undone, reason="a mistake")
    done = store.privacy.run_due(everything=True)
    assert (done.erased, done.dropped) == (2, 1)
    assert not store.exists(child)


def test_removed_grains_leave_the_queue(store: og.GrainStore) -> None:
    grant = store.put(consent())
    gone = cascading(store, grant)
    store.privacy.withdraw_consent(grant)
    store.delete(gone)
    assert [entry.address for entry in store.privacy.due()] in ([], [None])
    store.privacy.run_due(everything=True)
    assert store.privacy.due() == []


def test_sealed_grains_wait_for_their_key(tmp_path: Path, clock: Clock) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=clock)) as store:
        grant = store.put(consent())
        sealed = cascading(store, grant, **USER)
        store.privacy.withdraw_consent(grant)
        storage = context_of(store).storage
        assert isinstance(storage, EncryptedStorage)
        closed = og.GrainStore(storage.inner, Settings(clock=clock))
        assert closed.privacy.run_due(everything=True).kept == ((sealed, "key"),)
        storage.ring.erase(["ann-17"])
        done = store.privacy.run_due(everything=True)
        assert (done.dropped, done.complete) == (1, True)


def test_a_consent_that_is_gone_does_not_save_what_it_allowed(store: og.GrainStore) -> None:
    grant = store.put(consent())
    gone = cascading(store, grant)
    withdrawal = store.privacy.withdraw_consent(grant).withdrawal
    for address in (withdrawal, grant):
        store.delete(address, reason="erased with the person")
    assert store.privacy.run_due(everything=True).erased == 1
    assert not store.exists(gone)


def test_a_damaged_grain_holds_up_no_other(clock: Clock) -> None:
    inner = MemoryStorage()
    store = og.GrainStore(inner, Settings(clock=clock))
    grant = store.put(consent())
    damaged, good = cascading(store, grant), cascading(store, grant, "off")
    store.privacy.withdraw_consent(grant)

    def flip(writer: Writer) -> None:
        (seq,) = writer.find([bytes.fromhex(damaged)])
        key = SEQUENCE.pack(seq or 0)
        blob = writer.row(BLOBS, key) or b""
        writer.set_row(BLOBS, key, blob[:-1] + b"\xc1")

    inner.write(flip)
    done = store.privacy.run_due(everything=True)
    assert (done.erased, len(done.kept), done.complete) == (1, 1, False)
    assert not store.exists(good)


def test_privileged_grains_are_kept(store: og.GrainStore) -> None:
    grant = store.put(consent())
    legal: dict[str, Any] = {
        "structural_tags": ["profile:legal"],
        "legal:privilege": "attorney_client",
    }
    kept = cascading(store, grant, **legal)
    store.privacy.withdraw_consent(grant)
    assert store.privacy.run_due(everything=True).kept == ((kept, "privilege"),)


@pytest.mark.parametrize("kind", ["memory", "sealed lmdb"])
def test_many_are_erased_page_by_page(tmp_path: Path, clock: Clock, kind: str) -> None:
    with opened(kind, tmp_path, Settings(clock=clock)) as store:
        _erase_many(store)


def _erase_many(store: og.GrainStore) -> None:
    grant = store.put(consent())
    wanted = [
        belief(str(n), processing_basis=grant, invalidation_policy=CASCADE) for n in range(1_100)
    ]
    store.put_many(wanted)
    assert len(store.privacy.withdraw_consent(grant).queued) == 1_100
    assert store.privacy.run_due(everything=True).erased == 1_100
    assert len(store) == 2


def test_unknown_kinds_of_due_entries_wait(store: og.GrainStore) -> None:
    context_of(store).storage.write(lambda w: erasure_queue.add(w, NOW, {"kind": "unheard of"}))
    assert [entry.kind for entry in store.privacy.due()] == ["unheard of"]
    done = store.privacy.run_due()
    assert (done.waiting, done.finished, done.complete) == (1, 0, False)
    assert len(store.privacy.due()) == 1


# Retention

RULES = """
name = "short"
title = "Short memory"
[[expire]]
id = "week"
days = 7
reason = "Nothing is kept longer than it is needed."
source = "house rule"
"""


@pytest.mark.parametrize("kind", EVERYWHERE)
def test_grains_that_a_preset_keeps_no_longer_are_erased(
    kind: str, tmp_path: Path, clock: Clock
) -> None:
    rules = tmp_path / "short.toml"
    rules.write_text(RULES)
    settings = Settings(actor="tester", clock=clock, preset=load([rules]))
    with opened(kind, tmp_path, settings) as store:
        old, sealed = store.put(belief("on")), store.put(belief("off", **USER))
        held, locked = (
            store.put(belief("dim")),
            store.put(belief("red", invalidation_policy={"mode": "hold"})),
        )
        kept = store.put(belief("green", retention_policy={"minimum_retention_years": 1}))
        young = store.put(belief("blue", created_at=NOW + DAY))
        grant = store.put(consent())
        store.holds.add(held, authority="court", reason_code="litigation")
        assert list(store.privacy.retention_due()) == []
        assert set(store.privacy.retention_due(NOW + 7 * DAY)) == {old, sealed, locked}
        clock.now = NOW + 7 * DAY
        done = store.privacy.run_due()
        assert (done.expired, done.complete) == (2, True)
        assert [store.exists(address) for address in (old, sealed)] == [False, False]
        assert all(map(store.exists, (held, locked, kept, young, grant)))
        assert store.put(belief("on"))  # nobody was erased, so it may come again
        assert store.audit.verify().ok


def test_without_such_rules_nothing_expires(store: og.GrainStore) -> None:
    store.put(belief("on", created_at=0))
    assert list(store.privacy.retention_due("2060-01-01")) == []
