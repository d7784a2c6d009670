# SPDX-License-Identifier: Apache-2.0
"""Sealed grains in a store: readable only with the keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import crypto
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import (
    IntegrityError,
    KeyMissingError,
    NotFoundError,
    SchemaError,
    UnsupportedError,
)
from omsgrain.query import query
from omsgrain.storage.base import Storage
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import BLIND, SEALED
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings
from omsgrain.sync import LocalPeer, sync
from support.sealed_stores import USERS, belief, some
from support.signers import ALICE


@pytest.fixture
def store(below: Storage, ring: KeyRing) -> GrainStore:
    return GrainStore(below, Settings(keys=ring))


def blobs(page: Any) -> list[bytes]:
    return [hit.grain.blob for hit in page.results]


QUESTIONS: list[dict[str, Any]] = [
    {},
    {"type": "belief"},
    {"type": "goal"},
    {"subject": "kettle"},
    {"subject": "λ" * 50, "relation": "is"},
    {"relation": "was", "object": "cold"},
    {"object": {"degrees": 7}},
    {"user_id": USERS[0]},
    {"user_id": USERS[1], "subject": "stove"},
    {"user_id": USERS[2], "session_id": "s1", "tag": "a"},
    {"user_id": "nobody"},
    {"namespace": "home"},
    {"tag": "b", "order": "oldest"},
    {"origin": "urn:example:4"},
    {"origin": "urn:example:" + "λ" * 30, "user_id": USERS[1]},
    {"origin": "urn:example:none"},
    {"subject": "kettle", "verification_status": "unverified"},
    {"subject": "stove", "current": False},
    {"user_id": USERS[0], "words": "Many NUMBER"},
    {"subject": "kettle", "words": "17"},
    {"subject": "kettle", "words": "nothing"},
]


@pytest.mark.parametrize("length", [4_096, 3])
@pytest.mark.parametrize("question", QUESTIONS, ids=str)
def test_the_same_answers_as_of_plain_grains(
    store: GrainStore, question: dict[str, Any], length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of lists longer than this, single places are looked up."""
    monkeypatch.setattr("omsgrain.storage.encrypted._SOME", length)
    with GrainStore(MemoryStorage()) as plain:
        fields = some(60)
        plain.put_many(fields)
        store.put_many(fields)
        for other in (plain, store):
            retracted = other.query(subject="stove", relation="was").results[:3]
            for hit in retracted:
                if hit.grain["note"].endswith("many"):
                    other.contest(hit.address)
        expected = plain.query(**question, limit=1_000, count=True)
        found = store.query(**question, limit=1_000, count=True)
    assert sorted(blobs(found)) == sorted(blobs(expected))
    assert found.total == expected.total == len(found.results)
    times = [grain["created_at"] for grain in (hit.grain for hit in found.results)]
    assert times == [hit.grain["created_at"] for hit in expected.results]


def test_pages(store: GrainStore) -> None:
    store.put_many(some(60))
    whole = store.query(relation="is", limit=1_000)
    met: list[str] = []
    cursor = None
    while True:
        page = store.query(relation="is", limit=7, cursor=cursor)
        met += [hit.address for hit in page.results]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert met == [hit.address for hit in whole.results]
    matched = [grain.address for grain in store.iter_query(relation="is")]
    assert matched == met


@pytest.mark.parametrize(
    "question",
    [
        {"created_after": 5},
        {"created_before": 5},
        {"namespace": "home:*"},
        {"valid_at": 5, "subject": "kettle"},
        {"known_at": 5, "subject": "kettle"},
        {"min_confidence": 0.1, "subject": "kettle"},
    ],
    ids=str,
)
def test_ranges_are_refused_where_no_user_is_named(
    store: GrainStore, question: dict[str, Any]
) -> None:
    plain = store.put(belief(namespace="home:kitchen"))
    assert len(store.query(**{**question, "user_id": None}).results) <= 1  # nothing is sealed yet
    store.put(belief(user_id=USERS[0]))
    with pytest.raises(UnsupportedError):
        store.query(**question)
    found = store.query(**{**question, "user_id": None}, sealed=False)
    assert {hit.address for hit in found.results} <= {plain}


def test_search_ranks_encrypted_grains_of_a_named_user_only(store: GrainStore) -> None:
    plain = store.put(belief(object="warm water"))
    sealed = store.put(belief(object="warm milk", user_id=USERS[0]))
    with pytest.raises(UnsupportedError):
        store.search("warm")
    assert [hit.address for hit in store.search("warm", sealed=False).results] == [plain]
    assert [hit.address for hit in store.search("warm", user_id=USERS[0])] == [sealed]
    assert not store.search("warm", user_id=USERS[1])


