# SPDX-License-Identifier: Apache-2.0
"""Services of `Type=notify`: systemd learns when they listen, and when they begin to stop."""

from __future__ import annotations

import io
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import omsgrain as og
from omsgrain.bridge.bridge import BridgePlan, run
from omsgrain.server.log import Log
from support.bridge_memory import LIMITS, Broker, Session
from support.deploy_files import unit
from support.http_process import Served
from support.processes import PATIENCE
from support.shell import belief


class Manager:
    """The socket on which systemd hears its services."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        self.socket.settimeout(PATIENCE)

    def hear(self) -> bytes:
        return self.socket.recv(100)

    def has_heard_all(self) -> bool:
        self.socket.setblocking(False)
        try:
            self.socket.recv(100)
        except BlockingIOError:
            return True
        return False

    def environment(self) -> dict[str, str]:
        return {**os.environ, "NOTIFY_SOCKET": self.name}


@pytest.fixture(params=["file", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    with tempfile.TemporaryDirectory() as folder:  # its path is short enough for a socket
        is_file = request.param == "file"
        made = Manager(f"{folder}/notify" if is_file else f"@{tmp_path.name}-{os.getpid()}")
        with made.socket:
            yield made


@pytest.fixture
def path(tmp_path: Path) -> Path:
    og.open(tmp_path / "m.omsg").close()
    return tmp_path / "m.omsg"


def test_a_server_is_ready_once_it_listens(path: Path, manager: Manager) -> None:
    with Served(path, env=manager.environment()) as served:
        assert manager.hear() == b"READY=1"
        assert httpx.get(f"{served.url}/readyz").status_code == 200
        assert served.end(signal.SIGTERM) == 0
    assert manager.hear() == b"STOPPING=1"
    assert manager.has_heard_all()


def test_workers_do_not_speak_for_the_service(path: Path, manager: Manager) -> None:
    more = ("--workers", 2, "--log-format", "json")
    with Served(path, *more, env=manager.environment()) as served:
        assert manager.hear() == b"READY=1"
        while len(served.workers()) < 2:
            httpx.get(f"{served.url}/healthz")
        os.kill(served.workers()[0], signal.SIGTERM)  # another one takes its place
        while len(served.workers()) < 3:
            with suppress(httpx.TransportError):  # the one that ends may have taken the request
                httpx.get(f"{served.url}/healthz")
        assert served.end(signal.SIGTERM) == 0
    assert manager.hear() == b"STOPPING=1"
    assert manager.has_heard_all()


@pytest.mark.parametrize("name", ["/nowhere/notify", "vsock:2:1", ""])
def test_a_server_runs_where_nobody_hears_it(path: Path, name: str) -> None:
    with Served(path, env={**os.environ, "NOTIFY_SOCKET": name}) as served:
        assert httpx.get(f"{served.url}/readyz").status_code == 200
        assert served.end(signal.SIGTERM) == 0


def test_a_bridge_is_ready_once_its_store_is_open(
    path: Path, tmp_path: Path, manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", manager.name)
    heard: list[bytes] = []

    def stop_once() -> None:
        if not heard:
            heard.append(manager.hear())
            os.kill(os.getpid(), signal.SIGTERM)

    session = Session(Broker([og.encode(belief(1))]), empty=stop_once)
    plan = BridgePlan(tmp_path / "refused", None, "", True, LIMITS, 60.0)
    run(og.open(path), lambda: session, plan, Log(stream=io.StringIO()), lambda counts: None)
    assert [*heard, manager.hear()] == [b"READY=1", b"STOPPING=1"]
    assert manager.has_heard_all()


def test_the_unit_waits_for_the_server() -> None:
    assert unit("omsgrain.service")["Service"]["Type"] == ["notify"]
