# SPDX-License-Identifier: Apache-2.0
"""A store of this process as a peer: the whole store, or some namespaces."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

import blake3

from omsgrain.container.read import blob_of
from omsgrain.errors import OmsError, RangeError, SchemaError, StoreError, UnsupportedError
from omsgrain.storage import tombstones
from omsgrain.storage.base import Reader, Writer
from omsgrain.store.context import context_of
from omsgrain.sync import batch as batches
from omsgrain.sync import erasures, protocol, reconcile
from omsgrain.sync.batch import digests
from omsgrain.sync.peer import (
    EVERYTHING,
    FRAME,
    HAS,
    KEY,
    LACKS,
    SHORT,
    SIZE,
    VERSION,
    WAS_ERASED,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    Kind,
    PeerTerms,
    Position,
    Reconciled,
    Refusal,
    Right,
    Space,
)
from omsgrain.sync.reconcile import ItemView, NamespaceScope, view

if TYPE_CHECKING:
    from omsgrain.policy.rules import Purpose
    from omsgrain.store import GrainStore


K = TypeVar("K")
Notes: TypeAlias = Literal["tried", "must", "never"]

_SAMPLE = 10
"""The size of the sample that shows whether two stores share any grain."""
_DIGEST = 16
_REASON = "sync"
_VIEWS, _WEIGHT = 1_000, 256 << 20
"""How many views are cached for a store and a peer, and their bytes. The other side chooses the
namespaces, and each choice needs a view.
"""
_grains: WeakKeyDictionary[Any, dict[tuple[str, ...] | None, ItemView]] = WeakKeyDictionary()
"""Views of the grains of open stores, by namespaces; they are extended as the store grows."""
_viewing = threading.Lock()
"""Held while a view is read, which may sort or extend it."""
_RULE: Final = "namespace"


class LocalPeer:
    """A store of this process as one side of a sync.

    Args:
        store: An open store.
        rights: What the other side may do; a read-only store accepts nothing.
        purpose: ``move`` to another store of the same owner, with restricted grains; ``transfer``
            to others.
        shares: Share the keys of tombstones.
        signer: The verified signer of the input. If the store has ``hold_authorities``, only they
            end holds; if it has ``erasure_authorities``, only they erase.
        trusted: Accept the verification statuses of the other side.
        notes: When to write an audit entry for grains that are sent, as for an export. ``tried``:
            if possible, so that a full disk can still be copied. ``must``: or send nothing.
            ``never``: no entry, for counting only.
        owned: Close the store with the peer.

    Raises:
        SchemaError: An unknown right.
    """

    remote: Final = False

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
        self._context = context_of(store)
        given = frozenset(rights)
        if not given <= set(EVERYTHING):
            raise SchemaError("unknown right", field="/rights", expected=", ".join(EVERYTHING))
        self._given = given
        self._terms = PeerTerms(_allowed(store, given, signer), signer, trusted)
        self._purpose: Purpose = purpose
        self._shares = shares
        self._notes: Notes = notes
        self._owned = owned
        self._views: dict[tuple[Space, tuple[str, ...] | None], ItemView] = {}

    def narrowed(self, terms: PeerTerms) -> LocalPeer:
        """Return a peer of the same store for a batch on other terms."""
        made = copy(self)
        rights = _allowed(self._store, self._given & terms.rights, terms.signer)
        made._terms = replace(terms, rights=rights)
        made._views, made._owned = {}, False
        return made

    def hello(self, hello: Hello) -> Greeting:
        self._views.clear()
        if not self._context.storage.readonly:
            self._finish()
        scope = NamespaceScope(hello.namespaces)
        with self._context.storage.read() as reader:
            last = reader.last_seq()
            keys = sorted(tombstones.common(reader)) if self._shares else []
            rights = self._terms.rights - {"releases"}
            known = bool(hello.store)
            return Greeting(
                reconcile.store_id(reader) or b"",
                VERSION,
                Position(last, reconcile.mark_at(reader, last)),
                scope.count(reader),
                reconcile.seen(reader, hello.store, hello.namespaces) if known else None,
                tuple(one for one in EVERYTHING if one in rights),
                blake3.blake3(b"".join(keys)).digest(_DIGEST) if keys else b"",
                view(reader, "tombstones", scope).digest,
                view(reader, "holds", scope).digest,
                reconcile.followed(reader, hello.store, hello.namespaces) if known else b"",
            )

    def _finish(self) -> None:
        with self._context.storage.read() as reader:
            known = reconcile.store_id(reader) is not None
            left = bool(erasures.erasing(reader))
        if not known:
            self._context.storage.write(reconcile.identify)
        if left:
            erasures.erase_marked(self._store)
        erasures.erase_released(self._store)
        erasures.sweep_destroyed(self._store)

    def tombstones(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        if not self._shares:
            return ()
        with self._context.storage.read() as reader:
            known = tombstones.common(reader)
        if (known and set(keys) <= set(known)) or "erasures" not in self._terms.rights:
            return known

        def work(writer: Writer) -> tuple[bytes, ...]:
            tombstones.adopt(writer, keys)
            tombstones.key(writer)
            return tombstones.common(writer)

        try:
            return self._context.storage.write(work)
        except RangeError:
            return known  # too many keys: `sync` reports that they are not shared

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        self._need("give")
        settings = self._context.settings
        with self._context.storage.read() as reader:
            batch = batches.changes(reader, settings, since, hello, size, self._purpose)
        return self._noted(batch, hello)

    def reconcile(
        self,
        space: Space,
        message: bytes,
        hello: Hello,
        initiator: bool = False,
        limit: int = FRAME,
    ) -> Reconciled:
        with _viewing, self._context.storage.read() as reader:
            items = self._view(reader, space, hello).items
            if message:
                return Reconciled(*items.answer(message, initiator, limit))
            seqs = items.sample(_SAMPLE) if space == "grains" else ()
            blobs = [blob for seq in seqs if (blob := reader.blob_at(seq)) is not None]
            return Reconciled(items.initiate(), sample=tuple(digests(blobs)))

    def count(self, hello: Hello) -> int:
        """Return the number of grains in the other side's namespaces."""
        with _viewing, self._context.storage.read() as reader:
            return len(self._view(reader, "grains", hello).items)

    def missing(self, addresses: Sequence[bytes]) -> bytes:
        protocol.check_addresses(addresses)
        with self._context.storage.read() as reader:
            gone = tombstones.refused(reader, addresses)
            return bytes(
                HAS if seq is not None else WAS_ERASED if i in gone else LACKS
                for i, seq in enumerate(reader.find(addresses))
            )

    def get(self, kind: Kind, keys: Sequence[bytes], hello: Hello) -> Batch:
        self._need("give")
        protocol.check_keys(keys)
        settings = self._context.settings
        if kind == "tombstones":
            with self._context.storage.read() as reader:
                return batches.stones(reader, keys, hello)
        found = self._numbers(kind, keys, hello)
        with self._context.storage.read() as reader:
            batch = batches.items(reader, settings, kind, found, hello, SIZE, self._purpose)
        return self._noted(batch, hello)

    def _numbers(self, kind: Kind, keys: Sequence[bytes], hello: Hello) -> list[tuple[int, bytes]]:
        """Return the number of each grain with its key; a short key may fit two grains."""
        found: list[tuple[int, bytes]] = []
        if whole := [key for key in keys if len(key) >= KEY]:
            with self._context.storage.read() as reader:
                seqs = reader.raw.find([key[:KEY] for key in whole])
            found = [(seq, key) for seq, key in zip(seqs, whole, strict=True) if seq is not None]
        if short := [key for key in keys if len(key) == SHORT]:
            with _viewing, self._context.storage.read() as reader:
                items = self._view(reader, "holds" if kind == "holds" else "grains", hello).items
                fits = items.find(short)
            found += [(seq, key) for seqs, key in zip(fits, short, strict=True) for seq in seqs]
        return sorted(found)

    def _noted(self, batch: Batch, hello: Hello) -> Batch:
        """Write the audit entry of grains before they are sent."""
        if batch.grains and self._notes != "never" and not self._context.storage.readonly:
            details: dict[str, int | str] = {
                "grains": len(set(digests(batch.grains))),
                "purpose": self._purpose,
            }
            if hello.store:
                details["store"] = hello.store.hex()
            note = partial(self._context.note, operation="export", digests=(), details=details)
            try:
                self._context.storage.write(partial(note, reason_code=_REASON))
            except StoreError:
                if self._notes == "must":
                    raise
        return batch

    def put(self, batch: Batch) -> BatchResult:
        protocol.check(batch)
        if batch.grains:
            self._need("grains")
        if batch.tombstones:
            self._need("erasures")
        self._views.clear()
        done = batches.put(self._store, batch, self._terms)
        if batch.tombstones and not batch.more:
            erased, kept = erasures.erase_marked(self._store)
            done = replace(done, erased=erased, refused=(*done.refused, *kept))
        return done

    def close(self) -> None:
        self._views.clear()
        if self._owned:
            self._store.close()

    def _need(self, right: Right) -> None:
        if right not in self._terms.rights:
            raise UnsupportedError("the other store does not allow this", expected=right)

    def _view(self, reader: Reader, space: Space, hello: Hello) -> ItemView:
        scope = NamespaceScope(hello.namespaces)
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


