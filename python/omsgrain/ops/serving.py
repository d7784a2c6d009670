# SPDX-License-Identifier: Apache-2.0
"""What a server stands on: the store with a handle for each who acts, and where it may listen."""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import omsgrain as og
from omsgrain.errors import SchemaError, UnsupportedError
from omsgrain.formats.aimem.urn import is_producer
from omsgrain.ops.opening import keys_in_use, memory_in_use, open_store, resolver_in_use
from omsgrain.store.lmdb import LmdbStore
from omsgrain.store.opening import prepare
from omsgrain.store.tokens import Tokens

__all__ = ["Listening", "Stores", "check_producer", "is_loopback", "open_one", "open_stores"]


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
        """See that tokens and memories do not go over a network in the clear.

        Raises:
            UnsupportedError: they would.
            SchemaError: a certificate without a key, or a key without a certificate.
        """
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
    """One store, with a handle for each who acts: the audit trail names the handle's actor.

    Args:
        path: of the store.
        opener: opens a handle for an actor.
    """

    def __init__(self, path: Path, opener: Callable[[str | None], og.GrainStore]) -> None:
        self._opener = opener
        self._lock = threading.Lock()
        self._by_actor: dict[str, og.GrainStore] = {}
        self.main = opener(None)
        self._below = LmdbStore(path)
        self.tokens = Tokens(self._below)

    def of(self, actor: str) -> og.GrainStore:
        """The handle of an actor; there are as many as tokens have names."""
        with self._lock:
            if actor not in self._by_actor:
                self._by_actor[actor] = self._opener(actor)
            return self._by_actor[actor]

    def close(self) -> None:
        """Let go of all handles."""
        for store in (*self._by_actor.values(), self.main):
            store.close()
        self._below.close()


def open_stores(path: Path, *, actor: str | None = None, policy: str | None = None) -> Stores:
    """Open a store that is there for a server, with the keys that are in use.

    Args:
        path: of the store.
        actor: who acts where no token does.
        policy: a preset, or a file with rules.

    Raises:
        StoreError: there is no store at the path, or it cannot be written.
    """
    prepare(path, readonly=True)  # or an empty directory would become a store
    given = {"keys": keys_in_use(), "resolver": resolver_in_use(), "memory": memory_in_use()}
    opener = partial(_open, path, given | {"policy": policy}, actor)
    return Stores(path, opener)


def open_one(path: Path, *, readonly: bool = False, actor: str | None = None) -> og.GrainStore:
    """Open a store that is there for a server with one user, with the keys that are in use.

    Raises:
        StoreError: there is no store at the path, or it cannot be written.
    """
    prepare(path, readonly=True)  # or an empty directory would become a store
    return open_store(path, readonly=readonly, actor=actor)


def check_producer(producer: str) -> None:
    """Refuse what cannot be the namespace of our bundles.

    Raises:
        SchemaError: it cannot.
    """
    if not is_producer(producer):
        raise SchemaError("not a producer", field="/producer", expected="1 to 63 of a-z, 0-9, -")


def _open(path: Path, given: dict[str, Any], own: str | None, actor: str | None) -> og.GrainStore:
    # Reads are not counted: a request for another tenant's grain must leave no trace on it.
    return og.open(path, actor=actor or own, count_access=False, **given)


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, so that nobody can read along."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
