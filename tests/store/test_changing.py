# SPDX-License-Identifier: Apache-2.0
"""The states of a grain: superseded, verified, held, deleted, read. On both stores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.store import GrainStore, lifecycle
from omsgrain.store.context import Settings
from omsgrain.store.policy_context import PolicyContext
from support.invented_people import opened
from support.store_kinds import POSTGRES, made
from support.sync_stores import TIME, belief

NOW = TIME + 1_000_000
ABSENT = "ab" * 32
LOCKED = {"mode": "locked"}
SOFT = {"mode": "soft_locked"}
HOLD = {"authority": "court", "reason_code": "litigation"}


@pytest.fixture(params=["memory", "lmdb", POSTGRES])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[og.GrainStore]:
    settings = Settings(actor="tester", clock=lambda: NOW)
    with GrainStore(made(request.param, tmp_path / "memory.omsg"), settings) as opened:
        yield opened


def current(store: og.GrainStore, **filters: Any) -> list[str]:
    return [hit.address for hit in store.query(**filters).results]


def test_superseding_changes_the_state_and_not_the_grain(store: og.GrainStore) -> None:
    old = store.put(belief("on"))
    before = store.get(old).blob
    new = store.supersede(old, belief("off", 5))
    assert store.get(old).blob == before
    state = store.status(old)
    assert (state.superseded_by, state.successors) == (new, (new,))
    assert state.system_valid_to == TIME + 5
    assert store.status(new).superseded_by is None
    assert current(store, subject="lamp") == [new]
    assert current(store, subject="lamp", current=None) == [new, old]
    assert current(store, subject="lamp", current=False) == [old]


def test_system_valid_from_ends_the_old(store: og.GrainStore) -> None:
    old = store.put(belief("on"))
    store.supersede(old, belief("off", 5, system_valid_from=TIME + 3))
    assert store.status(old).system_valid_to == TIME + 3


def test_a_fork_keeps_all_heads(store: og.GrainStore) -> None:
    old = store.put(belief("on"))
    heads = {store.supersede(old, belief(what, at)) for what, at in (("off", 7), ("dim", 4))}
    state = store.status(old)
    assert set(state.successors) == heads
    assert state.superseded_by == min(heads)
    assert state.system_valid_to == TIME + 4
    assert {grain.address for grain in store.graph.heads(old)} == heads
    assert set(current(store, subject="lamp")) == heads


def test_the_same_supersession_again_changes_nothing(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = store.put(belief("on"))
    new = store.supersede(old, belief("off", 1))
    seen = store.stats().last_seq
    # Nobody looks for a circle again: a file of a long history is imported twice in no time.
    monkeypatch.setattr(PolicyContext, "successors", None)
    assert store.supersede(old, belief("off", 1)) == new
    assert store.stats().last_seq == seen


def test_by_a_grain_that_is_there_already(store: og.GrainStore) -> None:
    old, new = store.put(belief("on")), store.put(belief("off", 1))
    assert store.supersede(old, store.get(new)) == new
    assert len(store) == 2
    assert current(store, subject="lamp") == [new]


@pytest.mark.parametrize("length", [1, 2, 3, 7])
def test_no_circles(store: og.GrainStore, length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lifecycle, "_WALK", 4)  # all of a lineage is looked at, however long it is
    chain = [store.put(belief("0"))]
    for number in range(1, length):
        chain.append(store.supersede(chain[-1], belief(str(number), number)))
    seen = store.stats().last_seq
    with pytest.raises(err.SchemaError):
        store.supersede(chain[-1], store.get(chain[0]))
    assert store.stats().last_seq == seen


def test_a_history_that_is_too_long_to_look_through(
    store: og.GrainStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = [store.put(belief("0"))]
    for number in range(1, 5):
        chain.append(store.supersede(chain[-1], belief(str(number), number)))
    monkeypatch.setattr(lifecycle, "MOST_VERSIONS", 3)
    with pytest.raises(err.RangeError):
        store.supersede(chain[-1], store.get(chain[0]))


def test_refusals_leave_nothing(store: og.GrainStore) -> None:
    old = store.put(belief("on", invalidation_policy=LOCKED))
    seen = store.stats().last_seq
    with pytest.raises(err.InvalidationDeniedError):
        store.supersede(old, belief("off", 1))
    with pytest.raises(err.NotFoundError):
        store.supersede(ABSENT, belief("off", 1))
    with pytest.raises(err.SchemaError):
        store.supersede(old, belief("off", 1) | {"confidence": "much"})
    assert len(store) == 1
    assert store.stats().last_seq == seen
    assert [entry.operation for entry in store.audit.entries()] == ["put"]


def test_a_justification_becomes_part_of_the_grain_and_of_a_review(store: og.GrainStore) -> None:
    old = store.put(belief("on", invalidation_policy=SOFT))
    with pytest.raises(err.InvalidationDeniedError):
        store.supersede(old, belief("off", 1))
    new = store.supersede(old, belief("off", 1), justification="the switch was turned")
    assert store.get(new)["supersession_justification"] == "the switch was turned"
    (review,) = store.reviews.pending()
    assert (review.operation, review.address, review.by) == ("supersede", old, new)
    assert (review.justification, review.time) == ("the switch was turned", NOW)
    store.reviews.resolve(review.number)
    assert list(store.reviews.pending()) == []
    with pytest.raises(err.NotFoundError):
        store.reviews.resolve(review.number)


def test_a_grain_that_brings_its_justification(store: og.GrainStore) -> None:
    old = store.put(belief("on", invalidation_policy=SOFT))
    new = belief("off", 1, supersession_justification="seen")
    with pytest.raises(err.SchemaError):
        store.put(new)
    with pytest.raises(err.SchemaError):
        store.supersede(old, new, justification="another")
    assert store.exists(store.supersede(old, new))


@pytest.mark.parametrize(
    ("status", "shown"),
    [("verified", True), ("contested", True), ("retracted", False), ("unverified", True)],
)
def test_verification(store: og.GrainStore, status: Any, shown: bool) -> None:
    address = store.put(belief("on"))
    store.trust.set_verification(address, status)
    assert store.status(address).verification_status == status
    assert current(store, subject="lamp") == [address] * shown
    assert current(store, subject="lamp", verification_status=status) == [address]
    store.trust.set_verification(address, "unverified")
    assert current(store, subject="lamp") == [address]


def test_contest_and_retract_are_refused_by_a_lock(store: og.GrainStore) -> None:
    address = store.put(belief("on", invalidation_policy=LOCKED))
    for act in (store.contest, store.retract, store.delete):
        with pytest.raises(err.InvalidationDeniedError):
            act(address)
    store.trust.set_verification(address, "verified")
    with pytest.raises(err.InvalidationDeniedError):  # trust is not taken away by another word
        store.trust.set_verification(address, "unverified")


def test_fields_inherit_the_policy_of_a_goal(store: og.GrainStore) -> None:
    terms = {"mode": "locked", "scope": "lineage"}
    goal = {"type": "goal", "description": "tidy", "goal_state": "active", "created_at": 1}
    free = {"allowed_transitions": ["satisfied"], "invalidation_policy": terms}
    old = store.put({**goal, **free})
    done = {**goal, "goal_state": "satisfied", "created_at": 2}
    with pytest.raises(err.InvalidationDeniedError) as denied:
        store.supersede(old, og.encode(done))
    assert denied.value.rule == "laundering"
    new = store.supersede(old, {**done, "invalidation_policy": None})
    assert store.get(new)["invalidation_policy"] == terms
    other = store.put({**goal, "created_at": 3, "invalidation_policy": {"mode": "open"}})
    assert "invalidation_policy" not in store.get(store.supersede(other, done))


def test_an_unknown_status(store: og.GrainStore) -> None:
    address = store.put(belief("on"))
    with pytest.raises(err.SchemaError):
        store.trust.set_verification(address, "true")  # type: ignore[arg-type]


def test_a_hold_refuses_every_way_out(store: og.GrainStore) -> None:
    address = store.put(belief("on"))
    store.holds.add(address, **HOLD)
    store.holds.add(address, authority="auditor", reason_code="audit")
    assert store.status(address).held
    assert [hold.authority for hold in store.holds.of(address)] == ["court", "auditor"]
    for act in (
        lambda: store.supersede(address, belief("off", 1)),
        lambda: store.contest(address),
        lambda: store.retract(address),
        lambda: store.delete(address),
        lambda: store.trust.set_verification(address, "verified"),
    ):
        with pytest.raises(err.InvalidationDeniedError):
            act()
    store.holds.release(address, **HOLD)
    with pytest.raises(err.NotFoundError):
        store.holds.release(address, **HOLD)
    assert store.status(address).held
    store.holds.release(address, authority="auditor", reason_code="audit")
    store.delete(address)
    assert not store.exists(address)


@pytest.mark.parametrize("missing", ["authority", "reason_code"])
def test_a_hold_names_who_and_why(store: og.GrainStore, missing: str) -> None:
    address = store.put(belief("on"))
    for no_name in (" ", "\ud800", "x" * 1_025):
        with pytest.raises(err.SchemaError):
            store.holds.add(address, **{**HOLD, missing: no_name})


def test_deleting(store: og.GrainStore) -> None:
    address, other = store.put(belief("on")), store.put(belief("dim", 1))
    store.trust.set_verification(address, "verified")
    store.delete(address, reason="a mistake")
    assert len(store) == 1
    assert current(store) == [other]
    for act in (store.get, store.status, store.delete, store.history):
        with pytest.raises(err.NotFoundError):
            act(address)
    assert [c.kind for c in store.changes()] == ["put", "verify", "delete"]
    again = store.put(belief("on"))
    assert again == address
    assert store.status(address).verification_status == "unverified"
    assert current(store) == [other, address]
    assert store.maintenance.check().ok


def test_a_successor_that_was_deleted_and_put_again(store: og.GrainStore) -> None:
    """It has superseded nothing since, until it supersedes again."""
    old = store.put(belief("on"))
    new = store.supersede(old, belief("off", 1))
    store.delete(new)
    assert store.put(belief("off", 1)) == new
    for _ in range(2):
        assert store.maintenance.check().ok
        assert [grain.address for grain in store.history(old)] == [old]
        assert store.status(old).superseded_by == new
        store.maintenance.rebuild()
    assert store.supersede(old, belief("off", 1)) == new
    for _ in range(2):
        assert store.maintenance.check().ok
        assert [grain.address for grain in store.history(old)] == [old, new]
        store.maintenance.rebuild()


def test_numbers_that_are_none(store: og.GrainStore) -> None:
    wrong: Any
    for wrong in (None, "3", 2.0, True, 0):
        for act in (
            lambda wrong=wrong: store.query(limit=wrong),
            lambda wrong=wrong: store.search("lamp", limit=wrong),
            lambda wrong=wrong: store.put_many([], batch_size=wrong),
        ):
            with pytest.raises(err.RangeError):
                act()
    wrong = 5
    with pytest.raises(err.SchemaError):
        store.query(cursor=wrong)


def test_numbers_that_no_store_gives(store: og.GrainStore) -> None:
    store.put(belief("on"))
    assert list(store.changes(1 << 70)) == []
    wrong: Any
    for wrong in (-1, 1 << 70, "1"):
        with pytest.raises(err.NotFoundError):
            store.reviews.resolve(wrong)


def test_a_vector_is_noted(store: og.GrainStore) -> None:
    address = store.put(belief("on"))
    store.vectors.add(address, [1.0, 2.0], model="m")
    store.vectors.add(address, [1.0, 2.0], model="m")
    assert [entry.operation for entry in store.audit.entries()] == ["put", "vector"]
    assert store.audit.verify().ok
    assert store.maintenance.check().ok
    assert [change.kind for change in store.changes()] == ["put", "vector"]
    assert [hit.address for hit in store.search(vector=[1, 2]).results] == [address]


def test_the_actor_is_in_the_audit_trail(store: og.GrainStore) -> None:
    address = store.put(belief("on"))
    store.contest(address, reason="it flickers")
    store.delete(address, reason="a mistake")
    entries = list(store.audit.entries())
    assert [entry.operation for entry in entries] == ["put", "contest", "delete"]
    assert {entry.actor for entry in entries} == {"tester"}
    assert {entry.time for entry in entries} == {NOW}
    assert [entry.note for entry in entries] == [None, "it flickers", "a mistake"]
    assert len(list(store.audit.entries(address=address))) == 3
    assert store.audit.verify().ok


def test_changes_are_in_order(store: og.GrainStore) -> None:
    old = store.put(belief("on"))
    new = store.supersede(old, belief("off", 1))
    store.contest(new)
    store.holds.add(new, **HOLD)
    store.holds.release(new, **HOLD)
    changes = list(store.changes())
    assert [(c.kind, c.address) for c in changes] == [
        ("put", old),
        ("put", new),
        ("supersede", old),
        ("verify", new),
        ("hold", new),
        ("release", new),
    ]
    assert [c.seq for c in changes] == sorted({c.seq for c in changes})
    for change in changes:
        assert [c for c in changes if c.seq > change.seq] == list(store.changes(change.seq))


def test_reads_are_counted(store: og.GrainStore) -> None:
    address, other = store.put(belief("on")), store.put(belief("off", 1))
    store.get(address)
    store.get_many([address, other])
    store.query(object="on")
    state = store.status(address)
    assert (state.access_count, state.last_accessed_at) == (3, NOW)
    assert store.status(other).access_count == 1


def test_counts_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "memory.omsg"
    with og.open(path) as store:
        address = store.put(belief("on"))
        store.get(address)
    with og.open(path, count_access=False) as store:
        store.get(address)
        assert store.status(address).access_count == 1
    with og.open(path, readonly=True) as store:
        store.get(address)
        assert store.status(address).access_count == 1
    assert og.Grain(og.encode(belief("on"))).address == address


def test_semantic_duplicates(store: og.GrainStore) -> None:
    first = store.put(belief("on"))
    assert store.put(belief("on", 50), dedupe="semantic") == first
    assert len(store) == 1
    later = store.put(belief("on", 50))
    assert later != first
    assert [set(same.addresses) for same in store.graph.duplicates()] == [{first, later}]
    with pytest.raises(err.SchemaError):
        store.put(belief("on"), dedupe="exact")  # type: ignore[arg-type]


def test_a_goal_is_not_active_before_what_it_depends_on(store: og.GrainStore) -> None:
    def goal(state: str, at: int, **fields: Any) -> dict[str, Any]:
        made = {"type": "goal", "description": "x", "goal_state": state, "created_at": TIME + at}
        return made | fields

    first = store.put(goal("active", 0))
    second = goal("active", 1, depends_on=[first])
    with pytest.raises(err.InvalidationDeniedError):
        store.put(second)
    report = store.put_many([second, belief("on")], errors="collect")
    assert [item.index for item in report.errors] == [0]
    assert report.addresses[0] is None
    assert report.stored == 1
    with pytest.raises(err.InvalidationDeniedError):
        store.put_many([belief("dim"), second])
    assert len(store) == 2
    store.supersede(first, goal("satisfied", 2))
    assert store.exists(store.put(second))


def test_a_quorum_of_real_signatures(store: og.GrainStore) -> None:
    from omsgrain import crypto
    from omsgrain.policy import claim

    members = [crypto.Ed25519Signer.generate() for _ in range(3)]
    stranger = crypto.ES256Signer.generate()
    terms = {"mode": "quorum", "threshold": 2, "authorized": [m.did for m in members]}
    old = store.put(belief("on", invalidation_policy=terms))
    other = store.put(belief("on", 9, invalidation_policy=terms))
    plain = belief("off", 1)
    signed = claim(og.Grain(og.encode(plain)))

    def by(*signers: Any, over: str = old) -> dict[str, Any]:
        auth = [crypto.co_sign(signed, over, signer) for signer in signers]
        return {**plain, "supersession_auth": auth}

    for refused in (
        plain,
        by(members[0]),
        by(members[0], members[0]),
        by(members[0], stranger),
        by(members[0], members[1], over=other),
        {**by(members[0], members[1]), "object": "dim"},
    ):
        with pytest.raises(err.InvalidationDeniedError):
            store.supersede(old, refused)
    new = store.supersede(old, by(members[2], stranger, members[0]))
    assert store.status(old).superseded_by == new


def goal(state: str, at: int, **fields: Any) -> dict[str, Any]:
    given = {"type": "goal", "description": "d", "goal_state": state, "created_at": TIME + at}
    return {**given, "user_id": "ada", **fields}


@pytest.mark.parametrize("kind", ["memory", "lmdb", "sealed lmdb"])
def test_a_batch_has_the_goals_and_the_evidence_that_a_later_goal_of_it_needs(
    kind: str, tmp_path: Path
) -> None:
    fact = belief("on", user_id="ada")
    done = goal(
        "satisfied", 1, evidence_required=1, satisfaction_evidence=[og.address(og.encode(fact))]
    )
    then = goal("active", 2, depends_on=[og.address(og.encode(done))])
    with opened(kind, tmp_path, Settings(clock=lambda: NOW)) as store:
        with pytest.raises(err.EvidenceRequiredError):
            store.put(done)
        with pytest.raises(err.InvalidationDeniedError):
            store.put_many([then, done])  # only earlier grains count, as with one put each
        assert store.put_many([fact, done, then]).stored == 3


def test_a_refused_goal_of_a_batch_does_not_help_a_later_one(store: og.GrainStore) -> None:
    bad = goal("satisfied", 1, evidence_required=1, satisfaction_evidence=[ABSENT])
    then = goal("active", 2, depends_on=[og.address(og.encode(bad))])
    report = store.put_many([bad, then], errors="collect")
    assert [(error.index, error.error.code) for error in report.errors] == [
        (0, "ERR_EVIDENCE_REQUIRED"),
        (1, "ERR_INVALIDATION_DENIED"),
    ]
