# SPDX-License-Identifier: Apache-2.0
"""The process: it bridges until SIGTERM or SIGINT, and ends with nothing half done."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from omsgrain.bridge.bridge import Bridge, BridgeCounts, BridgeLimits
from omsgrain.bridge.dead_letters import DeadLetterDirectory, DeadLetters, Topic
from omsgrain.bridge.feed import Feed
from omsgrain.bridge.transport import MessageSource, Sink
from omsgrain.server.log import Log
from omsgrain.store import GrainStore


class BrokerConnection(MessageSource, Sink, Protocol):
    """A broker, for both ways."""


class BridgePlan(NamedTuple):
    """What a bridge is to do.

    Attributes:
        letters: the topic or subject, or the directory, for what is refused.
        publish: the topic or subject for changes; None: they are not published.
        follower: under which name the position of these is kept.
        reads: whether it takes messages at all.
        limits: how much at once.
        every: seconds between two reports.
    """

    letters: str | Path
    publish: str | None
    follower: str
    reads: bool
    limits: BridgeLimits
    every: float


def run(
    store: GrainStore,
    connect: Callable[[], BrokerConnection],
    plan: BridgePlan,
    log: Log,
    report: Callable[[dict[str, Any]], None],
) -> None:
    """Bridge until SIGTERM or SIGINT; the connection and the store are closed then."""
    stop, counts = threading.Event(), BridgeCounts()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}

    def told_to_stop(number: int, frame: object) -> None:
        stop.set()
        signal.signal(number, before[signal.Signals(number)])  # a second one ends it now

    for number in before:
        signal.signal(number, told_to_stop)
    try:
        with store:
            letters = DeadLetterDirectory(plan.letters) if isinstance(plan.letters, Path) else None
            connection = connect()
            try:
                _bridge(
                    store,
                    connection,
                    letters,
                    plan,
                    log,
                    stop,
                    counts,
                    _reports(counts, plan, report),
                )
            finally:
                connection.close()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        report(counts.to_dict())
        log.write("stopped")


def _bridge(
    store: GrainStore,
    connection: BrokerConnection,
    letters: DeadLetters | None,
    plan: BridgePlan,
    log: Log,
    stop: threading.Event,
    counts: BridgeCounts,
    told: Callable[[], None],
) -> None:
    feed, over = None, threading.Event()
    if plan.publish is not None:
        # It ends after the bridge, whose last batch is still to be published.
        feeding = Feed(
            store, connection, plan.publish, plan.follower, log=log, stop=over, counts=counts
        )
        feed = _Feeding(feeding, stop)
    try:
        if plan.reads:
            aside = letters or Topic(connection, str(plan.letters))

            def after() -> None:
                if feed is not None:
                    feed.feed.wake()
                told()

            Bridge(
                store,
                connection,
                aside,
                log=log,
                stop=stop,
                limits=plan.limits,
                counts=counts,
                told=after,
            ).run()
        else:
            while not stop.wait(plan.limits.idle):
                connection.fetch(1, 0)  # says what the broker refuses for good
                told()
    finally:
        over.set()
        if feed is not None:
            feed.end()


class _Feeding:
    """A feed in a thread of its own; what ends it ends the bridge."""

    def __init__(self, feed: Feed, stop: threading.Event) -> None:
        self.feed = feed
        self._stop = stop
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="feed")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.feed.run()
        except BaseException as error:
            self._error = error
        finally:
            self._stop.set()

    def end(self) -> None:
        """Wait until all is published, and raise what went wrong."""
        self.feed.wake()
        self._thread.join()
        if self._error is not None:
            raise self._error


def _reports(
    counts: BridgeCounts, plan: BridgePlan, report: Callable[[dict[str, Any]], None]
) -> Callable[[], None]:
    """A function that reports when it is time to."""
    next_at = time.monotonic() + plan.every

    def told() -> None:
        nonlocal next_at
        if (now := time.monotonic()) >= next_at:
            next_at = now + plan.every
            report(counts.to_dict())

    return told
