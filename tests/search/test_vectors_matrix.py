# SPDX-License-Identifier: Apache-2.0
"""Vectors in memory: they give what the rows give, and follow the store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto import KeyRing
from omsgrain.search.nearest import Nearest
from omsgrain.search.text import Match
from omsgrain.storage.base import Reader, Storage
from omsgrain.store.context import context_of
from support.store_kinds import POSTGRES, made
from support.vector_stores import add, noise, put, remove

QUERY = [1.0, 0.5, -0.5, 0.25]
DIMENSION = len(QUERY)
BYTES = 4 * DIMENSION + 64  # of a vector in memory


@pytest.fixture(params=["memory", "lmdb", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    store = made(request.param, tmp_path / "m.omsg")
    yield store
    store.close()


def by_rows(reader: Reader, **options: Any) -> list[Match]:
    """What the rows give, since no vector may stay in memory."""
    return Nearest(most_bytes=0).search(reader, QUERY, **options)


def agrees(nearest: Nearest, store: Storage, **options: Any) -> list[Match]:
    with store.read() as reader:
        found = nearest.search(reader, QUERY, **options)
        assert found == by_rows(reader, **options)
    return found


def test_a_matrix_follows_the_store(store: Storage) -> None:
    random, nearest = Random(1), Nearest()
    seqs = put(store, 80)
    add(store, {seq: noise(random, DIMENSION) for seq in seqs[:40]})
    agrees(nearest, store, limit=100)
    for step in range(12):
        some = random.sample(seqs, 5)
        if step % 3 == 2:
            remove(store, some[:2])
            seqs = [seq for seq in seqs if seq not in some[:2]]
        else:  # first vectors, others in their place, and other dimensions
            add(store, {seq: noise(random, DIMENSION - (step == 7)) for seq in some})
        for limit in (1, 7, 100):
            agrees(nearest, store, limit=limit)
        agrees(nearest, store, limit=5, accept=lambda seq: seq % 4 == 0)
    assert len(nearest.matrices) == len(agrees(nearest, store, limit=100))


def test_an_older_snapshot_does_not_see_newer_vectors(tmp_path: Path) -> None:
    store, nearest = made("lmdb", tmp_path / "m.omsg"), Nearest()
    first, second = put(store, 2)
    add(store, {first: QUERY})
    with store.read() as old:
        add(store, {second: QUERY})
        assert [match.seq for match in agrees(nearest, store)] == [second, first]
        assert [match.seq for match in nearest.search(old, QUERY)] == [first]
        assert [match.seq for match in agrees(nearest, store)] == [second, first]
    store.close()


def test_another_store_has_other_vectors(tmp_path: Path) -> None:
    nearest = Nearest()
    for number, vector in enumerate([QUERY, [1.0, 1.0, 1.0, 1.0], [0.0, 0.0, 0.0, 1.0]]):
        store = made("lmdb", tmp_path / str(number))
        add(store, dict.fromkeys(put(store, 3, start=10 * number), vector))
        agrees(nearest, store)
        store.close()


def test_vectors_beyond_the_limit_stay_on_disk(store: Storage) -> None:
    random, nearest = Random(2), Nearest(most_bytes=30 * BYTES)
    seqs = put(store, 60)
    for name, some in (("a", seqs[:20]), ("b", seqs[20:40]), ("c", seqs)):
        add(store, {seq: noise(random, DIMENSION) for seq in some}, name)
    for name, kept in (("a", 20), ("b", 20), ("c", 20), ("a", 20), ("c", 20)):
        agrees(nearest, store, model=name)
        assert len(nearest.matrices) == kept
    add(store, {seq: noise(random, DIMENSION) for seq in seqs[20:40]}, "a")
    agrees(nearest, store, model="a")
    assert len(nearest.matrices) <= 20


def test_no_vector_of_a_removed_grain_stays_in_memory(store: Storage) -> None:
    nearest = Nearest()
    seqs = put(store, 5)
    add(store, dict.fromkeys(seqs, QUERY))
    agrees(nearest, store)
    remove(store, seqs[:2])
    agrees(nearest, store)
    assert len(nearest.matrices) == 3
    nearest.catch_up(store, make=False)
    assert len(nearest.matrices) == 0


def belief(number: int, user: str) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": "tea",
        "relation": "mg:perceives",
        "object": f"cup {number}",
        "confidence": 0.5,
        "created_at": 1_768_471_200_000 + number,
        "user_id": user,
    }


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "sealed"])
def test_vectors_of_a_user_follow_and_are_erased(tmp_path: Path, sealed: bool) -> None:
    with (
        KeyRing.create(tmp_path / "keys.omsk", master=bytes(range(32))) as ring,
        og.open(tmp_path / "m.omsg", keys=ring if sealed else None) as store,
    ):
        hers = [store.put(belief(number, "ada")) for number in range(4)]
        other = store.put(belief(4, "bob"))

        def found() -> set[str]:
            return {hit.address for hit in store.search(vector=QUERY, user_id="ada", limit=10)}

        for address in (hers[0], other):
            store.vectors.add(address, QUERY, model="m")
        assert found() == {hers[0]}
        for address in hers[1:]:
            store.vectors.add(address, noise(Random(address), DIMENSION), model="m")
        assert found() == set(hers)
        store.delete(hers[1])
        assert found() == set(hers) - {hers[1]}
        context = context_of(store)
        if not sealed:
            assert len(store.search(vector=QUERY)) == len(context.nearest().matrices) == 4
        store.privacy.erase(["ada"], reason_code="request")
        assert len(context.nearest().matrices) == 0
        if sealed:
            bob = ring.of_user("bob")
            assert bob is not None and len(context.user_texts(ring).of(bob).vectors) == 0
        assert found() == set()
        (left,) = store.search(vector=QUERY, user_id="bob")
        assert left.address == other
