# SPDX-License-Identifier: Apache-2.0
"""The life of sealed grains: superseded, signed, erased, deleted, restored."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import crypto
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import (
    ErasedError,
    EvidenceRequiredError,
    InvalidationDeniedError,
    KeyMissingError,
    NotFoundError,
    SignatureError,
)
from omsgrain.search.vectors import models
from omsgrain.storage.base import Storage
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.storage.tables import (
    BLIND,
    BLOBS,
    KEYED,
    PLAIN,
    SEALED,
    SEQUENCE,
    SIGNATURES,
    TABLES,
    VEILED,
    Life,
)
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from omsgrain.store.trust import Required
from support.sealed_stores import USERS, belief, some
from support.signers import ALICE, BOB, GRAIN


@pytest.fixture
def store(below: Storage, ring: KeyRing) -> GrainStore:
    return GrainStore(below, Settings(keys=ring))


def test_an_envelope_comes_back(store: GrainStore) -> None:
    fields = {**GRAIN.to_dict(), "user_id": USERS[0]}
    envelope = crypto.sign(og.Grain(og.encode(fields)), ALICE)
    address = store.put(envelope)
    grain = store.get(address)
    assert grain.header.signed
    assert grain == crypto.verify_signed(envelope)
    assert store.trust.envelope(address) == envelope
    assert [one.signer for one in store.trust.signatures(address)] == [ALICE.did]


def test_a_destroyed_key(store: GrainStore, ring: KeyRing) -> None:
    fields = belief(user_id=USERS[0])
    gone, kept = store.put(fields), store.put(belief(user_id=USERS[1]))
    ring.erase([USERS[0]])
    with pytest.raises(ErasedError):
        store.get(gone)
    assert [hit.address for hit in store.query(subject="kettle").results] == [kept]
    again = store.put(fields)
    assert again != gone
    assert store.get(again).blob == og.encode(fields)


def test_a_key_that_goes_between_sealing_and_storing(
    store: GrainStore, ring: KeyRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A grain sealed under a destroyed key could never be read: it is sealed again."""
    ensure, calls = ring.ensure, []

    def twice(users: Any) -> None:
        ensure(users)
        calls.append(users)

    write = context_of(store).storage.write

    def erase_first(work: Any, **given: Any) -> Any:
        if len(calls) == 1:
            ring.erase([USERS[0]])
        return write(work, **given)

    monkeypatch.setattr(KeyRing, "ensure", lambda self, users: twice(users))
    monkeypatch.setattr(context_of(store).storage, "write", erase_first)
    address = store.put(belief(user_id=USERS[0]))
    assert len(calls) == 2
    assert store.get(address)["subject"] == "kettle"


def test_superseding_and_deriving(store: GrainStore) -> None:
    first = store.put(belief(user_id=USERS[0]))
    plain = og.address(store.get(first).blob)
    child = store.put(belief(user_id=USERS[1], derived_from=[plain]))
    other = store.put(belief(user_id=USERS[1], derived_from=[first], object="x"))
    second = store.supersede(plain, belief(user_id=USERS[0], created_at=2_000))
    assert store.status(first).superseded_by == second
    assert [grain.address for grain in store.history(second)] == [first, second]
    assert {node.address for node in store.graph.descendants(first).nodes} == {first, child, other}
    sources = [node.grain for node in store.graph.provenance(child).nodes]
    assert [grain and grain.address for grain in sources] == [child, first]
    assert [hit.address for hit in store.query(user_id=USERS[0]).results] == [second]
    with pytest.raises(InvalidationDeniedError):
        locked = store.put(
            belief(user_id=USERS[0], object="y", invalidation_policy={"mode": "locked"})
        )
        store.retract(locked)


def test_rows_go_with_the_grain(store: GrainStore, below: Storage) -> None:
    addresses = [store.put(fields) for fields in some(12)]
    vectored = next(a for a in addresses if store.get(a).get("user_id"))
    store.vectors.add(vectored, [1.0, 2.0], model="m")
    for address in addresses:
        store.delete(address)
    with below.read() as reader:
        for table in (BLIND, PLAIN, SEALED, KEYED, VEILED):
            assert list(reader.rows(table)) == []
    again = GrainStore(below)
    assert again.maintenance.check().ok


