# SPDX-License-Identifier: Apache-2.0
"""A foreign grain binds local grains only if its sender may bring holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.crypto import sign_file
from omsgrain.errors import InvalidationDeniedError, SchemaError
from omsgrain.storage.base import Storage
from omsgrain.sync import LocalPeer, sync, take_bundle, write_bundle
from omsgrain.sync.peer import EVERYTHING, Right
from support.bridge_memory import Broker, Run
from support.http_server import ADA, site
from support.signers import ALICE, BOB
from support.sync_lines import dialled
from support.sync_stores import TIME, addresses, belief, memory, together

FEW: tuple[Right, ...] = ("grains", "states")
POLICIES: dict[str, dict[str, Any]] = {
    "hold": {"mode": "hold"},
    "becomes a hold": {"mode": "timed", "locked_until": 1, "fallback_mode": "hold"},
    "locked": {"mode": "locked"},
    "unknown": {"mode": "bolted"},
    "timed": {"mode": "timed", "locked_until": 9_999_999_999, "fallback_mode": "open"},
    "quorum": {"mode": "quorum", "authorized": [ALICE.did, BOB.did], "threshold": 2},
    "delegated": {"mode": "delegated", "authorized": [BOB.did]},
    "soft_locked": {"mode": "soft_locked"},
    "consent_cascade": {"mode": "consent_cascade"},
}
HOLDS = ("hold", "becomes a hold")
ANN: dict[str, Any] = {"user_id": "ann"}


@pytest.fixture
def mine(below: Storage) -> og.GrainStore:
    return og.GrainStore(below)


@pytest.fixture(params=["lineage", "wherever"])
def scope(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def attack(mine: og.GrainStore, terms: dict[str, Any]) -> tuple[og.GrainStore, str, str]:
    """A stranger's store with a successor of a grain of ours, and both addresses."""
    victim = mine.put(belief("open", **ANN))
    other = memory()
    together(mine, other)
    trap = other.supersede(victim, belief("trap", 1, invalidation_policy=terms))
    return other, victim, trap


def is_free(mine: og.GrainStore, victim: str) -> bool:
    """Whether its owner may still contest, supersede and erase it."""
    try:
        mine.contest(victim, reason="mine")
        mine.supersede(victim, belief("mine", 9, **ANN))
        mine.privacy.erase(["ann"], reason_code="request")
    except InvalidationDeniedError:
        return False
    return victim not in mine


def by_peer(mine: og.GrainStore, other: og.GrainStore, path: Path) -> set[tuple[str, str | None]]:
    report = sync(LocalPeer(other), LocalPeer(mine, rights=FEW), direction="push")
    return {(one.code, one.rule) for one in report.refused}


def by_file(mine: og.GrainStore, other: og.GrainStore, path: Path) -> set[tuple[str, str | None]]:
    write_bundle(LocalPeer(other), path / "x.mg", clock=lambda: TIME)
    report = take_bundle(path / "x.mg", LocalPeer(mine))
    return {(one.code, one.rule) for one in report.refused}


def by_import(
    mine: og.GrainStore, other: og.GrainStore, path: Path
) -> set[tuple[str, str | None]]:
    other.export_mg(path / "x.mg")
    report = mine.import_mg(path / "x.mg", errors="collect")
    return {(error.code, error.rule) for _, error in report.refused}


def by_table(mine: og.GrainStore, other: og.GrainStore, path: Path) -> set[tuple[str, str | None]]:
    other.parquet.write(path / "x.parquet")
    report = mine.parquet.read(path / "x.parquet", errors="collect")
    return {(error.code, error.rule) for _, error in report.refused}


def by_http(mine: og.GrainStore, other: og.GrainStore, path: Path) -> set[tuple[str, str | None]]:
    """By a token without ``sync:admin``; the server has a store of its own, as one was mine."""
    with site(path / "hub.omsg") as hub:
        store = hub.service.stores.main
        together(mine, store)
        peer = dialled(hub, hub.sync_token("writer", ["sync:write"]))
        report = sync(LocalPeer(other), peer, direction="push")
        (victim,) = addresses(mine)
        assert store.status(victim).successors == () and is_free(store, victim)
        return {(one.code, one.rule) for one in report.refused}