def test_a_put_grain_comes_back(store: GrainStore) -> None:
    fields = belief(user_id=USERS[0])
    grain = og.Grain(og.encode(fields))
    address = store.put(fields)
    assert address != grain.address
    for name in (address, grain.address):
        found = store.get(name)
        assert (found, found.address, found.sealed) == (grain, address, False)
        assert store.exists(name)
    assert store.put(grain) == store.put(grain.blob) == store.put(fields) == address
    assert len(store) == 1
    assert [each.blob for each in store] == [grain.blob]
    cbor = og.encode(fields, encoding="cbor", compress=True)
    assert store.get(store.put(cbor)).blob == cbor


def test_many_with_the_same_twice(store: GrainStore) -> None:
    one, two, plain = belief(user_id=USERS[0]), belief(user_id=USERS[1]), belief()
    first = store.put(one)
    items: list[Any] = [two, one, plain, og.encode(two), plain, {"type": "belief"}]
    report = store.put_many(items, errors="collect")
    addresses = report.addresses
    assert addresses[1] == first
    assert addresses[0] == addresses[3] != og.Grain(og.encode(two)).address
    assert addresses[2] == addresses[4] == og.Grain(og.encode(plain)).address
    assert (report.stored, report.duplicates, [e.index for e in report.errors]) == (2, 3, [5])
    assert len(store) == 3


def test_plain_ones_stay_plain(store: GrainStore, below: Storage) -> None:
    """Grains from before there were keys are not stored again."""
    fields = belief(user_id=USERS[0])
    with_no_keys = GrainStore(below)
    address = with_no_keys.put(fields)
    assert store.put(fields) == address
    assert len(store) == 1


def test_handles_without_keys_see_only_headers(store: GrainStore, below: Storage) -> None:
    address = store.put(belief(user_id=USERS[0], structural_tags=["pii:name"]))
    others = GrainStore(below)
    grain = others.get(address)
    assert grain.sealed
    assert dict(grain) == {}
    assert grain.type == "belief"
    assert (grain.header.ns_hash, grain.header.created_at) == (0, 0)
    assert grain.header.sensitivity == 2
    assert others.query().results == []
    assert others.query(user_id=USERS[0]).results == []
    assert others.search("kettle").results == []
    with pytest.raises(NotFoundError):
        others.get(og.Grain(og.encode(belief(user_id=USERS[0]))).address)
    with pytest.raises(KeyMissingError):
        others.supersede(address, belief(created_at=2_000))
    with pytest.raises(KeyMissingError):
        others.delete(address)


def test_another_ring_opens_nothing(store: GrainStore, below: Storage, tmp_path: Path) -> None:
    address = store.put(belief(user_id=USERS[0]))
    with KeyRing.create(tmp_path / "other.omsk", master=bytes(range(32))) as other:
        other.ensure([USERS[0]])
        stranger = GrainStore(below, Settings(keys=other))
        assert stranger.query(user_id=USERS[0]).results == []
        with pytest.raises(KeyMissingError):
            stranger.get(address)


def test_no_row_links_two_users(store: GrainStore, below: Storage) -> None:
    for user in USERS[:2]:
        store.put(belief(user_id=user))
    with below.read() as reader:
        rows = [key for key, _ in reader.rows(BLIND)]
        keys = {number for _, number in reader.rows(SEALED)}
    tokens = [{row[8:24] for row in rows if row[:8] == key} for key in keys]
    assert len(tokens) == 2
    assert min(map(len, tokens)) >= 8
    assert not tokens[0] & tokens[1]
    times = {row[24:30] for row in rows}
    assert len(times) == 2  # equal times show as different ones
    assert (1_000).to_bytes(6, "big") not in times


def test_words_that_are_none(store: GrainStore) -> None:
    for words in ("", " - "):
        with pytest.raises(SchemaError):
            store.query(words=words, user_id="x")
    with pytest.raises(UnsupportedError):
        store.query(words="kettle")
    store.put(belief())
    assert len(store.query(words="KETTLE warm", scan=True).results) == 1