def test_rows_go_without_the_key_too(store: GrainStore, below: Storage) -> None:
    keep = store.put(belief(user_id=USERS[0]))
    drop = store.put(belief(user_id=USERS[0], object="x"))
    with below.read() as reader:
        seq = reader.find([bytes.fromhex(drop)])[0]
        before = sum(1 for _ in reader.rows(BLIND))
    assert seq is not None
    below.write(lambda writer: writer.remove(seq))
    with below.read() as reader:
        assert 0 < sum(1 for _ in reader.rows(BLIND)) < before
        assert all(key[-4:] != SEQUENCE.pack(seq)[-4:] for key, _ in reader.rows(BLIND))
    assert [hit.address for hit in store.query(subject="kettle").results] == [keep]


def test_vectors_are_sealed(store: GrainStore, below: Storage) -> None:
    address, plain = store.put(belief(user_id=USERS[0])), store.put(belief())
    store.vectors.add(address, [0.5, 0.25], model="m")
    store.vectors.add(plain, [0.5, 0.75], model="m")
    (found_vector,) = store.vectors.get(address).values()
    assert list(found_vector) == [0.5, 0.25]
    found = store.search(vector=[1.0, 1.0], sealed=False).results
    assert [hit.address for hit in found] == [plain]
    others = GrainStore(below)
    assert others.vectors.get(address) == {}
    with pytest.raises(KeyMissingError):
        others.vectors.add(address, [1.0, 2.0], model="m")


def test_a_model_of_sealed_vectors_is_forgotten_with_the_last(
    store: GrainStore, below: Storage
) -> None:
    """Also where one user has it under another dimension, and the other is erased."""
    for n, user in enumerate(USERS[:2]):
        address = store.put(belief(user_id=user))
        store.vectors.add(address, [0.5] * (n + 1), model="m")
        assert list(store.vectors.get(address)["m"]) == [0.5] * (n + 1)
    for left in ([2], []):
        store.privacy.erase([USERS[1 - len(left)]], reason_code="asked")
        with below.read() as reader:
            assert [model.dimension for model in models(reader)] == left


def test_a_rule_can_want_sealing(below: Storage, ring: KeyRing) -> None:
    from omsgrain.privacy import load

    store = GrainStore(below, Settings(keys=ring, preset=load("hipaa")))
    fields = {"structural_tags": ["phi:mrn"], "author_did": ALICE.did, "subject_did": ALICE.did}
    secret = store.put(belief(**fields, processing_basis="treatment"))
    assert GrainStore(below).get(secret).sealed
    assert store.get(secret)["subject"] == "kettle"
    assert not GrainStore(below).get(store.put(belief())).sealed


def test_files_show_nothing(tmp_path: Path, ring: KeyRing) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path, keys=ring) as store:
        address = store.put(belief(user_id="lisbeth", subject="samovar", session_id="session-9"))
        store.vectors.add(address, [0.1, 0.2], model="m")
        store.put(belief())
        store.search("kettle", sealed=False)
        assert store.maintenance.check().ok
        store.maintenance.rebuild()
        assert len(store.query(subject="samovar").results) == 1
        store.maintenance.compact()
        store.maintenance.backup(tmp_path / "copy.omsg")
        assert len(store.query(user_id="lisbeth").results) == 1
    raw = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    for text in ("lisbeth", "samovar", "session-9"):
        for form in (text.encode(), text.encode("utf-16-le"), text.encode().hex().encode()):
            assert form not in raw
    with og.open(tmp_path / "copy.omsg", keys=ring) as copy:
        assert len(copy.query(user_id="lisbeth", words="samovar").results) == 1


