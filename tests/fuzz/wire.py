# SPDX-License-Identifier: Apache-2.0
"""The bytes that clients send to the HTTP server, before any of them is a request."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from uvicorn.server import ServerState

from fuzz.target import Run, Target
from omsgrain.server.app import HEAD
from omsgrain.server.process import patient
from omsgrain.server.service import ServerOptions
from support.http_server import BUNDLE, bundle, chunk, site


class _Pipe(asyncio.Transport):
    """Keeps what a server writes."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.closed = b"", False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    abort = close

    def is_closing(self) -> bool:
        return self.closed

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...
    def resume_reading(self) -> None: ...


@contextmanager
def wired(path: Path) -> Iterator[tuple[Callable[..., bytes], str]]:
    """The answer of a server to these pieces on a new connection, and a token for it."""
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # as the server has it
    with site(path, ServerOptions(timeout=1.0)) as served:
        config = uvicorn.Config(
            served.app, ws="none", lifespan="off", log_config=None,
            h11_max_incomplete_event_size=HEAD,
        )  # fmt: skip
        config.load()
        kind = patient(60)

        async def talk(*pieces: bytes) -> bytes:
            pipe, state = _Pipe(), ServerState()
            connection = kind(config, state, {})
            connection.connection_made(pipe)
            for piece in filter(None, pieces):  # an empty piece would be the end of the stream
                if not pipe.closed:  # a loop reads no more from what is closed
                    connection.data_received(piece)
                    await asyncio.sleep(0)
            connection.eof_received()
            if state.tasks:  # those with a whole request are answered
                await asyncio.wait(state.tasks, timeout=0.02)
            connection.connection_lost(None)
            await asyncio.gather(*state.tasks)
            return pipe.written

        yield lambda *pieces: served.loop.run_until_complete(talk(*pieces)), served.token()


@contextmanager
def _wire(room: Path) -> Iterator[Run]:
    """The bytes of a connection, in two pieces: what comes back is HTTP, and no status of 500."""
    with wired(room / "m.omsg") as (talk, token):

        def run(data: bytes) -> None:
            data = data.replace(b"TOKEN", token.encode())
            answer = talk(data[: len(data) // 2], data[len(data) // 2 :])
            assert not answer or answer.startswith(b"HTTP/1.1 "), answer[:20]
            assert b"HTTP/1.1 500" not in answer, answer[:200]

        yield run


def _connections() -> list[bytes]:
    get = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"
    post = b"POST /v1/brain/import HTTP/1.1\r\nhost: x\r\nauthorization: Bearer TOKEN\r\n"
    post += f"content-type: {BUNDLE}\r\n".encode()
    body = bundle(chunk(1))
    whole = b"content-length: %d\r\n\r\n" % len(body) + body
    return [
        get + b"\r\n" + get + b"connection: close\r\n\r\n",
        get + b"x-large: " + b"x" * 66_000 + b"\r\n\r\n",
        post + whole + get + b"\r\n",
        post + b"content-length: 99999999999\r\nexpect: 100-continue\r\n\r\n",
        post
        + b"transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-trailer: 1\r\n\r\n"
        + get
        + b"\r\n",
        post + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n" + get,
        b"HEAD /openapi.json HTTP/1.0\r\n\r\n",
        get + b"connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\r\n",
    ]


TARGETS = {"http wire": Target(_wire, _connections)}