@pytest.mark.parametrize("at", [-1, 0, 3, 12, 40])  # tag, version, header, nonce, text
def test_flipped_bytes_and_a_wrong_key_have_different_codes(
    tmp_path: Path, ring: KeyRing, at: int
) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path, keys=ring) as store:
        address = store.put(belief(user_id=USERS[0]))
    with og.open(path) as plain:
        blob = bytearray(plain.get(address).blob)
    raw = (path / "data.mdb").read_bytes()
    assert raw.count(bytes(blob)) >= 1
    flipped = bytearray(blob)
    flipped[at] ^= 1
    (path / "data.mdb").write_bytes(raw.replace(bytes(blob), bytes(flipped)))
    with og.open(path, keys=ring) as store, pytest.raises(IntegrityError):
        store.get(address)


# --- without keys: nothing of a user in the clear ------------------------------------------------


def refused(work: Any, *given: Any, **options: Any) -> bool:
    """Whether a call is refused for want of keys."""
    try:
        work(*given, **options)
    except KeyMissingError:
        return True
    return False


def test_a_handle_without_keys_stores_no_user_in_the_clear(
    store: GrainStore, below: Storage, ring: KeyRing, tmp_path: Path
) -> None:
    user = {"user_id": USERS[0]}
    open_grain = store.put(belief(object="open"))
    sealed = store.put(belief(object="sealed", **user))
    keyless, told = GrainStore(below), GrainStore(below, Settings(plain=True))
    mine = belief(object="mine", **user)
    assert refused(keyless.put, mine)
    assert refused(keyless.put, crypto.sign(og.Grain(og.encode(mine)), ALICE))
    assert refused(keyless.put_many, [belief(), mine])
    assert refused(keyless.supersede, open_grain, mine)
    report = keyless.put_many([belief(object="nobody's"), mine], errors="collect")
    assert (report.stored, [one.error.code for one in report.errors]) == (1, ["ERR_KEY"])
    with store_of(mine) as other:
        other.export_mg(tmp_path / "mine.mg")
        assert refused(keyless.import_mg, tmp_path / "mine.mg")
        done = sync(LocalPeer(keyless), LocalPeer(other))
        assert [one.code for one in done.refused] == ["ERR_KEY"]
    store.export_mg(tmp_path / "sealed.mg")
    assert keyless.import_mg(tmp_path / "sealed.mg").duplicates == 3
    assert {grain.address for grain in keyless if not grain.sealed} == {
        open_grain,
        *grain_of(report),
    }
    assert keyless.get(sealed).sealed
    clear = told.put(mine)
    assert keyless.put(mine) == clear  # which is there already
    assert refused(keyless.sign, clear, ALICE)
    assert told.sign(clear, ALICE)


def grain_of(report: Any) -> list[str]:
    return [address for address in report.addresses if address is not None]


def store_of(*grains: dict[str, Any]) -> GrainStore:
    store = GrainStore(MemoryStorage())
    store.put_many(grains)
    return store


def test_a_store_of_foreign_sealed_grains_accepts_plain_ones(
    store: GrainStore, tmp_path: Path
) -> None:
    """Anybody can make a sealed blob, and must not close somebody's store with it."""
    store.put(belief(object="sealed", user_id=USERS[0]))
    store.export_mg(tmp_path / "sealed.mg")
    with store_of() as relay:
        relay.import_mg(tmp_path / "sealed.mg")
        assert relay.put(belief(user_id=USERS[1]))


def test_plain_is_for_a_store_without_keys(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "m.omsg"
    with pytest.raises(SchemaError):
        og.open(path, keys=ring, plain=True)
    with og.open(path, keys=ring) as store:
        store.put(belief(user_id=USERS[0]))
    with og.open(path) as store:
        assert refused(store.put, belief(object="mine", user_id=USERS[0]))
        assert refused(store.as_actor("ada").put, belief(user_id="b"))
    with og.open(path, plain=True) as store:
        assert store.as_actor("ada").put(belief(object="mine", user_id=USERS[0]))


def test_a_question_about_all_of_very_many_users_is_refused(
    store: GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It made a token for each: 2.5 s for 100,000 users."""
    monkeypatch.setattr(query, "_USERS", 2)
    for user in USERS[:2]:
        store.put(belief(user_id=user))
    assert len(store.query(subject="kettle").results) == 2
    store.put(belief(user_id=USERS[2]))
    with pytest.raises(UnsupportedError) as refused_by:
        store.query(subject="kettle")
    assert refused_by.value.field == "/user_id"
    assert len(store.query(subject="kettle", user_id=USERS[0]).results) == 1
    assert len(store.query(subject="kettle", scan=True).results) == 3
    assert store.query(subject="kettle", sealed=False).results == []