def test_no_plain_address_is_stored_unencrypted(store: GrainStore, below: Storage) -> None:
    """It would confirm a guess that the store has a certain grain."""
    fields = belief(user_id=USERS[0])
    plain = og.Grain(og.encode(fields)).address
    address = store.put(fields)
    store.holds.add(plain, authority="court", reason_code="x")
    store.holds.release(plain, authority="court", reason_code="x")
    store.contest(plain)
    store.vectors.add(plain, [1.0], model="m")
    store.supersede(plain, belief(user_id=USERS[0], created_at=2_000))
    other = store.put(belief(user_id=USERS[0], object="x"))
    store.privacy.restrict(og.address(store.get(other).blob), reason_code="x")
    store.delete(og.address(store.get(other).blob))
    assert {change.address for change in store.changes()} >= {address, other}
    with below.read() as reader:
        found = [
            key + value
            for table in TABLES
            if not table.places and table is not BLOBS
            for key, value in reader.rows(table)
        ]
    raw = b"".join(found)
    for blob in (og.encode(fields), og.encode(belief(user_id=USERS[0], object="x"))):
        assert bytes.fromhex(og.address(blob)) not in raw
        assert og.address(blob).encode() not in raw


def test_a_hold_over_what_derives_keeps_the_key(store: GrainStore, ring: KeyRing) -> None:
    source = store.put(
        belief(
            user_id=USERS[1],
            invalidation_policy={"mode": "hold", "scope": "subtree"},
        )
    )
    derived = store.put(belief(user_id=USERS[0], derived_from=[source]))
    report = store.privacy.erase([USERS[0]], reason_code="x", scrub="queued")
    assert [address for address, _ in report.kept] == [derived]
    assert not report.complete
    assert store.get(derived)["subject"] == "kettle"
    assert ring.of_user(USERS[0]) is not None


def test_after_an_erasure(store: GrainStore, ring: KeyRing) -> None:
    fields = belief(user_id=USERS[0])
    gone, plain = store.put(fields), store.put(belief())
    child = store.put(belief(user_id=USERS[1], derived_from=[gone]))
    store.privacy.erase([USERS[0]], reason_code="x", scrub="queued")
    store.retract(child)  # of what it derives from nothing is known any more
    store.privacy.erase([USERS[1]], reason_code="x", scrub="queued")
    assert [hit.address for hit in store.search("kettle").results] == [plain]
    assert len(store.query(created_after=1).results) == 1
    with pytest.raises(ErasedError):
        store.put(fields)
    with pytest.raises(ErasedError):
        store.supersede(plain, fields)
    for change in (store.delete, store.contest):
        with pytest.raises(ErasedError):
            change(gone)
    with pytest.raises(KeyMissingError):
        store.privacy.erase([USERS[2]], reason_code="x", rekey=b"too short")
    assert store.put_many([fields], errors="collect").errors[0].error.code == "ERR_ERASED"
    assert ring.of_user(USERS[0]) is None  # nothing is made for what is refused
    back = store.put(fields, allow_erased=True)
    assert store.put(fields) == back
    assert store.put_many([fields, fields]).addresses == [back, back]


def test_verifying_continues_after_a_damaged_sealed_grain(tmp_path: Path, ring: KeyRing) -> None:
    inner = LmdbStorage(tmp_path / "s.omsg")
    with GrainStore(inner, Settings(keys=ring)) as store:
        damaged = bytes.fromhex(store.put(belief(user_id=USERS[0])))
        store.put(belief(user_id=USERS[1]))
        with inner.read() as reader:
            blob = reader.blob_at(1)
        assert blob is not None
        row = damaged[:8] + blob[:-1] + bytes([blob[-1] ^ 1])
        inner.write(lambda writer: writer.set_row(BLOBS, SEQUENCE.pack(1), row))
        report = store.verify(errors="collect")
        assert report.verified == 1
        assert [(bad.index, bad.error.code) for bad in report.errors] == [(1, "ERR_INTEGRITY")]


def test_evidence_by_both_names_of_a_grain_is_one_piece(store: GrainStore) -> None:
    seen = store.put(belief(user_id=USERS[0]))
    names = [seen, og.address(store.get(seen).blob)]
    goal = {"type": "goal", "description": "warm it", "created_at": 1_000, "evidence_required": 2}
    active = store.put({**goal, "goal_state": "active"})
    done = {**goal, "goal_state": "satisfied", "satisfaction_evidence": names}
    with pytest.raises(EvidenceRequiredError):
        store.supersede(active, done)
    with pytest.raises(EvidenceRequiredError):
        store.put(done)
    other = store.put(belief(user_id=USERS[1]))
    store.supersede(active, {**done, "satisfaction_evidence": [names[1], other]})


