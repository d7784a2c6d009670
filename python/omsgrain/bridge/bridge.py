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

import ssl
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from omsgrain.bridge.dead_letters import Aside, DeadLetters
from omsgrain.bridge.transport import BrokerError, Message, MessageSource, Unreachable
from omsgrain.errors import OmsError, SchemaError, StoreError, UnsupportedError
from omsgrain.server.log import Log
from omsgrain.store import GrainStore
from omsgrain.store.take_messages import MESSAGE, take
from omsgrain.sync.http import is_loopback


@dataclass(slots=True)
class BridgeCounts:
    """What a bridge has done since it began.

    Attributes:
        messages: taken from the broker.
        again: of these, delivered before.
        bytes: of the messages.
        stored: grains that were new.
        duplicates: grains that were there already.
        warnings: grains that are allowed but look like a mistake.
        refused: messages set aside, whole or in part.
        acknowledged: messages settled.
        commits: batches.
        retries: times that something was tried again.
        published: changes told.
        commit_seconds: spent in the store.
        gather_seconds: spent waiting for messages.
        settle_seconds: spent setting aside and acknowledging.
    """

    messages: int = 0
    again: int = 0
    bytes: int = 0
    stored: int = 0
    duplicates: int = 0
    warnings: int = 0
    refused: int = 0
    acknowledged: int = 0
    commits: int = 0
    retries: int = 0
    published: int = 0
    commit_seconds: float = 0.0
    gather_seconds: float = 0.0
    settle_seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """The counts as JSON-ready values."""
        values = asdict(self)
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in values.items()}


T = TypeVar("T")

_FIRST, _LONGEST = 0.1, 30.0  # seconds between two tries


@dataclass(frozen=True, slots=True)
class BridgeLimits:
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
    """Takes messages from a source into a store until it is told to stop."""

    def __init__(
        self,
        store: GrainStore,
        source: MessageSource,
        letters: DeadLetters,
        *,
        log: Log,
        stop: threading.Event,
        limits: BridgeLimits | None = None,
        counts: BridgeCounts | None = None,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._source = source
        self._letters = letters
        self._log = log
        self._stop = stop
        self._limits = limits or BridgeLimits()
        self.counts = counts or BridgeCounts()
        self._told = told
        self._ready: deque[Message] = deque()  # fetched, and for the next batch

    def run(self) -> None:
        """Take messages until ``stop`` is set; what is held then is stored and acknowledged."""
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
    """Do something, again and again where it fails for a reason that may pass."""
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


_SCHEMES = {
    "mqtt": (1883, False),
    "mqtts": (8883, True),
    "nats": (4222, False),
    "tls": (4222, True),
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks. What is secret is in no repr.

    Attributes:
        user: name.
        password: with it, or a token of NATS without a name.
        file: credentials of NATS: a JWT and its key.
        authority: certificates that the broker's must be signed by, PEM; those of the system if
            none.
        certificate: our own, PEM.
        key: its private key, PEM.
    """

    user: str | None = None
    password: str | None = field(default=None, repr=False)
    file: Path | None = None
    authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker and how it is reached.

    Attributes:
        scheme: ``mqtt``, ``mqtts``, ``nats`` or ``tls`` (NATS over TLS).
        host: its name or address.
        port: where it listens.
        credentials: who asks.
    """

    scheme: str
    host: str
    port: int
    credentials: Credentials = field(default_factory=Credentials)

    @property
    def tls(self) -> bool:
        """Whether nobody between can read along."""
        return _SCHEMES[self.scheme][1]

    @property
    def name(self) -> str:
        """The broker as text, without who asks."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """What TLS goes by; None without TLS."""
        if not self.tls:
            return None
        own = self.credentials
        context = ssl.create_default_context(cafile=own.authority)
        if own.certificate is not None:
            context.load_cert_chain(own.certificate, own.key)
        return context


def broker(
    url: str, schemes: tuple[str, ...], credentials: Credentials, *, in_clear: bool = False
) -> Broker:
    """Read the URL of a broker."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SchemaError("not the URL of a broker", field="/url") from None
    if parts.username is not None or parts.password is not None:
        raise SchemaError("a name or password in the URL of a broker", field="/url")
    more = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in schemes or not parts.hostname or port == 0 or more:
        text = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
        raise SchemaError("not the URL of a broker", field="/url", expected=text)
    usual, _ = _SCHEMES[parts.scheme]
    found = Broker(parts.scheme, parts.hostname, port or usual, credentials)
    secret = credentials.password is not None
    if secret and not (found.tls or in_clear or is_loopback(found.host)):
        raise UnsupportedError(
            "the password would go over the network in the clear",
            expected=f"{schemes[-1]}://, or --plain-password",
        )
    if not found.tls and (credentials.authority or credentials.certificate):
        raise SchemaError("certificates go with TLS", field="/url", expected=f"{schemes[-1]}://")
    if (credentials.certificate is None) != (credentials.key is None):
        raise SchemaError("a certificate goes with its key", field="/tls")
    return found
