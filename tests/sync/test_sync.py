# SPDX-License-Identifier: Apache-2.0
"""Sync of two stores: grains, states, holds, erasures, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.policy import PolicyVerdict
from omsgrain.storage.check import state_problems
from omsgrain.storage.lmdb.storage import LmdbStorage
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, erasures, local, reconcile, sync
from omsgrain.sync.peer import Hello
from support.signed_stores import signed
from support.signers import ALICE, BOB
from support.sync_stores import Cut, Watched, addresses, belief, heads, memory, together, told

Pair = tuple[og.GrainStore, og.GrainStore]


@pytest.fixture(params=["memory", "lmdb"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    if request.param == "memory":
        yield memory(), memory()
        return
    with og.open(tmp_path / "robot.omsg") as robot, og.open(tmp_path / "hub.omsg") as hub:
        yield robot, hub
        for store in (robot, hub):
            below = context_of(store).storage
            assert isinstance(below, LmdbStorage)
            with below.read() as reader:
                assert list(state_problems(reader)) == []


def same(left: og.GrainStore, right: og.GrainStore) -> bool:
    return (addresses(left), told(left), heads(left)) == (
        addresses(right),
        told(right),
        heads(right),
    )


def test_both_have_what_one_had(pair: Pair) -> None:
    robot, hub = pair
    ours = robot.put_many([belief(f"r{n}", n) for n in range(20)]).addresses
    theirs = hub.put_many([belief(f"h{n}", n) for n in range(5)]).addresses
    report = together(robot, hub)
    assert (report.sent.grains, report.received.grains) == (20, 5)
    assert report.refused == ()
    assert addresses(robot) == addresses(hub) == {*ours, *theirs}
    again = together(robot, hub)
    assert not again.changed
    assert not again.sent.compared and not again.received.compared
    assert (again.sent.bytes, again.received.bytes) == (0, 0)


@pytest.mark.parametrize("full", [False, True])
def test_histories_forks_and_doubts(pair: Pair, full: bool) -> None:
    robot, hub = pair
    first = robot.put(belief("0"))
    together(robot, hub)
    mine = robot.supersede(first, belief("robot", 1), justification="it saw")
    theirs = hub.supersede(first, belief("hub", 2), justification="it was told")
    doubted = hub.put(belief("odd", 3))
    wrong = robot.put(belief("wrong", 4))
    hub.contest(doubted)
    robot.retract(wrong)
    together(robot, hub, full=full)
    together(robot, hub, full=full)
    assert same(robot, hub)
    state = robot.status(first)
    assert state.successors == tuple(sorted((mine, theirs)))
    assert state.superseded_by == min(mine, theirs)
    assert state.system_valid_to == hub.status(first).system_valid_to
    assert set(heads(hub)) == {mine, theirs, doubted}
    assert robot.status(doubted).verification_status == "contested"
    assert not together(robot, hub, full=True).changed


def test_of_a_fork_each_grain_crosses_once(pair: Pair) -> None:
    robot, hub = pair
    first = robot.put(belief("0"))
    together(robot, hub)
    robot.supersede(first, belief("robot", 1), justification="it saw")
    theirs = hub.supersede(first, belief("hub", 2), justification="it was told")
    report = together(robot, hub)
    assert report.received.bytes == len(hub.get(theirs).blob)
    assert same(robot, hub)


def test_trust_is_no_claim(pair: Pair) -> None:
    robot, hub = pair
    grain = robot.put(belief("0"))
    robot.trust.set_verification(grain, "verified")
    together(robot, hub)
    assert hub.status(grain).verification_status == "unverified"
    hub.contest(grain)
    together(robot, hub)
    assert robot.status(grain).verification_status == "contested"
    robot.trust.set_verification(grain, "verified")
    together(robot, hub)
    assert hub.status(grain).verification_status == "contested"


def test_holds_and_restrictions_end_everywhere(pair: Pair) -> None:
    robot, hub = pair
    grain = robot.put(belief("0"))
    robot.holds.add(grain, authority="court", reason_code="litigation")
    robot.privacy.restrict(grain, reason_code="dispute")
    together(robot, hub)
    assert hub.status(grain).held and hub.status(grain).restricted
    assert hub.holds.of(grain) == robot.holds.of(grain)
    hub.holds.release(grain, authority="court", reason_code="settled")
    hub.privacy.unrestrict(grain, reason_code="settled")
    together(robot, hub)
    assert not robot.status(grain).held and not robot.status(grain).restricted
    assert same(robot, hub)
    robot.holds.add(grain, authority="court", reason_code="appeal")
    together(robot, hub, full=True)
    assert [hold.reason_code for hold in hub.holds.of(grain)] == ["appeal"]


@pytest.mark.parametrize("full", [False, True])
def test_an_erasure_reaches_every_store(pair: Pair, full: bool) -> None:
    robot, hub = pair
    person: dict[str, Any] = {"user_id": "ann-17"}
    gone = robot.put(belief("private", **person))
    old = robot.put(belief("old", 1))
    later = robot.supersede(old, belief("later", 2, **person), justification="x")
    stays = robot.put(belief("stays", 3))
    together(robot, hub)
    robot.privacy.erase(["ann-17"], reason_code="gdpr17", scrub="queued")
    report = together(robot, hub, full=full)
    assert report.sent.erased == 2
    assert addresses(hub) == addresses(robot) == {old, stays}
    assert hub.status(old).superseded_by is not None  # what was superseded stays past
    assert same(robot, hub)
    for store in pair:
        with pytest.raises(err.ErasedError):
            store.put(belief("private", **person))
    assert later not in addresses(hub) and gone not in addresses(hub)


def test_an_erased_grain_is_not_taken_back(pair: Pair) -> None:
    robot, hub = pair
    address = robot.put(belief("0"))
    together(robot, hub, direction="push")
    hub.delete_many([address], erased="gdpr17")
    report = together(robot, hub, direction="push", full=True)
    assert [(one.part, one.code) for one in report.sent.refused] == [("grain", "ERR_ERASED")]
    assert addresses(hub) == set() and addresses(robot) == {address}
    assert together(robot, hub).received.erased == 1
    assert addresses(robot) == set()


def test_a_hold_comes_before_an_erasure(pair: Pair) -> None:
    robot, hub = pair
    address = robot.put(belief("0"))
    together(robot, hub)
    third = memory()
    together(hub, third)
    robot.holds.add(address, authority="court", reason_code="litigation")
    third.delete_many([address], erased="gdpr17")
    together(robot, hub)
    report = together(third, hub)
    assert [(one.part, one.rule) for one in report.sent.refused] == [("erasure", "hold")]
    assert hub.status(address).restricted
    assert address not in heads(hub)
    hub.holds.release(address, authority="court", reason_code="settled")
    assert together(robot, hub).received.erased == 1
    assert hub.privacy.run_due().finished == 1
    assert addresses(robot) == addresses(hub) == addresses(third) == set()


def test_two_stores_that_erased_before_they_met(pair: Pair) -> None:
    robot, hub = pair
    both = [belief(f"{n}", n) for n in range(4)]
    ours = robot.put_many(both).addresses
    hub.put_many(both)
    assert ours[0] is not None and ours[1] is not None
    robot.delete_many([ours[0]], erased="gdpr17")
    hub.delete_many([ours[1]], erased="gdpr17")
    report = together(robot, hub)
    assert (report.sent.erased, report.received.erased) == (1, 1)
    assert addresses(robot) == addresses(hub) == set(ours[2:])
    assert not together(robot, hub, full=True).changed


def test_policy_refusals_are_reported(pair: Pair) -> None:
    robot, hub = pair
    locked = belief("locked", invalidation_policy={"mode": "soft_locked"})
    old = robot.put(locked)
    plain = og.Grain(og.encode(belief("new", 1)))
    robot.supersede(old, plain, justification="said to this store only")
    report = together(robot, hub)
    assert [(one.part, one.code, one.address.hex()) for one in report.sent.refused] == [
        ("state", "ERR_INVALIDATION_DENIED", old)
    ]
    assert addresses(hub) == {old, plain.address}
    assert hub.status(old).superseded_by is None
    told_why = together(robot, hub, full=True)
    assert [one.rule for one in told_why.sent.refused] == ["soft_locked"]


def test_a_replayed_statement_of_a_delegate_lifts_nothing(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other store resolves no DID, and reports its result for Bob's signature."""
    robot, hub = pair
    rule = belief("rule", invalidation_policy={"mode": "delegated", "authorized": [BOB.did]})
    old = robot.put(rule)
    (replayed,) = signed(belief("good morning", 1), BOB)
    with monkeypatch.context() as patched:
        patched.setattr("omsgrain.policy.check", lambda *_, **__: PolicyVerdict())
        robot.supersede(old, replayed)
    report = together(robot, hub)
    assert [(one.part, one.code, one.rule) for one in report.sent.refused] == [
        ("state", "ERR_INVALIDATION_DENIED", "delegated")
    ]
    assert hub.status(old).superseded_by is None


