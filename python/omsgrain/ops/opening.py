# SPDX-License-Identifier: Apache-2.0
"""Open stores, each with what was given for the whole command: keys, an actor, and so on.

Every verb opens its store here. Whoever calls the verbs says once with what:

    with using(keys=lambda: KeyRing.open(path, master=master)):
        ops.query(store, filters)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import omsgrain as og
from omsgrain.storage.location import Where, location_of

if TYPE_CHECKING:
    from omsgrain.crypto.did import Resolver
    from omsgrain.crypto.keyring.keyring import KeyRing


@dataclass(slots=True)
class _StoreOptions:
    """What stores are opened with; the ring is opened when the first store is."""

    make: Callable[[], KeyRing] | None = None
    plain: bool = False
    actor: str | None = None
    resolver: Resolver | None = None
    memory: int | str | None = None
    ring: KeyRing | None = None


_given: ContextVar[_StoreOptions | None] = ContextVar("omsgrain.ops.opening", default=None)


@contextmanager
def using(
    *,
    keys: Callable[[], KeyRing] | None = None,
    plain: bool = False,
    actor: str | None = None,
    resolver: Resolver | None = None,
    memory: int | str | None = None,
) -> Iterator[None]:
    """Open all stores of the block with these; the ring is closed at its end."""
    given = _StoreOptions(keys, plain, actor, resolver, memory)
    token = _given.set(given)
    try:
        yield
    finally:
        _given.reset(token)
        if given.ring is not None:
            given.ring.close()


def keys_in_use() -> KeyRing | None:
    """Return the key ring that stores are opened with; None without keys."""
    given = _given.get()
    if given is None:
        return None
    if given.ring is None and given.make is not None:
        given.ring = given.make()
    return given.ring


def resolver_in_use() -> Resolver | None:
    """Return the resolver that stores are opened with."""
    given = _given.get()
    return None if given is None else given.resolver


def open_store(
    path: Where, *, readonly: bool = False, actor: str | None = None, **options: Any
) -> og.GrainStore:
    """Open a store with what is in use; arguments and errors are those of ``omsgrain.open``."""
    if readonly:
        location_of(path).must_exist()  # what is no store needs no key
    given = _given.get() or _StoreOptions()
    return og.open(
        path,
        readonly=readonly,
        keys=keys_in_use(),
        plain=given.plain,
        actor=given.actor if actor is None else actor,
        resolver=given.resolver,
        memory=given.memory,
        **options,
    )


def make_store(path: Where, *, actor: str | None = None) -> bool:
    """Make a store where there is none, with the keys that are in use; whether it was made."""
    if location_of(path).exists():
        return False
    open_store(path, actor=actor).close()
    return True


def open_to_read(store: Where, *, actor: str | None = None, **options: Any) -> og.GrainStore:
    """Open a store that must be there already, and is not to be changed.

    What tells of its reading is written where it can be: an audit trail, an index of words.
    """
    home = location_of(store)
    home.must_exist()  # or an empty directory would become a store
    return open_store(store, readonly=not home.is_writable(), actor=actor, **options)


@contextmanager
def writable(store: Where, actor: str | None = None, **options: Any) -> Iterator[og.GrainStore]:
    """Open a store that must be there already."""
    location_of(store).must_exist()  # or an empty directory would become a store
    with open_store(store, actor=actor, **options) as grains:
        yield grains
