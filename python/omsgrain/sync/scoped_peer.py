# SPDX-License-Identifier: Apache-2.0
"""A peer that shows some namespaces of its store, and takes grains of these alone.

What lies outside is answered for as if it were not there. There are no tombstones to be seen,
since they do not say where they belong, and no sealed grains that cannot be opened here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import compress
from typing import TYPE_CHECKING, Final

from omsgrain.container.read import blob_of
from omsgrain.errors import OmsError, StoreError, UnsupportedError
from omsgrain.storage.base import Reader
from omsgrain.store.context import context_of
from omsgrain.sync.parts import NamespaceScope, digests
from omsgrain.sync.peer import (
    HAS,
    LACKS,
    SIZE,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    Peer,
    Position,
    Range,
    Refusal,
    Space,
    SyncItem,
)

if TYPE_CHECKING:
    from omsgrain.store import GrainStore

_FAMILY: Final = ":*"
_RULE: Final = "namespace"
_EMPTY: Final = Range(0, b"")


class BoundPeer:
    """A peer within some namespaces."""

    def __init__(self, inner: Peer, store: GrainStore, namespaces: Iterable[str]) -> None:
        self._inner = inner
        self._store = store
        self._scope = NamespaceScope(namespaces)
        self._open = self._scope.namespaces or ()

    def greet(self, hello: Hello) -> Greeting:
        """As ``Peer.greet``; only what is within is counted. The feed is that of all there is."""
        told = self._inner.greet(self._within(hello))
        count = self._inner.ranges("grains", [""], hello)[0].count
        return replace(told, grains=count, keys=b"", tombstones=b"", followed=b"")

    def share(self, keys: Sequence[bytes]) -> tuple[bytes, ...]:
        """Share nothing."""
        return ()

    def changes(self, since: Position, hello: Hello, size: int = SIZE) -> Batch:
        """As ``Peer.changes``."""
        return self._inner.changes(since, self._within(hello), size)

    def ranges(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[Range, ...]:
        """As ``Peer.ranges``."""
        if space == "tombstones":
            return (_EMPTY,) * len(prefixes)
        return self._inner.ranges(space, prefixes, self._within(hello))

    def listing(self, space: Space, prefixes: Sequence[str], hello: Hello) -> tuple[SyncItem, ...]:
        """As ``Peer.listing``."""
        if space == "tombstones":
            return ()
        return self._inner.listing(space, prefixes, self._within(hello))

    def lacking(self, space: Space, items: Sequence[SyncItem]) -> bytes:
        """As ``Peer.lacking``; nothing is wanted of what lies outside, and it is not there."""
        if space == "tombstones":
            return bytes([HAS]) * len(items)
        outside = self._outside([item.key for item in items])
        answers = self._inner.lacking(space, items)
        hidden = LACKS if space == "grains" else HAS
        return bytes(hidden if i in outside else one for i, one in enumerate(answers))

    def give(self, space: Space, keys: Sequence[bytes], hello: Hello) -> Batch:
        """As ``Peer.give``."""
        keys = () if space == "tombstones" else keys
        return self._inner.give(space, keys, self._within(hello))

    def take(self, batch: Batch) -> BatchResult:
        """As ``Peer.take``; grains of other namespaces are refused, one by one.

        What is told of grains that lie outside says nothing, as of those that are not there.
        """
        self._within(Hello(batch.store, batch.namespaces))
        if batch.tombstones:
            raise UnsupportedError("who may see some namespaces erases nothing")
        with context_of(self._store).storage.read() as reader:
            within = [self._takes(reader, grain) for grain in batch.grains]
        code = UnsupportedError.code
        outside = compress(digests(batch.grains), (not good for good in within))
        refused = [Refusal("grain", digest, code, _RULE) for digest in outside]
        taken = self._inner.take(
            replace(
                batch,
                grains=tuple(compress(batch.grains, within)),
                states=self._told(batch.states),
                followed=b"",
            )
        )
        return replace(taken, refused=(*taken.refused, *refused))

    def _told(self, states: Sequence[GrainState]) -> tuple[GrainState, ...]:
        """States without those of grains that lie outside, and without such successors."""
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

    def _takes(self, reader: Reader, grain: bytes) -> bool:
        """Whether a grain that comes is of an open namespace."""
        try:
            blob = blob_of(grain)
            return len(blob) > 1 and self._scope.takes(reader, 0, blob)
        except StoreError:
            raise
        except OmsError:
            return True  # it is no grain, which is refused for a better reason

    def close(self) -> None:
        """As ``Peer.close``."""
        self._inner.close()

    def _names(self) -> str:
        return ", ".join(self._open)

    def _within(self, hello: Hello) -> Hello:
        """See that somebody asks for nothing but what is open."""
        asked = hello.namespaces
        if asked is None or not all(map(self._opens, asked)):
            raise UnsupportedError("only some namespaces are open", expected=self._names())
        return hello

    def _opens(self, name: str) -> bool:
        families = (one[:-1] for one in self._open if one.endswith(_FAMILY))
        return name in self._open or any(map(name.startswith, families))

    def _outside(self, keys: Sequence[bytes]) -> set[int]:
        """Which grains are here and not open, by position."""
        found = set()
        with context_of(self._store).storage.read() as reader:
            below = getattr(reader, "inner", reader)
            for i, seq in enumerate(below.find(list(keys))):
                blob = None if seq is None else reader.blob_at(seq)
                if seq is not None and blob and not self._scope.takes(reader, seq, blob):
                    found.add(i)
        return found
