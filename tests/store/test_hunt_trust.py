# SPDX-License-Identifier: Apache-2.0
"""Defects found by use of sealed grains and erasures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import BLIND, KEPT, NOTES, PLAIN, VEILED
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from support.invented_people import ANN, EVERYWHERE, KINDS, Clock, belief, opened
from support.signed_stores import signed_by
from support.signers import ALICE, BOB

USER: dict[str, Any] = {"user_id": "ann-17"}
SEALED = [kind for kind in KINDS if kind.startswith("sealed")]


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(clock=Clock())) as made:
        yield made


@pytest.fixture(params=SEALED)
def sealed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(clock=Clock())) as made:
        yield made


@pytest.fixture
def ring(tmp_path: Path) -> Iterator[KeyRing]:
    with KeyRing.create(tmp_path / "of-two.keys", master=bytes(32)) as made:
        yield made


def test_a_duplicate_has_the_address_that_it_is_stored_under(store: og.GrainStore) -> None:
    first = store.put(belief("lit", **USER))
    assert store.put(belief("lit", **USER), dedupe="semantic") == first
    assert store.put(belief("lit", **USER, created_at=5), dedupe="semantic") == first
    assert store.get(first).address == first


def test_a_duplicate_that_is_signed_once_more_keeps_that(store: og.GrainStore) -> None:
    first = store.put(signed_by(ALICE, belief("lit", **USER)))
    assert store.put(signed_by(BOB, belief("lit", **USER)), dedupe="semantic") == first
    assert [one.signer for one in store.trust.signatures(first)] == sorted((ALICE.did, BOB.did))
    assert len(store) == 1


def test_a_user_id_too_long_to_be_sealed_can_be_asked_for(ring: KeyRing) -> None:
    below, long = MemoryStorage(), "x" * 2_000
    address = GrainStore(below, Settings()).put(belief("lit", user_id=long))
    store = GrainStore(below, Settings(keys=ring))
    store.put(belief("lit", **USER))
    assert [hit.address for hit in store.query(user_id=long).results] == [address]


def test_unreadable_grains_can_be_removed_later(sealed: og.GrainStore) -> None:
    address = sealed.put(belief("lit", **USER))
    assert sealed.privacy.erase(["ann-17"], reason_code="x").sealed == 1
    again = sealed.privacy.erase(["ann-17"], reason_code="x")
    assert (again.keys, again.sealed, again.erased) == (0, 0, 0)
    other = sealed.put(belief("dim", **USER))
    report = sealed.privacy.erase(["ann-17"], reason_code="x", ciphertext=True)
    assert (report.keys, report.sealed, report.erased) == (1, 0, 2)
    assert not sealed.exists(address) and not sealed.exists(other) and len(sealed) == 0


def test_a_second_store_of_one_ring_is_swept(ring: KeyRing) -> None:
    one = GrainStore(MemoryStorage(), Settings(keys=ring))
    two = GrainStore(MemoryStorage(), Settings(keys=ring))
    one.put(belief("lit", **USER))
    address = two.put(belief("dim", **USER, retention_policy={"minimum_days": 1}))
    two.contest(address, reason="Ann says so")
    two.vectors.add(address, [1.0, 2.0], model="m")
    assert one.privacy.erase(["ann-17"], reason_code="x").keys == 1
    report = two.privacy.erase(["ann-17"], reason_code="x")
    assert (report.keys, report.sealed) == (0, 1)
    with context_of(two).inner.read() as reader:
        rows = {t.name: list(reader.rows(t)) for t in (BLIND, KEPT, NOTES, PLAIN, VEILED)}
    assert not any(rows.values())
    with pytest.raises(err.ErasedError):
        two.get(address)


def test_numbers_of_destroyed_records(ring: KeyRing) -> None:
    numbers = []
    for _ in range(3):
        ring.ensure([ANN, "ben"])
        keys = ring.of_user(ANN)
        assert keys is not None
        numbers.append(keys.number)
        assert ring.destroyed([ANN, "ben"]) == numbers[:-1]
        ring.erase([ANN])
    assert ring.destroyed([ANN]) == numbers
    assert ring.destroyed(["ben", "nobody"]) == []
    ring.rekey(bytes(range(32)))
    assert ring.destroyed([ANN]) == numbers


def test_a_duplicate_is_looked_for_under_one_key(
    sealed: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = sealed.put_many([belief("lit", user_id=f"user-{n}") for n in range(20)]).addresses
    first = sealed.put(belief("lit", **USER))
    open_to_all = sealed.put(belief("lit"))
    ring = context_of(sealed).settings.keys
    assert ring is not None
    monkeypatch.setattr(type(ring), "users", lambda self: pytest.fail("all users were asked"))
    assert sealed.put(belief("lit", **USER, created_at=5), dedupe="semantic") == first
    assert sealed.put(belief("lit", created_at=5), dedupe="semantic") == open_to_all
    assert sealed.put(belief("lit", user_id="user-3"), dedupe="semantic") == others[3]