def test_erasures_hold_in_a_backup_restored_without_keys(tmp_path: Path, ring: KeyRing) -> None:
    path, copy, new = (tmp_path / name for name in ("s.omsg", "copy.omsg", "new.omsg"))
    with og.open(path, keys=ring) as store:
        doomed = store.put(belief(user_id=USERS[0], object="gone"))
        kept = store.put(belief(user_id=USERS[0]))
        store.maintenance.backup(copy)
        store.delete_many([doomed], erased="asked")
    og.restore(copy, new, tombstones_from=path)
    with og.open(new, keys=ring) as store:
        assert [hit.address for hit in store.query().results] == [kept]
        assert not store.exists(doomed)
        assert store.maintenance.check().ok
        assert store.audit.verify(grains=True).ok


def test_restoring_an_old_backup(tmp_path: Path, ring: KeyRing) -> None:
    path, copy, new = (tmp_path / name for name in ("s.omsg", "copy.omsg", "new.omsg"))
    with og.open(path, keys=ring) as store:
        clear = store.put(belief(subject_did=ALICE.did, object="clear"))
        kept = store.put(belief(object="kept"))
        sealed = store.put(belief(user_id=USERS[0]))
        store.maintenance.backup(copy)
        report = store.privacy.erase([USERS[0], ALICE.did], reason_code="x")
        assert report.complete
        before = len(store)
    og.restore(copy, new, keys=ring, tombstones_from=path)
    with og.open(new, keys=ring) as store:
        assert [hit.address for hit in store.query().results] == [kept]
        with pytest.raises(NotFoundError):
            store.get(clear)
        with pytest.raises(ErasedError):
            store.get(sealed)
        assert len(store) == before
        assert store.maintenance.check().ok
        assert store.audit.verify().ok
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("signed_first", [True, False])
def test_a_signed_grain_of_the_store_supersedes_another(
    store: GrainStore, signed_first: bool
) -> None:
    fields = belief(user_id=USERS[0])
    old = store.put(belief(user_id=USERS[0], object="old"))
    if signed_first:
        new = store.put(crypto.sign(og.Grain(og.encode(fields)), ALICE))
    else:
        new = store.sign(store.put(fields), ALICE)
    assert store.supersede(old, store.get(new)) == new
    assert store.status(old).superseded_by == new


@pytest.mark.parametrize("signed_first", [True, False])
def test_signed_and_sealed(store: GrainStore, below: Storage, signed_first: bool) -> None:
    fields = {**GRAIN.to_dict(), "user_id": USERS[0]}
    if signed_first:
        address = store.put(crypto.sign(og.Grain(og.encode(fields)), ALICE))
    else:
        unsigned = store.put(fields)
        address = store.sign(unsigned, ALICE)
        assert store.status(unsigned).superseded_by == address
        assert crypto.prove(store.trust.envelope(address))[1].signer == ALICE.did
    assert store.sign(address, BOB) == address
    assert store.sign(address, BOB) == address
    assert {one.signer for one in store.trust.signatures(address)} == {ALICE.did, BOB.did}
    assert all(one.proven for one in store.trust.signatures(address))
    assert store.get(address)["user_id"] == USERS[0]
    others = GrainStore(below)
    assert {one.signer for one in others.trust.signatures(address)} == (
        set() if signed_first else {ALICE.did, BOB.did}
    )
    if isinstance(below, LmdbStorage):
        assert store.maintenance.check().ok
    store.delete(address)
    with below.read() as reader:
        assert list(reader.rows(SIGNATURES)) == []


