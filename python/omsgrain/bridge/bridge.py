# SPDX-License-Identifier: Apache-2.0
"""The bridge: messages of a broker into a store, and changes of the store to the broker.

    source (bounded) --> batch (count, bytes, age) --> one commit --> dead letters --> acknowledge

One thread takes these steps in this order, so a message is acknowledged only once it is durable,
in the store or among the dead letters. If the bridge ends in between, the broker delivers the
unacknowledged messages again; stored grains stay as they are. If the store or the dead letters
cannot be written, the bridge retries at growing intervals and acknowledges nothing. Then the
source is full, and the broker keeps the rest.

Changes are published at least once and in order. The position, kept in the store, advances when
the broker has confirmed. The content of grains is never published.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from omsgrain.bridge.broker import (
    Aside,
    BrokerConnection,
    BrokerError,
    DeadLetterDirectory,
    DeadLetters,
    Letter,
    Message,
    MessageSource,
    Sink,
    Topic,
    Unreachable,
)
from omsgrain.bridge.metrics import metrics_served, metrics_text
from omsgrain.errors import OmsError, StoreError
from omsgrain.server import systemd
from omsgrain.server.log import Log
from omsgrain.store import GrainStore
from omsgrain.store.read import Change
from omsgrain.store.take_messages import MESSAGE, take

T = TypeVar("T")
_FIRST, _LONGEST = 0.1, 30.0  # seconds between two tries
BATCH = 1_000  # changes that are published before the position advances


def _count(help: str, zero: Any = 0) -> Any:
    """Make a field of counts, with its text at /metrics."""
    return field(default=zero, metadata={"help": help})


@dataclass(slots=True)
class BridgeCounts:
    """Counts of a bridge since its start."""

    messages: int = _count("Messages from the broker.")
    again: int = _count("Messages that were delivered before.")
    bytes: int = _count("Bytes of messages.")
    stored: int = _count("New grains.")
    duplicates: int = _count("Grains that the store had.")
    warnings: int = _count("Warnings about grains.")
    refused: int = _count("Messages that were refused, whole or in part.")
    acknowledged: int = _count("Messages that were acknowledged.")
    commits: int = _count("Batches that were stored.")
    retries: int = _count("Tries after an error.")
    published: int = _count("Changes that were published.")
    commit_seconds: float = _count("Seconds in the store.", 0.0)
    gather_seconds: float = _count("Seconds of waiting for messages.", 0.0)
    settle_seconds: float = _count("Seconds for dead letters and acknowledgements.", 0.0)

    def to_dict(self) -> dict[str, Any]:
        values = asdict(self)
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in values.items()}


@dataclass(frozen=True, slots=True)
class BridgeLimits:
    count: int = 1_000  # messages of a batch
    bytes: int = 8 << 20  # bytes of the messages of a batch, unless it has only one
    age: float = 0.25  # seconds that the first message of a batch may wait for others
    # seconds without a message that end a batch. A broker with few messages in flight sends no
    # more until these are acknowledged
    lull: float = 0.005
    idle: float = 0.25  # seconds to wait for the first message
    message: int = MESSAGE  # the most bytes of a message


@dataclass(eq=False)
class Bridge:
    """Moves messages from a source into a store."""

    store: GrainStore
    source: MessageSource
    letters: DeadLetters
    log: Log
    stop: threading.Event
    limits: BridgeLimits = field(default_factory=BridgeLimits)
    counts: BridgeCounts = field(default_factory=BridgeCounts)
    _ready: deque[Message] = field(default_factory=deque)  # fetched for the next batch

    def run(self, after: Callable[[], None] = lambda: None) -> None:
        """Move messages until ``stop`` is set, then those already fetched."""
        while not self.stop.is_set():
            messages = self._gather(self.limits.idle)
            if messages and not self._deal_with(messages):
                break
            after()
        else:
            # Only messages that have arrived; later ones are for the next bridge.
            self._ready.extend(self.source.fetch(self.limits.count, 0))
            while self._ready and self._deal_with(self._gather(0)):
                pass
        after()

    def _gather(self, idle: float) -> list[Message]:
        """Return the next batch; empty if no message arrives."""
        limits, ready, start = self.limits, self._ready, time.monotonic()
        held: list[Message] = []
        size, first = 0, start
        while len(held) < limits.count:
            if not ready:
                left = first + limits.age - time.monotonic()
                if held and (left <= 0 or self.stop.is_set()):
                    break
                if held:
                    # Waking up for each message would cost more than the message.
                    time.sleep(min(left, limits.lull))
                ready.extend(self.source.fetch(limits.count - len(held), 0 if held else idle))
                if not ready:
                    break
            if not held:
                first = time.monotonic()
            elif size + len(ready[0].data) > limits.bytes:
                break
            held.append(ready.popleft())
            size += len(held[-1].data)
        self.counts.gather_seconds += time.monotonic() - start
        self.counts.messages += len(held)
        self.counts.again += sum(one.again for one in held)
        self.counts.bytes += size
        return held

    def _deal_with(self, messages: list[Message]) -> bool:
        """Commit, write dead letters, acknowledge; False if it was stopped before the end."""
        counts, start = self.counts, time.monotonic()
        taken = self._insist(
            "commit",
            lambda: take(self.store, [one.data for one in messages], most=self.limits.message),
            messages,
        )
        if taken is None:
            return False
        done = time.monotonic()
        counts.commits += 1
        counts.commit_seconds += done - start
        counts.stored += taken.stored
        counts.duplicates += taken.duplicates
        counts.warnings += taken.warnings
        if refused := taken.refused:
            aside = [Aside(messages[i], refused[i]) for i in sorted(refused)]
            if not self._insist("dead_letter", lambda: self._set_aside(aside), messages):
                return False
            counts.refused += len(aside)
        self.source.settle(messages, refused.keys())
        counts.acknowledged += len(messages)
        counts.settle_seconds += time.monotonic() - done
        return True

    def _set_aside(self, aside: Sequence[Aside]) -> bool:
        self.letters.write(aside)
        return True

    def _insist(self, what: str, work: Callable[[], T], messages: Sequence[Message]) -> T | None:
        """Retry something until it succeeds; None if it was stopped before."""

        def again() -> None:
            self.counts.retries += 1
            self.source.hold([*messages, *self._ready])

        done: T | None = None
        try:
            done = insist(what, work, self.log, self.stop, again)
        finally:
            if done is None:  # it was stopped, or failed for good
                self.source.give_back([*messages, *self._ready])
                self._ready.clear()
        return done


def insist(
    what: str,
    work: Callable[[], T],
    log: Log,
    stop: threading.Event,
    again: Callable[[], None] = lambda: None,
) -> T | None:
    """Do something; retry after errors that may pass. None if it was stopped."""
    wait = _FIRST
    while True:
        try:
            return work()
        except BrokerError:
            raise
        except (StoreError, OSError, Unreachable) as error:
            log.write(f"{what}_failed", again_in=round(wait, 1), **_reason(error))
        if stop.wait(wait):
            return None
        again()
        wait = min(wait * 2, _LONGEST)


def _reason(error: Exception) -> dict[str, Any]:
    """Return why something failed, without file names and content."""
    if isinstance(error, OmsError):
        return {"code": error.code, "reason": error.found}
    if isinstance(error, OSError):
        return {"code": "OS", "reason": error.strerror}
    return {"code": "UNREACHABLE", "reason": str(error)}


def letter(change: Change) -> Letter:
    values: dict[str, Any] = {"seq": change.seq, "kind": change.kind, "address": change.address}
    if change.removed:
        values["removed"] = change.removed
    return Letter(json.dumps(values, separators=(",", ":")).encode())


def follower(broker: str, name: str) -> str:
    """Return the name of the position of a broker's topic."""
    return "bridge:" + sha256(f"{broker}\n{name}".encode()).hexdigest()[:32]


