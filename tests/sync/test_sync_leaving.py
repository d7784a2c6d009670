# SPDX-License-Identifier: Apache-2.0
"""Grains that leave a store in a sync, grains that stay, and their audit entries."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage import erasure_queue
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, reconcile, sync
from support.signed_stores import signed
from support.signers import ALICE, BOB
from support.sync_stores import addresses, belief, heads, memory, together


def test_rules_of_a_profile_keep_a_grain() -> None:
    robot, hub = memory(), memory()
    privilege: dict[str, Any] = {"legal:privilege": "attorney_client"}
    privileged = belief(
        "advice",
        structural_tags=["profile:legal"],
        **privilege,
    )
    kept = robot.put(privileged)
    report = together(robot, hub)
    assert [(one.rule, one.address.hex()) for one in report.sent.refused] == [
        ("legal:privilege", kept)
    ]
    assert addresses(hub) == set()


def test_restricted_grains_go_to_the_same_house_only() -> None:
    robot, hub, other = memory(), memory(), memory()
    address = robot.put(belief("0"))
    robot.privacy.restrict(address, reason_code="dispute")
    report = sync(LocalPeer(robot, purpose="transfer"), LocalPeer(other))
    assert [one.rule for one in report.sent.refused] == ["restricted"]
    assert addresses(other) == set()
    together(robot, hub)
    assert hub.status(address).restricted and heads(hub) == []
    robot.privacy.unrestrict(address, reason_code="settled")
    sync(LocalPeer(robot, purpose="transfer"), LocalPeer(other))
    assert heads(other) == [address]


def test_expired_grains_are_not_sent() -> None:
    robot, hub = memory(), memory()
    over, held = robot.put(belief("over")), robot.put(belief("held", 1))
    robot.holds.add(held, authority="court", reason_code="litigation")
    for address in (over, held):
        with context_of(robot).storage.read() as reader:
            seq = reader.find([bytes.fromhex(address)])[0]
        what = {"kind": erasure_queue.RETENTION, "seq": seq}
        context_of(robot).storage.write(partial(erasure_queue.add, deadline=1, what=what))
    report = together(robot, hub)
    assert [(one.rule, one.address.hex()) for one in report.sent.refused] == [("retention", over)]
    assert addresses(hub) == {held}


def test_the_audit_trail_records_exports_and_recipients() -> None:
    robot, hub = memory(), memory()
    robot.put_many([belief(f"r{n}", n) for n in range(3)])
    robot.put_many(signed(belief("signed", 3), ALICE, BOB))
    hub.put(belief("h", 4))
    together(robot, hub)
    together(robot, hub)
    assert exports(robot) == [(4, "sync")] and exports(hub) == [(1, "sync")]
    (entry,) = [one for one in robot.audit.entries() if one.operation == "export"]
    with context_of(hub).storage.read() as reader:
        assert entry.details["store"] == (reconcile.store_id(reader) or b"").hex()
    together(robot, hub, direction="pull", full=True)
    assert exports(hub) == [(1, "sync")]
    third = memory()
    sync(LocalPeer(robot, notes="never"), LocalPeer(third), dry_run=True)
    assert len(exports(robot)) == 1
    sync(LocalPeer(robot), LocalPeer(third), full=True)
    assert exports(robot) == [(4, "sync"), (5, "sync")]


def test_grains_come_off_a_full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    robot, hub = memory(), memory()
    robot.put(belief("0"))
    together(robot, memory())
    robot.put(belief("1", 1))

    def full(work: object) -> None:
        raise err.StoreError("the disk is full")

    monkeypatch.setattr(context_of(robot).storage, "write", full)
    with pytest.raises(err.StoreError):
        sync(LocalPeer(robot, notes="must"), LocalPeer(hub), direction="push")
    assert addresses(hub) == set()
    assert together(robot, hub, direction="push").sent.grains == 2


def exports(store: og.GrainStore) -> list[tuple[object, str | None]]:
    """How many grains left, and why, by the audit trail."""
    found = (one for one in store.audit.entries() if one.operation == "export")
    return [(one.details["grains"], one.reason_code) for one in found]