Door = Callable[[og.GrainStore, og.GrainStore, Path], set[tuple[str, str | None]]]


@pytest.mark.parametrize("door", [by_peer, by_file, by_http, by_import, by_table])
@pytest.mark.parametrize("name", POLICIES)
def test_a_stranger_binds_nothing(
    mine: og.GrainStore, tmp_path: Path, door: Door, name: str, scope: str
) -> None:
    other, victim, _ = attack(mine, POLICIES[name] | {"scope": scope})
    assert door(mine, other, tmp_path) == {("ERR_INVALIDATION_DENIED", "reach")}
    assert mine.status(victim).successors == ()
    assert is_free(mine, victim)


@pytest.mark.parametrize("name", POLICIES)
def test_nor_by_a_grain_in_between(mine: og.GrainStore, tmp_path: Path, name: str) -> None:
    """An open successor comes first, by another way, and what binds supersedes that one."""
    victim = mine.put(belief("open", **ANN))
    other = memory()
    together(mine, other)
    between = other.supersede(victim, belief("between", 1))
    assert by_file(mine, other, tmp_path) == set()
    assert mine.status(victim).superseded_by == between
    other.supersede(between, belief("trap", 2, invalidation_policy=terms_of(name)))
    assert by_file(mine, other, tmp_path) == {("ERR_INVALIDATION_DENIED", "reach")}
    assert is_free(mine, victim)


def test_nor_by_what_binds_a_history_of_its_own(mine: og.GrainStore, tmp_path: Path) -> None:
    """The stranger's two grains may bind each other, and then ours would join them."""
    victim = mine.put(belief("open", **ANN))
    other = memory()
    first = other.put(belief("first", 1))
    other.supersede(first, belief("second", 2, invalidation_policy=terms_of("locked")))
    assert by_file(mine, other, tmp_path) == set(), "nothing of ours is bound by it"
    assert mine.status(first).superseded_by is not None
    with pytest.raises(InvalidationDeniedError):
        mine.delete(first)
    together(mine, other)
    other.supersede(victim, other.get(first).blob)
    assert by_file(mine, other, tmp_path) == {("ERR_INVALIDATION_DENIED", "reach")}
    assert is_free(mine, victim)


def test_nor_by_ours_as_the_successor(mine: og.GrainStore, tmp_path: Path) -> None:
    """Of a grain that goes with a consent, and lets anybody supersede it."""
    victim = mine.put(belief("open", **ANN))
    other = memory()
    trap = other.put(belief("trap", 1, invalidation_policy=terms_of("consent_cascade")))
    assert by_file(mine, other, tmp_path) == set()
    together(mine, other)
    other.supersede(trap, other.get(victim).blob)
    assert by_file(mine, other, tmp_path) == {("ERR_INVALIDATION_DENIED", "reach")}
    assert mine.status(trap).successors == ()


