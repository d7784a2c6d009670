# SPDX-License-Identifier: Apache-2.0
"""Sync over HTTP: what a token lets another store do, and that both sides come to the same."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from containers import sealed as noise
from omsgrain.crypto.keyring import KeyRing
from omsgrain.errors import KeyMissingError, UnsupportedError
from omsgrain.server.service import ServerOptions
from omsgrain.sync import LocalPeer, protocol, reconcile, sync
from omsgrain.sync.http import HttpPeer
from omsgrain.sync.peer import HAS, LACKS, SHORT, START, Batch, BatchResult, GrainState, Hello
from support.http_server import TIME, Site, lamp, site
from support.sync_lines import Bridge, dialled


def at(site: Site) -> og.GrainStore:
    return site.service.stores.main


def told(store: og.GrainStore) -> dict[str, tuple[Any, ...]]:
    """All addresses, with their states."""
    found = {}
    for grain in store:
        state = store.status(grain.address)
        found[grain.address] = (state.successors, state.verification_status, state.restricted)
    return found


def filled(store: og.GrainStore, name: str, count: int, size: int = 0) -> list[str]:
    """Grains, of which some supersede others, or are contested; each with so much noise."""
    rng = Random(name)
    grains = [lamp(f"{name} {n} {rng.randbytes(size).hex()}") for n in range(count)]
    made = list(map(str, store.put_many(grains).addresses))
    for old in rng.sample(made, count // 4):
        later = lamp(f"later than {old[:9]}", created_at=TIME + 1)
        made += [store.supersede(old, later)]
    for address in rng.sample(made, count // 6):
        store.contest(address, reason="seen otherwise")
    return made


def test_both_ways(hub: Site, robot: og.GrainStore) -> None:
    filled(robot, "robot", 30)
    filled(at(hub), "hub", 20)
    peer = dialled(hub, hub.sync_token())
    report = sync(LocalPeer(robot), peer)
    assert not report.refused
    assert told(robot) == told(at(hub))
    assert (report.sent.grains, report.received.grains) == (37, 25)
    bridge = Bridge(hub)
    again = dialled(hub, hub.sync_token("again"), transport=bridge)
    assert not sync(LocalPeer(robot), again).changed
    assert not {name for name, _ in bridge.asked} & {"give", "reconcile"}
    robot.put(lamp("last"))
    assert sync(LocalPeer(robot), again).sent.grains == 1
    assert "token:robot" in {entry.actor for entry in at(hub).audit.entries()}
    assert peer.sent > 0 and peer.received > 0
    peer.close()


def test_grains_just_sent_are_not_listed(hub: Site, robot: og.GrainStore) -> None:
    """Whether two stores that never met share anything is asked before anything crosses."""
    robot.put_many([lamp(f"robot {n}") for n in range(600)])
    at(hub).put(lamp("hub"))
    peer = dialled(hub, hub.sync_token())
    report = sync(LocalPeer(robot), peer)
    assert (report.sent.grains, report.received.grains) == (600, 1)
    assert peer.received < 2_000


def test_histories_that_differ(hub: Site, robot: og.GrainStore) -> None:
    """Stores that have the same from elsewhere are compared by ranges."""
    shared = [lamp(f"shared {n}") for n in range(300)]
    robot.put_many(shared)
    at(hub).put_many(reversed(shared))
    filled(robot, "robot", 10)
    bridge = Bridge(hub)
    report = sync(LocalPeer(robot), dialled(hub, hub.sync_token(), transport=bridge))
    assert told(robot) == told(at(hub))
    assert report.sent.compared and report.sent.grains == 12
    sent = sum(len(body) for name, body in bridge.asked if name == "take")
    assert sent < 10_000


def test_permissions_of_scopes(hub: Site, robot: og.GrainStore) -> None:
    filled(robot, "robot", 4)
    filled(at(hub), "hub", 4)
    reader = dialled(hub, hub.sync_token("reader", ["sync:read"]))
    writer = dialled(hub, hub.sync_token("writer", ["sync:write"]))
    with pytest.raises(UnsupportedError):
        sync(LocalPeer(robot), reader, direction="push")
    with pytest.raises(UnsupportedError):
        sync(LocalPeer(robot), writer, direction="pull")
    assert sync(LocalPeer(robot), reader, direction="pull").received.grains == 5
    assert sync(LocalPeer(robot), writer, direction="push").sent.grains == 5
    assert told(robot) == told(at(hub))
    with pytest.raises(KeyMissingError) as refused:
        reader.put(Batch(b"", grains=(og.encode(lamp("hidden")),)))
    assert refused.value.rule == "missing_scope"
    with pytest.raises(KeyMissingError):
        writer.changes(START, Hello())


def test_unauthorized_clients(hub: Site) -> None:
    hub.token("tenant")
    for token, rule in (
        (None, "missing_token"),
        ("omg_" + "a" * 43, "invalid_token"),
        (hub.token("ada"), "missing_scope"),
    ):
        with pytest.raises(KeyMissingError) as refused:
            dialled(hub, token).hello(Hello())
        assert refused.value.rule == rule
        assert token is None or token not in str(refused.value)


def test_erasures_go_with_their_scope(hub: Site, robot: og.GrainStore) -> None:
    first, second = (robot.put(lamp(what, user_id="nobody")) for what in ("on", "off"))
    modest = dialled(hub, hub.sync_token("modest", ["sync:read", "sync:write"]))
    trusted = dialled(hub, hub.sync_token("trusted"))
    sync(LocalPeer(robot), modest)
    robot.privacy.erase(["nobody"], reason_code="asked")
    sync(LocalPeer(robot), modest)
    assert first in at(hub) and second in at(hub)
    sync(LocalPeer(robot), trusted)
    assert first not in at(hub) and second not in at(hub)
    kept = at(hub).put(lamp("red", user_id="nobody else"))
    sync(LocalPeer(robot), modest)
    assert kept in robot
    at(hub).privacy.erase(["nobody else"], reason_code="asked")
    sync(LocalPeer(robot), modest)
    assert kept not in robot


def test_sealed_grains_travel_sealed(
    hub: Site, robot: og.GrainStore, ring: KeyRing, tmp_path: Path
) -> None:
    with og.open(tmp_path / "closed.omsg", keys=ring) as closed:
        address = closed.put(lamp("violet", user_id="somebody"))
        sync(LocalPeer(closed), dialled(hub, hub.sync_token()))
        there = at(hub).get(address)
        assert there.sealed
        with og.open(tmp_path / "twin.omsg", keys=ring) as twin:
            sync(LocalPeer(twin), dialled(hub, hub.sync_token("twin")))
            assert twin.get(address)["object"] == "violet"
    data = (tmp_path / "hub.omsg" / "data.mdb").read_bytes()
    assert b"violet" not in data


class TestNamespaces:
    """A token of some namespaces."""

    @pytest.fixture
    def grains(self, hub: Site) -> dict[str, str]:
        names = ("hall", "hall:door", "attic")
        return {name: at(hub).put(lamp("on", namespace=name)) for name in names}

    def peer(self, hub: Site, *namespaces: str) -> HttpPeer:
        return dialled(hub, hub.sync_token(f"t{len(namespaces)}", ALL, *namespaces))

    def test_only_these(self, hub: Site, robot: og.GrainStore, grains: dict[str, str]) -> None:
        mine = robot.put(lamp("off", namespace="hall"))
        robot.put(lamp("off", namespace="attic"))
        peer = self.peer(hub, "hall")
        with pytest.raises(UnsupportedError, match="hall"):
            sync(LocalPeer(robot), peer)
        for asked in (["attic"], ["hall", "attic"], ["hall:*"]):
            with pytest.raises(UnsupportedError):
                sync(LocalPeer(robot), peer, namespaces=asked)
        report = sync(LocalPeer(robot), peer, namespaces=["hall"])
        assert not report.refused
        assert set(told(at(hub))) == {*grains.values(), mine}
        assert grains["hall"] in robot and grains["attic"] not in robot

    def test_a_family(self, hub: Site, robot: og.GrainStore, grains: dict[str, str]) -> None:
        peer = self.peer(hub, "hall:*", "attic")
        sync(LocalPeer(robot), peer, namespaces=["hall:door", "attic"])
        assert set(told(robot)) == {grains["hall:door"], grains["attic"]}

    def test_nothing_is_told_of_others(self, hub: Site, grains: dict[str, str]) -> None:
        at(hub).put(lamp("gone", user_id="nobody"))
        at(hub).privacy.erase(["nobody"], reason_code="asked")
        peer, hello = self.peer(hub, "hall"), Hello(b"", ("hall",))
        hidden, open_ = (bytes.fromhex(grains[name]) for name in ("attic", "hall"))
        greeting = peer.hello(hello)
        assert (greeting.grains, greeting.tombstones, greeting.keys) == (1, b"", b"")
        assert reconcile.listed(peer, "grains", hello) == [open_[:SHORT]]
        assert peer.reconcile("grains", b"", hello).sample == (open_,)
        assert list(peer.missing([hidden, open_])) == [LACKS, HAS]
        for keys in ([hidden, open_], [hidden[:SHORT], open_[:SHORT]]):
            assert len(peer.get("grains", keys, hello).grains) == 1
        assert len(peer.changes(START, hello).grains) == 1
        assert peer.tombstones([b"k" * 32]) == ()
        with pytest.raises(UnsupportedError):
            peer.reconcile("tombstones", b"", hello)
        assert not peer.get("tombstones", [hidden], hello).tombstones

    def test_nothing_of_others_is_taken(self, hub: Site, grains: dict[str, str]) -> None:
        peer = self.peer(hub, "hall")
        hidden = bytes.fromhex(grains["attic"])
        good, bad = (og.encode(lamp("new", namespace=name)) for name in ("hall", "attic"))
        states = (GrainState(hidden, status="retracted", restricted=1),)
        batch = Batch(b"", ("hall",), (good, bad, noise(1), og.encode(lamp("none"))), states)
        taken = peer.put(batch)
        assert taken.stored == 1
        assert [(one.part, one.rule) for one in taken.refused] == [("grain", "namespace")] * 3
        assert at(hub).status(grains["attic"]).verification_status == "unverified"
        assert not at(hub).status(grains["attic"]).restricted

    def test_who_tells_of_others_hears_nothing(self, hub: Site, grains: dict[str, str]) -> None:
        """Otherwise a guess of an address would show whether the grain exists."""
        peer = self.peer(hub, "hall")
        mine = bytes.fromhex(grains["hall"])

        def answers(other: bytes) -> list[BatchResult]:
            told = (
                GrainState(other, status="retracted", restricted=1),
                GrainState(other, (mine,)),
                GrainState(mine, (other,)),
            )
            return [peer.put(Batch(b"", ("hall",), states=(one,))) for one in told]

        assert answers(bytes.fromhex(grains["attic"])) == answers(b"k" * 32) == [BatchResult()] * 3


ALL = ("sync:read", "sync:write", "sync:admin")


def test_one_question_of_a_token_at_a_time(hub: Site) -> None:
    """Others do not wait, and requests beyond a number are asked to retry."""
    import asyncio

    token = hub.service.tokens.find(hub.sync_token())
    other = hub.service.tokens.find(hub.sync_token("other"))
    assert token is not None and other is not None
    peers = hub.service.peers

    async def act() -> list[str]:
        done: list[str] = []

        async def ask(name: str) -> None:
            try:
                async with peers.exclusive(token):
                    done.append(name)
            except Exception as refusal:
                done.append(str(refusal))

        async with peers.exclusive(token) as peer:
            assert peer() is peer()
            asking = [asyncio.ensure_future(ask(str(n))) for n in range(9)]
            for _ in range(5):
                await asyncio.sleep(0)
            async with peers.exclusive(other):
                done.append("other")
            asking[0].cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        return done

    done = hub.loop.run_until_complete(act())
    assert done == ["too_many_requests"] * 2 + ["other"] + [str(n) for n in range(1, 7)]


def test_peers_that_are_not_asked_are_let_go(hub: Site) -> None:
    for n in range(12):
        dialled(hub, hub.sync_token(f"r{n}")).hello(Hello())
    assert len(hub.service.peers._kept) == 8


def test_a_client_that_leaves_the_queue_is_not_served(tmp_path: Path) -> None:
    with site(tmp_path / "hub.omsg", ServerOptions(at_work=1)) as hub:
        body = protocol.pack(Batch(b"", grains=(og.encode(lamp("on")),)))
        headers = {
            "authorization": f"Bearer {hub.sync_token()}",
            "content-type": protocol.MEDIA,
            "content-length": str(len(body)),
        }
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/sync/take",
            "query_string": b"",
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
        coming = iter([{"type": "http.request", "body": body, "more_body": False}])
        said: list[Any] = []

        async def receive() -> Any:
            return next(coming, {"type": "http.disconnect"})

        async def send(sent: Any) -> None:
            said.append(sent)

        async def act() -> None:
            async with hub.service.work.inside():  # somebody works
                await hub.app(scope, receive, send)

        hub.loop.run_until_complete(act())
        assert not said and len(at(hub)) == 0
        assert dialled(hub, hub.sync_token("next")).hello(Hello()).grains == 0
