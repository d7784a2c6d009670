# SPDX-License-Identifier: Apache-2.0
"""Signed and sealed grains travel in .mg files: with every envelope, and sealed as they are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import container
from omsgrain import errors as err
from omsgrain.container.read import blob_of
from omsgrain.crypto import sign, with_signed_bit
from omsgrain.storage.base import Writer
from omsgrain.storage.tables import SIGNATURES
from omsgrain.store import GrainStore
from omsgrain.store.context import context_of
from support.signed_stores import KINDS, WEB, WEB_ALICE, belief, find_web, make, signed, signed_by
from support.signers import ALICE, BOB, CAROL, FIELDS, GRAIN, IAT

LATER = FIELDS["created_at"] + 1000
FLAGGED = with_signed_bit(GRAIN)
Stores = tuple[GrainStore, GrainStore]


@pytest.fixture(params=KINDS)
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    places = (tmp_path / "from", tmp_path / "to")
    for place in places:
        place.mkdir()
    with make(request.param, places[0]) as source, make(request.param, places[1]) as target:
        yield source, target


def everything(store: GrainStore) -> dict[str, list[tuple[bytes, bool]]]:
    """Every grain with its envelopes."""
    hits = store.query(current=None, limit=100).results
    return {
        address: [(one.envelope, one.proven) for one in store.trust.signatures(address)]
        for address in (hit.address for hit in hits)
    }


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_signatures_travel(stores: Stores, tmp_path: Path, codec: Any) -> None:
    source, target = stores
    file = tmp_path / "all.mg"
    source.put(FIELDS)
    for envelope in signed(FIELDS, ALICE, BOB, CAROL):
        source.put(envelope)
    source.sign(source.put(belief("later", created_at=LATER)), BOB)
    written = source.export_mg(file, codec=codec)
    assert written.grains == 6  # of four grains, one is there for each of three signers
    assert container.verify(file).verified == 6
    report = target.import_mg(file)
    assert (report.stored, report.duplicates, report.errors) == (4, 2, [])
    assert (report.merged, report.unproven) == (1, 0)
    assert everything(target) == everything(source)
    assert len(everything(source)[FLAGGED.address]) == 3
    again = target.import_mg(file)
    assert (again.stored, again.duplicates, again.merged) == (0, 6, 0)
    assert target.audit.verify(grains=True).ok


def test_the_representative_envelope_comes_first(stores: Stores, tmp_path: Path) -> None:
    source, _ = stores
    file = tmp_path / "all.mg"
    for envelope in signed(FIELDS, CAROL, BOB, ALICE):
        source.put(envelope)
    source.export_mg(file)
    with container.read(file) as found:
        assert found[0] == source.trust.envelope(FLAGGED.address)
        assert list(found) == [one.envelope for one in source.trust.signatures(FLAGGED.address)]
    source.export_mg(file, subject="nobody")
    with container.read(file) as found:
        assert len(found) == 0
    source.export_mg(file, subject="user", sort=True)
    with container.read(file) as found:
        assert len(found) == 3


def test_more_signatures_come_to_a_grain_that_is_there(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    by_alice, by_bob = signed(FIELDS, ALICE, BOB)
    source.put(by_alice)
    target.put(by_bob)
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.stored, report.duplicates) == (0, 1)
    assert {one.envelope for one in target.trust.signatures(FLAGGED.address)} == {by_alice, by_bob}


def test_names_that_cannot_be_resolved(tmp_path: Path) -> None:
    """They are kept, counted, and proven when somebody can resolve them."""
    file = tmp_path / "all.mg"
    envelopes = [sign(GRAIN, who, iat=IAT) for who in (WEB_ALICE, ALICE)]
    container.write(file, envelopes)
    for kind in KINDS:
        with make(kind, tmp_path) as store:
            report = store.import_mg(file)
            assert (report.stored, report.errors, report.unproven) == (1, [], 1)
            assert store.trust.envelope(FLAGGED.address, WEB) == envelopes[0]
            found = {one.signer: one.proven for one in store.trust.signatures(FLAGGED.address)}
            assert found == {WEB: False, ALICE.did: True}
            assert store.trust.envelope(FLAGGED.address) == envelopes[1]
    with make("lmdb", tmp_path, resolver=find_web) as store:
        report = store.import_mg(file)
        assert (report.stored, report.duplicates, report.unproven) == (0, 2, 0)
        assert all(one.proven for one in store.trust.signatures(FLAGGED.address))


def flip(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


def test_a_signature_that_does_not_hold_is_refused(stores: Stores, tmp_path: Path) -> None:
    _, target = stores
    file = tmp_path / "all.mg"
    good, bad = signed_by(ALICE, FIELDS), flip(signed_by(BOB, belief("bad")), -1)
    container.write(file, [bad, good, og.encode(FIELDS)])
    with pytest.raises(err.SignatureError):
        target.import_mg(file)
    report = target.import_mg(file, errors="collect")
    assert [(one.index, one.error.code) for one in report.errors] == [(0, "ERR_SIGNATURE")]
    assert set(everything(target)) == {GRAIN.address, FLAGGED.address}


def test_a_signed_successor_travels(stores: Stores, tmp_path: Path) -> None:
    """A claim to supersede is imported by superseding, with all signatures."""
    source, target = stores
    soft = {"invalidation_policy": {"mode": "soft_locked"}}
    old = source.put(belief("so", **soft))
    new = source.sign(old, ALICE, justification="to prove it")
    source.sign(new, BOB)
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.stored, report.merged, report.duplicates) == (2, 1, 1)
    assert everything(target) == everything(source)
    assert target.status(old).successors == (new,)
    again = target.import_mg(tmp_path / "all.mg")
    assert (again.stored, again.duplicates, again.merged) == (0, 3, 0)


def test_a_signature_too_many_of_a_successor_is_reported(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its claim is applied all the same."""
    monkeypatch.setattr("omsgrain.storage.signatures.MOST", 2)
    source, target = stores
    first, second, third = signed(
        belief("not so", created_at=LATER, supersession_justification="seen"), ALICE, BOB, CAROL
    )
    old, other = source.put(belief("so")), source.put(belief("so so"))
    new = source.supersede(old, first)
    assert source.supersede(old, second) == source.supersede(other, second) == new
    assert target.put(belief("so")) == old
    assert target.supersede(old, third) == new
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert {error.code for _, error in report.refused} == {err.RangeError.code}
    assert report.merged == 1 and target.status(other).successors == (new,)
    assert len(target.trust.signatures(new)) == 2
    assert target.maintenance.check().ok