def terms_of(name: str) -> dict[str, Any]:
    return POLICIES[name] | {"scope": "lineage"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_hold_over_what_derives_from_it(mine: og.GrainStore, tmp_path: Path, name: str) -> None:
    """Ours derives from what a stranger says: locks let the person erase it, holds do not."""
    other = memory()
    trap = other.put(belief("trap", invalidation_policy=POLICIES[name] | {"scope": "subtree"}))
    refused = {("ERR_INVALIDATION_DENIED", "reach")} if name in HOLDS else set()
    assert by_file(mine, other, tmp_path) == refused
    assert (trap in mine) == (name not in HOLDS)
    victim = mine.put(belief("ours", 1, derived_from=[trap], **ANN))
    mine.privacy.erase(["ann"], reason_code="request")
    assert victim not in mine


def test_a_hold_over_itself_comes(mine: og.GrainStore, tmp_path: Path) -> None:
    other = memory()
    held = other.put(belief("evidence", invalidation_policy={"mode": "hold"}))
    assert by_file(mine, other, tmp_path) == set()
    assert held in mine


@pytest.mark.parametrize("name", POLICIES)
def test_a_peer_that_may_bring_holds_may_bind(
    mine: og.GrainStore, tmp_path: Path, name: str
) -> None:
    other, victim, trap = attack(mine, terms_of(name))
    write_bundle(LocalPeer(other), tmp_path / "x.mg", clock=lambda: TIME)
    (tmp_path / "x.mg.sig").write_bytes(sign_file(tmp_path / "x.mg", ALICE))
    report = take_bundle(tmp_path / "x.mg", LocalPeer(mine), trust=[ALICE.did])
    assert report.refused == ()
    assert mine.status(victim).superseded_by == trap
    assert is_free(mine, victim) == (name == "consent_cascade")


@pytest.mark.parametrize("name", POLICIES)
def test_a_mg_file_signed_by_a_trusted_key_binds(
    mine: og.GrainStore, tmp_path: Path, name: str
) -> None:
    other, victim, trap = attack(mine, terms_of(name))
    other.export_mg(tmp_path / "x.mg")
    (tmp_path / "x.mg.sig").write_bytes(sign_file(tmp_path / "x.mg", ALICE))
    mine.import_mg(tmp_path / "x.mg", errors="collect", trust_state_from=[BOB.did])
    assert mine.status(victim).successors == ()
    mine.import_mg(tmp_path / "x.mg", trust_state_from=[ALICE.did])
    assert mine.status(victim).superseded_by == trap
    assert is_free(mine, victim) == (name == "consent_cascade")


@pytest.mark.parametrize("rights", [EVERYTHING, FEW])
def test_a_history_that_comes_whole_is_bound_as_it_was(
    mine: og.GrainStore, tmp_path: Path, rights: tuple[Right, ...]
) -> None:
    """Grains that come with it are new here, so it may bind them."""
    other = memory()
    first = other.put(belief("first"))
    last = other.supersede(first, belief("last", 1, invalidation_policy=terms_of("locked")))
    report = sync(LocalPeer(other), LocalPeer(mine, rights=rights), direction="push")
    assert report.refused == () and mine.status(first).superseded_by == last
    other.export_mg(tmp_path / "x.mg")
    second = memory()
    second.import_mg(tmp_path / "x.mg")
    for store in (mine, second):
        with pytest.raises(InvalidationDeniedError):
            store.delete(first)


@pytest.mark.parametrize("name", POLICIES)
def test_a_put_supersedes_nothing(mine: og.GrainStore, name: str) -> None:
    """Brokers and uploads put grains; one that claims to supersede is refused by each."""
    victim = mine.put(belief("open", **ANN))
    trap = belief(
        "trap",
        1,
        invalidation_policy=terms_of(name),
        related_to=[{"hash": victim, "relation_type": "replaces", "weight": 1.0}],
    )
    claim = trap | {"supersession_justification": "so"}
    run = Run(mine, Broker([og.encode(trap), og.encode(claim)]))
    counts = run().counts
    assert (counts.stored, counts.refused) == (1, 1)
    for given in (claim, og.encode(claim)):
        with pytest.raises(SchemaError):
            mine.put(given)
    assert mine.status(victim).successors == ()
    assert is_free(mine, victim)


def test_uploads_supersede_nothing(tmp_path: Path) -> None:
    with site(tmp_path / "hub.omsg") as hub:
        token, store = hub.token(), hub.service.stores.main
        victim = store.put(belief("open", **ANN))
        claim = belief("trap", 1, user_id=ADA, invalidation_policy=terms_of("hold"))
        claim["supersession_justification"] = "so"
        answer = hub.ask("POST", "/v1/grains", token, json=claim)
        assert answer.status_code == 422
        assert store.status(victim).successors == () and is_free(store, victim)
