# SPDX-License-Identifier: Apache-2.0
"""Blocks of pages that need another host: a hub with TLS, a broker, a database. As printed."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nats
import pytest

import omsgrain as og
from support.bridge_processes import Bridging
from support.doc_blocks import Reader, Shell, why_not
from support.doc_terminal import typed
from support.http_process import Served, certified
from support.markdown_page import Fence, fences
from support.paths import ROOT
from support.servers.debian import Server, Unavailable, needed
from support.servers.mosquitto import broker
from support.servers.nats import jetstream
from support.servers.postgres import Postgres
from support.shell import belief

HUB = "hub.example"
MESSAGE = b'{"type": "event", "content": "left the dock", "created_at": "2026-01-15T10:00:00Z"}'


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def away(page: str) -> list[Fence]:
    """The blocks of a page that are run here and not with the others."""
    path = ROOT / "docs" / page
    return [b for b in fences(path) if (why_not(path, b) or "").endswith("test_docs_hosts.py")]


def lines(block: Fence) -> list[list[str]]:
    """Its commands, as words; a quoted word may go over lines."""
    found: list[list[str]] = []
    held = ""
    for line in block.text.replace("\\\n", " ").splitlines():
        held = f"{held}\n{line}" if held else line
        try:
            found.append(shlex.split(held, comments=True))
        except ValueError:  # a quotation is open
            continue
        held = ""
    assert not held, block.line
    return found


def test_a_hub_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the hub is that of this machine, and its certificate is one of those trusted."""
    (block,) = away("sync.md")
    token, serve, sync = (line.partition("#")[0] for line in block.text.splitlines())
    for name, many in (("hub.omsg", 3), ("robot.omsg", 2)):
        with og.open(tmp_path / name) as store:
            store.put_many(belief(n + 10 * many) for n in range(many))
    chain, key = certified(tmp_path, HUB)
    shutil.copy(chain, "chain.pem")
    shutil.copy(key, "key.pem")
    assert typed(token)[0] == 0
    _, verb, *words = shlex.split(serve)
    assert verb == "serve"
    with Served(*words) as served:
        port = int(served.url.rpartition(":")[2])
        monkeypatch.setattr(socket, "getaddrinfo", _only(HUB, 8080, port))
        monkeypatch.setenv("SSL_CERT_FILE", str(chain))
        code, said = typed(sync)
        assert code == 0, said
        assert served.end(signal.SIGTERM) == 0
    for name in ("hub.omsg", "robot.omsg"):
        with og.open(tmp_path / name, readonly=True) as store:
            assert len(store) == 5


def _only(host: str, port: int, instead: int) -> Callable[..., Any]:
    """A name service that knows one host, whose port is another one here."""
    looked_up = socket.getaddrinfo

    def look_up(asked: str, at: int, *more: Any, **named: Any) -> Any:
        assert (asked, at) == (host, port)
        return looked_up("127.0.0.1", instead, *more, **named)

    return look_up


def _started(make: Callable[..., Server], directory: Path) -> Server:
    try:
        server = make(directory)
    except Unavailable as reason:
        pytest.skip(str(reason))
    server.start()
    return server


@pytest.mark.services
def test_mqtt(tmp_path: Path) -> None:
    block = away("bridge.md")[0]
    bridge, publish = lines(block)
    _heard(
        bridge, ":1883", _started(broker, tmp_path / "broker"), lambda port: _sent(publish, port)
    )


def _sent(words: list[str], port: int) -> None:
    program = needed("mosquitto-clients", words[0])
    subprocess.run([program, "-p", str(port), *words[1:]], check=True)


@pytest.mark.services
def test_nats(tmp_path: Path) -> None:
    stream, bridge = away("bridge.md")[1:]
    server = _started(jetstream, tmp_path / "broker")
    Reader(ROOT / "docs/bridge.md", tmp_path).python(_at(stream, ":4222", server.port))
    _heard(lines(bridge)[0], ":4222", server, _published)


def _published(port: int) -> None:
    async def publish() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        await client.jetstream().publish("robots.7.memory", MESSAGE)
        await client.close()

    asyncio.run(publish())


def _heard(words: list[str], usual: str, server: Server, publish: Callable[[int], None]) -> None:
    """Run a bridge as printed, at the port that the broker has here; publish one message."""
    _, verb, path, *options = (word.replace(usual, f":{server.port}") for word in words)
    assert verb == "bridge"
    try:
        with Bridging(Path(path), *options) as bridge:
            while "subscribed" not in bridge._read():
                bridge.until(lambda _: True)
            publish(server.port)
            bridge.until(lambda told: bool(told["acknowledged"] == 1))
            assert bridge.end(signal.SIGTERM) == 0, bridge.log
    finally:
        server.kill()
    with og.open(path, readonly=True) as store:
        assert [hit.grain["content"] for hit in store.query().results] == ["left the dock"]


def _at(block: Fence, usual: str, port: int) -> Fence:
    return Fence(block.language, block.line, block.text.replace(usual, f":{port}"))


@pytest.mark.services
def test_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From an empty server to a store that is served; passwords are asked for by the server."""
    made, opened, used = away("scale.md")
    try:
        server = Postgres()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with server:
        for name, value in (
            ("PGHOST", "127.0.0.1"),
            ("PGPORT", str(server.port)),
            ("PGUSER", "postgres"),
            ("HOME", str(tmp_path)),
            ("PGPASSFILE", str(tmp_path / ".pgpass")),
            ("PATH", f"{server.programs}:{os.environ['PATH']}"),
        ):
            monkeypatch.setenv(name, value)
        for words in lines(made):
            subprocess.run(words, check=True)
        server.run("ALTER ROLE memory PASSWORD 'of the role'")
        passwords = tmp_path / ".pgpass"
        passwords.write_text("*:*:*:memory:of the role\n")
        passwords.chmod(0o600)
        shutil.copy(ROOT / "examples/mission.jsonl", "readings.jsonl")
        here = f"127.0.0.1:{server.port}"
        page = Reader(ROOT / "docs/scale.md", tmp_path)
        page.python(Fence("python", 1, ">>> import omsgrain as og\n"))
        page.python(Fence("python", opened.line, opened.text.replace(HUB, here)))
        shell = Shell(tmp_path)
        try:
            *commands, serve = used.text.replace(HUB, here).splitlines()
            said = [shell.run(line) for line in commands]
            assert "22 stored" in said[1] and "[dock] 3" in said[2], said
            shell.run(f"{serve} &")
            assert "ok" in shell.run(f"curl -f {shell.served}/healthz")
        finally:
            shell.close()
