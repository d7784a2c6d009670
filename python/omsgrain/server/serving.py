# SPDX-License-Identifier: Apache-2.0
"""What a server stands on: the store with a handle for each who acts, and where it may listen."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import omsgrain as og
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem.fields import is_producer
from omsgrain.storage.tokens import Scope, Token, Tokens
from omsgrain.store.context import context_of
from omsgrain.sync.http import is_loopback
from omsgrain.sync.local import LocalPeer, ScopedPeer
from omsgrain.sync.peer import Peer, Right

_RIGHTS: Final[Mapping[Scope, tuple[Right, ...]]] = {
    "sync:read": ("give",),
    "sync:write": ("grains", "states"),
    "sync:admin": ("holds", "releases", "restrictions", "erasures"),
}
"""What a token lets another store do."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where a server listens.

    Attributes:
        host: a name or an address.
        port: 0 takes any that is free.
        certificate: file of the TLS certificate and its chain, PEM.
        key: file of its private key, PEM.
        behind_proxy: whether something else speaks TLS with the clients.
        grace: seconds that requests at work have when the server stops.
    """

    host: str = "127.0.0.1"
    port: int = 8080
    certificate: Path | None = None
    key: Path | None = None
    behind_proxy: bool = False
    grace: float = 10.0

    def check(self) -> None:
        """See that tokens and memories do not go over a network in the clear."""
        if (self.certificate is None) != (self.key is None):
            raise SchemaError("a certificate goes with its key", field="/tls")
        if self.certificate is None and not self.behind_proxy and not is_loopback(self.host):
            raise UnsupportedError(
                "tokens would go over the network in the clear",
                expected="--tls-cert and --tls-key, or --behind-proxy where a proxy speaks TLS",
            )

    def url(self, port: int) -> str:
        """The address by which a client reaches it."""
        scheme = "http" if self.certificate is None else "https"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{scheme}://{host}:{port}"


class Stores:
    """One store, with a handle for each who acts: the audit trail names the handle's actor."""

    def __init__(self, main: og.GrainStore) -> None:
        self._lock = threading.Lock()
        self._by_actor: dict[str, og.GrainStore] = {}
        self.main = main
        self.tokens = Tokens(context_of(main).inner)

    def of(self, actor: str) -> og.GrainStore:
        """The handle of an actor; there are as many as tokens have names."""
        with self._lock:
            if actor not in self._by_actor:
                self._by_actor[actor] = self.main.as_actor(actor)
            return self._by_actor[actor]

    def peer(self, token: Token) -> Peer:
        """The store as another one sees it that has a token."""
        rights = [right for scope in token.scopes for right in _RIGHTS.get(scope, ())]
        if not rights:
            raise UnsupportedError("the token is not for syncing")
        store, whole = self.of(f"token:{token.name}"), not token.namespaces
        allowed = [right for right in rights if whole or right != "erasures"]
        shares = whole and "give" in rights
        local = LocalPeer(store, rights=allowed, shares=shares, notes="must")
        return local if whole else ScopedPeer(local, store, token.namespaces)

    def close(self) -> None:
        """Let go of all handles."""
        for store in (self.main, *self._by_actor.values()):
            store.close()


def check_producer(producer: str) -> None:
    """Refuse what cannot be the namespace of our bundles."""
    if not is_producer(producer):
        raise SchemaError("not a producer", field="/producer", expected="1 to 63 of a-z, 0-9, -")
