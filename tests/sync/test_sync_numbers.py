# SPDX-License-Identifier: Apache-2.0
"""Impossible counts: no other store poisons this one with them."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import msgpack
import pytest

import omsgrain as og
from omsgrain.storage import records, tombstones
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.tables import SEQUENCE, TOGGLES, TOMBSTONES
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, protocol, states, sync
from omsgrain.sync.peer import Batch, BatchResult, GrainState, HoldToggle, Position, Tombstone
from support.sync_stores import belief, memory, together, told

OTHER = b"o" * 16
HUGE = [2**32 + 1, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1]


@pytest.fixture
def store(below: Storage) -> og.GrainStore:
    return og.GrainStore(below)


def tell(store: og.GrainStore, *states: GrainState) -> BatchResult:
    """Apply states of another store, through the bytes of a message."""
    batch = protocol.unpack(Batch, protocol.pack(Batch(OTHER, states=states)))
    return LocalPeer(store).put(batch)


def refusals(taken: BatchResult) -> list[tuple[str, str]]:
    return [(one.part, one.code) for one in taken.refused]


def sendable(store: og.GrainStore) -> None:
    """Other stores accept all of its states."""
    for state in told(store).values():
        protocol.check(state)
        assert all(hold.epoch <= records.MOST for hold in state.holds)
        assert state.restricted <= records.MOST
    with memory() as other:
        assert together(store, other, direction="push", full=True).refused == ()


def held(turn: int, address: str, reason: str = "case") -> GrainState:
    reason, since = (reason, 7) if turn % 2 else ("", 0)
    return GrainState(bytes.fromhex(address), holds=(HoldToggle("court", turn, reason, since),))


@pytest.mark.parametrize("turn", HUGE)
def test_holds(store: og.GrainStore, turn: int) -> None:
    address = store.put(belief("0"))
    assert refusals(tell(store, held(turn, address))) == [("hold", "ERR_RANGE")]
    assert store.status(address).held == bool(turn % 2), "to keep what is held is never wrong"
    sendable(store)
    store.holds.add(address, authority="court", reason_code="appeal")
    store.holds.release(address, authority="court", reason_code="settled")
    assert not store.status(address).held
    assert store.maintenance.check().ok
    sendable(store)


@pytest.mark.parametrize("turn", HUGE)
def test_an_end_with_such_a_number_ends_nothing(store: og.GrainStore, turn: int) -> None:
    address = store.put(belief("0"))
    store.holds.add(address, authority="court", reason_code="case")
    taken = tell(store, held(turn - turn % 2, address))
    assert refusals(taken) == [("hold", "ERR_RANGE")] and store.status(address).held
    tell(store, held(2, address))
    assert not store.status(address).held


@pytest.mark.parametrize("turn", HUGE)
def test_restrictions(store: og.GrainStore, turn: int) -> None:
    address = store.put(belief("0"))
    taken = tell(store, GrainState(bytes.fromhex(address), restricted=turn))
    assert refusals(taken) == [("restriction", "ERR_RANGE")]
    assert store.status(address).restricted == bool(turn % 2)
    sendable(store)
    store.privacy.restrict(address, reason_code="dispute")
    store.privacy.unrestrict(address, reason_code="settled")
    assert not store.status(address).restricted and store.maintenance.check().ok
    sendable(store)


@pytest.mark.parametrize("turn", HUGE)
def test_a_store_that_holds_such_a_number_works_again(store: og.GrainStore, turn: int) -> None:
    """An earlier version took it over, or counted on from it."""
    address = store.put(belief("0"))
    if turn % 2:
        store.holds.add(address, authority="court", reason_code="case")
        store.privacy.restrict(address, reason_code="dispute")
    for what, name in ((records.hold_of("court"), "court"), (records.RESTRICTION, "")):
        context_of(store).storage.write(
            partial(poison, address=address, what=what, row=[turn, name])
        )
    assert store.maintenance.check().ok
    sendable(store)
    for _ in range(3):
        store.holds.add(address, authority="court", reason_code="appeal")
        store.holds.release(address, authority="court", reason_code="settled")
        store.privacy.restrict(address, reason_code="dispute")
        store.privacy.unrestrict(address, reason_code="settled")
        assert not store.status(address).held and not store.status(address).restricted
        sendable(store)
    with memory() as other:
        together(store, other)
        other.holds.add(address, authority="court", reason_code="new")
        assert together(store, other).refused == ()
        assert store.status(address).held


def poison(writer: Writer, *, address: str, what: bytes, row: list[Any]) -> None:
    seq = writer.find([bytes.fromhex(address)])[0]
    assert seq is not None
    writer.set_row(TOGGLES, SEQUENCE.pack(seq) + what, msgpack.packb(row))


def test_plausible_counts_are_accepted() -> None:
    """Stores that count by themselves for long agree when they meet."""
    robot, hub = memory(), memory()
    (address,) = {store.put(belief("0")) for store in (robot, hub)}
    for _ in range(300):
        robot.holds.add(address, authority="court", reason_code="case")
        robot.holds.release(address, authority="court", reason_code="settled")
    assert together(robot, hub).refused == ()
    assert told(robot) == told(hub)
    assert records.taken(1, records.JUMP) == records.JUMP


def test_the_highest_number_is_not_left() -> None:
    robot = memory()
    address = robot.put(belief("0"))
    what = records.hold_of("court")
    row = [records.MOST, "court"]
    context_of(robot).storage.write(partial(poison, address=address, what=what, row=row))
    for _ in range(2):
        robot.holds.add(address, authority="court", reason_code="case")
        robot.holds.release(address, authority="court", reason_code="settled")
        assert max(hold.epoch for hold in told(robot)[address].holds) <= records.MOST
        assert not robot.status(address).held


@pytest.mark.parametrize("times", [2**32 + 1, 2**63 - 1])
def test_tombstones(store: og.GrainStore, times: int) -> None:
    """How often a person was erased counts on from what is believed."""
    context_of(store).storage.write(
        partial(tombstones.again, what="identity", value="ann", at=1, reason_code="x")
    )
    with context_of(store).storage.read() as reader:
        (mark,) = [mark for mark, _ in reader.rows(TOMBSTONES)]
    LocalPeer(store).put(Batch(OTHER, tombstones=(Tombstone(mark, 1, "x", times),)))
    for _ in range(2):
        context_of(store).storage.write(
            partial(tombstones.again, what="identity", value="ann", at=1, reason_code="x")
        )
    with context_of(store).storage.read() as reader:
        ((_, row),) = reader.rows(TOMBSTONES)
        stone = states.tombstone_of(mark, row)
    protocol.check(stone)
    assert 2 < stone.times <= records.MOST


def test_nothing_else_of_the_batch_is_lost(store: og.GrainStore) -> None:
    first, second = store.put(belief("0")), store.put(belief("1", 1))
    taken = tell(store, held(2**64 - 1, first), held(1, second))
    assert store.status(first).held and store.status(second).held and len(taken.refused) == 1
    with pytest.raises(og.errors.RangeError):
        LocalPeer(store).put(Batch(OTHER, states=(held(2**64, first),)))
    with pytest.raises(og.errors.SchemaError):
        LocalPeer(store).put(Batch(b"short"))


@pytest.mark.parametrize("number", [1.5, True, None, "7"])
def test_only_integers_count(store: og.GrainStore, number: Any) -> None:
    """A peer in Python passes values without a message that checks their types."""
    address = store.put(belief("0"))
    for batch in (
        Batch(OTHER, states=(held(1, address), GrainState(b"g" * 32, restricted=number))),
        Batch(OTHER, states=(replace(held(1, address), holds=(HoldToggle("c", number, "x"),)),)),
        Batch(OTHER, tombstones=(Tombstone(b"t" * 32, number, "x"),)),
        Batch(OTHER, tombstones=(Tombstone(b"t" * 32, 1, "x", number),)),
        Batch(OTHER, until=Position(number, b"m" * 16)),
    ):
        with pytest.raises(og.errors.SchemaError):
            LocalPeer(store).put(batch)
    assert not store.status(address).held
    sendable(store)


@pytest.mark.parametrize(
    ("authority", "reason"), [("", "case"), (" ", "case"), ("court", ""), ("court", "a b")]
)
def test_holds_with_an_invalid_authority(
    store: og.GrainStore, authority: str, reason: str
) -> None:
    """A hold that no authority can place here could not be released either."""
    address = store.put(belief("0"))
    state = GrainState(bytes.fromhex(address), holds=(HoldToggle(authority, 1, reason, 7),))
    assert refusals(tell(store, state)) == [("hold", "ERR_SCHEMA")]
    assert not store.status(address).held


def test_refusals_of_the_other_side_are_reported() -> None:
    robot, hub = memory(), memory()
    address = robot.put(belief("0"))
    together(robot, hub)
    what = records.hold_of("court")
    robot.holds.add(address, authority="court", reason_code="case")
    context_of(robot).storage.write(
        partial(poison, address=address, what=what, row=[2**20 + 1, "court"])
    )
    report = sync(LocalPeer(robot), LocalPeer(hub), full=True)
    assert [(one.part, one.code) for one in report.refused] == [("hold", "ERR_RANGE")]
    assert hub.status(address).held
