# SPDX-License-Identifier: Apache-2.0
"""A comparison finds exactly what differs, and ends whatever the other side says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import omsgrain as og
import oracle_negentropy as oracle
from omsgrain import _core
from omsgrain.errors import CorruptError, OmsError, RangeError, StoreError, UnsupportedError
from omsgrain.store.context import context_of
from omsgrain.sync import LocalPeer, reconcile, sync
from omsgrain.sync.peer import FRAME, LEAST_FRAME, SHORT, Greeting, Hello, Reconciled
from omsgrain.sync.reconcile import ItemView, NamespaceScope
from support.signed_stores import signed_by
from support.signers import ALICE, BOB
from support.sync_stores import TIME, addresses, belief, memory, settle, together, told

Item = tuple[int, bytes, bytes]


def id_of(item: Item) -> bytes:
    _, key, part = item
    hashed = sha256(key[:16] + part).digest()[:8] if any(part) else bytes(8)
    return key[:16] + hashed + bytes(8)


def made(items: set[Item]) -> _core.SyncItems:
    found = _core.SyncItems()
    found.add(list(items))
    return found


def turns(items: _core.SyncItems, initiator: bool, limit: int) -> reconcile.Turn:
    def turn(message: bytes) -> Reconciled:
        if not message:
            return Reconciled(items.initiate())
        return Reconciled(*items.answer(message, initiator, limit))

    return turn


keys = st.one_of(
    st.binary(min_size=32, max_size=32),
    st.integers(0, 300).map(lambda n: bytes(14) + n.to_bytes(2, "big") + bytes(16)),
)
parts = st.sampled_from([bytes(8), b"contest!", b"restrict"])
items = st.builds(lambda key, part: (sum(key[:16]) % 40, key, part), keys, parts)
sets = st.sets(items, max_size=100)


@given(sets, sets, sets)
def test_any_two_sets(common: set[Item], left: set[Item], right: set[Item]) -> None:
    """Exactly the difference, by the messages that the specification gives."""
    sides = [common | left, common | right]
    mine, theirs = map(made, sides)
    have, need = reconcile.differences(turns(mine, True, FRAME), turns(theirs, False, FRAME))
    first, second = (set(map(id_of, side)) for side in sides)
    assert (ids(have), ids(need)) == (first - second, second - first)
    client, server = (oracle.Side((one[0], id_of(one)) for one in side) for side in sides)
    message: bytes | None = client.initiate()
    said = mine.initiate()
    while message is not None:
        assert said == message
        answer, _, _ = theirs.answer(message, False, FRAME)
        assert answer == server.respond(message)
        said, _, _ = mine.answer(answer, True, FRAME)
        message = client.reconcile(answer)
    assert said == b"a"
    assert (client.have, client.need) == (ids(have), ids(need))


def ids(flat: bytes) -> set[bytes]:
    return {flat[at : at + 32] for at in range(0, len(flat), 32)}


@pytest.mark.parametrize("limit", [LEAST_FRAME, 20_000, FRAME])
def test_frames_have_a_limit(limit: int, long: bool) -> None:
    random = Random(limit)
    count = 100_000 if long else 6_000
    every = [(random.randrange(count), random.randbytes(32), bytes(8)) for _ in range(count)]
    mine = {one for n, one in enumerate(every) if n % 9}
    theirs = {one for n, one in enumerate(every) if n % 11 and n < count * 0.8}
    sent = list[int]()
    first, second = turns(made(mine), True, limit), turns(made(theirs), False, limit)

    def counted(turn: reconcile.Turn) -> reconcile.Turn:
        def run(message: bytes) -> Reconciled:
            said = turn(message)
            sent.append(len(said.message))
            return said

        return run

    have, need = reconcile.differences(counted(first), counted(second))
    assert ids(have) == {id_of(one) for one in mine - theirs}
    assert ids(need) == {id_of(one) for one in theirs - mine}
    assert max(sent) <= limit


@given(st.binary(max_size=300), st.booleans())
def test_noise(data: bytes, initiator: bool) -> None:
    found = made({(n // 3, sha256(bytes([n])).digest(), bytes(8)) for n in range(100)})
    for message in (data, b"a" + data):
        try:
            said, have, need = found.answer(message, initiator, LEAST_FRAME)
        except OmsError as refused:
            assert refused.code == "ERR_CORRUPT"
            continue
        assert len(said) <= LEAST_FRAME
        assert initiator or not have + need
        assert len(need) <= len(message)
        oracle.unpack(said)


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "nothing it says is ever equal": lambda message: oracle.pack(
        [((oracle.INFINITY, b""), oracle.FINGERPRINT, sha256(message).digest()[:16])]
    ),
    "nothing at all": lambda _: b"",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_peer_without_an_end(name: str) -> None:
    class Hostile(LocalPeer):
        def reconcile(
            self, space: Any, message: bytes, hello: Hello, initiator: bool = False, limit: int = 0
        ) -> Reconciled:
            return Reconciled(HOSTILE[name](message))

    robot, hub = memory(), memory()
    for store in (robot, hub):
        store.put_many([belief(f"{n}", n) for n in range(100)])
    with pytest.raises(StoreError):
        sync(LocalPeer(robot), Hostile(hub), full=True)


def test_a_peer_that_has_ever_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """It lists ids of grains that do not exist, again and again."""
    monkeypatch.setattr(reconcile, "_MOST", 3_000 * 32)
    random = Random(2)

    def second(message: bytes) -> Reconciled:
        listed = [random.randbytes(32) for _ in range(100)]
        half = (oracle.INFINITY - 1, b"")
        end = ((oracle.INFINITY, b""), oracle.FINGERPRINT, random.randbytes(16))
        return Reconciled(oracle.pack([(half, oracle.LIST, listed), end]))

    mine = made({(n, random.randbytes(32), bytes(8)) for n in range(100)})
    with pytest.raises(RangeError):
        reconcile.differences(turns(mine, True, FRAME), second)


def test_ids_that_nobody_has(tmp_path: Path) -> None:
    """A key that fits no grain is not an error: it may be gone."""
    store = memory()
    address = bytes.fromhex(store.put(belief("on")))
    peer = LocalPeer(store)
    assert len(peer.get("grains", [b"nobody", address[:SHORT]], Hello()).grains) == 1
    assert peer.get("tombstones", [b"nobody"], Hello()).tombstones == ()
    assert peer.get("holds", [address[:SHORT]], Hello()).states == ()


def test_two_grains_with_one_short_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are sent, also when one batch takes one of them."""
    from omsgrain.sync import batch

    robot, hub = memory(), memory()
    names = [robot.put(belief(f"{n}", n)) for n in range(40)]

    class Shorter(LocalPeer):
        """A store in which all keys of a half begin alike."""

        def _numbers(self, kind: Any, keys: Any, hello: Hello) -> Any:
            found = super()._numbers(kind, keys, hello)
            return sorted({(seq, key) for seq, _ in found for key in keys if len(key) == SHORT}
                          | {one for one in found if len(one[1]) > SHORT})  # fmt: skip

    monkeypatch.setattr(batch, "_MOST_GIVEN", 7)
    report = sync(Shorter(robot), LocalPeer(hub), full=True)
    assert addresses(hub) == set(names) and report.refused == ()


