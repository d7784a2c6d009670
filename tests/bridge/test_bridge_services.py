# SPDX-License-Identifier: Apache-2.0
"""Bridges with real brokers: nothing is acknowledged before it is stored, and nothing is lost."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import omsgrain as og
from support.bridge_processes import Bridging, MqttSite, NatsSite, Site
from support.servers.debian import Unavailable
from support.servers.nats import jetstream
from support.shell import belief, exit_code

pytestmark = pytest.mark.services

BAD = b'{"type": "belief", "subject": "nobody knows"}'


@pytest.fixture(params=["mqtt", "nats"])
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    kind: Any = MqttSite if request.param == "mqtt" else NatsSite
    try:
        made: Site = kind(tmp_path / "broker")
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        yield made
    finally:
        made.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hub.omsg"


def messages(first: int, end: int) -> list[bytes]:
    """Grains in JSON and as bytes."""
    made = (belief(n) for n in range(first, end))
    return [og.encode(f) if f["subject"][-1] in "02468" else json.dumps(f).encode() for f in made]


def stored(path: Path) -> int:
    with og.open(path, readonly=True) as store:
        return len(store)


def _acknowledged(many: int, told: dict[str, Any]) -> bool:
    return bool(told["acknowledged"] >= many)


def subscribe(path: Path, site: Site, *more: object) -> None:
    """Let the broker make the session, or the consumer, and go."""
    with Bridging(path, *site.options, "--dead-letter", site.dead, *more) as bridge:
        bridge.until(lambda _: True)
        while "subscribed" not in bridge._read():
            bridge.until(lambda _: True)
        assert bridge.end(signal.SIGTERM) == 0, bridge.log


def test_messages_are_stored_and_refused_ones_set_aside(path: Path, site: Site) -> None:
    subscribe(path, site)
    given = messages(0, 1_000)
    given[100:100] = [BAD, b"no grain"]
    with Bridging(path, *site.options, "--dead-letter", site.dead) as bridge:
        site.publish(given)
        bridge.until(lambda told: bool(told["acknowledged"] == 1_002))
        assert stored(path) == 1_000
        refused = site.read(site.dead, 2)
        assert sorted((data, told["code"]) for data, told in refused) == [
            (b"no grain", "ERR_FORMAT"),
            (BAD, "ERR_SCHEMA"),
        ]
        assert bridge.end(signal.SIGTERM) == 0
        assert (bridge.last["stored"], bridge.last["refused"]) == (1_000, 2)
        for secret in ("nobody", "robots", "s17"):
            assert secret not in bridge.log
    with Bridging(path, *site.options, "--dead-letter", site.dead) as bridge:
        site.publish(messages(1_000, 1_001))
        bridge.until(lambda told: bool(told["acknowledged"]))
        assert bridge.end(signal.SIGTERM) == 0
        assert bridge.last["messages"] == 1  # the others were acknowledged


def test_killed_again_and_again_it_loses_nothing(path: Path, site: Site, long: bool) -> None:
    kills, many = (20, 20_000) if long else (3, 3_000)
    rng = Random(kills)
    subscribe(path, site)
    publisher = threading.Thread(target=site.publish, args=(messages(0, many),))
    publisher.start()
    small = ("--batch", "50", "--in-flight", "200", "--dead-letter", site.dead)
    for n in range(kills):
        enough = rng.randrange(1, many // kills)
        with Bridging(path, *site.options, *small) as bridge:
            if stored(path) < many:
                bridge.until(partial(_acknowledged, enough))
            bridge.end(signal.SIGKILL)
        if n == kills // 2:
            publisher.join()
    publisher.join()
    with Bridging(path, *site.options, "--dead-letter", site.dead) as bridge:
        bridge.until(lambda _: stored(path) == many)
        assert bridge.end(signal.SIGTERM) == 0
    with og.open(path) as store:
        assert {grain["subject"] for grain in store} == {f"s{n}" for n in range(many)}
        assert store.verify().verified == many
        assert store.maintenance.check().ok


def test_a_broker_that_is_restarted(path: Path, site: Site) -> None:
    subscribe(path, site)
    small = ("--batch", "20", "--in-flight", "40", "--dead-letter", site.dead)
    with Bridging(path, *site.options, *small) as bridge:
        site.publish(messages(0, 300))
        site.server.restart()
        bridge.until(lambda _: stored(path) == 300)
        assert bridge.child.poll() is None
        assert bridge.end(signal.SIGTERM) == 0


def test_changes_of_the_store_are_published(path: Path, site: Site) -> None:
    publish = ("--dead-letter", site.dead, "--publish", site.changes)
    subscribe(path, site, *publish[2:])
    if isinstance(site, MqttSite):
        site.start()
    with og.open(path) as store:
        old = store.put(belief(1))
        store.supersede(old, belief(2, created_at=5))
    with Bridging(path, *site.options, *publish) as bridge:
        bridge.until(lambda told: bool(told["published"] >= 3))
        site.publish(messages(10, 60))
        bridge.until(lambda told: bool(told["published"] >= 53))
        assert bridge.end(signal.SIGTERM) == 0
    with Bridging(path, *site.options, *publish) as bridge:
        site.publish(messages(60, 61))
        bridge.until(lambda told: bool(told["published"]))
        assert bridge.end(signal.SIGTERM) == 0
        assert bridge.last["published"] == 1  # it went on where it was
    told = [json.loads(data) for data, _ in site.read(site.changes, 54)]
    with og.open(path, readonly=True) as store:
        assert told == [{"seq": c.seq, "kind": c.kind, "address": c.address}
                        for c in store.changes()]  # fmt: skip


def test_bridges_that_share_what_comes(path: Path, site: Site) -> None:
    subscribe(path, site)
    other = [option.replace("hub1", "hub2") for option in site.options]
    dead = ("--dead-letter", site.dead, "--in-flight", "100")
    with Bridging(path, *site.options, *dead) as one, Bridging(path, *other, *dead) as two:
        for bridge in (one, two):
            while "subscribed" not in bridge._read():
                bridge.until(lambda _: True)
        site.publish(messages(0, 2_000))
        one.until(lambda _: stored(path) == 2_000)
        assert one.end(signal.SIGTERM) == two.end(signal.SIGTERM) == 0
        assert one.last["messages"] + two.last["messages"] == 2_000
        assert min(one.last["messages"], two.last["messages"]) > 0


def test_a_rejected_client_ends(path: Path, tmp_path: Path) -> None:
    try:
        site = MqttSite(tmp_path / "broker", "allow_anonymous false\n")
    except Unavailable as reason:
        pytest.skip(str(reason))
    try:
        with Bridging(path, *site.options, "--dead-letter", site.dead) as bridge:
            assert bridge.wait() == exit_code("ERR_STORE")
            assert "the broker refuses the connection" in bridge.log
    finally:
        site.close()


def test_a_missing_permission_ends_the_bridge(path: Path, tmp_path: Path) -> None:
    word, config = tmp_path / "word", tmp_path / "server.conf"
    word.write_text("word")
    may = 'permissions: {publish: "robots.>"}'
    config.write_text(f"authorization {{ users = [{{user: robot, password: word, {may}}}] }}")
    try:
        server = jetstream(tmp_path / "broker", "-c", config)
    except Unavailable as reason:
        pytest.skip(str(reason))
    server.start()
    options = ["--nats", f"nats://127.0.0.1:{server.port}", "--stream", "MEMORY"]
    options += ["--user", "robot", "--password-file", str(word)]
    options += ["--dead-letter-dir", str(tmp_path)]
    try:
        with Bridging(path, *options) as bridge:
            assert bridge.wait() == exit_code("ERR_STORE")
            assert "the credentials do not allow this" in bridge.log
    finally:
        server.kill()


@pytest.mark.parametrize("site", ["nats"], indirect=True)
def test_a_stream_that_is_not_there_ends_it(path: Path, site: Site) -> None:
    options = [*site.options[:2], "--stream", "NONE", "--dead-letter", site.dead]
    with Bridging(path, *options) as bridge:
        assert bridge.wait() == exit_code("ERR_STORE")
        assert '"field": "--stream"' in bridge.log


@pytest.mark.parametrize("site", ["nats"], indirect=True)
def test_a_circle_ends_it(path: Path, site: Site) -> None:
    with Bridging(path, *site.options, "--dead-letter", "robots.1.memory") as bridge:
        assert bridge.wait() == exit_code("ERR_STORE")
        assert "would read what it publishes" in bridge.log
