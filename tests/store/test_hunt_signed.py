# SPDX-License-Identifier: Apache-2.0
"""Defects found by use of signatures, reviews and reports."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto import Ed25519Signer, sign
from omsgrain.privacy import load
from omsgrain.query import history
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.memory import MemoryStorage
from omsgrain.storage.signatures import MOST
from omsgrain.storage.tables import EVENTS, SEQUENCE, STATES
from omsgrain.store import GrainStore
from omsgrain.store.context import Settings, context_of
from omsgrain.store.prepared import PreparedGrains
from omsgrain.store.privacy import consent as withdrawing
from omsgrain.store.privacy import erasure
from omsgrain.store.trust import Required
from support.invented_people import EVERYWHERE, KINDS, NOW, belief, consent, opened
from support.signed_stores import make, signed, signed_by
from support.signers import ALICE, BOB, CAROL, FIELDS

GDPR = load(("gdpr",))
PERSON: dict[str, Any] = {
    "structural_tags": ["pii:email"],
    "user_id": "ann-17",
    "processing_basis": "contract",
}
SEALED = [kind for kind in KINDS if kind.startswith("sealed")]


@pytest.fixture(params=EVERYWHERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings()) as made:
        yield made


@pytest.fixture(params=SEALED)
def regulated(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    with opened(request.param, tmp_path, Settings(preset=GDPR)) as made:
        yield made


# Signatures


@pytest.mark.parametrize("user", [{}, {"user_id": "ann-17"}])
def test_signing_the_first_version_signs_the_stored_blob(
    store: og.GrainStore, user: dict[str, Any]
) -> None:
    old = store.put(belief("lit", **user))
    new = store.sign(old, ALICE)
    assert store.sign(old, BOB) == store.sign(old, CAROL) == new
    found = store.trust.signatures(new)
    assert [one.signer for one in found] == sorted(one.did for one in (ALICE, BOB, CAROL))
    with context_of(store).storage.read() as reader:
        stands = reader.get(bytes.fromhex(new))
    for one in found:
        blob, proof = og.crypto.prove(one.envelope)
        assert (blob, proof.signer) == (stands, one.signer)


def test_an_unsigned_stored_grain_gets_the_signature(store: og.GrainStore) -> None:
    old = store.put(belief("lit", user_id="ann-17"))
    twin = store.put({**store.get(old).to_dict(), "derived_from": [old]})
    new = store.sign(old, ALICE)
    for one in store.trust.signatures(new):
        assert og.crypto.prove(one.envelope)[1].signer == ALICE.did
    assert len(store.trust.signatures(new)) == 1
    assert store.get(twin)["object"] == "lit"


def test_a_restricted_grain_stays_so_when_it_is_signed(store: og.GrainStore) -> None:
    old = store.put(belief("lit", user_id="ann-17"))
    store.privacy.restrict(old, reason_code="art18")
    new = store.sign(old, ALICE)
    assert store.status(new).restricted
    assert store.query().results == []
    assert [entry.operation for entry in store.audit.entries()][-2:] == ["restrict", "sign"]


def unknown(number: int) -> Ed25519Signer:
    """A signer with an unresolvable DID."""
    key = Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)
    return Ed25519Signer(key, f"did:web:x{number}.example")


@pytest.mark.parametrize("user", [{}, {"user_id": "ann-17"}])
def test_unverified_signatures_leave_room_for_verified_ones(
    store: og.GrainStore, user: dict[str, Any]
) -> None:
    fields = belief("lit", **user)
    address = None
    for envelope in signed(fields, *(unknown(number) for number in range(MOST))):
        address = store.put(envelope)
    with pytest.raises(err.RangeError):
        store.put(signed_by(unknown(MOST), fields))
    assert store.put(signed_by(ALICE, fields)) == address
    found = store.trust.signatures(address or "")
    assert len(found) == MOST
    assert [one.signer for one in found if one.proven] == [ALICE.did]


@pytest.mark.parametrize("user", [{}, {"user_id": "ann-17"}])
def test_a_signature_too_many_keeps_a_grain_from_superseding(
    store: og.GrainStore, user: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("omsgrain.storage.signatures.MOST", 2)
    old = store.put(belief("dim", **user))
    first, second, third = signed(belief("lit", **user), ALICE, BOB, CAROL)
    new = store.put(first)
    assert store.put(second) == new
    with pytest.raises(err.RangeError):
        store.supersede(old, third)
    assert store.status(old).successors == ()
    assert store.supersede(old, second) == new
    with pytest.raises(err.RangeError):
        store.supersede(old, third)
    assert len(store.trust.signatures(new)) == 2


def test_a_report_has_all_who_signed(store: og.GrainStore, tmp_path: Path) -> None:
    envelopes = signed(belief("lit", user_id="ann-17"), ALICE, BOB, CAROL)
    (address,) = {store.put(envelope) for envelope in envelopes}
    store.privacy.report(["ann-17"]).write_mg(tmp_path / "ann.mg")
    with make("memory", tmp_path) as other:
        other.import_mg(tmp_path / "ann.mg")
        (hit,) = other.query().results
        found = [one.envelope for one in other.trust.signatures(hit.address)]
    assert sorted(found) == sorted(envelopes)
    assert len(store.trust.signatures(address)) == 3


# Presets


def test_a_repeated_grain_is_put_and_reviewed_once(regulated: og.GrainStore) -> None:
    grain = belief("lit", source_type="llm_generated", **PERSON)
    report = regulated.put_many([grain, grain])
    (address,) = set(report.addresses)
    assert (report.stored, report.duplicates) == (1, 1)
    assert [review.address for review in regulated.reviews.pending()] == [address]


def test_a_claim_about_what_is_sealed_here_counts(
    regulated: og.GrainStore, tmp_path: Path
) -> None:
    with make("memory", tmp_path) as other:
        old = other.put(belief("dim", **PERSON))
        other.supersede(old, belief("lit", **PERSON, created_at=NOW + 1))
        other.export_mg(tmp_path / "two.mg")
    report = regulated.import_mg(tmp_path / "two.mg")
    assert (report.stored, report.merged, report.refused) == (2, 1, [])
    assert regulated.status(old).superseded_by is not None


def test_consents_of_a_batch_are_gathered_once(
    regulated: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0
    gather = PreparedGrains.plain

    def counted(given: PreparedGrains, i: int) -> bytes:
        nonlocal calls
        calls += 1
        return gather(given, i)

    monkeypatch.setattr(PreparedGrains, "plain", counted)
    given = [consent(at) for at in range(20)]
    basis = og.address(og.encode(given[0]))
    many = [belief(f"{n}", **PERSON | {"processing_basis": basis}) for n in range(50)]
    regulated.put_many([*given, *many])
    assert calls < 10 * len(given + many)


def test_a_withdrawn_consent_does_not_come_back_with_its_grains(
    regulated: og.GrainStore,
) -> None:
    grant = consent(user_id="ann-17")
    basis = og.address(og.encode(grant))
    more = belief("lit", **PERSON | {"processing_basis": basis})
    withdrawal = regulated.privacy.withdraw_consent(regulated.put(grant)).withdrawal
    for items in ([grant, more], [more, grant]):
        with pytest.raises(err.SchemaError) as refused:
            regulated.put_many(items)
        assert refused.value.rule == "consent"
    regulated.retract(withdrawal, reason="it was not she")
    assert regulated.put_many([grant, more]).stored == 1


@pytest.mark.parametrize("first", [True, False])
def test_a_withdrawal_counts_whenever_it_comes(regulated: og.GrainStore, first: bool) -> None:
    grant = consent(user_id="ann-17")
    basis = og.address(og.encode(grant))
    more = belief("lit", **PERSON | {"processing_basis": basis})
    withdrawal = {**grant, "is_withdrawal": True, "prior_consent": basis, "created_at": NOW}
    if first:
        regulated.put(withdrawal)
    with pytest.raises(err.SchemaError) as refused:
        regulated.put_many([grant, more] if first else [grant, more, withdrawal])
    assert refused.value.rule == "consent"
    regulated.put_many([grant, withdrawal])
    regulated.retract(og.address(og.encode(withdrawal)), reason="it was not she")
    assert regulated.put_many([grant, withdrawal, more]).stored == 1


def test_a_withdrawal_beside_the_grain_counts_by_any_name(regulated: og.GrainStore) -> None:
    grant = consent(user_id="ann-17")
    stored, basis = regulated.put(grant), og.address(og.encode(grant))
    for name in (stored, basis):
        withdrawal = {**grant, "is_withdrawal": True, "prior_consent": name, "created_at": NOW}
        more = belief("lit", **PERSON | {"processing_basis": basis})
        with pytest.raises(err.SchemaError):
            regulated.put_many([withdrawal, more])


def test_a_lineage_is_walked_once(store: og.GrainStore, monkeypatch: pytest.MonkeyPatch) -> None:
    walked: list[int] = []
    walk = history.members

    def counted(reader: Reader, seq: int) -> dict[int, list[int]]:
        walked.append(seq)
        return walk(reader, seq)

    basis = store.put(consent())
    policy = {"mode": "consent_cascade", "scope": "lineage"}
    fields = {"processing_basis": basis, "invalidation_policy": policy}
    address = store.put(belief("0", **fields))
    for n in range(1, 10):
        address = store.supersede(
            address, belief(f"{n}", created_at=NOW + n, **fields), justification="it changed"
        )
    monkeypatch.setattr(withdrawing, "members", counted)
    assert len(store.privacy.withdraw_consent(basis).queued) == 10
    assert sum(seq != 1 for seq in walked) == 1  # the consent is the first grain


# Erasing


def test_an_erasure_marks_all_its_pages(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasure, "_PAGE", 3)
    old = [store.put(belief(f"{n}", subject="lamp", user_id="ben")) for n in range(8)]
    new = [
        store.supersede(address, belief(f"{n}'", user_id="ann-17", created_at=NOW + 1))
        for n, address in enumerate(old)
    ]
    plain = [bytes.fromhex(og.address(store.get(address).blob)) for address in new]
    store.privacy.erase(["ann-17"], reason_code="gdpr17", ciphertext=True)
    with context_of(store).storage.read() as reader:
        below = reader.raw
        said = b"".join(row for table in (EVENTS, STATES) for _, row in below.rows(table))
    assert not [digest for digest in plain if digest in said]
    assert all(store.status(address).superseded_by not in (None, *new) for address in old) or (
        context_of(store).settings.keys is not None
    )


def test_damaged_states_do_not_keep_others_from_being_erased(store: og.GrainStore) -> None:
    old = store.put(belief("dim", user_id="ben"))
    new = store.supersede(old, belief("lit", user_id="ann-17", created_at=NOW + 1))
    key = SEQUENCE.pack(1)

    def damage(writer: Writer) -> None:
        row = writer.row(STATES, key) or b""
        writer.set_row(STATES, key, bytes([row[0] | 0x80]) + row[1:])

    context_of(store).storage.write(damage)
    report = store.privacy.erase(["ann-17"], reason_code="gdpr17", ciphertext=True)
    assert report.erased == 1
    assert not store.exists(new)


def test_half_a_view_is_refused() -> None:
    """Without the address of the original it would pass for a grain that lacks its fields."""
    fields = {**FIELDS, "_elided": {"object": "sha256:" + "0" * 64}}
    del fields["object"]
    with GrainStore(MemoryStorage()) as store, pytest.raises(err.SchemaError):
        store.put(fields)


def test_a_restriction_applies_to_the_next_version() -> None:
    with GrainStore(MemoryStorage()) as store:
        old = store.put(FIELDS)
        store.privacy.restrict(old, reason_code="art18")
        new = store.supersede(old, {**FIELDS, "created_at": FIELDS["created_at"] + 1})
        assert store.status(new).restricted
        assert store.query().results == []
        store.privacy.unrestrict(new, reason_code="over")
        assert [hit.address for hit in store.query().results] == [new]
        assert store.audit.verify().ok


@pytest.mark.parametrize("purpose, there", [("transfer", 1), ("sale", 1), ("move", 2)])
def test_restricted_grains_do_not_leave(tmp_path: Path, purpose: Any, there: int) -> None:
    with GrainStore(MemoryStorage()) as store:
        store.privacy.restrict(store.put(FIELDS), reason_code="art18")
        store.put({**FIELDS, "created_at": 5})
        assert store.export_mg(tmp_path / "all.mg", purpose=purpose).grains == there
        written = store.export_mg(tmp_path / "some.mg", purpose=purpose, type="belief")
        assert written.grains == there


def test_a_withdrawal_can_be_signed() -> None:
    required = Required.parse({"type": ["consent"]})
    with GrainStore(MemoryStorage(), Settings(require=required)) as store:
        grant = {
            "type": "consent",
            "subject_did": ALICE.did,
            "grantee_did": BOB.did,
            "scope": ["store"],
            "is_withdrawal": False,
            "created_at": 1_000,
        }
        consent = store.put(sign(og.Grain(og.encode(grant)), ALICE))
        with pytest.raises(err.SignatureError):
            store.privacy.withdraw_consent(consent)
        report = store.privacy.withdraw_consent(consent, signer=ALICE)
        assert [one.signer for one in store.trust.signatures(report.withdrawal)] == [ALICE.did]