def test_a_signature_is_asked_for_and_the_grain_is_sealed(below: Storage, ring: KeyRing) -> None:
    store = GrainStore(below, Settings(keys=ring, require=Required.parse({"type": ["belief"]})))
    fields = {**GRAIN.to_dict(), "user_id": USERS[0]}
    with pytest.raises(SignatureError):
        store.put(fields)
    envelope = crypto.sign(og.Grain(og.encode(fields)), ALICE)
    address = store.put(envelope)
    assert GrainStore(below).get(address).sealed
    locked = belief(
        user_id=USERS[0], invalidation_policy={"mode": "delegated", "authorized": [BOB.did]}
    )
    old = store.put(crypto.sign(og.Grain(og.encode(locked)), ALICE))
    greeting = og.Grain(og.encode(belief(user_id=USERS[0], created_at=9_000)))
    # A sealed grain goes by the address in the store, and by that of what it says.
    names = (old, store.get(old).address, og.address(store.get(old).blob))
    for at, name in enumerate(names, 9_001):
        fields = belief(user_id=USERS[0], created_at=at, derived_from=[name])
        new = og.Grain(og.encode(fields))
        for refused in (crypto.sign(new, ALICE), crypto.sign(greeting, BOB)):
            with pytest.raises(InvalidationDeniedError):
                store.supersede(old, refused)
        assert store.supersede(old, crypto.sign(new, BOB)) in store.status(old).successors


def test_signed_sealed_and_erased(tmp_path: Path, ring: KeyRing) -> None:
    with og.open(tmp_path / "s.omsg", keys=ring) as store:
        for user in USERS[:2]:
            store.sign(store.put(belief(user_id=user)), ALICE)
        assert store.privacy.erase([USERS[0]], reason_code="x").complete
        assert store.maintenance.check().problems == ()


@pytest.mark.parametrize("filters", [{}, {"type": "belief"}])
def test_sealed_grains_travel_sealed(
    tmp_path: Path, ring: KeyRing, filters: dict[str, Any]
) -> None:
    """Only a holder of the keys opens them in the other store."""
    file = tmp_path / "all.mg"
    with og.open(tmp_path / "a.omsg", keys=ring) as store:
        sealed = [store.put(fields) for fields in some(30)]
        envelope = crypto.sign(
            og.Grain(og.encode({**GRAIN.to_dict(), "user_id": USERS[0]})), ALICE
        )
        sealed.append(store.put(envelope))
        expected = {address: store.get(address).blob for address in sealed}
        store.export_mg(file, **filters)
    with og.open(tmp_path / "b.omsg", keys=ring) as other:
        report = other.import_mg(file)
        assert (report.stored, report.errors) == (len(set(sealed)), [])
        assert {a: other.get(a).blob for a in expected} == expected
        assert len(other.query(user_id=USERS[0], limit=100).results) > 1
        assert other.put(envelope) == sealed[-1]
        assert [one.signer for one in other.trust.signatures(sealed[-1])] == [ALICE.did]
        assert [one.proven for one in other.trust.signatures(sealed[-1])] == [True]
        assert other.trust.envelope(sealed[-1]) == envelope
        assert other.maintenance.check().ok
    with og.open(tmp_path / "c.omsg") as stranger:
        assert stranger.import_mg(file).errors == []
        assert sum(stranger.get(address).sealed for address in expected) > 10
    with og.open(tmp_path / "c.omsg", keys=ring) as known:
        assert {a: known.get(a).blob for a in expected} == expected
        assert [grain.blob for grain in known.get_many(expected)] == [*expected.values()]
        assert known.query(user_id=USERS[0], limit=100).results == []
        assert known.import_mg(file).stored == 0
        assert {a: known.get(a).blob for a in expected} == expected
        assert len(known.query(user_id=USERS[0], limit=100).results) > 1
        assert known.put(envelope) == sealed[-1]
        assert known.trust.envelope(sealed[-1]) == envelope
        assert known.maintenance.check().ok
        assert known.privacy.erase(USERS, reason_code="gdpr17").complete
        assert known.maintenance.check().ok


def test_a_justification_of_sealed_grains_stays_in_them(store: GrainStore, below: Storage) -> None:
    policy = {"mode": "soft_locked"}
    old = store.put(belief(user_id=USERS[0], invalidation_policy=policy))
    new = belief(user_id=USERS[0], created_at=2_000, invalidation_policy=policy)
    after = store.supersede(old, new, "her words were others")
    (review,) = store.reviews.pending()
    assert review.justification is None
    assert store.get(after)["supersession_justification"] == "her words were others"
    with below.read() as reader:
        tables = [t for t in TABLES if not t.places and t.life is not Life.BLOBS]
        rows = [value for table in tables for _, value in reader.rows(table)]
        rows += [blob for _, blob in reader.page(0)]
    assert b"her words" not in b"".join(rows)
