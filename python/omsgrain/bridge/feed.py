# SPDX-License-Identifier: Apache-2.0
"""What happens in the store, published: the address, the kind and the number of each change.

At least once, and in order: the position moves when the broker has confirmed, and is kept in the
store, so that it is restored with it. Of what a grain says nothing is published.
"""

from __future__ import annotations

import json
import threading
from hashlib import sha256
from itertools import islice

from omsgrain.bridge.bridge import BridgeCounts, insist
from omsgrain.bridge.transport import Letter, Sink
from omsgrain.server.log import Log
from omsgrain.store import GrainStore
from omsgrain.store.read import Change

BATCH = 1_000  # changes that are published before the position moves


def letter(change: Change) -> Letter:
    """A change as it is published."""
    told = {"seq": change.seq, "kind": change.kind, "address": change.address}
    return Letter(json.dumps(told, separators=(",", ":")).encode())


def follower(broker: str, name: str) -> str:
    """Under which name the position is kept: one for each broker and topic."""
    return "bridge:" + sha256(f"{broker}\n{name}".encode()).hexdigest()[:32]


class Feed:
    """Publishes the changes of a store until it is told to stop."""

    def __init__(
        self,
        store: GrainStore,
        sink: Sink,
        name: str,
        follower: str,
        *,
        log: Log,
        stop: threading.Event,
        counts: BridgeCounts,
        every: float = 0.5,
    ) -> None:
        self._store = store
        self._sink = sink
        self._name = name
        self._follower = follower
        self._log = log
        self._stop = stop
        self._counts = counts
        self._every = every
        self._wake = threading.Event()

    def wake(self) -> None:
        """Look for changes now."""
        self._wake.set()

    def run(self) -> None:
        """Publish until ``stop`` is set, and then what there is still to publish."""
        position = self._store.consumers.position(self._follower)
        while True:
            last = self._stop.is_set()
            while (now := self._publish(position)) is not None and now > position:
                position = now
            if last or now is None:
                return
            self._wake.wait(self._every)
            self._wake.clear()

    def _publish(self, position: int) -> int | None:
        """Publish the next changes; the new position, or None if it was told to stop."""
        changes = list(islice(self._store.changes(position), BATCH))
        if not changes:
            return position
        last = changes[-1].seq

        def work() -> int:
            self._sink.publish(self._name, [letter(change) for change in changes])
            self._store.consumers.set_position(self._follower, last)
            return last

        done = insist("publish", work, self._log, self._stop, self._again)
        if done is not None:
            self._counts.published += len(changes)
        return done

    def _again(self) -> None:
        self._counts.retries += 1
