# SPDX-License-Identifier: Apache-2.0
"""NATS JetStream, by nats-py: a durable pull consumer with explicit acknowledgements.

The server delivers at most ``in_flight`` unacknowledged messages (max_ack_pending), and the bridge
pulls no more than that: this is the back-pressure. Refused messages are terminated, so that the
server reports them. If a message cannot be stored now, the bridge lets the server deliver it
again.

nats-py works in an event loop, here in its own thread, and reconnects by itself.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from typing import Any, Final, TypeVar

import nats
from nats.aio.msg import Msg
from nats.errors import Error, MaxPayloadError
from nats.js.api import AckPolicy, ConsumerConfig
from nats.js.errors import APIError, NoStreamResponseError, NotFoundError

from omsgrain.bridge.broker import Broker, BrokerError, Inbox, Letter, Message, Unreachable, covers
from omsgrain.server.log import Log

T = TypeVar("T")

_POLL: Final = 0.25  # seconds of one pull
_PULL: Final = 500  # messages of one pull
_SILENT: Final = 100  # pulls without a message until the consumer is looked up again
_CONFIRM: Final = 10.0  # seconds that the server has to confirm
_TOGETHER: Final = 200  # letters that wait for confirmation at the same time
_RETRY: Final = 1.0  # seconds between two tries


class EventLoopThread:
    """An event loop in a thread, which runs coroutines for other threads."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._started: asyncio.Task[None] | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start a coroutine that runs until ``close``."""

        async def begin() -> None:
            self._started = asyncio.get_running_loop().create_task(work)

        self.do(begin())

    def do(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def close(self, last: Coroutine[Any, Any, None], timeout: float) -> None:
        """Cancel the started coroutine, run a last one, and end the thread."""

        async def end() -> None:
            if self._started is not None:
                self._started.cancel()
                with suppress(asyncio.CancelledError):
                    await self._started
            await last

        with suppress(Exception):  # it ends even if the server does not respond
            self.do(end(), timeout)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()


@dataclass(eq=False)
class Nats:
    """A connection to a server: a source of messages and a sink for others."""

    broker: Broker
    log: Log
    _: KW_ONLY
    stream: str | None = None
    durable: str = "omsgrain"
    subject: str | None = None
    in_flight: int = 2_000
    ack_wait: float = 30.0
    publishes: Sequence[str] = ()

    def __post_init__(self) -> None:
        self._held = 0  # delivered and not settled; only the loop uses it
        self._inbox = Inbox()
        self._connection: Any = None
        self._closed = False
        self._options = _options(self.broker) | {
            "error_cb": self._on_error,
            "disconnected_cb": self._on_disconnected,
            "reconnected_cb": self._on_reconnected,
        }
        self._room = asyncio.Event()
        self._loop = EventLoopThread("nats")
        self._loop.start(self._watched())

    def fetch(self, most: int, wait: float) -> list[Message]:
        return self._inbox.fetch(most, wait)

    def settle(self, messages: Sequence[Message], refused: Collection[int]) -> None:
        """Acknowledge messages, and terminate refused ones."""
        set_aside = frozenset(refused)

        async def say(i: int, message: Msg) -> None:
            await (message.term() if i in set_aside else message.ack())

        self._tell(messages, say, settled=True)

    def hold(self, messages: Sequence[Message]) -> None:
        """Tell the server that work on these continues: it restarts their ack wait."""
        self._tell(messages, lambda i, message: message.in_progress(), settled=False)

    def give_back(self, messages: Sequence[Message]) -> None:
        """Let the server deliver these to the next client that pulls."""
        self._tell(messages, lambda i, message: message.nak(), settled=True)

    def publish(self, name: str, letters: Sequence[Letter]) -> None:
        if self._inbox.fatal is not None:
            raise self._inbox.fatal
        try:
            self._loop.do(self._publish(name, letters))
        except NoStreamResponseError:
            if self._loop.do(self._takes(name)):  # a cluster without a leader for now
                raise Unreachable("no stream responds") from None
            raise BrokerError("no stream has the subject of --publish or --dead-letter") from None
        except MaxPayloadError:
            raise BrokerError(
                "the message is too large for the server",
                expected="a larger max_payload, or --dead-letter-dir",
            ) from None
        except (Error, OSError, asyncio.TimeoutError) as error:
            raise Unreachable(f"the server did not confirm: {type(error).__name__}") from None

    def close(self) -> None:
        """Return fetched messages to the server, and disconnect; the consumer stays."""
        if self._closed:
            return
        self._closed = True
        if left := self._inbox.clear():
            self.give_back(left)
        self._loop.close(self._disconnect(), _CONFIRM)

    def _tell(
        self,
        messages: Sequence[Message],
        say: Callable[[int, Msg], Awaitable[Any]],
        *,
        settled: bool,
    ) -> None:
        """Send an acknowledgement for each message; if it is lost, the server delivers again."""

        async def tell() -> None:
            try:
                for i, message in enumerate(messages):
                    await say(i, message.token)
                await self._connection.flush(_CONFIRM)
            except (Error, OSError, asyncio.TimeoutError) as error:
                self.log.write("not_heard", reason=type(error).__name__)
            finally:
                if settled:
                    self._held -= len(messages)
                    self._room.set()

        self._loop.do(tell())

    async def _publish(self, name: str, letters: Sequence[Letter]) -> None:
        if self._connection is None or not self._connection.is_connected:
            raise Error("not connected")
        stream = self._connection.jetstream()
        for start in range(0, len(letters), _TOGETHER):
            await asyncio.gather(
                *[
                    stream.publish(name, one.data, timeout=_CONFIRM, headers=_headers(one))
                    for one in letters[start : start + _TOGETHER]
                ]
            )

    async def _takes(self, name: str) -> bool:
        """Whether a stream has a subject; True if the server does not say."""
        try:
            await self._connection.jetstream().find_stream_name_by_subject(name)
        except NotFoundError:
            return False
        except (Error, OSError, asyncio.TimeoutError):
            pass
        return True

    async def _watched(self) -> None:
        """Pull messages; ``fetch`` raises the error that ends it."""
        try:
            await self._pump()
        except Exception as error:
            if self._inbox.fatal is None:
                self._inbox.fatal = BrokerError("the connection ended", found=type(error).__name__)

    async def _pump(self) -> None:
        """Connect, and pull messages while there is room."""
        # The first connection is retried too.
        self._connection = await nats.connect(**self._options)
        self.log.write("connected")
        pulling: Any = None
        silent = 0
        while self.stream is not None and self._inbox.fatal is None:
            room = self.in_flight - self._held
            if room <= 0:
                self._room.clear()
                await self._room.wait()
                continue
            try:
                if pulling is None:
                    pulling = await self._bind(self.stream)
                found = await pulling.fetch(min(room, _PULL), timeout=_POLL)
            except asyncio.TimeoutError:
                silent += 1
                if silent < _SILENT:
                    continue
                found = []
            except (Error, OSError) as error:
                self.log.write("pull_failed", reason=type(error).__name__)
                found, silent = [], _SILENT
                await asyncio.sleep(_RETRY)
            if found:
                silent = 0
                self._held += len(found)
                for one in found:
                    again = one.metadata.num_delivered > 1
                    self._inbox.add(Message(one.data, one.subject, again, one))
            elif silent >= _SILENT and pulling is not None:
                silent = 0
                with suppress(Error, OSError):
                    await pulling.unsubscribe()
                pulling = None  # the consumer may be gone: look it up again

    async def _bind(self, stream: str) -> Any:
        """Bind to the consumer; create it if needed."""
        context = self._connection.jetstream()
        await self._check_subjects(context, stream)
        try:
            await context.consumer_info(stream, self.durable)
        except NotFoundError:
            wanted = ConsumerConfig(
                durable_name=self.durable,
                ack_policy=AckPolicy.EXPLICIT,
                ack_wait=self.ack_wait,
                max_ack_pending=self.in_flight,
                filter_subject=self.subject,
            )
            try:
                await context.add_consumer(stream, wanted)
            except APIError as error:
                if error.code is not None and error.code < 500:  # 5xx errors pass
                    self._inbox.fatal = BrokerError(
                        "the server refuses to create the consumer", found=error.description
                    )
                raise
        bound = await context.pull_subscribe_bind(durable=self.durable, stream=stream)
        self.log.write("subscribed")
        return bound

    async def _check_subjects(self, context: Any, stream: str) -> None:
        """Refuse a missing stream, and one that would deliver what the bridge publishes."""
        try:
            info = await context.stream_info(stream)
        except NotFoundError:
            self._inbox.fatal = BrokerError("--stream: the stream does not exist", field="/stream")
            raise
        read = [self.subject] if self.subject is not None else info.config.subjects or []
        for name in self.publishes:
            if any(covers(one, name, between=".", one="*", rest=">") for one in read):
                self._inbox.fatal = BrokerError("the bridge would read what it publishes")
                raise Error("another subject")

    async def _disconnect(self) -> None:
        if self._connection is not None:
            await self._connection.close()

    async def _on_error(self, error: Exception) -> None:
        text = str(error).lower()
        if "authorization" in text or "authentication" in text:
            self._inbox.fatal = BrokerError(
                "the server refuses the connection", found="other credentials"
            )
        elif "permissions violation" in text:
            found = "publishing" if "for publish" in text else "subscribing"
            self._inbox.fatal = BrokerError("the credentials do not allow this", found=found)
        else:
            self.log.write("connection_error", reason=type(error).__name__)

    async def _on_disconnected(self) -> None:
        if not self._closed:
            self.log.write("disconnected")

    async def _on_reconnected(self) -> None:
        self.log.write("connected")


def _options(broker: Broker) -> dict[str, Any]:
    who = broker.credentials
    options: dict[str, Any] = {
        "servers": [broker.name],
        "name": "omsgrain bridge",
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": _RETRY,
    }
    if who.user is not None:
        options |= {"user": who.user, "password": who.password}
    elif who.password is not None:
        options["token"] = who.password
    if who.file is not None:
        options["user_credentials"] = str(who.file)
    if (context := broker.context()) is not None:
        options["tls"] = context
    return options


def _headers(letter: Letter) -> dict[str, str] | None:
    """Properties as headers, each of which is one line."""
    headers = {k: " ".join(v.splitlines()) for k, v in letter.properties}
    return headers or None
