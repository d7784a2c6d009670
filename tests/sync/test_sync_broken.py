# SPDX-License-Identifier: Apache-2.0
"""Lines that break, and servers that are none: a sync goes on, or says what is wrong."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_sync_http import at, filled, told

import omsgrain as og
from omsgrain import _core
from omsgrain.crypto import sign
from omsgrain.errors import OmsError, SchemaError, StoreError, UnsupportedError
from omsgrain.sync import LocalPeer, Progress, protocol, sync
from omsgrain.sync.bundle import write_bundle
from omsgrain.sync.http import HttpPeer, service_url
from omsgrain.sync.peer import SIZE, START, Batch, BatchResult, Hello, Kind, Position
from support.http_process import Served, certified
from support.http_server import Site, lamp
from support.shell import Shell, exit_code
from support.signers import ALICE
from support.sync_lines import URL, Bridge, Proxy, answer, budgets, dialled
from support.sync_messages import GREETING
from support.sync_stores import belief, memory
from support.tokens import add_token

SCOPES = ("sync:read", "sync:write", "sync:admin")


def taken(bridge: Bridge) -> list[Batch]:
    """The batches that reached the server."""
    return [protocol.unpack(Batch, body) for name, body in bridge.asked if name == "take"]


@pytest.mark.parametrize("most", [900, 1_600, 3_000])
def test_cut_at_any_byte(hub: Site, robot: og.GrainStore, most: int, long: bool) -> None:
    """Both sides agree in the end, wherever the line breaks."""
    filled(robot, "robot", 8, 120)
    filled(at(hub), "hub", 8, 120)
    broken = 0
    for n in range(40 if long else 1):
        bridge = Bridge(hub, budgets(most + n, 100, most))
        peer = dialled(hub, hub.sync_token(f"r{n}"), transport=bridge, tries=200)
        sync(LocalPeer(robot), peer)
        assert told(robot) == told(at(hub))
        broken += bridge.broken
        filled(robot, f"robot {n}", 4, 300)
    assert broken


def test_committed_grains_are_not_sent_again(hub: Site, robot: og.GrainStore) -> None:
    """The answer to a batch is lost, after the batch was taken."""
    made = filled(robot, "robot", 40)
    lost = iter([None, None])

    class Forgetful(Bridge):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            got = super().handle_request(request)
            if request.url.path.endswith("/take") and next(lost, got) is None:
                self.broken += 1
                raise httpx.ReadError("lost", request=request)
            return got

    bridge = Forgetful(hub)
    peer = dialled(hub, hub.sync_token(), transport=bridge)
    report = sync(LocalPeer(robot), peer, direction="push")
    assert bridge.broken == 2
    batches = taken(bridge)
    assert sum(len(batch.grains) for batch in batches) == len(batches[0].grains) == len(made)
    assert report.sent.duplicates == len(made)
    assert told(robot) == told(at(hub))


def test_an_envelope_is_sent_again_unless_all_was_taken(hub: Site) -> None:
    """It may bring one more signature to a grain that is there."""
    envelope = sign(og.Grain(og.encode(lamp("on"))), ALICE)
    store = b"s" * 16

    def lose_first(known: Position | None) -> list[int]:
        lost = iter([True])

        class Forgetful(Bridge):
            def handle_request(self, request: httpx.Request) -> httpx.Response:
                got = super().handle_request(request)
                if request.url.path.endswith("/take") and next(lost, False):
                    raise httpx.ReadError("lost", request=request)
                return got

        bridge = Forgetful(hub)
        token = hub.sync_token("a" if known is None else "b")
        dialled(hub, token, transport=bridge).put(Batch(store, grains=(envelope,), until=known))
        return [len(batch.grains) for batch in taken(bridge)]

    assert lose_first(None) == [1, 1]
    assert lose_first(Position(7, b"m")) == [1, 0]


class Refusing(httpx.BaseTransport):
    """Answers with what it is given, and then breaks."""

    def __init__(
        self, *answers: Callable[[httpx.Request], httpx.Response] | httpx.Response
    ) -> None:
        self._answers = iter(answers)
        self.count = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.count += 1
        found = next(self._answers, None)
        if found is None:
            raise httpx.ConnectError("nobody there", request=request)
        return found if isinstance(found, httpx.Response) else found(request)


def problem(status: int, text: str, retry_after: str | None = None) -> httpx.Response:
    media = "application/problem+json"
    return answer(text.encode(), media, status, retry_after=retry_after)


def test_waits_grow_and_end(hub: Site) -> None:
    waits: list[float] = []
    greeting = answer(protocol.pack(GREETING), protocol.MEDIA)
    nobody = Refusing(greeting)
    peer = HttpPeer(URL, transport=nobody, tries=9, wait=waits.append)
    peer.hello(Hello())
    with pytest.raises(StoreError) as failed:
        peer.hello(Hello())
    assert failed.value.found == "ConnectError, 9 times in a row"
    assert nobody.count == 10 and len(waits) == 8
    assert all(0.25 * 2**n <= min(wait, 30) <= 30 for n, wait in enumerate(waits[:6]))
    assert max(waits) <= 30


def test_an_unreachable_server_fails_soon() -> None:
    waits: list[float] = []
    with pytest.raises(StoreError):
        HttpPeer(URL, transport=Refusing(), wait=waits.append).hello(Hello())
    assert len(waits) == 2


def test_a_server_that_is_busy_says_when_to_come_back(hub: Site) -> None:
    waits: list[float] = []
    busy = problem(429, '{"rule":"too_many_requests","code":"too_many_requests"}', retry_after="7")
    stopping = problem(503, "{}", retry_after="100000")
    odd = answer(b"{}", "application/problem+json", 503)
    odd.headers["retry-after"] = "\u00b2"
    peer = HttpPeer(URL, transport=Refusing(busy, stopping, odd), tries=4, wait=waits.append)
    with pytest.raises(StoreError):
        peer.hello(Hello())
    assert waits[:2] == [7, 60] and waits[2] < 30


MEDIA = protocol.MEDIA


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (answer(b"<html>", "text/html"), "ERR_STORE"),
        (httpx.Response(301, headers={"location": "https://elsewhere.example/"}), "ERR_STORE"),
        (answer(b"not found", "text/plain", 404), "ERR_STORE"),
        (problem(500, "[" * 9_000), "ERR_STORE"),
        (problem(500, '{"code":"internal","rule":"internal"}'), "ERR_STORE"),
        (problem(422, '{"code":"ERR_CORRUPT","detail":"x"}'), "ERR_CORRUPT"),
        (problem(403, '{"code":"ERR_UNSUPPORTED","rule":"not_let"}'), "ERR_UNSUPPORTED"),
        (problem(403, '{"code":5,"detail":"\\u001b[31m"}'), "ERR_KEY"),
        (answer(b"{}", MEDIA), "ERR_CORRUPT"),
        (answer(protocol.pack(START), MEDIA), "ERR_CORRUPT"),
        (answer(_core.pack_frame(1, bytes(8 << 20)) * 3, MEDIA), "ERR_CORRUPT"),
        (answer(bytes(protocol.MOST + 1), MEDIA), "ERR_TOO_LARGE"),
    ],
)  # fmt: skip
def test_servers_that_are_none(given: httpx.Response, code: str) -> None:
    peer = HttpPeer(URL, token="omg_secret", transport=Refusing(given), wait=lambda _: None)
    with pytest.raises(OmsError) as refused:
        peer.hello(Hello())
    assert refused.value.code == code
    for secret in ("omg_secret", "elsewhere.example", "\x1b"):
        assert secret not in str(refused.value)


def test_unsolicited_answers() -> None:
    def said(value: Any) -> HttpPeer:
        given = answer(protocol.pack(value), MEDIA)
        return HttpPeer(URL, transport=Refusing(given), wait=lambda _: None)

    blob = og.encode(lamp("on"))
    with pytest.raises(OmsError) as refused:
        said(Batch(b"", grains=(blob,))).get("grains", [b"k" * 32], Hello())
    assert refused.value.code == "ERR_INTEGRITY"
    for wrong in (b"", b"\0\0"):
        with pytest.raises(StoreError):
            said(wrong).missing([b"k" * 32])
    with pytest.raises(OmsError):
        said(()).reconcile("grains", b"", Hello())
    with pytest.raises(OmsError):
        said(BatchResult(stored=-1)).put(Batch(b""))


@pytest.mark.parametrize("of", ["feed", "keys"])
def test_a_server_that_goes_round_in_a_circle(of: str, tmp_path: Path) -> None:
    """It says that there is more, and never gives it."""
    with memory() as hub, memory() as robot:
        hub.put_many([belief(f"{n}", n) for n in range(3)])

        class Circling(LocalPeer):
            def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
                found = super().changes(START, hello, size)
                return replace(found, more=True)

            def get(self, kind: Kind, keys: Sequence[bytes], hello: Hello) -> Batch:
                return Batch(b"h" * 16, rest=tuple(keys))

        with pytest.raises(StoreError, match="again and again"):
            sync(Circling(hub), LocalPeer(robot), full=of == "keys")
        if of == "feed":
            with pytest.raises(StoreError, match="again and again"):
                write_bundle(Circling(hub), tmp_path / "hub.mg")
            assert not list(tmp_path.iterdir())


def test_addresses_of_servers() -> None:
    assert service_url("https://hub.example/base/") == "https://hub.example/base"
    assert service_url("http://[::1]:8080") == "http://[::1]:8080"
    for wrong in (
        "https://omg_secret@hub.example", "https://hub.example?token=omg_secret",
        "https://", "ftp://hub.example", "https://hub.example:0", "https://hub.example:x",
    ):  # fmt: skip
        with pytest.raises(SchemaError) as refused:
            service_url(wrong)
        assert "secret" not in str(refused.value)
    for clear in ("http://hub.example", "http://10.0.0.7:8080"):
        with pytest.raises(UnsupportedError):
            HttpPeer(clear, token="omg_secret")
    peer = HttpPeer("https://hub.example", token="omg_secret")
    assert "secret" not in repr(peer) + repr(vars(peer))
    peer.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Served, str]]:
    path = tmp_path / "served.omsg"
    with og.open(path) as store:
        filled(store, "hub", 12, 200)
    token = add_token(path, "robot", None, SCOPES)
    with Served(path) as process:
        yield process, token


def test_a_proxy_that_cuts_connections(
    served: tuple[Served, str], robot: og.GrainStore, long: bool
) -> None:
    process, token = served
    filled(robot, "robot", 12, 200)
    cut = 0
    for seed in range(50 if long else 1):
        proxy = Proxy(process.url, budgets(seed, 500, 9_000))
        peer = HttpPeer(proxy.url, token=token, tries=200, wait=lambda _: None)
        report = sync(LocalPeer(robot), peer)
        peer.close()
        proxy.close()
        assert not report.refused
        cut += proxy.cut
        filled(robot, f"robot {seed}", 4, 300)
    assert cut
    direct = HttpPeer(process.url, token=token)
    sync(LocalPeer(robot), direct)
    assert not sync(LocalPeer(robot), direct).changed
    direct.close()


def test_a_server_that_is_killed(tmp_path: Path, robot: og.GrainStore) -> None:
    """Acknowledged grains are there after a restart, and are not sent again."""
    path = tmp_path / "served.omsg"
    og.open(path).close()
    token = add_token(path, "robot", None, SCOPES)
    robot.put_many([lamp(f"{n}") for n in range(2_500)])
    with Served(path) as first:
        peer = HttpPeer(first.url, token=token, tries=2, wait=lambda _: None)

        def killing(_: Progress) -> None:
            first.end(signal.SIGKILL)

        with pytest.raises(StoreError):
            sync(LocalPeer(robot), peer, progress=killing)
        peer.close()
    with Served(path) as second:
        peer = HttpPeer(second.url, token=token)
        assert sync(LocalPeer(robot), peer).sent.grains == 1_500
        peer.close()
    with og.open(path, readonly=True) as store:
        assert store.verify().verified == 2_500


def test_two_processes(
    served: tuple[Served, str], shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process, token = served
    kept = tmp_path / "token"
    kept.write_text(token + "\n")
    assert shell("sync", process.url, "mine.omsg", "--create", "--token-file", kept) == 0
    assert token not in shell.out.decode() + shell.err.decode()
    with og.open("mine.omsg") as store:
        assert len(store) == 15
        store.put(lamp("new"))
    monkeypatch.setenv("OMSGRAIN_TOKEN", token)
    report = shell.json("sync", "mine.omsg", process.url)
    assert (report["sent"]["grains"], report["received"]["grains"]) == (1, 0)
    monkeypatch.setenv("OMSGRAIN_TOKEN", "omg_" + "a" * 43)
    code, error = shell.error("sync", "mine.omsg", process.url)
    assert (code, error["code"], error["rule"]) == (
        exit_code("ERR_KEY"),
        "ERR_KEY",
        "invalid_token",
    )
    code, error = shell.error("sync", "mine.omsg", "http://hub.example")
    assert error["code"] == "ERR_UNSUPPORTED"


def test_certificates_are_verified(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    path = tmp_path / "served.omsg"
    og.open(path).close()
    token = add_token(path, "robot", None, SCOPES)
    waits: list[float] = []
    with Served(path, "--tls-cert", certificate, "--tls-key", key) as process:
        stranger = HttpPeer(process.url, token=token, wait=waits.append)
        with pytest.raises(StoreError, match="certificate"):
            stranger.hello(Hello())
        assert not waits
        known = HttpPeer(process.url, token=token, verify=str(certificate))
        assert known.hello(Hello()).version == 2
        known.close()
        stranger.close()
    with pytest.raises(UnsupportedError):
        HttpPeer("https://hub.example", verify=str(path))


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(UnsupportedError, match="'web'"):
        HttpPeer("https://hub.example")


def test_the_address_of_a_server_that_is_dead() -> None:
    """The error names the hub that does not answer."""

    def dead(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    url = "http://127.0.0.1:9/hub"
    peer = HttpPeer(url, transport=httpx.MockTransport(dead), wait=lambda _: None)
    with pytest.raises(StoreError) as refused:
        peer.hello(Hello())
    assert url in refused.value.message