def _allowed(store: GrainStore, rights: frozenset[Right], signer: str | None) -> frozenset[Right]:
    """Return the rights that a store can give to a signer, or without one."""
    authorities = context_of(store).settings.erasure_authorities
    if authorities and signer not in authorities:
        rights -= {"erasures"}
    return rights & {"give"} if context_of(store).storage.readonly else rights


def _keep(views: dict[K, ItemView], key: K, latest: ItemView) -> None:
    """Keep a view as the latest, and drop the least recently used."""
    views[key] = latest
    weight = sum(one.weight for one in views.values())
    while len(views) > 1 and (len(views) > _VIEWS or weight > _WEIGHT):
        weight -= views.pop(next(iter(views))).weight


class ScopedPeer:
    """A peer that shows and accepts only some namespaces of its store.

    Other grains look missing to the other side. It shows no tombstones, since they do not name
    their namespace, and no sealed grains that this store cannot open.
    """

    remote: Final = False

    def __init__(self, inner: LocalPeer, store: GrainStore, namespaces: Iterable[str]) -> None:
        self._inner = inner
        self._storage = context_of(store).storage
        self._scope = NamespaceScope(namespaces)

    def hello(self, hello: Hello) -> Greeting:
        """As ``Peer.hello``, with the number of grains in scope; the feed is the whole store's."""
        greeting = self._inner.hello(self._within(hello))
        count = self._inner.count(hello)
        return replace(greeting, grains=count, keys=b"", tombstones=b"", followed=b"")

    def tombstones(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        return ()

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        return self._inner.changes(since, self._within(hello), size)

    def reconcile(
        self,
        space: Space,
        message: bytes,
        hello: Hello,
        initiator: bool = False,
        limit: int = FRAME,
    ) -> Reconciled:
        """As ``Peer.reconcile``; the peer compares no tombstones."""
        if space == "tombstones":
            raise UnsupportedError("a peer of some namespaces shows no tombstones")
        return self._inner.reconcile(space, message, self._within(hello), initiator, limit)

    def missing(self, addresses: Sequence[bytes]) -> bytes:
        """As ``Peer.missing``; a grain out of scope gets LACKS."""
        outside = self._outside(addresses)
        answers = self._inner.missing(addresses)
        return bytes(LACKS if i in outside else one for i, one in enumerate(answers))

    def get(self, kind: Kind, keys: Sequence[bytes], hello: Hello) -> Batch:
        keys = () if kind == "tombstones" else keys
        return self._inner.get(kind, keys, self._within(hello))

    def put(self, batch: Batch) -> BatchResult:
        """As ``Peer.put``; grains out of scope are refused one by one.

        States of grains out of scope are skipped silently, as those of missing grains.
        """
        self._within(Hello(batch.store, batch.namespaces))
        if batch.tombstones:
            raise UnsupportedError("a peer of some namespaces cannot erase")
        with self._storage.read() as reader:
            within = [self._accepts(reader, grain) for grain in batch.grains]
        code = UnsupportedError.code
        outside = compress(digests(batch.grains), (not good for good in within))
        refused = [Refusal("grain", digest, code, _RULE) for digest in outside]
        done = self._inner.put(
            replace(
                batch,
                grains=tuple(compress(batch.grains, within)),
                states=self._states_within(batch.states),
                followed=b"",
            )
        )
        return replace(done, refused=(*done.refused, *refused))

    def close(self) -> None:
        self._inner.close()

    def _states_within(self, states: Sequence[GrainState]) -> tuple[GrainState, ...]:
        """Return the states of grains in scope, without successors out of scope."""
        named = dict.fromkeys(
            one for state in states for one in (state.address, *state.successors)
        )
        keys = list(named)
        hidden = {keys[i] for i in self._outside(keys)}
        return tuple(
            replace(state, successors=tuple(one for one in state.successors if one not in hidden))
            for state in states
            if state.address not in hidden
        )

    def _accepts(self, reader: Reader, grain: bytes) -> bool:
        try:
            blob = blob_of(grain)
            return len(blob) > 1 and self._scope.takes(reader, 0, blob)
        except StoreError:
            raise
        except OmsError:
            return True  # `put` refuses a broken grain with a better reason

    def _within(self, hello: Hello) -> Hello:
        """Refuse namespaces that are not in scope."""
        asked = hello.namespaces
        if asked is None or not all(map(self._scope.has, asked)):
            expected = ", ".join(self._scope.namespaces or ())
            raise UnsupportedError("this namespace is not open to the token", expected=expected)
        return hello

    def _outside(self, keys: Sequence[bytes]) -> set[int]:
        """Return the positions of the keys whose grains are here and out of scope."""
        found = set()
        with self._storage.read() as reader:
            for i, seq in enumerate(reader.raw.find(list(keys))):
                blob = None if seq is None else reader.blob_at(seq)
                if seq is not None and blob and not self._scope.takes(reader, seq, blob):
                    found.add(i)
        return found
