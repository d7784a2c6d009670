# SPDX-License-Identifier: Apache-2.0
"""Sync: what another store asks of this one, and is told. Each question is one request.

All questions may come twice. Whoever went away before his turn is not answered; what has begun
goes on to its end, since a batch is one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.responses import Response

from omsgrain.errors import OmsError, SchemaError, UnsupportedError
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.request import RequestContext
from omsgrain.server.service import Flag
from omsgrain.sync import protocol
from omsgrain.sync.peer import SIZE, Batch, Hello, Peer
from omsgrain.sync.protocol import Changes, Get, Missing, Ranges


async def greet(call: RequestContext) -> Response:
    """Say who is here."""

    def act(peer: Peer, hello: Hello) -> Any:
        return peer.hello(hello)

    return await _answer(call, "greet", act)


async def share(call: RequestContext) -> Response:
    """Exchange keys of tombstones."""

    def act(peer: Peer, keys: tuple[bytes, ...]) -> Any:
        return peer.tombstones(keys)

    return await _answer(call, "share", act)


async def changes(call: RequestContext) -> Response:
    """Give what came after a position."""

    def act(peer: Peer, asked: Changes) -> Any:
        return peer.changes(asked.since, asked.hello, max(0, min(asked.size, SIZE)))

    return await _answer(call, "changes", act)


async def ranges(call: RequestContext) -> Response:
    """Give digests over ranges."""

    def act(peer: Peer, asked: Ranges) -> Any:
        return peer.ranges(asked.space, asked.prefixes, asked.hello)

    return await _answer(call, "ranges", act)


async def listing(call: RequestContext) -> Response:
    """Give the items in ranges."""

    def act(peer: Peer, asked: Ranges) -> Any:
        return peer.listing(asked.space, asked.prefixes, asked.hello)

    return await _answer(call, "listing", act)


async def lacking(call: RequestContext) -> Response:
    """Say which items are not here."""

    def act(peer: Peer, asked: Missing) -> Any:
        return peer.missing(asked.space, asked.items)

    return await _answer(call, "lacking", act)


async def give(call: RequestContext) -> Response:
    """Give items."""

    def act(peer: Peer, asked: Get) -> Any:
        return peer.get(asked.space, asked.keys, asked.hello)

    return await _answer(call, "give", act)


async def take(call: RequestContext) -> Response:
    """Take a batch."""

    def act(peer: Peer, batch: Batch) -> Any:
        return peer.put(batch)

    return await _answer(call, "take", act)


async def _answer(call: RequestContext, name: str, act: Callable[[Peer, Any], Any]) -> Response:
    """Hear a question, wait for the turn of its token, and answer it."""
    token = call.token
    assert token is not None, "the route asks for one"
    file = await call.body(protocol.MOST)
    with file:
        size = file.seek(0, 2)
        file.seek(0)
        async with call.service.peers.turn(token) as peer:

            def work(flag: Flag) -> Response:
                asked = _read(name, file.read())
                flag.check()
                return _told(lambda: act(peer(), asked))

            return await call.do(work, size=size)


def _read(name: str, data: bytes) -> Any:
    try:
        return protocol.unpack(protocol.QUESTIONS[name], data)
    except OmsError as error:
        raise HttpRefusal("invalid_message", _says(error), code=error.code) from None


def _told(answer: Callable[[], Any]) -> Response:
    try:
        return Response(protocol.pack(answer()), media_type=protocol.MEDIA)
    except UnsupportedError as error:
        raise HttpRefusal("not_let", _says(error), code=error.code) from None
    except SchemaError as error:
        raise HttpRefusal("invalid_message", _says(error), code=error.code) from None


def _says(error: OmsError) -> str:
    """What went wrong, for the one who asked."""
    return error.message + (f"; expected {error.expected}" if error.expected else "")