@dataclass(eq=False)
class Feed:
    """Publishes the changes of a store until ``stop`` is set."""

    store: GrainStore
    sink: Sink
    name: str  # the topic or subject
    follower: str  # the name under which the store keeps the position
    log: Log  # gets failures
    stop: threading.Event  # ends it, after all changes are published
    counts: BridgeCounts
    every: float = 0.5  # seconds between two checks, unless it is woken
    _wake: threading.Event = field(default_factory=threading.Event)

    def wake(self) -> None:
        self._wake.set()

    def run(self) -> None:
        """Publish until ``stop`` is set, then the rest."""
        position = self.store.consumers.position(self.follower)
        while True:
            last = self.stop.is_set()
            while (now := self._publish(position)) is not None and now > position:
                position = now
            if last or now is None:
                return
            self._wake.wait(self.every)
            self._wake.clear()

    def _publish(self, position: int) -> int | None:
        """Publish the next changes; return the new position, or None if it must stop."""
        changes = list(islice(self.store.changes(position), BATCH))
        if not changes:
            return position
        last = changes[-1].seq

        def work() -> int:
            self.sink.publish(self.name, [letter(change) for change in changes])
            self.store.consumers.set_position(self.follower, last)
            return last

        done = insist("publish", work, self.log, self.stop, self._retry)
        if done is not None:
            self.counts.published += len(changes)
        return done

    def _retry(self) -> None:
        self.counts.retries += 1


