# SPDX-License-Identifier: Apache-2.0
"""A broker in memory: it delivers again what was not settled; only so much may be in flight."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import Any

from omsgrain.bridge.bridge import Bridge, BridgeLimits
from omsgrain.bridge.broker import DeadLetters, Letter, Message, Topic, Unreachable
from omsgrain.server.log import Log
from omsgrain.store import GrainStore

#: Nobody waits: what has not come when it is asked for does not come.
LIMITS = BridgeLimits(count=4, age=60.0, lull=0.0, idle=0.0)


class Killed(BaseException):
    """An exception that omsgrain does not catch: the process is gone."""


class Broker:
    """A broker in memory that keeps every published message."""

    def __init__(self, messages: Sequence[bytes], origin: str = "robots/7/memory") -> None:
        self.waiting = deque((n, False) for n in range(len(messages)))
        self.messages = list(messages)
        self.origin = origin
        self.settled: list[int] = []
        self.published: dict[str, list[Letter]] = {}


class Session:
    """A connection to the broker: a source and a sink.

    Args:
        broker: what was not settled over an earlier connection comes again, first.
        in_flight: messages that may be delivered and not settled.
        empty: called when nothing is left to be delivered.
    """

    def __init__(
        self, broker: Broker, in_flight: int = 8, empty: Callable[[], None] = lambda: None
    ) -> None:
        self.broker = broker
        self.unsettled: dict[int, Message] = {}
        self.most = 0
        self.failures = 0
        self.held = 0
        self.given_back: list[int] = []
        self.closed = False
        self.before_settle: Callable[[Sequence[Message]], None] = lambda messages: None
        self.refused: list[int] = []
        self._in_flight = in_flight
        self._empty = empty

    def fetch(self, most: int, wait: float) -> list[Message]:
        found: list[Message] = []
        while self.broker.waiting and len(self.unsettled) < self._in_flight and len(found) < most:
            number, again = self.broker.waiting.popleft()
            message = Message(self.broker.messages[number], self.broker.origin, again, number)
            self.unsettled[number] = message
            found.append(message)
        self.most = max(self.most, len(self.unsettled))
        if not found and not self.broker.waiting:
            self._empty()
        return found

    def settle(self, messages: Sequence[Message], refused: Collection[int]) -> None:
        self.before_settle(messages)
        for i, message in enumerate(messages):
            if i in refused:
                self.refused.append(message.token)
            del self.unsettled[message.token]
            self.broker.settled.append(message.token)

    def hold(self, messages: Sequence[Message]) -> None:
        self.held += 1

    def give_back(self, messages: Sequence[Message]) -> None:
        self.given_back += [message.token for message in messages]

    def close(self) -> None:
        """Leave; so does a process that is killed."""
        self.closed = True
        self.broker.waiting.extendleft((n, True) for n in sorted(self.unsettled, reverse=True))
        self.unsettled.clear()

    def publish(self, name: str, letters: Sequence[Letter]) -> None:
        if self.failures:
            self.failures -= 1
            raise Unreachable("not connected")
        self.broker.published.setdefault(name, []).extend(letters)


class Run:
    """One life of a bridge, until the broker has nothing more for it."""

    def __init__(self, store: GrainStore, broker: Broker, **more: Any) -> None:
        self.stop = threading.Event()
        self.said = io.StringIO()
        self.session = Session(broker, more.pop("in_flight", 8), self.stop.set)
        letters: DeadLetters = more.pop("letters", None) or Topic(self.session, "refused")
        self.bridge = Bridge(
            store,
            self.session,
            letters,
            log=Log("json", self.said),
            stop=self.stop,
            limits=more.pop("limits", LIMITS),
            **more,
        )

    def __call__(self) -> Bridge:
        try:
            self.bridge.run()
        finally:
            self.session.close()
        return self.bridge
