# SPDX-License-Identifier: Apache-2.0
"""Large states can be sent: thousands of successors, holds, predecessors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import omsgrain as og
from omsgrain.errors import StoreError
from omsgrain.storage.base import Writer
from omsgrain.storage.tables import HOLDS, SEQUENCE, STATES
from omsgrain.store import holds as holding
from omsgrain.store.context import context_of
from omsgrain.store.holds import Hold
from omsgrain.sync import (
    LocalPeer,
    SyncReport,
    batch,
    run,
    states,
    sync,
    take_bundle,
    write_bundle,
)
from omsgrain.sync.peer import Batch, GrainState, Hello, HoldToggle, Peer
from support.http_server import Site
from support.sync_lines import Bridge, budgets, dialled
from support.sync_stores import TIME, addresses, belief, memory, together, told

MANY = 1_010
Way = Callable[[og.GrainStore, og.GrainStore, Path], SyncReport]
Crowd = tuple[og.GrainStore, str, str]
RIGHTS: Any = ("grains", "states", "holds", "restrictions", "erasures")


def by_hand(robot: og.GrainStore, hub: og.GrainStore, path: Path) -> SyncReport:
    return together(robot, hub)


def by_ranges(robot: og.GrainStore, hub: og.GrainStore, path: Path) -> SyncReport:
    return together(robot, hub, full=True)


def by_file(robot: og.GrainStore, hub: og.GrainStore, path: Path) -> SyncReport:
    write_bundle(LocalPeer(robot), path / "x.mg", share_keys=True, clock=lambda: TIME)
    return take_bundle(path / "x.mg", LocalPeer(hub), rights=RIGHTS)


WAYS = [by_hand, by_ranges, by_file]


def forked(store: og.GrainStore, count: int = MANY, **fields: Any) -> str:
    """A grain that many supersede, as robots do that did not know of one another."""
    old = store.put(belief("old", **fields))
    for n in range(count):
        store.supersede(old, belief(f"new {n}", n + 1))
    return old


def much_held(store: og.GrainStore, count: int = MANY, name: str = "court") -> str:
    address = store.put(belief("held"))

    def work(writer: Writer) -> None:
        for n in range(count):
            holding.hold(writer, bytes.fromhex(address), Hold(f"{name} {n}", "case", n + 1))

    context_of(store).storage.write(work)
    return address


@pytest.fixture(scope="module")
def crowd(long: bool) -> Crowd:
    """A store in which one grain has successors, and one holds; 1,010 if tests may be long."""
    store, count = memory(), MANY if long else MANY // 10
    return store, forked(store, count), much_held(store, count)


@pytest.fixture
def pieces(crowd: Crowd, long: bool, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    """The crowd, more than goes into one piece."""
    if not long:
        monkeypatch.setattr(states, "_ITEMS", 100)
    return crowd


@pytest.mark.parametrize("way", WAYS)
def test_successors_and_holds_in_pieces(pieces: Crowd, way: Way, tmp_path: Path) -> None:
    (robot, old, held), hub = pieces, memory()
    assert way(robot, hub, tmp_path).refused == ()
    assert len(hub.status(old).successors) == len(robot.status(old).successors) >= MANY // 10
    assert len(hub.holds.of(held)) == len(robot.holds.of(held)) >= MANY // 10
    assert told(robot) == told(hub) and addresses(robot) == addresses(hub)
    assert not together(robot, hub, full=True).changed


@pytest.mark.parametrize("way", WAYS)
def test_one_that_supersedes_many(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "_MOST_GIVEN", 50)
    robot, hub = memory(), memory()
    new = belief("new", 9_999)
    old = [robot.put(belief(f"old {n}", n)) for n in range(120)]
    for address in old:
        robot.supersede(address, new)
    assert way(robot, hub, tmp_path).refused == ()
    assert all(hub.status(address).successors for address in old)
    assert told(robot) == told(hub)


@pytest.mark.parametrize("way", WAYS)
def test_states_larger_than_a_message(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their pieces are in several batches, each requested from the end of the last."""
    monkeypatch.setattr(batch, "_STATE_BYTES", 800)
    monkeypatch.setattr(states, "_PIECE", 600)
    robot, hub = memory(), memory()
    old = forked(robot, 24)
    held = much_held(robot, 40)
    assert way(robot, hub, tmp_path).refused == ()
    assert (len(hub.status(old).successors), len(hub.holds.of(held))) == (24, 40)
    assert told(robot) == told(hub)
    robot.supersede(old, belief("last", 9_999))
    assert way(robot, hub, tmp_path).refused == ()
    assert len(hub.status(old).successors) == 25
    assert told(robot) == told(hub)


