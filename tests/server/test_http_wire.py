# SPDX-License-Identifier: Apache-2.0
"""Requests as bytes on a socket, as odd and hostile clients send them."""

from __future__ import annotations

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import omsgrain as og
from fuzz.wire import wired
from support.http_process import Served
from support.http_server import ADA, ALL, BUNDLE, EXPORT, IMPORT, STREAM, bundle, chunk
from support.tokens import add_token


class Wire:
    """A connection to a server."""

    def __init__(self, url: str) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, *lines: str, body: bytes = b"") -> None:
        """Send a request line and headers, and what comes behind them."""
        self._socket.sendall("".join(f"{line}\r\n" for line in (*lines, "")).encode() + body)

    def raw(self, data: bytes) -> None:
        """Send bytes."""
        self._socket.sendall(data)

    def answer(self, head: bool = False) -> tuple[int, dict[str, str], bytes]:
        """The next answer: status, headers, body of a length that it says."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode().partition(":")
            headers[name.lower()] = value.strip()
        size = 0 if head else int(headers.get("content-length", 0))
        return status, headers, self._file.read(size)

    def refused(self) -> tuple[int, str]:
        """The next answer, which is a refusal: its status and rule; the connection ends then."""
        status, headers, body = self.answer()
        assert headers["content-type"] == "application/problem+json"
        assert headers["connection"] == "close"
        assert self.is_over()
        told = json.loads(body)
        assert told["status"] == status
        return status, told["rule"]

    def is_over(self) -> bool:
        """Whether the server sends no more, and has ended it."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    path = tmp_path_factory.mktemp("wire") / "m.omsg"
    og.open(path).close()
    token = add_token(path, "ada", ADA, ALL)
    with Served(path) as found:
        yield found.url, f"authorization: Bearer {token}"


@pytest.mark.parametrize("expects", [(), ("expect: 100-continue",)], ids=["sends", "waits"])
@pytest.mark.parametrize("length", ["67108865", "9" * 18])
def test_a_length_above_the_limit_is_refused_at_once(
    served: tuple[str, str], expects: tuple[str, ...], length: str
) -> None:
    url, token = served
    with Wire(url) as wire:
        given = f"content-length: {length}", f"content-type: {BUNDLE}", token, *expects
        wire.send(f"POST {IMPORT} HTTP/1.1", "host: x", *given)
        status, headers, body = wire.answer()  # nothing of the body was sent
        assert (status, json.loads(body)["rule"]) == (413, "body_too_large")
        assert headers["connection"] == "close"
        if expects:
            assert wire.is_over()


def test_a_client_that_sends_anyway_gets_the_reason(served: tuple[str, str]) -> None:
    url, token = served
    headers = {"authorization": token.partition(": ")[2], "content-type": "text/plain"}
    for _ in range(5):
        answer = httpx.post(url + IMPORT, content=b"x" * (8 << 20), headers=headers)
        assert (answer.status_code, answer.json()["rule"]) == (415, "unsupported_media_type")


def test_a_short_body_that_is_refused_keeps_the_connection(served: tuple[str, str]) -> None:
    with Wire(served[0]) as wire:
        for _ in range(2):
            wire.send(f"POST {IMPORT} HTTP/1.1", "host: x", "content-length: 3", body=b"GET")
            status, headers, _ = wire.answer()
            assert (status, headers.get("connection")) == (401, None)
        wire.send("GET /healthz HTTP/1.1", "host: x")
        assert wire.answer()[0] == 200


@pytest.mark.parametrize("path", [IMPORT, "/no/path", "/healthz"])
def test_a_length_and_chunks_are_not_both_taken(served: tuple[str, str], path: str) -> None:
    """Two servers in a row could see two requests where there is one."""
    url, token = served
    hidden = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    with Wire(url) as wire:
        both = "content-length: 5", "transfer-encoding: chunked", f"content-type: {BUNDLE}"
        wire.send(f"POST {path} HTTP/1.1", "host: x", token, *both, body=b"0\r\n\r\n" + hidden)
        assert wire.refused() == (400, "invalid_request")


