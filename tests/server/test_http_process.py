# SPDX-License-Identifier: Apache-2.0
"""The server as a process: it listens, is used by many, stops, and survives being killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.applications import Starlette

import omsgrain as og
from omsgrain.errors import BY_CODE
from omsgrain.server import process
from omsgrain.server.process import Listening, patient
from support.http_process import Served, certified
from support.http_server import ADA, ALL, lamp
from support.processes import COMMAND
from support.shell import USAGE, Shell, exit_code
from support.tokens import add_token


@pytest.fixture
def path(tmp_path: Path) -> Path:
    og.open(tmp_path / "m.omsg").close()
    return tmp_path / "m.omsg"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_and_stops(path: Path, number: int) -> None:
    token = add_token(path, "ada", ADA, ALL)
    with Served(path, "--log-format", "json") as served:
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=served.url, headers=headers) as client:
            assert client.get("/healthz").json() == {"status": "ok"}
            assert client.post("/v1/grains", json=lamp("violet")).json()["stored"] == 1
            assert client.get("/v1/grains?subject=lamp").json()["results"]
            head = client.head("/v1/grains")
            assert (head.status_code, head.content) == (200, b"")
            assert int(head.headers["content-length"]) > 0
        assert served.end(number) == 0
        routes = [(line["method"], line["route"], line["status"]) for line in served.lines()]
        assert routes == [
            ("GET", "/healthz", 200),
            ("POST", "/v1/grains", 200),
            ("GET", "/v1/grains", 200),
            ("HEAD", "/v1/grains", 200),
        ]
        for secret in (token, ADA, "violet", "lamp", "subject"):
            assert secret not in served.log
    with og.open(path, readonly=True) as store:
        assert len(store) == 1


def test_killed_it_has_kept_what_it_said_it_had(path: Path) -> None:
    token = add_token(path, "ada", ADA, ALL)
    headers = {"authorization": f"Bearer {token}"}
    with Served(path) as served:
        for n in range(5):
            answer = httpx.post(f"{served.url}/v1/grains", json=lamp(str(n)), headers=headers)
            assert answer.status_code == 200
        served.end(signal.SIGKILL)
    with og.open(path) as store:
        assert len(store) == 5
        assert store.verify().verified == 5
    with Served(path) as served:
        assert httpx.get(f"{served.url}/v1/grains", headers=headers).json()["results"]


def test_workers_share_an_address_and_are_replaced(path: Path) -> None:
    token = add_token(path, "ada", ADA, ALL)
    headers = {"authorization": f"Bearer {token}"}
    with Served(path, "--workers", 2, "--log-format", "json") as served:

        def post(n: int) -> None:
            answer = httpx.post(f"{served.url}/v1/grains", json=lamp(str(n)), headers=headers)
            assert answer.status_code == 200

        post(0)
        while len(served.workers()) < 2:
            post(0)
        os.kill(served.workers()[0], signal.SIGKILL)
        while len(served.workers()) < 3:
            post(1)
        for n in range(2, 10):
            post(n)
        assert served.end(signal.SIGTERM) == 0
        ended = [(e["ended"], e["code"]) for e in served.lines() if "ended" in e]
        assert ended == [(served.workers()[0], -signal.SIGKILL)]
    with og.open(path) as store:
        assert len(store) == 10
        assert store.verify().verified == 10


def test_workers_end_with_the_one_that_looks_after_them(path: Path) -> None:
    with Served(path, "--workers", 2, "--log-format", "json") as served:
        served.end(signal.SIGKILL)  # it returns when all have let go of its output
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{served.url}/healthz")


def test_a_worker_that_cannot_begin_ends_them_all(path: Path, tmp_path: Path) -> None:
    keys = tmp_path / "none.keys"
    command = ("--workers", 2, "--keys", keys, "--master", tmp_path / "none")
    child = subprocess.run(
        [sys.executable, "-c", COMMAND, "serve", str(path), "--port", "0", *map(str, command)],
        capture_output=True,
        check=False,
    )
    assert child.returncode == BY_CODE["ERR_STORE"].exit_code
    assert child.stdout == b""


def test_stopping_waits_for_running_requests(path: Path) -> None:
    """A body that is on its way when the signal comes is still taken."""
    token = add_token(path, "ada", ADA, ALL)
    data = json.dumps(lamp()).encode()
    with Served(path, "--log-format", "json") as served:
        host, port = served.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as wire:
            head = (
                f"POST /v1/grains HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token}\r\n"
                f"content-type: application/json\r\ncontent-length: {len(data)}\r\n"
                "expect: 100-continue\r\n\r\n"
            )
            wire.sendall(head.encode())
            assert b"100" in wire.recv(100)  # the server waits for the body now
            served.child.send_signal(signal.SIGTERM)
            wire.sendall(data)
            answer = b""
            while piece := wire.recv(4096):
                answer += piece
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert served.end(signal.SIGTERM) == 0
    with og.open(path, readonly=True) as store:
        assert len(store) == 1


def test_a_silent_client_is_not_waited_for(path: Path) -> None:
    with Served(path, "--timeout", "0.1") as served:
        host, port = served.url.removeprefix("http://").split(":")
        for said in (b"", b"GET /healthz HTT"):
            with socket.create_connection((host, int(port)), timeout=20) as wire:
                wire.sendall(said)
                with suppress(ConnectionResetError):
                    assert wire.recv(100) == b""
        assert httpx.get(f"{served.url}/healthz").status_code == 200


class Wire(asyncio.Transport):
    """A client that reads only a part of its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.closing, self.aborted = 0, False, False

    def get_write_buffer_size(self) -> int:
        return self.left

    def is_closing(self) -> bool:
        return self.closing

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.aborted = True