def test_pieces_are_the_whole() -> None:
    keys = tuple(bytes([n // 256, n % 256]) * 16 for n in range(2_500))
    holds = tuple(HoldToggle(f"{n:04}" + "ä" * (n % 900), 1, "case", 1) for n in range(1_200))
    whole = GrainState(b"k" * 32, keys, 7, "contested", 3, holds)
    pieces, at = [], 0
    while True:
        piece, at = states.cut(whole, at)
        pieces.append(piece)
        assert states.weight(piece) < 70_000
        assert replace(piece, successors=keys, holds=holds) == whole
        if not at:
            break
    assert states.joined(pieces) == {whole.address: whole}
    assert states.cut(GrainState(b"k" * 32), 0) == (GrainState(b"k" * 32), 0)
    assert states.cut(whole, 1 << 31)[1] == 0


@pytest.mark.parametrize("full", [False, True])
def test_there_and_back_over_http(pieces: Crowd, hub: Site, full: bool) -> None:
    (robot, old, held), far, third = pieces, hub.service.stores.main, memory()
    peer = dialled(hub, hub.sync_token())
    assert sync(LocalPeer(robot), peer, direction="push", full=full).refused == ()
    assert sync(LocalPeer(third), peer, direction="pull", full=full).refused == ()
    for store in (far, third):
        assert len(store.status(old).successors) == len(robot.status(old).successors)
        assert len(store.holds.of(held)) == len(robot.holds.of(held))
        assert told(store) == told(robot)


@pytest.mark.parametrize("direction", ["push", "pull"])
def test_long_names_over_a_bad_line(hub: Site, direction: Any) -> None:
    """Hundreds of holds whose authorities have long names take many times what a line carries."""
    robot, far = memory(), hub.service.stores.main
    giver, taker = (robot, far) if direction == "push" else (far, robot)
    held = much_held(giver, 400, "ä" * 1_000)
    bridge = Bridge(hub, budgets(5, 80_000, 300_000))
    peer = dialled(hub, hub.sync_token(), transport=bridge, tries=100)
    assert sync(LocalPeer(robot), peer, direction=direction).refused == ()
    assert len(taker.holds.of(held)) == 400


class Endless(LocalPeer):
    """Sends endless pieces, or pieces that were not requested."""

    rest: Any = staticmethod(lambda keys: ())

    def get(self, space: Any, keys: Any, hello: Hello, size: int = 0) -> Batch:
        return Batch(b"", rest=self.rest(keys))


@pytest.mark.parametrize(
    "rest",
    [
        lambda keys: tuple(keys),
        lambda keys: (b"x" * 32,),
        lambda keys: (keys[0][:32] + bytes(4),) if len(keys[0]) > 32 else (keys[0] + bytes(4),),
        lambda keys: (
            keys[0][:32] + (int.from_bytes(keys[0][32:], "big") + 1).to_bytes(4, "big"),
        ),
    ],
)
def test_a_hostile_store_does_not_hold_us_for_ever(
    rest: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "_PIECES", 20)
    peer = Endless(memory())
    peer.rest = rest
    typed: Peer = peer
    with pytest.raises(StoreError):
        list(run.by_keys(typed, "states", [b"k" * 32], Hello()))


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("giver", [False, True])
def test_damage_of_one_grain_holds_up_no_other(full: bool, giver: bool) -> None:
    robot, hub = memory(), memory()
    names = [robot.put(belief(str(n), n)) for n in range(5)]
    together(robot, hub)
    for address in names:
        robot.privacy.restrict(address, reason_code="dispute")
        robot.holds.add(address, authority="court", reason_code="case")
    damaged = robot if giver else hub
    for table in (STATES, HOLDS):
        context_of(damaged).storage.write(partial(damage, table=table, address=names[2]))
    new = robot.put(belief("new", 9))
    report = together(robot, hub, full=full, direction="push")
    assert new in hub
    assert {one.code for one in report.refused} <= {"ERR_INTEGRITY"}
    assert all(hub.status(one).held for one in names if one != names[2])
    if not (full and giver):
        assert report.refused


def damage(writer: Writer, *, table: Any, address: str) -> None:
    seq = writer.find([bytes.fromhex(address)])[0]
    assert seq is not None
    writer.set_row(table, SEQUENCE.pack(seq), b"\xff\xc1")


def test_a_broken_envelope_holds_up_no_other() -> None:
    hub = memory()
    good = og.encode(belief("good"))
    taken = LocalPeer(hub).put(Batch(b"o" * 16, grains=(b"\xd2garbage", good, b"\xd2")))
    assert taken.stored == 1 and len(taken.refused) == 2
