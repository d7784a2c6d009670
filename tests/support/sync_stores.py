# SPDX-License-Identifier: Apache-2.0
"""Stores that are brought together, and peers that count, or break off."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import omsgrain as og
from omsgrain.storage.memory import MemoryStorage
from omsgrain.store.context import Settings, context_of
from omsgrain.sync import LocalPeer, SyncReport, sync
from omsgrain.sync.peer import GrainState
from omsgrain.sync.protocol import pack_value
from omsgrain.sync.states import reported_state

TIME = 1_700_000_000_000
CALLS = ("hello", "tombstones", "changes", "reconcile", "missing", "get", "put")


class Cut(Exception):
    """The network, or the power, is gone."""

    @classmethod
    def of(cls, *_: object) -> None:
        """Break off, whatever was to be done."""
        raise cls


class Watched:
    """A peer whose bytes are counted as they would cross, and that can break off.

    Args:
        inner: the peer.
        calls: after so many it breaks off; None: never.
        late: the last call is done, and its answer lost.
    """

    def __init__(self, inner: Any, calls: int | None = None, *, late: bool = False) -> None:
        self._inner, self._left, self._late = inner, calls, late
        self.bytes = self.calls = 0

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._inner, name)
        if name not in CALLS:
            return call

        def watched(*given: Any) -> Any:
            self.calls += 1
            if self._left is not None:
                self._left -= 1
                if self._left < 0:
                    if self._late:
                        call(*given)
                    raise Cut
            answer = call(*given)
            self.bytes += len(pack_value(given)) + len(pack_value(answer))
            return answer

        return watched


class Clock:
    """A time that goes on a second at each look."""

    def __init__(self) -> None:
        self.now = TIME

    def __call__(self) -> int:
        self.now += 1_000
        return self.now


def memory(**settings: Any) -> og.GrainStore:
    return og.GrainStore(MemoryStorage(), Settings(clock=Clock(), **settings))


def belief(what: str, at: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": "lamp",
        "relation": "is",
        "object": what,
        "confidence": 0.5,
        "created_at": TIME + at,
        **fields,
    }


def together(left: og.GrainStore, right: og.GrainStore, **options: Any) -> SyncReport:
    return sync(LocalPeer(left), LocalPeer(right), **options)


def addresses(store: og.GrainStore) -> set[str]:
    """The addresses of its grains, sealed or not."""
    with context_of(store).storage.read() as reader:
        return {og.address(blob) for _, blob in reader.page(0, 1 << 30, 1 << 40)}


def told(store: og.GrainStore) -> dict[str, GrainState]:
    """The states that it sends, by grain."""
    with context_of(store).storage.read() as reader:
        found = {}
        for seq, blob in reader.page(0, 1 << 30, 1 << 40):
            address = og.address(blob)
            state = reported_state(reader, seq, bytes.fromhex(address))
            if state is not None:
                found[address] = state
        return found


def heads(store: og.GrainStore) -> list[str]:
    """The current grains, in the order of queries."""
    return list(_walk(store))


def _walk(store: og.GrainStore) -> Iterator[str]:
    cursor = None
    while True:
        page = store.query(subject="lamp", limit=100, cursor=cursor)
        yield from (hit.address for hit in page.results)
        cursor = page.next_cursor
        if cursor is None:
            return


def settle(stores: Iterable[og.GrainStore], rounds: int = 12, *, full: bool = True) -> int:
    """Sync each with each until nothing changes; how many rounds.

    Args:
        stores: which.
        rounds: how many it may take.
        full: compare everything, so that what was refused is offered again.
    """
    every = list(stores)
    for done in range(1, rounds + 1):
        changed = False
        for i, left in enumerate(every):
            for right in every[i + 1 :]:
                changed |= together(left, right, full=full).changed
        if not changed:
            return done
    raise AssertionError("the stores do not come to rest")
