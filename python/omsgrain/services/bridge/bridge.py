# SPDX-License-Identifier: Apache-2.0
"""The flow from a broker into a store: gather, commit, set aside what is refused, acknowledge.

In this order and by one thread, so that a message is acknowledged only when it is on the disk: in
the store, or where refused ones go. Whatever ends the bridge in between, the broker delivers again
what was not acknowledged, and grains that are stored already stay as they are.

    source (bounded) --> batch (count, bytes, age) --> one commit --> letters --> acknowledgement

While the store or the letters cannot be written, the bridge tries again, longer and longer apart;
nothing is acknowledged meanwhile, the source is full, and the broker keeps the rest.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from omsgrain.engine import GrainStore
from omsgrain.errors import OmsError, StoreError
from omsgrain.ops.taking import MESSAGE, take
from omsgrain.services.bridge.counts import Counts
from omsgrain.services.bridge.letters import Aside, Letters
from omsgrain.services.bridge.transport import BrokerError, Message, Source, Unreachable
from omsgrain.services.log import Log

__all__ = ["Bridge", "Limits", "insist"]

T = TypeVar("T")

_FIRST, _LONGEST = 0.1, 30.0  # seconds between two tries


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a bridge takes at once.

    Attributes:
        count: messages of a batch.
        bytes: of the messages of a batch, unless it has only one.
        age: seconds that the first message of a batch may wait for others.
        lull: seconds without a message that end a batch. A broker that lets only a few be in
            flight sends no more until these are acknowledged, and waiting for more is for nothing.
        idle: seconds to wait for the first message.
        message: bytes of a message; a larger one is refused.
    """

    count: int = 1_000
    bytes: int = 8 << 20
    age: float = 0.25
    lull: float = 0.005
    idle: float = 0.25
    message: int = MESSAGE


class Bridge:
    """Takes messages from a source into a store until it is told to stop.

    Args:
        store: where to.
        source: where from.
        letters: where refused messages go.
        log: what happens, without content.
        stop: set by whoever wants it to end.
        limits: how much it takes at once.
        counts: what it counts in.
        told: called after each batch, and now and then when there is none.
    """

    def __init__(
        self,
        store: GrainStore,
        source: Source,
        letters: Letters,
        *,
        log: Log,
        stop: threading.Event,
        limits: Limits | None = None,
        counts: Counts | None = None,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._source = source
        self._letters = letters
        self._log = log
        self._stop = stop
        self._limits = limits or Limits()
        self.counts = counts or Counts()
        self._told = told
        self._ready: deque[Message] = deque()  # fetched, and for the next batch

    def run(self) -> None:
        """Take messages until ``stop`` is set; what is held then is stored and acknowledged.

        Raises:
            OmsError: the broker refuses the bridge, or the store is damaged; what was not
                acknowledged stays with the broker.
        """
        while not self._stop.is_set():
            messages = self._gather(self._limits.idle)
            if messages and not self._deal_with(messages):
                break
            self._told()
        else:
            # What has come by now is dealt with; what comes for that is the next one's.
            self._ready.extend(self._source.fetch(self._limits.count, 0))
            while self._ready and self._deal_with(self._gather(0)):
                pass
        self._told()

    def _gather(self, idle: float) -> list[Message]:
        """The next batch; nothing if nothing comes."""
        limits, ready, start = self._limits, self._ready, time.monotonic()
        held: list[Message] = []
        size, first = 0, start
        while len(held) < limits.count:
            if not ready:
                left = first + limits.age - time.monotonic()
                if held and (left <= 0 or self._stop.is_set()):
                    break
                if held:
                    # To be woken by each message that comes would cost more than the message.
                    time.sleep(min(left, limits.lull))
                ready.extend(self._source.fetch(limits.count - len(held), 0 if held else idle))
                if not ready:
                    break
            if not held:
                first = time.monotonic()
            elif size + len(ready[0].data) > limits.bytes:
                break
            held.append(ready.popleft())
            size += len(held[-1].data)
        self.counts.gather_seconds += time.monotonic() - start
        self._met(held)
        return held

    def _met(self, messages: Sequence[Message]) -> None:
        self.counts.messages += len(messages)
        self.counts.again += sum(one.again for one in messages)
        self.counts.bytes += sum(len(one.data) for one in messages)

    def _deal_with(self, messages: list[Message]) -> bool:
        """Commit, set aside, acknowledge; False if it was told to stop before that was done."""
        counts, start = self.counts, time.monotonic()
        taken = self._insist(
            "commit",
            lambda: take(self._store, [one.data for one in messages], most=self._limits.message),
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
            if self._insist("dead_letter", lambda: self._set_aside(aside), messages) is None:
                return False
            counts.refused += len(aside)
        self._source.settle(messages, refused.keys())
        counts.acknowledged += len(messages)
        counts.settle_seconds += time.monotonic() - done
        return True

    def _set_aside(self, aside: Sequence[Aside]) -> bool:
        self._letters.write(aside)
        return True

    def _insist(self, what: str, work: Callable[[], T], messages: Sequence[Message]) -> T | None:
        """Do something until it is done; None if it was told to stop before that."""

        def again() -> None:
            self.counts.retries += 1
            self._source.hold([*messages, *self._ready])

        done: T | None = None
        try:
            done = insist(what, work, self._log, self._stop, again)
        finally:
            if done is None:  # it was told to stop, or cannot go on
                self._source.give_back([*messages, *self._ready])
                self._ready.clear()
        return done


def insist(
    what: str,
    work: Callable[[], T],
    log: Log,
    stop: threading.Event,
    again: Callable[[], None] = lambda: None,
) -> T | None:
    """Do something, again and again where it fails for a reason that may pass.

    Args:
        what: for the log.
        work: returns something that is not None.
        log: is told of each failure.
        stop: ends it.
        again: called before each further try.

    Returns:
        What the work returned; None if it was told to stop before it was done.

    Raises:
        BrokerError: the broker refuses for good.
        OmsError: what does not pass by itself.
    """
    for wait in _waits():
        try:
            return work()
        except BrokerError:
            raise
        except (StoreError, OSError, Unreachable) as error:
            log.write(f"{what}_failed", again_in=round(wait, 1), **_reason(error))
        if stop.wait(wait):
            return None
        again()
    return None


def _waits() -> Iterator[float]:
    wait = _FIRST
    while True:
        yield wait
        wait = min(wait * 2, _LONGEST)


def _reason(error: Exception) -> dict[str, Any]:
    """Why something failed, without names of files and without content."""
    if isinstance(error, OmsError):
        return {"code": error.code, "reason": error.found}
    if isinstance(error, OSError):
        return {"code": "OS", "reason": error.strerror}
    return {"code": "UNREACHABLE", "reason": str(error)}
