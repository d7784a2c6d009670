# SPDX-License-Identifier: Apache-2.0
"""Parts of a sync: namespaces, rights, dry runs, ranges, values as bytes, bad arguments."""

from __future__ import annotations

from typing import Any

import pytest

import omsgrain as og
from omsgrain import errors as err
from omsgrain.storage.tables import TOMBSTONES
from omsgrain.storage.tombstones import MOST_KEYS, adopt
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, erasures, sync
from omsgrain.sync.peer import (
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    Position,
    Reconciled,
)
from omsgrain.sync.protocol import pack_value, unpack_value
from omsgrain.sync.reconcile import NamespaceScope
from support.sync_stores import Cut, Watched, addresses, belief, memory, settle, together


def test_namespaces() -> None:
    robot, hub = memory(), memory()
    names = ["robots:arm", "robots:base", "office", "robots"]
    kept = [robot.put(belief(name, n, namespace=name)) for n, name in enumerate(names)]
    robot.put(belief("nowhere"))
    report = together(robot, hub, namespaces=["robots:*", "office"])
    assert addresses(hub) == set(kept[:3])
    assert report.sent.grains == 3
    later = robot.put(belief("more", 9, namespace="office"))
    assert together(robot, hub, namespaces=["office", "robots:*"]).sent.grains == 1
    assert later in addresses(hub)
    assert together(robot, hub).sent.grains == 2
    assert addresses(hub) == addresses(robot)
    with pytest.raises(err.SchemaError):
        together(robot, hub, namespaces=[])