def test_a_client_that_reads_nothing_is_not_waited_for() -> None:
    """Neither for the rest of an answer that is over, nor of one that was cut short."""

    async def act() -> None:
        config = uvicorn.Config(Starlette(), ws="none", lifespan="off", log_config=None)
        for closing in (False, True):
            wire, state = Wire(), uvicorn.server.ServerState()
            connection = patient(1_000)(config, state, {})
            connection.connection_made(wire)
            cycle: Any = SimpleNamespace(response_complete=False, message_event=asyncio.Event())
            connection.cycle = cycle
            for _ in range(3):
                connection.look()  # it is answered
            assert not wire.aborted
            wire.closing, cycle.response_complete = closing, not closing
            for wire.left in (9, 5, 3):  # and takes what it is sent
                connection.look()
            assert not wire.aborted
            connection.look()
            assert wire.aborted
            wire.left, wire.closing, wire.aborted, cycle.response_complete = 0, False, False, True
            connection.look()
            connection.look()
            assert (wire.closing, wire.aborted) == (True, False)
            connection.look()  # nor for the end of TLS
            assert wire.aborted
            connection.connection_lost(ConnectionResetError())
            assert connection._look is None or connection._look.cancelled()

    asyncio.run(act())


def test_options_that_the_server_refuses(shell: Shell, path: Path, tmp_path: Path) -> None:
    assert shell("serve", path, "--host", "0.0.0.0") == exit_code("ERR_UNSUPPORTED")
    assert shell("serve", path, "--host", "example.org") == exit_code("ERR_UNSUPPORTED")
    assert shell("serve", path, "--producer", "Not One") == exit_code("ERR_SCHEMA")
    assert shell("serve", path, "--require-signature") == USAGE
    assert shell("serve", path, "--did", "did:web:example.org") == USAGE
    assert shell("serve", path, "--body-limit", "many") == USAGE
    assert shell("serve", tmp_path) == exit_code("ERR_STORE")
    certificate = tmp_path / "c.pem"
    certificate.write_bytes(b"none")
    assert shell("serve", path, "--tls-cert", certificate) == exit_code("ERR_SCHEMA")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert shell("serve", path, "--port", port) == exit_code("ERR_STORE")


def test_answers_do_not_wait_to_be_gathered() -> None:
    """asyncio turns Nagle's algorithm off for sockets that say that they are TCP."""
    with process.bound_socket(Listening(port=0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP


def test_tls(path: Path, tmp_path: Path) -> None:
    certificate, key = certified(tmp_path)
    with Served(path, "--tls-cert", certificate, "--tls-key", key) as served:
        assert served.url.startswith("https://127.0.0.1:")
        host, port = served.url.removeprefix("https://").split(":")
        context = ssl.create_default_context(cafile=str(certificate))
        context.check_hostname = False
        with (
            socket.create_connection((host, int(port)), timeout=20) as plain,
            context.wrap_socket(plain) as wire,
        ):
            wire.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            assert wire.recv(100).startswith(b"HTTP/1.1 200")
        assert served.end(signal.SIGTERM) == 0
