# SPDX-License-Identifier: Apache-2.0
"""A store as a peer: of the process that syncs, or behind a service."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import blake3

from omsgrain.errors import RangeError, SchemaError, StoreError, UnsupportedError
from omsgrain.store import tombstones
from omsgrain.store.base import Reader, Writer
from omsgrain.sync import bounds, erasing, giving, parts, records
from omsgrain.sync.peer import (
    EVERYTHING,
    HAS,
    ITEMS,
    LACKS,
    SIZE,
    VERSION,
    WAS_ERASED,
    Batch,
    Greeting,
    Hello,
    Item,
    Position,
    Range,
    Right,
    Space,
    Taken,
    Terms,
)
from omsgrain.sync.scope import Scope
from omsgrain.sync.taking import take
from omsgrain.sync.views import View, view

if TYPE_CHECKING:
    from omsgrain.engine import GrainStore
    from omsgrain.privacy import Purpose

__all__ = ["LocalPeer", "Notes"]

K = TypeVar("K")

_LISTED: Final = 100 * ITEMS
_KEY = 32
_DIGEST = 16
_REASON = "sync"
Notes: TypeAlias = Literal["tried", "must", "never"]

_VIEWS, _WEIGHT = 1_000, 256 << 20
"""Views that are kept of a store, and of a peer, and their bytes together: each choice of
namespaces has one, and who asks names these."""
_grains: WeakKeyDictionary[Any, dict[tuple[str, ...] | None, View]] = WeakKeyDictionary()
"""Views of the grains of open stores, by namespaces: they grow with the store."""
_looking = threading.Lock()
"""Held while a view is looked at, since it may be put in order, or grow, by that."""


class LocalPeer:
    """One side of a sync that is a store in this process.

    Args:
        store: an open one.
        rights: what the other side may do. A store that is read-only takes nothing.
        purpose: why grains leave: ``move`` to another store of the same house, with restricted
            ones; ``transfer`` to somebody else.
        shares: whether the keys of tombstones are shared.
        signer: the DID that is proved to have signed what comes, where somebody has. Ends of holds
            count from ``hold_authorities`` of the store alone, and erasures from its
            ``erasure_authorities``, where these are set.
        trusted: whether it is believed that a grain was verified on the other side.
        notes: whether the audit trail tells of grains before they are given, as of an export.
            ``tried``: where it can be written; the grains on a full disk can still be brought
            away. ``must``: or they are not given. ``never``: they are only counted.
        owned: close the store with the peer.

    Raises:
        SchemaError: no such right.
    """

    def __init__(
        self,
        store: GrainStore,
        *,
        rights: Iterable[Right] = EVERYTHING,
        purpose: Purpose = "move",
        shares: bool = True,
        signer: str | None = None,
        trusted: bool = False,
        notes: Notes = "tried",
        owned: bool = False,
    ) -> None:
        self._store = store
        given = frozenset(rights)
        if not given <= set(EVERYTHING):
            raise SchemaError("no such right", field="/rights", expected=", ".join(EVERYTHING))
        self._given = given
        self._rights = _lets(store, given, signer)
        self._terms = Terms(self._rights, signer, trusted)
        self._purpose: Purpose = purpose
        self._shares = shares
        self._notes: Notes = notes
        self._owned = owned
        self._views: dict[tuple[Space, tuple[str, ...] | None], View] = {}

    def narrowed(self, terms: Terms) -> LocalPeer:
        """Return the same store for what somebody brings on terms of their own."""
        made = copy(self)
        made._rights = _lets(self._store, self._given & terms.rights, terms.signer)
        made._terms = replace(terms, rights=made._rights)
        made._views, made._owned = {}, False
        return made

    def greet(self, hello: Hello) -> Greeting:
        """Say who is here, after finishing what was cut off."""
        self._views.clear()
        if not self._store._store.readonly:
            self._finish()
        scope = Scope(hello.namespaces)
        with self._store._store.read() as reader:
            last = reader.last_seq()
            keys = sorted(tombstones.common(reader)) if self._shares else []
            return Greeting(
                records.store_id(reader) or b"",
                VERSION,
                Position(last, records.mark_at(reader, last)),
                reader.count(),
                records.seen(reader, hello.store, hello.namespaces) if hello.store else None,
                tuple(one for one in EVERYTHING if one in self._rights and one != "releases"),
                blake3.blake3(b"".join(keys)).digest(_DIGEST) if keys else b"",
                _digest(view(reader, "tombstones", scope)),
                _digest(view(reader, "holds", scope)),
                records.followed(reader, hello.store, hello.namespaces) if hello.store else b"",
            )

    def _finish(self) -> None:
        with self._store._store.read() as reader:
            known = records.store_id(reader) is not None
            left = bool(records.erasing(reader))
        if not known:
            self._store._store.write(records.identify)
        if left:
            erasing.erase_marked(self._store, again=True)
        erasing.erase_released(self._store)
        erasing.sweep_destroyed(self._store)

    def share(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """Take over keys of tombstones, and tell all that are here."""
        if not self._shares:
            return ()
        with self._store._store.read() as reader:
            known = tombstones.common(reader)
        if (known and set(keys) <= set(known)) or "erasures" not in self._rights:
            return known

        def work(writer: Writer) -> tuple[bytes, ...]:
            tombstones.adopt(writer, keys)
            tombstones.key(writer)
            return tombstones.common(writer)

        try:
            return self._store._store.write(work)
        except RangeError:
            return known  # too many: who syncs tells that they are not shared

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """Return what came after a position of the feed, but for what came from who asks."""
        self._refuse("give")
        with self._store._store.read() as reader:
            settings = self._store._settings
            batch = giving.changes(reader, settings, since, hello, size, self._purpose)
        return self._noted(batch, hello)

    def ranges(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Range, ...]:
        """Return the ranges of items whose keys begin so."""
        if len(prefixes) > ITEMS:
            raise RangeError("too many ranges at once", expected=f"at most {ITEMS}")
        with _looking, self._store._store.read() as reader:
            found = self._view(reader, space, hello)
            return tuple(found.range(prefix) for prefix in prefixes)

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Item, ...]:
        """Return the items whose keys begin with one of these."""
        self._refuse("give")
        with _looking, self._store._store.read() as reader:
            found = self._view(reader, space, hello)
            items = (item for prefix in prefixes for item in found.items(prefix))
            listed = tuple(islice(items, _LISTED + 1))
        if len(listed) > _LISTED:
            raise RangeError("too many items in one listing", expected=f"at most {_LISTED}")
        return listed

    def lacking(self, space: Space, items: Sequence[Item]) -> bytes:
        """Tell of each item whether it is here."""
        _refuse_many(items)
        keys = [item.key for item in items]
        if any(len(key) != _KEY for key in keys):
            raise SchemaError("not the key of an item", expected=f"{_KEY} bytes")
        with self._store._store.read() as reader:
            if space != "grains":
                found = self._view(reader, space, Hello())
                mine = {one.key: one.version for key in keys for one in found.items(key.hex())}
                there = self._there(reader, space, keys)
                return bytes(
                    LACKS if here and mine.get(item.key) != item.version else HAS
                    for item, here in zip(items, there, strict=True)
                )
            gone = tombstones.refused(reader, keys)
            return bytes(
                HAS if seq is not None else WAS_ERASED if i in gone else LACKS
                for i, seq in enumerate(reader.find(keys))
            )

    def _there(self, reader: Reader, space: Space, keys: list[bytes]) -> list[bool]:
        """Whether there is something that each could be about."""
        if space == "tombstones":
            return [True] * len(keys)
        return [seq is not None for seq in reader.find(keys)]

    def give(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """Return items by their keys."""
        self._refuse("give")
        _refuse_many(keys)
        settings = self._store._settings
        with self._store._store.read() as reader:
            batch = giving.give(reader, settings, space, keys, hello, SIZE, self._purpose)
        return self._noted(batch, hello)

    def _noted(self, batch: Batch, hello: Hello) -> Batch:
        """Tell the audit trail what leaves, before it does."""
        store = self._store
        if batch.grains and self._notes != "never" and not store._store.readonly:
            told: dict[str, int | str] = {
                "grains": len(set(parts.digests(batch.grains))),
                "purpose": self._purpose,
            }
            if hello.store:
                told["store"] = hello.store.hex()
            note = partial(store._note, operation="export", digests=(), details=told)
            try:
                store._store.write(partial(note, reason_code=_REASON))
            except StoreError:
                if self._notes == "must":
                    raise
        return batch

    def take(self, batch: Batch) -> Taken:
        """Take a batch.

        Raises:
            SchemaError, RangeError: something in it cannot be; nothing of it was taken.
        """
        bounds.check(batch)
        bounds.check_count(batch.grains, bounds.GRAINS)
        if batch.grains:
            self._refuse("grains")
        if batch.tombstones:
            self._refuse("erasures")
        self._views.clear()
        taken = take(self._store, batch, self._terms)
        if batch.tombstones and not batch.more:
            erased, kept = erasing.erase_marked(self._store)
            taken = replace(taken, erased=erased, refused=(*taken.refused, *kept))
        return taken

    def close(self) -> None:
        """Let go of what was remembered, and of the store if it is owned."""
        self._views.clear()
        if self._owned:
            self._store.close()

    def _refuse(self, right: Right) -> None:
        if right not in self._rights:
            raise UnsupportedError("the other store does not allow this", expected=right)

    def _view(self, reader: Reader, space: Space, hello: Hello) -> View:
        scope = Scope(hello.namespaces)
        if space == "grains":
            known = _grains.setdefault(self._store, {})
            before = known.pop(scope.namespaces, None)
            if before is None or before.last < reader.last_seq():
                before = view(reader, space, scope, before)
            _keep(known, scope.namespaces, before)
            return before
        found = self._views.pop((space, scope.namespaces), None)
        if found is None or found.last != reader.last_seq():
            found = view(reader, space, scope)
        _keep(self._views, (space, scope.namespaces), found)
        return found


def _lets(store: GrainStore, rights: frozenset[Right], signer: str | None) -> frozenset[Right]:
    """What of some rights a store can give to who is proved to be somebody, or nobody."""
    orders = store._settings.erasure_authorities
    if orders and signer not in orders:
        rights -= {"erasures"}
    return rights & {"give"} if store._store.readonly else rights


def _keep(views: dict[K, View], key: K, latest: View) -> None:
    """Keep a view as the last of some, and let go of those that were not looked at for longest."""
    views[key] = latest
    weight = sum(one.weight for one in views.values())
    while len(views) > 1 and (len(views) > _VIEWS or weight > _WEIGHT):
        weight -= views.pop(next(iter(views))).weight


def _digest(found: View) -> bytes:
    whole = found.range("")
    return whole.digest if whole.count else b""


def _refuse_many(items: Sequence[object]) -> None:
    if len(items) > ITEMS:
        raise RangeError(
            "too many items at once", expected=f"at most {ITEMS}", found=str(len(items))
        )