@pytest.mark.parametrize("older", ["source", "target"])
def test_another_version(older: str) -> None:
    class Older(LocalPeer):
        def hello(self, hello: Hello) -> Greeting:
            return replace(super().hello(hello), version=1)

    robot, hub = memory(), memory()
    robot.put(belief("on"))
    pair = [LocalPeer(robot), Older(hub)]
    with pytest.raises(UnsupportedError) as refused:
        sync(*(reversed(pair) if older == "source" else pair))
    assert refused.value.expected == "2" and refused.value.found == "1"
    assert not addresses(hub)


def whole(store: og.GrainStore, before: ItemView | None = None, **only: Any) -> ItemView:
    with context_of(store).storage.read() as reader:
        return reconcile.view(reader, "grains", NamespaceScope(only.get("namespaces")), before)


@pytest.mark.parametrize("namespaces", [None, ["hall"], ["ha*", "hall:*"]])
def test_a_view_that_is_kept_equals_a_new_one(namespaces: Any) -> None:
    store, random = memory(), Random(1)
    grains: list[str] = []

    def add() -> None:
        name = random.choice(["hall", "hall:door", "attic"])
        grains.append(store.put(belief(f"{random.random()}", len(grains), namespace=name)))

    def sign() -> None:
        fields = dict(store.get(random.choice(grains)).fields)
        store.put(signed_by(random.choice([ALICE, BOB]), fields))

    def supersede() -> None:
        new = belief(f"{random.random()}", len(grains), namespace="hall")
        grains.append(store.supersede(random.choice(grains), new))

    acts: list[Callable[[], object]] = [
        add,
        add,
        supersede,
        lambda: store.contest(random.choice(grains)),
        lambda: store.privacy.restrict(random.choice(grains), reason_code="dispute"),
        lambda: store.holds.add(random.choice(grains), authority="court", reason_code="case"),
        lambda: store.holds.release(random.choice(grains), authority="court", reason_code="case"),
        lambda: store.delete(grains.pop(random.randrange(len(grains))), reason="test"),
    ]
    add()
    kept = whole(store, namespaces=namespaces)
    for n in range(200):
        try:
            (sign if n % 9 == 0 else random.choice(acts) if grains else add)()
        except OmsError:
            continue
        kept = whole(store, kept, namespaces=namespaces)
        assert kept.digest == whole(store, namespaces=namespaces).digest, n


