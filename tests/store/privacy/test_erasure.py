# SPDX-License-Identifier: Apache-2.0
"""Erasing a person: erased grains, kept grains, the report. On every store."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto import sign
from omsgrain.privacy import load
from omsgrain.storage.blind_index import key_of
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.tables import (
    BLIND,
    DUE,
    EVENT,
    EVENTS,
    GUARDS,
    PLAIN,
    REVIEWS,
    SIGNATURES,
    VECTORS,
    VEILED,
)
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from support.erasure_stores import BEN, USER, below, erase, is_gone, is_sealed, rows
from support.invented_people import (
    ANN,
    DAY,
    NAMES,
    NOW,
    SHOP,
    Clock,
    belief,
    consent,
    current,
    opened,
)
from support.signers import ALICE

LOCKED = {"mode": "locked", "authorized": [SHOP]}


# --- what goes -----------------------------------------------------------------------------------


def test_only_the_person_is_erased(store: og.GrainStore) -> None:
    own = [
        store.put(belief("lit", **USER)),
        store.put(belief("dim", author_did=ANN)),
        store.put(belief("red", **BEN, subject_did=ANN)),
    ]
    own.append(store.put({"type": "event", "content": "hello", "created_at": NOW, **USER}))
    others = [store.put(belief("lit", **BEN)), store.put(belief("lit", user_id="ann-17 "))]
    others.append(store.put(belief("a text with ann-17 in it")))
    report = erase(store)
    assert all(is_gone(store, address) for address in own)
    assert current(store) == sorted(others)
    assert (report.complete, report.named, report.kept) == (True, (), ())
    assert (report.scrubbed, report.scrub_due, report.rekeyed) == (True, None, False)
    sealed = 2 if is_sealed(store) else 0
    assert (report.keys, report.sealed) == (min(sealed, 1), sealed)
    assert report.erased == 4 - sealed
    assert store.audit.verify().ok
    assert store.audit.verify(grains=True).ok
    assert store.privacy.due() == []
    again = erase(store)
    assert (again.keys, again.sealed, again.erased, again.complete) == (0, 0, 0, True)


def test_a_namesake_stays_unless_it_is_asked(store: og.GrainStore) -> None:
    named = store.put(belief("kind", subject="ann-17"))
    other = store.put(belief("kind", observer_id="ann-17", **BEN))
    store.put(belief("lit", **USER))
    report = erase(store)
    assert sorted(report.named) == sorted([(named, ("subject",)), (other, ("observer_id",))])
    assert report.complete
    assert current(store) == sorted([named, other])
    report = erase(store, mentions="erase")
    assert (report.named, report.erased, current(store)) == ((), 2, [])
    assert store.audit.verify().ok


def test_locks_do_not_keep_a_grain_from_the_person(store: og.GrainStore) -> None:
    locked = store.put(belief("lit", **USER, invalidation_policy=LOCKED))
    plain = store.put(belief("lit", author_did=ANN, invalidation_policy=LOCKED))
    assert erase(store).complete
    assert is_gone(store, locked)
    assert is_gone(store, plain)


def test_unreadable_grains_are_erased_on_request(store: og.GrainStore) -> None:
    store.put(belief("lit", **BEN))
    for n in range(5):
        store.put(belief(f"lit {n}", **USER))
    report = erase(store, ciphertext=True)
    assert (len(store), report.erased, report.sealed) == (1, 5, 0)
    assert store.audit.verify().ok


def test_nothing_is_left_beside(store: og.GrainStore) -> None:
    address = store.put(belief("lit", **USER))
    store.put(belief("lit", **BEN))
    store.vectors.add(address, [1.0, 2.0], model="m")
    store.put(sign(og.encode(belief("lit", author_did=ANN)), ALICE))
    store.retract(address, reason="it was never lit")
    erase(store)
    number = None
    with below(store).read() as reader:
        if is_sealed(store):
            number = key_of(reader, 1)
            assert number is not None
        for table in (BLIND, PLAIN):
            assert not [1 for _ in reader.rows(table, prefix=number or b"")]
        for table in (VECTORS, VEILED, SIGNATURES, DUE):
            assert not list(reader.rows(table)), table
    assert b"never lit" not in rows(store)
    assert store.audit.verify().ok


# --- what tells of it ----------------------------------------------------------------------------


def test_no_address_in_the_clear_stays(store: og.GrainStore) -> None:
    blob = og.encode(belief("lit", author_did=ANN))
    address = store.put(blob)
    old = store.put(belief("dark"))
    store.supersede(old, belief("dark no more", author_did=ANN))
    new = store.status(old).superseded_by
    assert new is not None
    store.contest(address, reason="who says so")
    store.delete(address)
    store.put(blob)
    store.retract(address)
    report = erase(store)
    assert report.erased == 2
    state = store.status(old)
    assert state.superseded_by is not None
    assert state.superseded_by != new
    assert old not in current(store)
    kept = rows(store)
    for text in (address, new):
        assert bytes.fromhex(text) not in kept
        assert text.encode() not in kept
    changes = list(store.changes())
    assert {change.kind for change in changes} >= {"delete", "supersede", "verify"}
    assert not {change.address for change in changes} & {address, new}
    with below(store).read() as reader:
        marks = {EVENT.unpack(row)[2] for _, row in reader.rows(EVENTS)}
        assert bytes.fromhex(state.superseded_by) in marks
    assert store.maintenance.check().ok


def test_reviews_and_notes_about_it_go(store: og.GrainStore) -> None:
    soft = {"mode": "soft_locked", "authorized": [SHOP]}
    mine = store.put(belief("lit", **USER, invalidation_policy=soft))
    theirs = store.put(belief("lit", **BEN, invalidation_policy=soft))
    store.retract(mine, reason="my secret")
    store.retract(theirs, reason="their reason")
    assert len(list(store.reviews.pending())) == 2
    erase(store)
    assert [review.address for review in store.reviews.pending()] == [theirs]
    notes = [entry.note for entry in store.audit.entries() if entry.note]
    assert notes == ["their reason"]
    assert store.audit.verify().ok
    assert b"my secret" not in rows(store)
    with below(store).read() as reader:
        assert b"my secret" not in b"".join(row for _, row in reader.rows(REVIEWS))


def test_of_consents_the_audit_keeps_scope_and_times(store: og.GrainStore) -> None:
    store.put(consent(**USER))
    store.put(consent(1))
    store.put(consent(2, subject_did=SHOP, grantee_did="did:key:zOther"))
    assert erase(store).complete
    found = [e.details for e in store.audit.entries(operation="erase") if "given" in e.details]
    assert {frozenset(str(d["scope"]).split(",")) for d in found} == {
        frozenset(("store", "process"))
    }
    assert sorted(d["given"] for d in found) == [NOW - DAY, NOW - DAY + 1]
    assert [d["withdrawal"] for d in found] == [0, 0]
    assert len(current(store)) == 1
    assert store.audit.verify().ok


def test_the_report_and_the_store_name_no_person(store: og.GrainStore) -> None:
    store.put(belief("lit", **USER))
    store.put(belief("lit", author_did=ANN))
    report = erase(store)
    said = json.dumps(report.to_dict()) + repr(report)
    kept = rows(store)
    for name in NAMES:
        assert name not in said
        assert name.encode() not in kept
    assert report.to_dict()["complete"] is True


# --- coming back ---------------------------------------------------------------------------------


def test_erased_grains_return_only_on_request(store: og.GrainStore) -> None:
    mine, theirs = og.encode(belief("lit", **USER)), og.encode(belief("lit", **BEN))
    clear = og.encode(belief("lit", author_did=ANN))
    store.put_many([mine, theirs, clear])
    erase(store)
    for blob in (mine, clear):
        with pytest.raises(err.ErasedError):
            store.put(blob)
    report = store.put_many([mine, theirs, clear], errors="collect")
    assert [(e.index, e.error.code) for e in report.errors] == [
        (0, "ERR_ERASED"),
        (2, "ERR_ERASED"),
    ]
    back = store.put(mine, allow_erased=True)
    assert store.get(back).blob == mine


def test_the_person_may_come_again(store: og.GrainStore) -> None:
    store.put(belief("lit", **USER))
    erase(store)
    fresh = store.put(belief("new", **USER))
    assert store.get(fresh)["object"] == "new"
    assert [hit.grain["object"] for hit in store.query(user_id="ann-17").results] == ["new"]
    report = erase(store)
    assert report.complete
    assert is_gone(store, fresh)


# --- what cannot be looked into ------------------------------------------------------------------


def test_without_keys_it_is_not_complete(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        sealed = store.put(belief("lit", **USER))
        store.put(belief("lit", author_did=ANN))
        without = GrainStore(below(store), replace(context_of(store).settings, keys=None))
        report = erase(without)
        assert (report.incomplete, report.erased, report.keys) == (("unopened",), 1, 0)
        assert store.get(sealed)["object"] == "lit"
        assert erase(store).complete
        assert is_gone(store, sealed)


def test_grains_that_derive_from_unreadable_ones(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        bens = store.put(belief("lit", **BEN))
        child = store.put(belief("dim", author_did=ANN, derived_from=[bens]))
        store.privacy.erase(["ben"], reason_code="gdpr17")
        assert erase(store).complete
        assert is_gone(store, child)


def test_grains_sealed_without_a_user(tmp_path: Path) -> None:
    """Its key is that of many: the grain goes, and the key stays."""
    rules = tmp_path / "rules.toml"
    rules.write_text(
        'name = "house"\ntitle = "House"\n\n[[encrypt]]\nid = "all"\n'
        'when = { types = ["belief"] }\nreason = "so"\nsource = "us"\n'
    )
    settings = Settings(clock=Clock(), preset=load(rules))
    with opened("sealed memory", tmp_path, settings) as store:
        mine = store.put(belief("ill", author_did=ANN))
        other = store.put(belief("ill", author_did=SHOP))
        with below(store).read() as reader:
            sealed = [key_of(reader, seq) for seq in (1, 2)]
        assert sealed[0] == sealed[1] is not None
        report = erase(store)
        assert (report.keys, report.erased, report.complete) == (0, 1, True)
        assert is_gone(store, mine)
        assert store.get(other)["object"] == "ill"


def test_an_erasure_empties_the_queue_of_its_grains(store: og.GrainStore) -> None:
    grant = store.put(consent(**USER))
    policy = {"mode": "consent_cascade"}
    store.put(belief("lit", **USER, processing_basis=grant, invalidation_policy=policy))
    store.put(belief("red", **BEN, processing_basis=grant, invalidation_policy=policy))
    assert len(store.privacy.withdraw_consent(grant).queued) == 2
    assert erase(store).complete
    assert [entry.kind for entry in store.privacy.due()] == ["consent"]


def test_the_guards_of_a_lineage_go(store: og.GrainStore) -> None:
    policy = {"mode": "soft_locked", "scope": "lineage", "authorized": [SHOP]}
    old = store.put(belief("lit", author_did=ANN, invalidation_policy=policy))
    new = store.supersede(old, belief("dim", **BEN), "so")
    assert erase(store).complete
    with below(store).read() as reader:
        assert not list(reader.rows(GUARDS))
    store.retract(new)


class Away:
    """A service that keeps a master key, and does not answer."""

    def wrap(self, secret: bytes) -> bytes:
        raise OSError("no answer")

    def unwrap(self, wrapped: bytes) -> bytes:
        raise OSError("no answer")


def test_the_key_file_is_rewritten(tmp_path: Path) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=Clock())) as store:
        store.put(belief("lit", **USER))
        other = store.put(belief("lit", **BEN))
        inode = (tmp_path / "people.keys").stat().st_ino
        report = erase(store, rekey=bytes(32))
        assert (report.rekeyed, report.complete) == (True, True)
        assert (tmp_path / "people.keys").stat().st_ino != inode
        assert store.get(other)["object"] == "lit"
        with pytest.raises(err.KeyMissingError):
            store.privacy.erase(["ben"], reason_code="gdpr17", rekey=b"too short")
        assert store.get(other)["object"] == "lit"  # found out before anything was done
        report = store.privacy.erase(["ben"], reason_code="gdpr17", rekey=Away())
        assert (report.rekeyed, report.incomplete) == (False, ("rekey",))
        assert is_gone(store, other)


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (err.SchemaError, {"reason_code": ""}),
        (err.SchemaError, {"reason_code": "two words"}),
        (err.SchemaError, {"reason_code": "x" * 257}),
        (err.SchemaError, {"reason_code": "\x85"}),
        (err.SchemaError, {"mentions": "maybe"}),
        (err.SchemaError, {"scrub": "never"}),
        (err.RangeError, {"within_days": 31}),
        (err.RangeError, {"within_days": True}),
        (err.SchemaError, {"rekey": bytes(32)}),
    ],
)
def test_refused(error: type[Exception], options: dict[str, Any]) -> None:
    with GrainStore(MemoryStorage(), Settings(clock=Clock())) as store:
        address = store.put(belief("lit", **USER))
        with pytest.raises(error):
            erase(store, **options)
        for names in ([], "ann-17", [""], [7]):
            with pytest.raises(err.SchemaError):
                store.privacy.erase(names, reason_code="gdpr17")  # type: ignore[arg-type]
        assert store.get(address)["object"] == "lit"
        assert store.privacy.due() == []