@pytest.mark.parametrize("size", [70_000, 1 << 20])
@pytest.mark.parametrize("whole", [True, False])
def test_large_headers_are_refused(served: tuple[str, str], size: int, whole: bool) -> None:
    with Wire(served[0]) as wire:
        data = b"GET /healthz HTTP/1.1\r\nhost: x\r\nx-large: " + b"x" * size
        wire.raw(data + (b"\r\n\r\n" if whole else b""))
        status, headers, body = wire.answer()
        assert (status, json.loads(body)["rule"]) == (431, "headers_too_large")
        assert headers["connection"] == "close"


def test_headers_up_to_the_limit_are_taken(served: tuple[str, str]) -> None:
    with Wire(served[0]) as wire:
        wire.send("GET /healthz HTTP/1.1", "host: x", "x-large: " + "x" * 65_000)
        assert wire.answer()[0] == 200


@pytest.mark.parametrize(
    "data",
    [
        b"no http\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\n\r\n",  # no host
        b"POST /v1/grains HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        b"POST /v1/grains HTTP/1.1\r\nhost: x\r\ntransfer-encoding: gzip\r\n\r\n",
    ],
)
def test_requests_that_are_no_http(served: tuple[str, str], data: bytes) -> None:
    with Wire(served[0]) as wire:
        wire.raw(data)
        assert wire.refused() in ((400, "invalid_request"), (501, "invalid_request"))


def test_chunks_that_are_none_end_the_connection(served: tuple[str, str]) -> None:
    url, token = served
    with Wire(url) as wire:
        wire.send(
            f"POST {IMPORT} HTTP/1.1", "host: x", token, f"content-type: {BUNDLE}",
            "transfer-encoding: chunked", body=b"zz\r\n",
        )  # fmt: skip
        assert wire.refused() == (400, "invalid_request")
    assert httpx.get(url + "/healthz").status_code == 200


@pytest.mark.parametrize("behind", [b"\r\n", b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", b"z"])
def test_bytes_behind_the_last_request_do_not_cost_its_answer(
    tmp_path: Path, behind: bytes
) -> None:
    """Old clients send an empty line behind a body; a pipelined request is one too many."""
    first = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with wired(tmp_path / "m.omsg") as (talk, _):
        told = talk(first, behind)
    assert told.startswith(b"HTTP/1.1 200 ") and told.count(b"HTTP/1.1 ") == 1


def test_head_with_chunks_that_are_none_has_no_body(tmp_path: Path) -> None:
    head = b"HEAD /healthz HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
    with wired(tmp_path / "m.omsg") as (talk, _):
        told = talk(head + b"zz\r\n")
    assert told.startswith(b"HTTP/1.1 400 ") and told.endswith(b"\r\n\r\n")


@pytest.mark.parametrize("path", [EXPORT, STREAM])
def test_head_of_an_export_has_no_length(served: tuple[str, str], path: str) -> None:
    url, token = served
    with Wire(url) as wire:
        wire.send(f"HEAD {path} HTTP/1.1", "host: x", token)
        status, headers, _ = wire.answer(head=True)
        assert (status, "content-length" in headers) == (200, False)
        wire.send("GET /healthz HTTP/1.1", "host: x")
        assert wire.answer()[0] == 200


@pytest.mark.parametrize("grace", ["0", "0.2"])
def test_a_client_cut_off_after_the_grace_gets_an_answer(tmp_path: Path, grace: str) -> None:
    path = tmp_path / "m.omsg"
    og.open(path).close()
    token = add_token(path, "ada", ADA, ALL)
    body = bundle(chunk(1))
    with Served(path, "--grace", grace) as served, Wire(served.url) as wire:
        wire.send(
            f"POST {IMPORT} HTTP/1.1", "host: x", f"authorization: Bearer {token}",
            f"content-type: {BUNDLE}", f"content-length: {len(body)}", "expect: 100-continue",
        )  # fmt: skip
        assert wire.answer()[0] == 100  # it waits for the body
        served.child.send_signal(signal.SIGTERM)
        assert wire.refused() == (503, "stopping")
        assert served.wait() == 0
