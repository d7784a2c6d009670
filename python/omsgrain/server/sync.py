# SPDX-License-Identifier: Apache-2.0
"""Sync: the requests of another store.

Every request may be repeated. If the client disconnects, a waiting request is dropped. A running
request finishes, since a batch is one commit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from starlette.responses import Response

from omsgrain.errors import CorruptError, OmsError, SchemaError, UnsupportedError
from omsgrain.server.errors import HttpRefusal
from omsgrain.server.request import Handler, RequestContext
from omsgrain.server.service import Flag
from omsgrain.sync import protocol
from omsgrain.sync.peer import SIZE, Peer

_CALLS: Final[dict[str, Callable[[Peer, Any], Any]]] = {
    "greet": lambda peer, hello: peer.hello(hello),
    "share": lambda peer, keys: peer.tombstones(keys),
    "changes": lambda peer, q: peer.changes(q.since, q.hello, max(0, min(q.size, SIZE))),
    "reconcile": lambda peer, q: peer.reconcile(q.space, q.message, q.hello, q.initiator, q.limit),
    "lacking": lambda peer, addresses: peer.missing(addresses),
    "give": lambda peer, q: peer.get(q.kind, q.keys, q.hello),
    "take": lambda peer, batch: peer.put(batch),
}
"""Name of a request on the wire -> the method of a peer."""


def handler(name: str) -> Handler:
    """Make the handler of a request; OpenAPI shows its name."""

    async def answer(call: RequestContext) -> Response:
        return await _answer(call, name)

    answer.__name__ = name
    return answer


async def _answer(call: RequestContext, name: str) -> Response:
    """Read a request, wait for the peer of the token, and respond."""
    token = call.token
    assert token is not None, "the route requires a token"
    with await call.body(protocol.MOST) as file:
        async with call.service.peers.exclusive(token) as peer:

            def work(flag: Flag) -> Response:
                question = _read(name, file.read())
                flag.check()
                return _packed(lambda: _CALLS[name](peer(), question))

            return await call.do(work, file)


def _read(name: str, data: bytes) -> Any:
    try:
        return protocol.unpack(protocol.QUESTIONS[name], data)
    except OmsError as error:
        raise _refusal("invalid_message", error) from None


def _packed(answer: Callable[[], Any]) -> Response:
    try:
        return Response(protocol.pack(answer()), media_type=protocol.MEDIA)
    except UnsupportedError as error:
        raise _refusal("not_let", error) from None
    except (SchemaError, CorruptError) as error:  # a broken grain is refused alone
        raise _refusal("invalid_message", error) from None


def _refusal(rule: str, error: OmsError) -> HttpRefusal:
    detail = error.message + (f"; expected {error.expected}" if error.expected else "")
    return HttpRefusal(rule, detail, code=error.code)