@pytest.mark.parametrize("witness", [False, True])
def test_claims_obey_delegated(stores: Stores, tmp_path: Path, witness: bool) -> None:
    """Whichever of the envelopes comes first in the file."""
    source, target = stores
    rule = {"invalidation_policy": {"mode": "delegated", "authorized": [BOB.did]}}
    why = {"supersession_justification": "seen"}
    old = source.put(belief("so", **rule))
    fields = belief("not so", created_at=LATER, derived_from=[old], **rule, **why)
    new = source.supersede(old, signed_by(BOB, fields))
    if witness:
        source.sign(new, ALICE)
        assert source.trust.envelope(new) == source.trust.envelope(new, ALICE.did)
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.refused, report.merged) == ([], 1)
    assert everything(target) == everything(source)


def test_a_forged_successor_is_refused(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    rule = {"invalidation_policy": {"mode": "delegated", "authorized": [BOB.did]}}
    fields = belief("not so", created_at=LATER, supersession_justification="seen", **rule)
    old = source.put(belief("so", **rule))
    unproven = sign(og.Grain(og.encode(fields)), WEB_ALICE)
    for envelope in (unproven, signed_by(ALICE, fields), flip(signed_by(BOB, fields), -1)):
        address = og.address(blob_of(envelope))
        container.write(
            tmp_path / "lie.mg",
            [og.encode(belief("so", **rule)), envelope],
            manifest={old: {"superseded_by": address}},
        )
        report = target.import_mg(tmp_path / "lie.mg", errors="collect")
        assert [address for address, _ in report.refused] == [old]
        assert (report.merged, report.unproven) == (0, 0)
        assert set(everything(target)) == {old}


@pytest.mark.parametrize("there", [False, True])
def test_a_replayed_statement_of_the_delegate_is_refused(
    stores: Stores, tmp_path: Path, there: bool
) -> None:
    """Signed by the delegate, and about something else: a file cannot lift a rule by it."""
    _, target = stores
    rule = belief("so", invalidation_policy={"mode": "delegated", "authorized": [BOB.did]})
    old = target.put(rule)
    for why in ({}, {"supersession_justification": "seen"}):
        envelope = signed_by(BOB, belief("good morning", created_at=LATER, **why))
        if there and not why:
            target.put(envelope)
        new = og.address(blob_of(envelope))
        path = tmp_path / "replay.mg"
        container.write(path, [og.encode(rule), envelope], manifest={old: {"superseded_by": new}})
        report = target.import_mg(path, errors="collect")
        refused = dict(report.refused)[old]
        assert isinstance(refused, err.InvalidationDeniedError) and refused.rule == "delegated"
        assert report.merged == 0 and target.status(old).superseded_by is None


def sealed_blob(seed: int) -> bytes:
    """An unreadable grain: a header, and bytes."""
    return bytes((1, 2, 1, 0, 0, 0, 0, 0, 0)) + bytes((seed,)) * 40


def test_sealed_grains_stay_sealed(stores: Stores, tmp_path: Path) -> None:
    source, target = stores
    blobs = [sealed_blob(n) for n in range(3)]
    addresses = [source.put(blob) for blob in blobs]
    source.put(FIELDS)
    flagged = bytes((1, 3)) + sealed_blob(9)[2:]
    envelope = sign(flagged, ALICE, iat=IAT)
    addresses.append(source.put(envelope))
    assert source.sign(addresses[-1], BOB) == addresses[-1]
    with pytest.raises(err.KeyMissingError):
        source.sign(addresses[0], ALICE)
    source.export_mg(tmp_path / "all.mg")
    report = target.import_mg(tmp_path / "all.mg")
    assert (report.stored, report.duplicates, report.errors) == (5, 1, [])
    for address, blob in zip(addresses, [*blobs, flagged], strict=True):
        grain = target.get(address)
        assert grain.sealed and grain.blob == blob
    assert target.trust.envelope(addresses[-1], ALICE.did) == envelope
    assert len(target.trust.signatures(addresses[-1])) == 2


def set_row(key: bytes, row: bytes | None, writer: Writer) -> None:
    writer.set_row(SIGNATURES, key, row)


def test_damage_is_not_exported(tmp_path: Path) -> None:
    with make("lmdb", tmp_path) as store:
        store.put(signed_by(ALICE, FIELDS))
        with context_of(store).storage.read() as reader:
            ((key, row),) = reader.rows(SIGNATURES)
        for bad in (None, row[:9]):
            context_of(store).storage.write(partial(set_row, key, bad))
            with pytest.raises(err.IntegrityError):
                store.export_mg(tmp_path / "all.mg")
        assert not os.path.exists(tmp_path / "all.mg")
