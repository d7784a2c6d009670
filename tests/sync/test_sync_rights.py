# SPDX-License-Identifier: Apache-2.0
"""Rights of a file or another store."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto import sign_file
from omsgrain.errors import SchemaError, SignatureError
from omsgrain.storage import tombstones
from omsgrain.storage.base import Storage, Writer
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, SyncReport, sync, take_bundle, write_bundle
from omsgrain.sync.peer import EVERYTHING, GrainState, PeerTerms
from omsgrain.sync.states import StateMerge
from support.http_process import Served
from support.known_grains import DID, VECTORS
from support.shell import USAGE, Shell, exit_code
from support.signers import ALICE, BOB
from support.sync_stores import TIME, addresses, belief, memory, together
from support.tokens import add_token

Case = tuple[og.GrainStore, dict[str, str]]


@pytest.fixture
def mine(below: Storage) -> og.GrainStore:
    return og.GrainStore(below)


@pytest.fixture
def case(mine: og.GrainStore) -> Case:
    """A store with evidence that a court holds, and a safety rule that is locked."""
    made = {
        "evidence": mine.put(belief("evidence")),
        "rule": mine.put(belief("rule", 1, invalidation_policy={"mode": "locked"})),
        "plain": mine.put(belief("plain", 2)),
    }
    mine.holds.add(made["evidence"], authority="court", reason_code="case")
    return mine, made


def of_stranger(case: Case) -> og.GrainStore:
    """A copy of the store that somebody made elsewhere, who ends the hold and erases all."""
    mine, made = case
    other = memory()
    together(mine, other)
    other.holds.release(made["evidence"], authority="court", reason_code="lie")
    other.privacy.restrict(made["plain"], reason_code="lie")
    for address in made.values():
        bury(other, address)
    return other


def bury(store: og.GrainStore, address: str) -> None:
    """Report a grain as erased, with any policy, as a foreign store can."""

    def work(writer: Writer) -> None:
        tombstones.add(writer, "address", [(bytes.fromhex(address), b"")], TIME, "lie")

    context_of(store).storage.write(work)


def file_of(store: og.GrainStore, path: Path, signer: Any = None) -> Path:
    write_bundle(LocalPeer(store), path, share_keys=True, clock=lambda: TIME)
    if signer is not None:
        path.with_name(path.name + ".sig").write_bytes(sign_file(path, signer))
    return path


def rules(report: SyncReport) -> set[tuple[str, str, str | None]]:
    return {(one.part, one.code, one.rule) for one in report.refused}


def orders(report: SyncReport) -> set[tuple[str, str, str | None]]:
    return {one for one in rules(report) if one[0] != "grain"}


def test_an_unsigned_file_brings_grains_and_states(case: Case, tmp_path: Path) -> None:
    mine, made = case
    before = addresses(mine)
    other = of_stranger(case)
    new = other.put(belief("new", 3))
    report = take_bundle(file_of(other, tmp_path / "x.mg"), LocalPeer(mine))
    assert addresses(mine) == {*before, new}
    assert mine.status(made["evidence"]).held and not mine.status(made["plain"]).restricted
    assert ("erasure", "ERR_UNSUPPORTED", "rights") in rules(report)


def test_no_right_lets_an_unsigned_file_end_a_hold(case: Case, tmp_path: Path) -> None:
    mine, made = case
    other = memory()
    together(mine, other)
    other.holds.release(made["evidence"], authority="court", reason_code="lie")
    path = file_of(other, tmp_path / "x.mg")
    report = take_bundle(path, LocalPeer(mine), rights=("grains", "states", "holds", "erasures"))
    assert rules(report) == {("hold", "ERR_INVALIDATION_DENIED", "release")}
    assert mine.status(made["evidence"]).held
    with pytest.raises(SchemaError):
        take_bundle(path, LocalPeer(mine), rights=EVERYTHING)
    with pytest.raises(SchemaError):
        take_bundle(path, LocalPeer(mine), rights=("everything",))  # type: ignore[arg-type]
    assert mine.status(made["evidence"]).held


def test_a_file_signed_by_a_trusted_key(case: Case, tmp_path: Path) -> None:
    mine, made = case
    path = file_of(of_stranger(case), tmp_path / "x.mg", ALICE)
    key = tmp_path / "bob.pub"
    key.write_text(BOB.did)
    for trust in (BOB.did, key):
        with pytest.raises(SignatureError) as refused:
            take_bundle(path, LocalPeer(mine), trust=[trust])
        assert refused.value.rule == "signature_untrusted"
    assert mine.status(made["evidence"]).held
    report = take_bundle(path, LocalPeer(mine), trust=[ALICE.did])
    assert made["evidence"] not in mine and made["plain"] not in mine
    assert made["rule"] in mine and not mine.status(made["rule"]).restricted
    assert orders(report) == {("erasure", "ERR_INVALIDATION_DENIED", "locked")}


def test_a_signature_must_hold(case: Case, tmp_path: Path) -> None:
    mine, _ = case
    path = file_of(memory(), tmp_path / "x.mg", ALICE)
    beside = tmp_path / "x.mg.sig"
    good = beside.read_bytes()
    for bad in (b"", b"garbage", good[:-1] + bytes([good[-1] ^ 1])):
        beside.write_bytes(bad)
        every: list[dict[str, Any]] = [
            {},
            {"trust": [ALICE.did]},
            {"trust_state_from": [ALICE.did]},
        ]
        for options in every:
            with pytest.raises(SignatureError):
                take_bundle(path, LocalPeer(mine), **options)
    beside.unlink()
    with pytest.raises(SignatureError) as missing:
        take_bundle(path, LocalPeer(mine), trust=[ALICE.did])
    assert missing.value.rule == "signature_missing"


def test_authorities_bind_trusted_keys_too(case: Case, tmp_path: Path) -> None:
    """Only the authorities of a store end holds and order erasures from outside."""
    mine, made = case
    path = file_of(of_stranger(case), tmp_path / "x.mg", ALICE)
    for court, clerk in ((BOB.did, BOB.did), (BOB.did, ALICE.did)):
        context_of(mine).settings = replace(
            context_of(mine).settings,
            hold_authorities=frozenset([court]),
            erasure_authorities=frozenset([clerk]),
        )
        report = take_bundle(path, LocalPeer(mine), trust=[ALICE.did])
        assert ("hold", "ERR_INVALIDATION_DENIED", "release") in rules(report)
        assert mine.status(made["evidence"]).held
        assert (made["plain"] in mine) == (clerk != ALICE.did)
    context_of(mine).settings = replace(
        context_of(mine).settings, hold_authorities=frozenset([ALICE.did])
    )
    take_bundle(path, LocalPeer(mine), trust=[ALICE.did])
    assert not mine.status(made["evidence"]).held
    mine.privacy.run_due()  # it was kept for the hold alone
    assert made["evidence"] not in mine


def test_authorities_bind_other_stores(case: Case) -> None:
    mine, made = case
    other = of_stranger(case)
    context_of(mine).settings = replace(
        context_of(mine).settings,
        hold_authorities=frozenset([ALICE.did]),
        erasure_authorities=frozenset([ALICE.did]),
    )
    sync(LocalPeer(other), LocalPeer(mine), full=True)
    assert {*made.values()} <= addresses(mine) and mine.status(made["evidence"]).held
    sync(LocalPeer(other), LocalPeer(mine, signer=ALICE.did), full=True)
    assert addresses(mine) == {made["rule"]}


def test_an_end_bars_no_hold_to_come(case: Case) -> None:
    """A sender that may not end holds cannot announce an end either."""
    mine, made = case
    other = memory()
    together(mine, other)
    other.holds.add(made["plain"], authority="court", reason_code="lie")
    other.holds.release(made["plain"], authority="court", reason_code="lie")
    lets = [right for right in EVERYTHING if right != "releases"]
    report = sync(LocalPeer(other), LocalPeer(mine, rights=lets), full=True)
    assert report.refused == ()
    court = memory()
    together(mine, court)
    court.holds.add(made["plain"], authority="court", reason_code="case")
    together(court, mine)
    assert mine.status(made["plain"]).held


@pytest.mark.parametrize("policy", ["locked", "quorum"])
def test_a_tombstone_erases_no_lock_about_no_person(mine: og.GrainStore, policy: str) -> None:
    terms: dict[str, Any] = {"mode": policy}
    if policy == "quorum":
        terms |= {"authorized": [ALICE.did, BOB.did], "threshold": 2}
    rule = mine.put(belief("rule", invalidation_policy=terms))
    about = mine.put(belief("person", 1, user_id="ann", invalidation_policy=terms))
    other = memory()
    together(mine, other)
    for address in (rule, about):
        bury(other, address)
    report = together(other, mine, direction="push")
    assert rule in mine and not mine.status(rule).restricted
    assert about not in mine, "a lock does not keep a grain from the person it is about"
    assert orders(report) == {("erasure", "ERR_INVALIDATION_DENIED", policy)}
    assert [hit.address for hit in mine.query(subject="lamp").results] == [rule]


@pytest.mark.parametrize("author", [{}, {"author_did": DID}])
def test_a_tombstone_erases_no_locked_rule_that_has_an_author(
    mine: og.GrainStore, author: dict[str, str]
) -> None:
    """The author of a safety rule is not its subject."""
    (vector,) = (one for one in VECTORS if one.name.startswith("6 "))
    rule = mine.put(og.encode({**vector.fields, **author}, keep_type_name=True))
    assert author or rule == vector.address
    other = memory()
    together(mine, other)
    bury(other, rule)
    report = together(other, mine, direction="push")
    assert orders(report) == {("erasure", "ERR_INVALIDATION_DENIED", "locked")}
    assert [hit.address for hit in mine.query(subject="agent-007").results] == [rule]


def test_a_successor_that_was_erased_is_reviewed(mine: og.GrainStore) -> None:
    """A stranger names some tombstone as what superseded a grain that asks for a reason."""
    soft = mine.put(belief("soft", invalidation_policy={"mode": "soft_locked"}))
    gone = mine.put(belief("gone", 1))
    mine.delete_many([gone], erased="gdpr17")
    claim = GrainState(bytes.fromhex(soft), successors=(bytes.fromhex(gone),))

    def work(writer: Writer) -> StateMerge:
        done = StateMerge(writer, context_of(mine).settings, PeerTerms(), lambda *_: None)
        done.supersede_by_erased(claim)
        return done

    assert context_of(mine).storage.write(work).refused == []
    (review,) = mine.reviews.pending()
    assert (review.operation, review.address) == ("supersede", soft)
    assert review.rules == ("soft_locked",)


def test_restricted_grains_stay_out_of_use_after_a_sync(mine: og.GrainStore) -> None:
    """A sender that may not bring restrictions still sends a restricted grain as restricted."""
    other = memory()
    known, new = belief("known"), other.put(belief("new", 1))
    (address,) = {mine.put(known), other.put(known)}
    for one in (address, new):
        other.privacy.restrict(one, reason_code="dispute")
    sync(LocalPeer(other), LocalPeer(mine, rights=("grains", "states")), direction="push")
    assert mine.status(new).restricted and not mine.status(address).restricted
    other.privacy.unrestrict(new, reason_code="settled")
    sync(LocalPeer(other), LocalPeer(mine, rights=("grains", "states")), direction="push")
    assert mine.status(new).restricted, "nor is an end of it taken over"


@pytest.mark.parametrize("trusted", [False, True])
def test_verified_survives_by_trust_alone(
    mine: og.GrainStore, tmp_path: Path, trusted: bool
) -> None:
    other = memory()
    made = {name: other.put(belief(name, n)) for n, name in enumerate(("good", "doubted", "bad"))}
    for name in ("good", "doubted"):
        other.trust.set_verification(made[name], "verified")
    mine.contest(mine.put(belief("doubted", 1)))
    path = file_of(other, tmp_path / "x.mg", ALICE)
    from_ = [ALICE.did if trusted else BOB.did]
    take_bundle(path, LocalPeer(mine), trust_state_from=from_)
    status = {name: mine.status(one).verification_status for name, one in made.items()}
    assert status == {
        "good": "verified" if trusted else "unverified",
        "doubted": "contested",
        "bad": "unverified",
    }


@pytest.mark.parametrize("signer", [None, ALICE, BOB])
def test_verified_survives_a_mg_file(
    mine: og.GrainStore, shell: Shell, tmp_path: Path, signer: Any
) -> None:
    other, path = memory(), tmp_path / "x.mg"
    made = {name: other.put(belief(name, n)) for n, name in enumerate(("good", "doubted"))}
    for address in made.values():
        other.trust.set_verification(address, "verified")
    other.export_mg(path)
    if signer is not None:
        (tmp_path / "x.mg.sig").write_bytes(sign_file(path, signer))
    mine.contest(mine.put(belief("doubted", 1)))
    mine.import_mg(path)
    assert mine.status(made["good"]).verification_status == "unverified"
    key = tmp_path / "alice.pub"
    key.write_text(ALICE.did)
    mine.import_mg(path, trust_state_from=[key])
    status = "verified" if signer is ALICE else "unverified"
    assert mine.status(made["good"]).verification_status == status
    assert mine.status(made["doubted"]).verification_status == "contested"
    assert shell("import", "cli.omsg", path, "--trust-state-from", ALICE.did) == 0
    with og.open("cli.omsg") as store:
        assert store.status(made["good"]).verification_status == status
    (tmp_path / "x.mg.sig").write_bytes(b"garbage")
    with pytest.raises(SignatureError):
        mine.import_mg(path, trust_state_from=[ALICE.did])


def test_verified_by_sync_of_a_file(shell: Shell) -> None:
    with og.open("robot.omsg") as robot:
        address = robot.put(belief("0"))
        robot.trust.set_verification(address, "verified")
        file_of(robot, Path("out.mg"), ALICE)
    for name, trust, status in (("a", BOB, "unverified"), ("b", ALICE, "verified")):
        how = ("--create", "--trust-state-from", trust.did)
        assert shell("sync", "out.mg", f"{name}.omsg", *how) == 0
        with og.open(f"{name}.omsg") as hub:
            assert hub.status(address).verification_status == status


def test_verified_between_stores() -> None:
    robot, hub = memory(), memory()
    address = robot.put(belief("0"))
    robot.trust.set_verification(address, "verified")
    together(robot, hub)
    assert hub.status(address).verification_status == "unverified"
    assert not together(robot, hub, full=True).changed
    third = memory()
    sync(LocalPeer(robot), LocalPeer(third, trusted=True))
    assert third.status(address).verification_status == "verified"
    terms = LocalPeer(hub).narrowed(PeerTerms(trusted=True))
    sync(LocalPeer(robot), terms, full=True)
    assert hub.status(address).verification_status == "unverified", "both have it: nothing differs"


@pytest.fixture
def made(shell: Shell, tmp_path: Path) -> Iterator[str]:
    """Two stores in the directory: ``mine.omsg`` with evidence, ``evil.omsg`` without the hold."""
    with og.open("evil.omsg") as evil:
        for name in ("mine.omsg", "second.omsg"):
            with og.open(name) as mine:
                address = mine.put(belief("evidence"))
                mine.holds.add(address, authority="court", reason_code="case")
                together(mine, evil)
        evil.holds.release(address, authority="court", reason_code="lie")
        bury(evil, address)
        write_bundle(LocalPeer(evil), "evil.mg", share_keys=True)
    yield address


def held(address: str, name: str = "mine.omsg") -> bool:
    with og.open(name) as mine:
        return address in mine and mine.status(address).held


def test_commands(shell: Shell, made: str) -> None:
    assert shell("sync", "evil.mg", "mine.omsg") == exit_code("ERR_UNSUPPORTED")
    assert held(made)
    assert shell("sync", "evil.mg", "mine.omsg", "--rights", "all") != 0
    assert held(made)
    assert shell("sync", "evil.omsg", "second.omsg", "--full") != 0
    assert held(made, "second.omsg"), "a store is no better than a file"
    assert shell("sync", "evil.omsg", "mine.omsg", "--rights", "grains,states") == 0
    assert held(made)
    assert shell("sync", "evil.mg", "mine.omsg", "--trust", ALICE.did) == exit_code(
        "ERR_SIGNATURE"
    )
    assert shell("sync", "evil.mg", "mine.omsg", "--rights", "releases") == exit_code("ERR_SCHEMA")
    assert shell("sync", "evil.mg", "mine.omsg", "--rights", "every") == USAGE
    assert shell("sync", "evil.omsg", "mine.omsg", "--trust", ALICE.did) == exit_code(
        "ERR_UNSUPPORTED"
    )
    assert held(made)
    sig = Path("evil.mg.sig")
    sig.write_bytes(sign_file("evil.mg", ALICE))
    authority = ("--trust", ALICE.did, "--hold-authority", BOB.did)
    assert shell("sync", "evil.mg", "mine.omsg", *authority) != 0
    assert held(made)
    authority = ("--trust", ALICE.did, "--erasure-authority", BOB.did)
    shell("sync", "evil.mg", "mine.omsg", *authority)
    with og.open("mine.omsg") as mine:
        assert made in mine
    assert shell("sync", "evil.mg", "mine.omsg", "--trust", ALICE.did) == 0
    assert not held(made)
    with og.open("mine.omsg") as mine:
        mine.privacy.run_due()
        assert made not in mine


@pytest.mark.parametrize("option", [None, "--hold-authority", "--erasure-authority"])
def test_a_server_with_authorities(shell: Shell, made: str, option: str | None) -> None:
    """A token proves no DID, so what only an authority may do, no client can."""
    scopes: Any = ("sync:read", "sync:write", "sync:admin")
    Path("token").write_text(add_token("mine.omsg", "robot", None, scopes))
    options = () if option is None else (option, ALICE.did)
    with Served("mine.omsg", *options) as process:
        shell("sync", "evil.omsg", process.url, "--token-file", "token")
        assert process.end(signal.SIGTERM) == 0
    with og.open("mine.omsg") as mine:
        mine.privacy.run_due()
        assert (made in mine) == (option is not None)
        assert option is None or mine.status(made).held == (option == "--hold-authority")
