# SPDX-License-Identifier: Apache-2.0
"""Lines between two stores that sync over HTTP: whole, and such as break."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import httpx

from omsgrain.sync.http import HttpPeer
from support.http_server import Site

URL = "http://127.0.0.1:1"


class Pieces(httpx.SyncByteStream):
    """The body of an answer; it may be cut."""

    def __init__(self, data: bytes, cut: int | None = None) -> None:
        self._data, self._cut = data, cut

    def __iter__(self) -> Iterator[bytes]:
        cut = len(self._data) if self._cut is None else self._cut
        for at in range(0, cut, 1000):
            yield self._data[at : min(at + 1000, cut)]
        if self._cut is not None:
            raise httpx.ReadError("cut")


def answer(
    data: bytes,
    media: str,
    status: int = 200,
    *,
    cut: int | None = None,
    retry_after: str | None = None,
) -> httpx.Response:
    """An answer that comes piece by piece."""
    headers = {"content-type": media}
    if retry_after is not None:
        headers["retry-after"] = retry_after
    return httpx.Response(status, headers=headers, stream=Pieces(data, cut))


class Bridge(httpx.BaseTransport):
    """Carries requests to a server of this process.

    Args:
        site: the server.
        budget: gives for each request how many bytes, there and back, it carries; None: all.
    """

    def __init__(self, site: Site, budget: Callable[[], int | None] = lambda: None) -> None:
        self._site, self._budget = site, budget
        self.asked: list[tuple[str, bytes]] = []
        self.broken = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        body = request.read()
        left = self._budget()
        if left is not None and len(body) > left:  # the server never has all of it
            self.broken += 1
            raise httpx.WriteError("cut", request=request)
        self.asked.append((request.url.path.rpartition("/")[2], body))
        token = request.headers.get("authorization", "").removeprefix("Bearer ") or None
        media = {"content-type": request.headers["content-type"]}
        got = self._site.ask("POST", request.url.path, token, content=body, headers=media)
        cut = None if left is None else left - len(body)
        if cut is not None and cut < len(got.content):
            self.broken += 1
        else:
            cut = None
        kept, after = got.headers["content-type"], got.headers.get("retry-after")
        return answer(got.content, kept, got.status_code, cut=cut, retry_after=after)


def dialled(site: Site, token: str | None, **more: Any) -> HttpPeer:
    """A peer that asks a server of this process, and does not wait."""
    given: dict[str, Any] = {"transport": Bridge(site), "wait": lambda _: None}
    return HttpPeer(URL, token=token, **given | more)


class Proxy:
    """Stands before a server, and cuts each connection after some bytes.

    Args:
        url: of the server.
        budget: gives for each connection how many bytes it carries; None: all.
    """

    def __init__(self, url: str, budget: Callable[[], int | None]) -> None:
        host, port = url.removeprefix("http://").split(":")
        self._behind, self._budget = (host, int(port)), budget
        self._door = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._door.getsockname()[1]}"
        self.cut = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._door.accept()
                threading.Thread(target=self._carry, args=(near,), daemon=True).start()

    def _carry(self, near: socket.socket) -> None:
        far = socket.create_connection(self._behind)
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        left = _Left(self._budget())
        ways = [
            threading.Thread(target=self._copy, args=pair, daemon=True)
            for pair in ((near, far, left), (far, near, left))
        ]
        for way in ways:
            way.start()
        for way in ways:
            way.join()
        near.close()
        far.close()

    def _copy(self, source: socket.socket, target: socket.socket, left: _Left) -> None:
        with suppress(OSError):
            while data := source.recv(4096):
                carried = left.take(len(data))
                target.sendall(data[:carried])
                if carried < len(data):
                    self.cut += 1
                    break
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._door.close()


class _Left:
    """Bytes that a connection still carries, both ways together."""

    def __init__(self, most: int | None) -> None:
        self._most = most
        self._lock = threading.Lock()

    def take(self, count: int) -> int:
        if self._most is None:
            return count
        with self._lock:
            taken = min(count, self._most)
            self._most -= taken
            return taken


def budgets(seed: int, low: int, high: int) -> Callable[[], int]:
    """Budgets of a bad line, the same every time."""
    rng = Random(seed)
    return lambda: rng.randrange(low, high)
