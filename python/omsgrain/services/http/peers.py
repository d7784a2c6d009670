# SPDX-License-Identifier: Apache-2.0
"""The peers of those who sync: one for each token, kept between its questions.

A peer remembers what it has compared, which takes it a look at every grain. One question of a
token is answered at a time; those of other tokens do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from omsgrain.services.http.problems import Refusal

if TYPE_CHECKING:
    from omsgrain.store.tokens import Token
    from omsgrain.sync.peer import Peer

__all__ = ["Peers"]

_KEPT = 8
"""Peers that are kept while nobody asks them: each takes some 50 bytes for a grain."""
_WAITING = 8
"""Questions of one token that may be there at once: who syncs asks one after the other."""


class _Kept:
    """A peer, made when it is first needed, in a thread."""

    __slots__ = ("peer", "turn", "users")

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.turn = asyncio.Lock()
        self.users = 0


class Peers:
    """The peers of a server. Of one event loop, but for ``close``.

    Args:
        make: makes the peer of a token.
        retry_after: what those are told that ask too much at once, in seconds.
    """

    def __init__(self, make: Callable[[Token], Peer], retry_after: int = 1) -> None:
        self._make = make
        self._retry = {"retry-after": str(retry_after)}
        self._kept: dict[Token, _Kept] = {}

    @asynccontextmanager
    async def turn(self, token: Token) -> AsyncIterator[Callable[[], Peer]]:
        """Wait until nobody else asks with this token, and keep it so for the block.

        Yields:
            What gives the peer; to be called in a thread.

        Raises:
            Refusal: too many wait already.
        """
        kept = self._kept.pop(token, None) or _Kept()
        self._kept[token] = kept  # the latest is the last
        if kept.users >= _WAITING:
            raise Refusal("too_many_requests", headers=self._retry)
        kept.users += 1
        try:
            async with kept.turn:
                yield lambda: self._peer(token, kept)
        finally:
            kept.users -= 1
            self._forget()

    def close(self) -> None:
        """Let go of all; nobody asks any more."""
        while self._kept:
            _, kept = self._kept.popitem()
            if kept.peer is not None:
                kept.peer.close()

    def _peer(self, token: Token, kept: _Kept) -> Peer:
        if kept.peer is None:
            kept.peer = self._make(token)
        return kept.peer

    def _forget(self) -> None:
        """Let go of those that were not asked for longest."""
        idle = [token for token, kept in self._kept.items() if not kept.users]
        for token in idle[: max(0, len(self._kept) - _KEPT)]:
            peer = self._kept.pop(token).peer
            if peer is not None:
                peer.close()