def test_a_rule_about_no_person_is_not_restricted_from_outside(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, hub = pair
    rule = belief("rule", invalidation_policy={"mode": "locked"})
    safety, hers = robot.put(rule), robot.put(belief("on", user_id="ann-17"))
    with monkeypatch.context() as patched:
        patched.setattr("omsgrain.policy.check", lambda *_, **__: PolicyVerdict())
        for address in (safety, hers):
            robot.privacy.restrict(address, reason_code="dispute")
    report = together(robot, hub)
    assert [(one.part, one.address.hex(), one.rule) for one in report.sent.refused] == [
        ("restriction", safety, "locked")
    ]
    assert [hub.status(address).restricted for address in (safety, hers)] == [False, True]


@pytest.mark.parametrize("full", [False, True])
def test_superseding_grains_come_with_superseded_ones(full: bool) -> None:
    robot, hub = memory(), memory()
    old = robot.put(belief("0"))
    chain = [old]
    for n in range(1, 6):
        chain.append(robot.supersede(chain[-1], belief(f"{n}", n), justification=f"saw {n}"))
    chain.append(robot.supersede(chain[-1], belief("plain", 7)))
    robot.contest(chain[3])
    hub.put(belief("other"))
    report = together(robot, hub, full=full)
    assert report.sent.compared == full and report.sent.grains == 7
    assert same(robot, hub)
    assert [grain.address for grain in hub.history(old)] == chain


@pytest.mark.parametrize("direction", ["both", "pull"])
def test_a_restored_store_is_compared(direction: Any, tmp_path: Path) -> None:
    hub = memory()
    with og.open(tmp_path / "robot.omsg") as robot:
        robot.put_many([belief(f"{n}", n) for n in range(10)])
        together(robot, hub)
        robot.maintenance.backup(tmp_path / "backup")
        robot.put_many([belief(f"lost {n}", n) for n in range(10)])
        together(robot, hub, direction="push")
    og.restore(tmp_path / "backup", tmp_path / "again.omsg")
    with og.open(tmp_path / "again.omsg") as robot:
        new = robot.put_many([belief(f"new {n}", n) for n in range(12)]).addresses
        report = together(robot, hub, direction=direction)
        assert report.received.compared and report.received.grains == 10
        report = together(robot, hub) if direction == "pull" else report
        assert report.sent.compared and report.sent.grains == 12
        assert addresses(robot) == addresses(hub) >= set(new)


def test_erased_grains_are_found_in_other_namespaces(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(erasures, "_LUMP", 500)  # bytes: some grains
    robot, hub = pair
    grains = [belief(f"{n}", n, namespace=f"robots:{n // 20}") for n in range(60)]
    names = [one for one in robot.put_many(grains).addresses if one is not None]
    together(robot, hub)
    gone = {names[25], names[39]}
    robot.delete_many(sorted(gone), erased="gdpr17")
    assert together(robot, hub).sent.erased == 2
    assert addresses(hub) == addresses(robot) == {*names} - gone


def test_an_erasure_that_is_cut_off_leaves_no_address(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot, hub = pair
    gone = robot.put(belief("gone"))
    together(robot, hub)
    hub.contest(gone)
    robot.delete_many([gone], erased="gdpr17")
    with monkeypatch.context() as cut, pytest.raises(Cut):
        cut.setattr(erasures, "clear_erasing", lambda *_, done: Cut.of())
        together(robot, hub)
    assert addresses(hub) == set() and gone not in {change.address for change in hub.changes()}
    together(robot, hub)
    assert gone not in {change.address for change in hub.changes()}


def test_erasures_that_come_while_others_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two robots sync with one hub in turns: neither's states replace the other's."""
    robot, other, hub = memory(), memory(), memory()
    first, second = robot.put_many([belief("0"), belief("1", 1)]).addresses
    assert first is not None and second is not None
    together(robot, hub)
    together(other, hub)
    robot.delete_many([first], erased="gdpr17")
    other.delete_many([second], erased="gdpr17")
    keys = reconcile.listed(LocalPeer(other), "tombstones", Hello())
    told_later = LocalPeer(other).get("tombstones", keys, Hello())
    real, came = erasures._hints, list[object]()

    def meanwhile(*given: Any) -> Any:
        if not came:  # the marks that are followed were just read
            came.append(given)
            LocalPeer(hub).put(replace(told_later, more=True))
        return real(*given)

    with monkeypatch.context() as patched:
        patched.setattr(erasures, "_hints", meanwhile)
        assert together(robot, hub, direction="push").sent.erased == 1
    assert addresses(hub) == {second} and came
    assert LocalPeer(hub).put(told_later).erased == 1
    assert addresses(hub) == set()


def test_signatures_go_along(pair: Pair) -> None:
    robot, hub = pair
    first, second = signed(belief("signed"), ALICE, BOB)
    address = robot.put(first)
    robot.put(second)
    together(robot, hub)
    assert signers(hub, address) == both(ALICE.did, BOB.did)


@pytest.mark.parametrize("full", [False, True])
def test_a_further_signature_goes_along(pair: Pair, full: bool) -> None:
    robot, hub = pair
    first, second = signed(belief("signed"), ALICE, BOB)
    address = robot.put(first)
    third = memory()
    together(robot, hub)
    together(hub, third)
    robot.put(second)
    assert together(robot, hub, full=full).sent.states == 1
    together(hub, third, full=full)
    assert signers(hub, address) == signers(third, address) == both(ALICE.did, BOB.did)
    for left, right in ((robot, hub), (hub, third)):
        again = together(left, right, full=full)
        assert not again.changed and again.sent.bytes == again.received.bytes == 0


def test_signatures_of_both_sides_meet(pair: Pair) -> None:
    robot, hub = pair
    first, second = signed(belief("signed"), ALICE, BOB)
    address = robot.put(first)
    assert hub.put(second) == address
    together(robot, hub, full=True)
    assert signers(robot, address) == signers(hub, address) == both(ALICE.did, BOB.did)


def signers(store: og.GrainStore, address: str) -> tuple[str, ...]:
    return tuple(one.signer for one in store.trust.signatures(address))


def both(*dids: str) -> tuple[str, ...]:
    return tuple(sorted(dids))


@pytest.mark.parametrize("late", [False, True])
def test_cut_at_every_call(late: bool) -> None:
    """Wherever it is cut off, the next sync goes on, and nothing is there by half."""
    calls = 0
    while True:
        robot, hub = memory(), memory()
        old = robot.put(belief("0"))
        hub.put(belief("hub"))
        together(robot, hub)
        robot.supersede(old, belief("1", 1), justification="x")
        gone = robot.put(belief("gone", 2))
        together(robot, hub)
        robot.delete_many([gone], erased="gdpr17")
        robot.put_many([belief(f"{n}", n) for n in range(3, 9)])
        hub.contest(old)
        try:
            cut: Any = Watched(LocalPeer(hub), calls, late=late)
            sync(LocalPeer(robot), cut)
            break
        except Cut:
            calls += 1
        together(robot, hub)
        assert same(robot, hub), calls
        assert gone not in addresses(hub)
    assert calls > 5


def test_views_of_ever_more_namespaces(monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller names the namespaces: the kept state has bounds."""
    store = memory()
    store.put_many([belief(f"{n}", n, namespace=f"robots:{n}") for n in range(4)])
    peer = LocalPeer(store)

    def count(name: str) -> int:
        return peer.count(Hello(b"", (name, "robots:*")))

    monkeypatch.setattr(local, "_VIEWS", 3)
    assert [count(f"other:{n}") for n in range(9)] == [4] * 9
    kept = local._grains[store]
    assert [names and names[0] for names in kept] == ["other:6", "other:7", "other:8"]
    monkeypatch.setattr(local, "_WEIGHT", 4 * 48)
    store.put(belief("new", 9, namespace="robots:9"))
    assert count("other:6") == 5 and len(kept) == 1
