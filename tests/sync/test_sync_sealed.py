# SPDX-License-Identifier: Apache-2.0
"""Sealed grains between stores that have the keys, and stores that have not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from omsgrain import errors as err
from omsgrain.crypto.keyring import KeyRing
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, sync
from omsgrain.sync.peer import START, Hello
from omsgrain.sync.protocol import pack_value
from support.signed_stores import signed
from support.signers import ALICE
from support.sync_stores import addresses, belief, heads, memory, settle, together, told

ANN: dict[str, Any] = {"user_id": "ann-17"}


def test_they_travel_sealed_and_open_where_the_key_is(ring: KeyRing) -> None:
    robot, hub, other = memory(keys=ring), memory(), memory(keys=ring)
    address = robot.put(belief("door code 4711", **ANN))
    envelope = robot.put(signed(belief("signed", 1, **ANN), ALICE)[0])
    together(robot, hub)
    together(hub, other)
    assert addresses(robot) == addresses(hub) == addresses(other) == {address, envelope}
    assert hub.get(address).sealed
    assert other.get(address)["object"] == "door code 4711"
    assert set(heads(other)) == {address, envelope}
    with context_of(hub).storage.read() as reader:
        assert not any(b"4711" in blob for _, blob in reader.page(0))


def test_no_answer_has_a_key_or_plain_text(ring: KeyRing) -> None:
    robot = memory(keys=ring)
    robot.put(belief("door code 4711", **ANN))
    keys = ring.of_user("ann-17")
    assert keys is not None
    peer = LocalPeer(robot)
    hello = Hello(b"x" * 16)
    greeting = peer.hello(hello)
    said = (
        pack_value(greeting)
        + pack_value(peer.changes(START, hello))
        + pack_value(peer.tombstones(()))
    )
    for secret in (keys.content, keys.address, keys.token, b"4711", b"ann-17"):
        assert secret not in said


def test_a_store_without_keys_passes_states_on(ring: KeyRing) -> None:
    robot, hub, other = memory(keys=ring), memory(), memory(keys=ring)
    old = robot.put(belief("0", **ANN))
    together(robot, hub)
    new = robot.supersede(old, belief("1", 1, **ANN), justification="it saw")
    doubted = robot.put(belief("odd", 2, **ANN))
    robot.contest(doubted)
    report = together(robot, hub)
    assert report.refused == ()
    together(hub, other)
    assert told(robot) == told(hub) == told(other)
    assert other.status(old).superseded_by == new
    assert other.status(doubted).verification_status == "contested"
    assert heads(other) == heads(robot)


def test_sealed_grains_do_not_bypass_a_policy(ring: KeyRing) -> None:
    """The hub can read what is locked, and not what is said to supersede it."""
    robot, hub = memory(keys=ring), memory()
    old = robot.put(belief("rule", invalidation_policy={"mode": "soft_locked"}))
    together(robot, hub)
    robot.supersede(old, belief("new", 2, **ANN), justification="it saw")
    report = together(robot, hub)
    assert [(one.part, one.code) for one in report.sent.refused] == [
        ("state", "ERR_INVALIDATION_DENIED")
    ]
    assert hub.status(old).superseded_by is None


def test_a_hold_is_kept_by_who_cannot_read(ring: KeyRing) -> None:
    robot, hub = memory(keys=ring), memory()
    old = robot.put(belief("0", **ANN))
    together(robot, hub)
    hub.holds.add(old, authority="court", reason_code="litigation")
    robot.supersede(old, belief("1", 1, **ANN))
    report = together(robot, hub)
    assert ("state", "hold") in [(one.part, one.rule) for one in report.sent.refused]
    assert hub.status(old).superseded_by is None
    assert robot.status(old).held


@pytest.mark.parametrize("ciphertext", [False, True])
def test_a_destroyed_key_takes_the_ciphertext_along(ring: KeyRing, ciphertext: bool) -> None:
    robot, hub, other = memory(keys=ring), memory(), memory()
    gone = robot.put(belief("private", **ANN))
    stays = robot.put(belief("plain", 1))
    together(robot, hub)
    together(hub, other)
    robot.privacy.erase(["ann-17"], reason_code="gdpr17", scrub="queued", ciphertext=ciphertext)
    together(robot, hub)
    together(hub, other)
    assert addresses(robot) == addresses(hub) == addresses(other) == {stays}
    with pytest.raises(err.NotFoundError):
        hub.get(gone)
    third = memory()
    together(hub, third)
    assert addresses(third) == {stays}


def test_an_erased_grain_is_known_under_another_seal(ring: KeyRing, tmp_path: Path) -> None:
    """Two stores sealed one grain each for itself; what is erased is so in both."""
    robot, other = memory(keys=ring), memory(keys=ring)
    first = robot.put(belief("private", **ANN))
    second = other.put(belief("private", **ANN))
    assert first != second
    robot.delete_many([first], erased="gdpr17")
    report = together(robot, other)
    assert report.sent.erased == 1
    assert addresses(robot) == addresses(other) == set()


def test_grains_in_the_clear_are_sealed_on_arrival(ring: KeyRing) -> None:
    robot, hub = memory(), memory(keys=ring)
    plain = robot.put(belief("private", **ANN))
    sync(LocalPeer(robot), LocalPeer(hub), direction="push")
    (stands,) = addresses(hub)
    assert stands != plain and hub.get(plain)["object"] == "private"
    again = sync(LocalPeer(robot), LocalPeer(hub), direction="push", full=True)
    assert again.sent.grains == 0
    assert settle([hub, memory(keys=ring)]) <= 3