def test_a_small_part_of_a_long_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index lists a namespace, so that not every new grain is read."""
    robot, hub = memory(), memory()
    together(hub, robot, namespaces=["rules"])
    robot.put(belief("own"))
    shared, looked, inner = set(), list[int](), NamespaceScope.takes

    def takes(*given: Any) -> bool:
        looked.append(1)
        return inner(*given)

    monkeypatch.setattr(NamespaceScope, "takes", takes)
    for n in range(3):
        hub.put_many([belief(f"{n}:{i}", i, namespace=f"robot {i}") for i in range(60)])
        shared.add(hub.put(belief(f"rule {n}", n, namespace="rules")))
        report = together(robot, hub, direction="pull", namespaces=["rules"])
        assert report.received.grains == 1
        if not n:
            looked.clear()  # the first time all were compared
    assert len(looked) < 20
    assert shared <= addresses(robot) and len(robot) == 4
    hub.contest(min(shared))
    together(robot, hub, direction="pull", namespaces=["rules"])
    assert robot.status(min(shared)).verification_status == "contested"


def test_a_new_robot_costs_its_hub_no_look_at_all_it_has() -> None:
    robot, hub = memory(), memory()
    hub.put_many([belief(f"{n}", n) for n in range(20)])
    report = together(robot, hub, direction="push")
    assert not report.sent.compared
    rule = hub.put(belief("rule", namespace="rules"))
    report = together(robot, hub, namespaces=["rules"])
    assert not report.sent.compared and not report.received.compared
    assert addresses(robot) == {rule}


def test_keys_of_tombstones_have_a_limit() -> None:
    robot, hub = memory(), memory()
    for store in (robot, hub):
        gone = store.put(belief("gone"))
        store.delete_many([gone], erased="gdpr17")
    others = [bytes([n]) * 32 for n in range(MOST_KEYS - 1)]
    context_of(hub).storage.write(lambda writer: adopt(writer, others))
    new, later = robot.put(belief("new", 1)), robot.put(belief("later", 2))
    report = together(robot, hub)
    assert [(one.part, one.code) for one in report.refused] == [("erasure", "ERR_RANGE")]
    assert addresses(hub) == {new, later}
    # From then on the robot marks what is erased as the hub does, and knows what it had erased.
    robot.delete_many([later], erased="gdpr17")
    report = together(robot, hub)
    assert report.sent.erased == 1 and report.refused == ()
    assert addresses(hub) == {new}
    hub.put(belief("gone"), allow_erased=True)
    assert [one.code for one in together(robot, hub).received.refused] == ["ERR_ERASED"]


def test_a_hub_that_takes_grains_only() -> None:
    robot, hub = memory(), memory()
    there = hub.put(belief("theirs"))
    mine = robot.put(belief("mine"))
    together(robot, hub)
    robot.contest(there)
    robot.delete_many([mine], erased="gdpr17")
    new = robot.put(belief("new", 1))
    careful = LocalPeer(hub, rights=("give", "grains"))
    report = sync(LocalPeer(robot), careful)
    assert report.sent.grains == 1 and report.sent.states == 0
    assert addresses(hub) == {there, mine, new}
    assert hub.status(there).verification_status == "unverified"
    with pytest.raises(err.UnsupportedError):
        sync(LocalPeer(robot), LocalPeer(hub, rights=("give",)), direction="push")


def test_a_dry_run_changes_nothing() -> None:
    robot, hub = memory(), memory()
    robot.put_many([belief(f"{n}", n) for n in range(7)])
    hub.put(belief("0"))
    for full in (False, True):
        report = together(robot, hub, dry_run=True, full=full)
        assert report.dry_run and report.sent.grains == 6
        assert len(hub) == 1


def test_refusals_of_arguments() -> None:
    robot = memory()
    robot.put(belief("0"))
    together(robot, memory())
    with pytest.raises(err.SchemaError):
        together(robot, robot)
    direction: Any = "sideways"
    with pytest.raises(err.SchemaError):
        together(robot, memory(), direction=direction)
    peer = LocalPeer(robot)
    with pytest.raises(err.CorruptError):
        peer.reconcile("grains", b"xyz", Hello())
    with pytest.raises(err.SchemaError):
        peer.get("grains", [bytes(7)], Hello())
    with pytest.raises(err.RangeError):
        peer.get("grains", [bytes(32)] * 1_001, Hello())


def test_values_cross_as_bytes() -> None:
    batch = Batch(
        b"s" * 16,
        ("a",),
        (b"blob",),
        (GrainState(bytes(32), (bytes(32),), 7, "contested", 3),),
        until=Position(3, b"m"),
    )
    assert unpack_value(Batch, pack_value(batch)) == batch
    greeting = Greeting(b"", 2, Position(0, b""), 0, None, ("give",), b"", b"", b"")
    assert unpack_value(Greeting, pack_value(greeting)) == greeting
    said = Reconciled(b"a", bytes(32), bytes(64), (bytes(32),))
    assert unpack_value(Reconciled, pack_value(said)) == said
    for data in (b"", b"\xc1", pack_value(greeting), pack_value(batch)[:-1], b"\x90" * 9):
        with pytest.raises(err.CorruptError):
            unpack_value(BatchResult, data)


def test_settling_takes_one_round_for_what_is_the_same() -> None:
    stores = [memory() for _ in range(3)]
    for store in stores:
        store.put(belief("0"))
    assert settle(stores) <= 2


def test_an_erasure_that_was_cut_off_is_finished(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tombstone is there, and its grain was not looked for when the power failed."""
    robot, hub = memory(), memory()
    gone, stays = robot.put(belief("0")), robot.put(belief("1", 1))
    together(robot, hub)
    robot.delete_many([gone], erased="gdpr17")
    with monkeypatch.context() as patch:
        patch.setattr(erasures, "_erase", fail)
        with pytest.raises(Cut):
            together(robot, hub)
    assert addresses(hub) == {gone, stays}
    third = memory()
    together(hub, third)
    assert addresses(hub) == addresses(third) == {stays}


def stones(store: og.GrainStore) -> int:
    with context_of(store).storage.read() as reader:
        return sum(1 for _ in reader.rows(TOMBSTONES))


def test_tombstones_of_some_namespaces() -> None:
    robot, hub = memory(), memory()
    names = ["rules", "robot 1", "robot 2"]
    there = {name: hub.put(belief(name, n, namespace=name)) for n, name in enumerate(names)}
    together(robot, hub, direction="pull", namespaces=["rules"])
    for address in there.values():
        hub.delete_many([address], erased="gdpr17")
    assert together(robot, hub, direction="pull", namespaces=["rules"]).received.erased == 1
    assert stones(robot) == 1 and addresses(robot) == set()
    together(robot, hub, direction="pull")
    assert stones(robot) == 3


def test_tombstones_are_sent_once() -> None:
    robot, hub = memory(), memory()
    gone = robot.put(belief("0"))
    hub.delete_many([hub.put(belief("1"))], erased="gdpr17")
    together(robot, hub, direction="push")
    robot.delete_many([gone], erased="gdpr17")
    together(robot, hub, direction="push")
    assert (stones(robot), stones(hub)) == (1, 2)
    robot.put(belief("2", 2))
    far: Any = Watched(LocalPeer(hub))
    assert sync(LocalPeer(robot), far, direction="push").sent.grains == 1
    assert far.calls == 2  # a greeting and a batch


def fail(*_: object, **__: object) -> None:
    """The power is gone."""
    raise Cut