class BridgePlan(NamedTuple):
    letters: str | Path  # the topic or subject, or the directory, for refused messages
    publish: str | None  # the topic or subject for changes; None: do not publish them
    follower: str  # the name under which the store keeps the position of these
    reads: bool  # whether it reads messages
    limits: BridgeLimits
    every: float  # seconds between two reports
    metrics: int | None = None  # the port of /metrics; None: there is none


def run(
    store: GrainStore,
    connect: Callable[[], BrokerConnection],
    plan: BridgePlan,
    log: Log,
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Bridge until SIGTERM or SIGINT, then close the connection and the store."""
    stop, counts = threading.Event(), BridgeCounts()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def end(number: int, frame: object) -> None:
        systemd.notify(systemd.STOPPING)
        stop.set()
        signal.signal(number, before[signal.Signals(number)])  # a second signal kills it

    for number in before:
        signal.signal(number, end)
    try:
        with store, ExitStack() as running:
            letters: DeadLetters | None = None
            if isinstance(plan.letters, Path):
                letters = DeadLetterDirectory(plan.letters)
            connection = connect()
            running.callback(connection.close)
            feed: Feed | None = None
            if plan.publish is not None:
                over = threading.Event()
                feed = Feed(store, connection, plan.publish, plan.follower, log, over, counts)
                pool = running.enter_context(ThreadPoolExecutor(1, "feed"))
                ended = pool.submit(feed.run)
                ended.add_done_callback(lambda _: stop.set())  # an error ends the bridge too
                # The feed ends after the bridge: it still publishes the last batch.
                running.callback(ended.result)
                running.callback(feed.wake)
                running.callback(over.set)
            if plan.metrics is not None:
                text = partial(metrics_text, store, counts)
                port = running.enter_context(metrics_served(plan.metrics, text))
                log.write("metrics", port=port)
            tick = _reports(counts, plan, report)
            systemd.notify(systemd.READY)
            if plan.reads:

                def after() -> None:
                    if feed is not None:
                        feed.wake()
                    tick()

                aside = letters or Topic(connection, str(plan.letters))
                Bridge(store, connection, aside, log, stop, plan.limits, counts).run(after)
            else:
                while not stop.wait(plan.limits.idle):
                    connection.fetch(1, 0)  # raises if the broker refuses for good
                    tick()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        report(counts.to_dict())
        log.write("stopped")


def _reports(
    counts: BridgeCounts, plan: BridgePlan, report: Callable[[dict[str, Any]], None]
) -> Callable[[], None]:
    """Return a function that reports if it is time."""
    next_at = time.monotonic() + plan.every

    def tick() -> None:
        nonlocal next_at
        if (now := time.monotonic()) >= next_at:
            next_at = now + plan.every
            report(counts.to_dict())

    return tick