def test_every_difference_crosses(tmp_path: Path) -> None:
    """Grains, other signers, and states of grains that both have; on LMDB and in memory."""
    robot, hub = og.open(tmp_path / "robot.omsg"), memory()
    shared = [belief(f"{n}", n) for n in range(150)]
    names = [name for name in robot.put_many(shared).addresses if name is not None]
    hub.put_many(shared)
    settle((robot, hub))
    robot.put_many([belief(f"robot {n}", n * 7) for n in range(20)])
    hub.put_many([belief(f"hub {n}", n * 7) for n in range(20)])
    for store, signer, some in ((robot, ALICE, shared[:5]), (hub, BOB, shared[3:8])):
        for fields in some:
            store.put(signed_by(signer, fields))
    for n, name in enumerate(names[20:40]):
        (robot, hub)[n % 2].contest(name)
        (robot, hub)[n % 3 % 2].privacy.restrict(name, reason_code="dispute")
    report = together(robot, hub, full=True)
    assert report.sent.compared and report.refused == ()
    assert addresses(robot) == addresses(hub) and told(robot) == told(hub)
    assert whole(robot).digest == whole(hub).digest
    assert not together(robot, hub, full=True).changed
    robot.close()


def test_signers_that_are_exchanged_are_a_difference() -> None:
    """Sums alone would be equal."""
    robot, hub = memory(), memory()
    for store, signers in ((robot, (ALICE, BOB)), (hub, (BOB, ALICE))):
        for n, signer in enumerate(signers):
            store.put(signed_by(signer, belief(f"{n}", n)))
    assert whole(robot).digest != whole(hub).digest
    together(robot, hub, full=True)
    assert whole(robot).digest == whole(hub).digest


def test_a_message_that_is_none() -> None:
    peer = LocalPeer(memory())
    for message in (b"b", b"a\0\0\1", b"a" * 3):
        with pytest.raises(CorruptError):
            peer.reconcile("grains", message, Hello())
    assert peer.reconcile("grains", b"", Hello()).sample == ()
    with pytest.raises(RangeError):
        peer.reconcile("grains", b"a", Hello(), False, LEAST_FRAME - 1)


def test_grains_of_one_moment() -> None:
    """Their order is that of their addresses."""
    robot, hub = memory(), memory()
    same: list[dict[str, Any]] = [belief(f"{n}") | {"created_at": TIME} for n in range(300)]
    robot.put_many(same[:200])
    hub.put_many(same[100:])
    report = together(robot, hub, full=True)
    assert (report.sent.grains, report.received.grains) == (100, 100)
    assert addresses(robot) == addresses(hub)
