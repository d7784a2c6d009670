# SPDX-License-Identifier: Apache-2.0
"""Withdrawing a consent: at once, once, and with the grains based on it. On every store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.crypto import sign
from omsgrain.grain import make
from omsgrain.privacy import load
from omsgrain.storage import erasure_queue
from omsgrain.storage.encrypted import EncryptedStorage
from omsgrain.store.context import Settings, context_of
from omsgrain.store.privacy.consent import SLA_DAYS, check_basis, is_asked
from omsgrain.store.privacy.identity import select
from omsgrain.store.trust import Required
from support.invented_people import ANN, DAY, NOW, SHOP, Clock, belief, consent, current, opened
from support.signed_stores import WEB_ALICE, find_web

ABSENT = "ab" * 32
CASCADE = {"mode": "consent_cascade"}
LOCKED = {"mode": "locked"}
SUBTREE, LINEAGE, ODD = ({**CASCADE, "scope": s} for s in ("subtree", "lineage", "unheard of"))
USER: dict[str, Any] = {"user_id": "ann-17"}


NO_WITHDRAWALS = """
name = "house"
title = "House rules"
[[forbid]]
id = "withdrawals"
when = { types = ["consent"] }
fields = ["prior_consent"]
reason = "A rule of nobody."
source = "nowhere"
"""


def based(store: og.GrainStore, what: str, basis: str, **fields: Any) -> str:
    return store.put(belief(what, processing_basis=basis, **fields))


def refused(store: og.GrainStore, grain: dict[str, Any]) -> bool:
    with context_of(store).storage.read() as reader:
        try:
            check_basis(reader, make(grain))
        except err.SchemaError as error:
            assert error.rule == "consent"
            return True
    return False


# The withdrawal


@pytest.mark.parametrize("user", [{}, USER])
def test_a_withdrawal_is_a_grain_beside_the_grant(
    store: og.GrainStore, user: dict[str, Any]
) -> None:
    grant = store.put(consent(**user))
    report = store.privacy.withdraw_consent(grant, reason="changed her mind")
    assert (report.consent, report.complete) == (grant, True)
    assert (report.deadline, report.queued, report.others) == (None, (), ())
    said = store.get(report.withdrawal)
    assert said["is_withdrawal"] is True
    assert said["prior_consent"] == grant
    assert (said["subject_did"], said["grantee_did"]) == (ANN, SHOP)
    assert said["scope"] == ["store", "process"]
    assert said["created_at"] == NOW
    assert set(current(store, type="consent", **user)) == {grant, report.withdrawal}
    assert store.get(report.withdrawal).header.type_byte == 10


def test_withdrawing_twice_is_withdrawing_once(store: og.GrainStore, clock: Clock) -> None:
    grant = store.put(consent())
    based(store, "on", grant, invalidation_policy=CASCADE)
    based(store, "off", grant)
    first = store.privacy.withdraw_consent(grant, sla_days=3)
    seen = store.stats().last_seq
    clock.now += DAY
    assert store.privacy.withdraw_consent(grant, sla_days=3) == first
    assert store.privacy.withdraw_consent(grant) == first
    assert store.stats().last_seq == seen


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (belief("on"), err.SchemaError),
        (consent(is_withdrawal=True, prior_consent=ABSENT), err.SchemaError),
    ],
)
def test_only_a_consent_that_was_given_is_withdrawn(
    store: og.GrainStore, fields: dict[str, Any], error: type[err.OmsError]
) -> None:
    with pytest.raises(error):
        store.privacy.withdraw_consent(store.put(fields))
    with pytest.raises(err.NotFoundError):
        store.privacy.withdraw_consent(ABSENT)
    with pytest.raises(err.HashLengthError):
        store.privacy.withdraw_consent("ab")


@pytest.mark.parametrize("days", [-1, SLA_DAYS + 1, 1.5, True])
def test_the_time_for_erasing_has_bounds(store: og.GrainStore, days: Any) -> None:
    with pytest.raises(err.RangeError):
        store.privacy.withdraw_consent(store.put(consent()), sla_days=days)


# What stands on its ground


def test_cascading_grains_are_queued_and_others_named(store: og.GrainStore) -> None:
    grant, other = store.put(consent()), store.put(consent(1))
    queued = [
        based(store, "plain", grant, invalidation_policy=CASCADE),
        based(store, "sealed", grant, invalidation_policy=CASCADE, **USER),
    ]
    stay = [
        based(store, "free", grant),
        based(store, "locked", grant, invalidation_policy={"mode": "locked"}),
    ]
    based(store, "elsewhere", other, invalidation_policy=CASCADE)
    store.put(belief("derived", derived_from=[queued[0]]))
    report = store.privacy.withdraw_consent(grant)
    assert sorted(report.queued) == sorted(queued)
    assert sorted(report.others) == sorted(stay)
    assert report.deadline == NOW + SLA_DAYS * DAY
    assert {entry.address for entry in store.privacy.due()} == set(queued)
    assert {entry.deadline for entry in store.privacy.due()} == {report.deadline}


def test_past_versions_of_grains_are_found(store: og.GrainStore) -> None:
    grant = store.put(consent())
    old = based(store, "on", grant, invalidation_policy=CASCADE, **USER)
    new = store.supersede(old, belief("off", processing_basis=grant, invalidation_policy=CASCADE))
    gone = based(store, "dim", grant, invalidation_policy=CASCADE)
    store.retract(gone)
    assert set(store.privacy.withdraw_consent(grant).queued) == {old, new, gone}


@pytest.mark.parametrize("which", [0, 1, 2])
def test_all_versions_of_a_consent_are_one(store: og.GrainStore, which: int) -> None:
    grants = [store.put(consent())]
    for at in (1, 2):
        grants.append(store.supersede(grants[-1], consent(at, **USER), "renewed"))
    queued = {based(store, f"{n}", g, invalidation_policy=CASCADE) for n, g in enumerate(grants)}
    report = store.privacy.withdraw_consent(grants[which])
    assert set(report.queued) == queued
    assert all(refused(store, belief("new", processing_basis=grant)) for grant in grants)
    for grant in grants:
        again = store.privacy.withdraw_consent(grant)
        assert (again.withdrawal, again.queued) == (report.withdrawal, report.queued)


@pytest.mark.parametrize("user", [{}, USER])
def test_scopes_reach_beyond_the_grain(store: og.GrainStore, user: dict[str, Any]) -> None:
    grant = store.put(consent())
    root = based(store, "root", grant, invalidation_policy=SUBTREE, **user)
    child = store.put(belief("child", derived_from=[root], **user))
    grandchild = store.put(belief("grandchild", derived_from=[child]))
    old = based(store, "old", grant, invalidation_policy=LINEAGE)
    new = store.supersede(old, belief("new", **user, invalidation_policy=LINEAGE))
    odd = based(store, "odd", grant, invalidation_policy=ODD)
    store.put(belief("below", derived_from=[odd]))
    report = store.privacy.withdraw_consent(grant)
    assert set(report.queued) == {root, child, grandchild, old, new, odd}


def test_one_consent_names_another_and_stays_one_of_its_own(store: og.GrainStore) -> None:
    grant = store.put(consent())
    other = store.put(consent(1, prior_consent=grant))
    store.privacy.withdraw_consent(grant)
    assert refused(store, belief("on", processing_basis=grant))
    assert not refused(store, belief("on", processing_basis=other))


def test_unopened_grains_are_reported(tmp_path: Path, clock: Clock) -> None:
    with opened("sealed memory", tmp_path, Settings(clock=clock)) as store:
        grant = store.put(consent())
        based(store, "on", grant, invalidation_policy=CASCADE, **USER)
        storage = context_of(store).storage
        assert isinstance(storage, EncryptedStorage)
        closed = og.GrainStore(storage.inner, Settings(clock=clock))
        report = closed.privacy.withdraw_consent(grant)
        assert (report.complete, report.queued) == (False, ())
        again = store.privacy.withdraw_consent(grant)
        assert (again.complete, len(again.queued)) == (True, 1)
        storage.ring.erase(["ann-17"])
        last = store.privacy.withdraw_consent(grant)
        assert (last.complete, last.queued) == (True, ())
        with pytest.raises(err.KeyMissingError):
            closed.privacy.withdraw_consent(store.put(consent(7, user_id="bob-3")))


# After it


def test_nothing_more_is_stored_on_its_ground(store: og.GrainStore) -> None:
    grant = store.put(consent(**USER))
    wanted = belief("on", processing_basis=grant)
    assert not refused(store, wanted)
    assert not refused(store, belief("on", processing_basis="contract"))
    store.privacy.withdraw_consent(grant)
    assert refused(store, wanted)
    assert refused(store, belief("on", processing_basis=ABSENT))
    assert refused(store, belief("on", processing_basis=store.put(belief("off"))))
    assert refused(
        store, belief("on", processing_basis=store.privacy.withdraw_consent(grant).withdrawal)
    )


def test_a_consent_that_comes_in_the_same_step_counts(store: og.GrainStore) -> None:
    with context_of(store).storage.read() as reader:
        check_basis(reader, make(belief("on", processing_basis=ABSENT)), {ABSENT})


def test_a_retracted_consent_is_no_ground(store: og.GrainStore) -> None:
    grant = store.put(consent())
    store.retract(grant, reason="forged")
    assert refused(store, belief("on", processing_basis=grant))


def test_a_withdrawal_put_by_hand_counts_too(store: og.GrainStore) -> None:
    grant = store.put(consent())
    queued = based(store, "on", grant, invalidation_policy=CASCADE)
    fields = consent(5, is_withdrawal=True, prior_consent=grant)
    withdrawal = store.put(fields)
    assert refused(store, belief("off", processing_basis=grant))
    report = store.privacy.withdraw_consent(grant)
    assert (report.withdrawal, report.queued) == (withdrawal, (queued,))
    assert report.deadline == fields["created_at"] + SLA_DAYS * DAY


@pytest.mark.parametrize("undo", ["retract", "supersede"])
def test_a_withdrawal_that_was_undone_takes_nothing_back(
    store: og.GrainStore, undo: str, clock: Clock
) -> None:
    grant = store.put(consent())
    first = store.privacy.withdraw_consent(grant)
    if undo == "retract":
        store.retract(first.withdrawal, reason="a mistake")
    else:
        store.supersede(first.withdrawal, consent(DAY, prior_consent=grant), "given again")
    assert not refused(store, belief("on", processing_basis=grant))
    second = store.privacy.withdraw_consent(grant)
    assert second.withdrawal != first.withdrawal
    assert refused(store, belief("on", processing_basis=grant))


def test_a_withdrawal_is_superseded_only_by_what_is_about_it(
    store: og.GrainStore, clock: Clock
) -> None:
    """Anything else that the person said, or somebody else, could be replayed."""
    first = store.put(consent())
    grant = store.supersede(first, consent(DAY, prior_consent=first), "renewed")
    clock.now += 2 * DAY
    withdrawal = store.privacy.withdraw_consent(grant).withdrawal
    later = 9 * DAY
    for replayed in (
        belief("on"),
        belief("on", derived_from=[withdrawal]),
        consent(later),
        consent(later, prior_consent=first),
        consent(DAY + 1, prior_consent=grant),
        consent(later, prior_consent=withdrawal, subject_did=SHOP),
        consent(later, related_to=[{"hash": withdrawal, "relation_type": "supports"}]),
    ):
        with pytest.raises(err.InvalidationDeniedError) as denied:
            store.supersede(withdrawal, replayed, "given again")
        assert denied.value.rule == "consent"
    assert refused(store, belief("on", processing_basis=grant))
    link = [{"hash": withdrawal, "relation_type": "replaces"}]
    store.supersede(withdrawal, consent(later, related_to=link), "given again")
    assert not refused(store, belief("on", processing_basis=grant))


def test_a_withdrawal_takes_nothing_of_another_person_back(store: og.GrainStore) -> None:
    """Superseding can join the consents of two persons to one history."""
    hers, his = store.put(consent()), store.put(consent(1, subject_did=SHOP))
    store.supersede(hers, store.get(his), "said so")
    kept = based(store, "on", his, invalidation_policy=CASCADE)
    assert store.privacy.withdraw_consent(hers).queued == ()
    assert not refused(store, belief("off", processing_basis=his))
    assert store.privacy.withdraw_consent(his).queued == (kept,)


def test_a_restricted_withdrawal_counts(store: og.GrainStore) -> None:
    grant = store.put(consent())
    store.privacy.restrict(
        store.privacy.withdraw_consent(grant).withdrawal, reason_code="disputed"
    )
    assert refused(store, belief("on", processing_basis=grant))


def test_a_version_given_later_is_a_new_consent(store: og.GrainStore, clock: Clock) -> None:
    grant = store.put(consent())
    based(store, "on", grant, invalidation_policy=CASCADE)
    store.privacy.withdraw_consent(grant)
    later = store.supersede(grant, consent(3 * DAY), "asked again")
    based(store, "off", later, invalidation_policy=CASCADE)
    assert refused(store, belief("dim", processing_basis=grant))
    assert not refused(store, belief("dim", processing_basis=later))
    assert len(store.privacy.withdraw_consent(grant).queued) == 1


def test_rules_that_require_a_legal_basis() -> None:
    gdpr, none = load("gdpr"), load(())
    personal = make(belief("on", processing_basis=ABSENT, **USER))
    assert is_asked(gdpr, personal)
    assert not is_asked(none, personal)
    assert not is_asked(gdpr, make(belief("on")))
    assert not is_asked(gdpr, make(consent(**USER)))


def test_under_a_preset_the_withdrawal_is_sealed_like_the_consent(
    tmp_path: Path, clock: Clock
) -> None:
    settings = Settings(clock=clock, preset=load("gdpr"))
    with opened("sealed lmdb", tmp_path, settings) as store:
        tags: dict[str, Any] = {"structural_tags": ["pii:name"]}
        grant = store.put(consent(**USER, **tags))
        queued = based(store, "on", grant, invalidation_policy=CASCADE, **USER, **tags)
        report = store.privacy.withdraw_consent(grant)
        assert report.queued == (queued,)
        with context_of(store).storage.read() as reader:
            blob = reader.get(bytes.fromhex(report.withdrawal))
        assert blob is not None
        assert ANN.encode() not in blob
        assert grant.encode() not in blob
        assert report.withdrawal in {
            found.address for found in select(context_of(store).storage, [ANN])
        }


def test_a_withdrawal_that_is_refused_changes_nothing(tmp_path: Path, clock: Clock) -> None:
    rules = tmp_path / "house.toml"
    rules.write_text(NO_WITHDRAWALS)
    with opened("lmdb", tmp_path, Settings(clock=clock)) as open_store:
        grant = open_store.put(consent())
        based(open_store, "on", grant, invalidation_policy=CASCADE)
        store = og.GrainStore(
            context_of(open_store).inner, Settings(clock=clock, preset=load([rules]))
        )
        with pytest.raises(err.SchemaError):
            store.privacy.withdraw_consent(grant)
        assert store.privacy.due() == []
        assert not refused(store, belief("off", processing_basis=grant))


def test_the_store_knows_who_signed_the_withdrawal(tmp_path: Path, clock: Clock) -> None:
    """By the resolver that it was opened with, as everywhere else."""
    asked = Settings(clock=clock, require=Required(), resolver=find_web)
    with opened("memory", tmp_path, asked) as store:
        grant = store.put(sign(make(consent()), WEB_ALICE))
        report = store.privacy.withdraw_consent(grant, signer=WEB_ALICE)
        assert [one.proven for one in store.trust.signatures(report.withdrawal)] == [True]


# What is told of it


def test_the_audit_trail_has_scope_and_times_and_no_names(store: og.GrainStore) -> None:
    grant = store.put(consent(scope=["store", "Ann's wish"]))
    based(store, "on", grant, invalidation_policy=CASCADE)
    store.privacy.withdraw_consent(grant, reason="Ann asked for it")
    (entry,) = store.audit.entries(operation="policy")
    assert (entry.reason_code, entry.note) == ("consent_withdrawn", "Ann asked for it")
    assert entry.details == {"queued": 1, "others": 0, "scope": "store"}
    assert store.audit.verify().ok


def test_the_queue_has_numbers_and_no_addresses(store: og.GrainStore) -> None:
    grant = store.put(consent())
    address = based(store, "on", grant, invalidation_policy=CASCADE)
    store.privacy.withdraw_consent(grant)
    with context_of(store).storage.read() as reader:
        (entry,) = erasure_queue.due(reader)
    assert set(entry.what) == {"kind", "seq", "consent"}
    assert all(isinstance(entry.what[name], int) for name in ("seq", "consent"))
    assert address not in str(entry)
