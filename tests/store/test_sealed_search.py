# SPDX-License-Identifier: Apache-2.0
"""Search and ranges over the encrypted grains of one user give what they give in plain text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto import KeyRing
from omsgrain.errors import ErasedError, UnsupportedError
from omsgrain.store.context import context_of

ADA, BOB = "ada", "bob"
AT = 1_768_471_200_000
WORDS = ("kettle", "warm", "milk", "garden", "gauge", "frozen", "tea", "window")
SPACES = ("home:kitchen", "home:garden", "work")


def belief(n: int, user_id: str, random: Random) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": random.choice(WORDS),
        "relation": "mg:perceives",
        "object": " ".join(random.choices(WORDS, k=random.randrange(1, 9))),
        "confidence": random.randrange(11) / 10,
        "namespace": random.choice(SPACES),
        "valid_from": AT + random.randrange(100),
        "created_at": AT + n,
        "user_id": user_id,
    }


@pytest.fixture
def stores(tmp_path: Path, ring: KeyRing) -> Iterator[tuple[og.GrainStore, og.GrainStore]]:
    """Ada's grains in plain text alone, and encrypted among those of others."""
    random = Random(11)
    hers = [belief(n, ADA, random) for n in range(120)]
    with (
        og.open(tmp_path / "plain.omsg") as plain,
        og.open(tmp_path / "sealed.omsg", keys=ring) as sealed,
    ):
        plain.put_many(hers)
        sealed.put_many([belief(n, BOB, random) for n in range(60)])
        sealed.put_many(hers)
        sealed.put({key: value for key, value in hers[0].items() if key != "user_id"})
        for n in (3, 30, 77):
            old = og.Grain(og.encode(hers[n])).address
            newer = {**hers[n], "object": "kettle kettle", "created_at": AT + 200 + n}
            for store in (plain, sealed):
                store.supersede(old, newer)
        yield plain, sealed


def texts(page: Any) -> list[tuple[str, str, int]]:
    return [(h.grain["subject"], h.grain["object"], h.grain["created_at"]) for h in page]


QUESTIONS: list[dict[str, Any]] = [
    {"created_after": AT + 40},
    {"created_before": AT + 40, "limit": 7},
    {"created_after": AT + 20, "created_before": AT + 90, "subject": "tea"},
    {"min_confidence": 0.7},
    {"min_confidence": 0.95, "words": "kettle"},
    {"namespace": "home:*"},
    {"namespace": "home:*", "min_confidence": 0.5, "order": "oldest", "limit": 20},
    {"valid_at": AT + 50},
    {"known_at": AT + 80, "current": None},
    {"known_at": AT + 33},
    {"created_after": AT + 10, "current": False},
]


@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_a_range_gives_what_the_plain_twin_gives(
    stores: tuple[og.GrainStore, og.GrainStore], question: dict[str, Any]
) -> None:
    plain, sealed = stores
    wanted = plain.query(user_id=ADA, count=True, **question)
    found = sealed.query(user_id=ADA, count=True, **question)
    assert texts(found) == texts(wanted)
    assert found.total == wanted.total
    second, expected = found.next(), wanted.next()
    assert (second is None) is (expected is None)
    if second is not None and expected is not None:
        assert texts(second) == texts(expected)


@pytest.mark.parametrize(
    "words", ["kettle", "warm milk", '"tea window"', "+gauge -frozen", "gar*"]
)
@pytest.mark.parametrize(
    "filters",
    [{}, {"min_confidence": 0.5}, {"namespace": "home:*"}, {"subject": "tea"}, {"current": None}],
    ids=str,
)
def test_a_search_ranks_as_in_a_plain_store_of_the_user_alone(
    stores: tuple[og.GrainStore, og.GrainStore], words: str, filters: dict[str, Any]
) -> None:
    plain, sealed = stores
    wanted = plain.search(words, user_id=ADA, limit=15, **filters)
    found = sealed.search(words, user_id=ADA, limit=15, **filters)
    assert texts(found) == texts(wanted)
    assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted])
    assert [hit.snippet for hit in found] == [hit.snippet for hit in wanted]


def test_a_search_follows_puts_and_removals(
    stores: tuple[og.GrainStore, og.GrainStore],
) -> None:
    _, sealed = stores
    assert not sealed.search("zeppelin", user_id=ADA)
    address = sealed.put(belief(500, ADA, Random(1)) | {"object": "zeppelin"})
    sealed.put(belief(500, BOB, Random(1)) | {"object": "zeppelin"})
    assert [hit.address for hit in sealed.search("zeppelin", user_id=ADA)] == [address]
    sealed.delete(address)
    assert not sealed.search("zeppelin", user_id=ADA)


def test_a_vector_finds_encrypted_grains_of_its_user(
    stores: tuple[og.GrainStore, og.GrainStore],
) -> None:
    plain, sealed = stores
    random = Random(5)
    for store in stores:
        random.seed(5)
        for hit in store.query(user_id=ADA, limit=100, order="oldest"):
            store.vectors.add(hit.address, [random.random() for _ in range(8)], model="m")
    for hit in sealed.query(user_id=BOB, limit=10):
        sealed.vectors.add(hit.address, [1.0] * 8, model="m")
    for text in (None, "kettle"):
        wanted = plain.search(text, vector=[1.0] * 8, user_id=ADA, min_confidence=0.3)
        found = sealed.search(text, vector=[1.0] * 8, user_id=ADA, min_confidence=0.3)
        assert len(found) == 10
        assert texts(found) == texts(wanted)
        assert [hit.score for hit in found] == pytest.approx([hit.score for hit in wanted])


def test_an_erased_user_leaves_no_index_in_memory(
    stores: tuple[og.GrainStore, og.GrainStore], ring: KeyRing
) -> None:
    _, sealed = stores
    assert sealed.search("kettle", user_id=ADA)
    keys = ring.of_user(ADA)
    assert keys is not None
    index = context_of(sealed).user_texts(ring).of(keys).texts
    sealed.privacy.erase([ADA], reason_code="request")
    assert not sealed.search("kettle", user_id=ADA)
    with pytest.raises(og.errors.StoreError):
        index.catch_up(context_of(sealed).inner.read)
    with pytest.raises(ErasedError):
        ring.by_number(keys.number)


def test_a_user_with_too_many_grains_is_refused(
    stores: tuple[og.GrainStore, og.GrainStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, sealed = stores
    monkeypatch.setattr("omsgrain.storage.encrypted.MOST_OPENED", 100)
    asks: list[Callable[[], object]] = [
        lambda: sealed.search("kettle", user_id=ADA),
        lambda: sealed.query(user_id=ADA, min_confidence=0.5),
    ]
    for ask in asks:
        with pytest.raises(UnsupportedError) as caught:
            ask()
        assert caught.value.field == "/user_id"
    assert sealed.search("kettle", user_id=BOB)
    assert sealed.query(user_id=ADA, subject="tea")
