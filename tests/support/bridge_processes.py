# SPDX-License-Identifier: Apache-2.0
"""`omsgrain bridge` as a process, and brokers with those who publish to them and read them."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import nats
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from support.processes import PATIENCE, Command
from support.servers.debian import Server
from support.servers.mosquitto import broker
from support.servers.nats import jetstream


class Bridging(Command):
    """A process that bridges; its reports are read as they come.

    Attributes:
        last: the last report.
    """

    def __init__(self, path: Path, *options: object) -> None:
        said = (path.parent / "bridge.log").open("a+")
        more = ("--json", "--stats", "0.1", "--log-format", "json")
        super().__init__("bridge", path, *more, *options, said=said)
        self.last: dict[str, Any] = {}

    def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """Read reports until one says that something is done."""
        alarm = threading.Timer(PATIENCE, self.child.kill)
        alarm.start()
        try:
            assert self.child.stdout is not None
            for line in self.child.stdout:
                self.last = json.loads(line)
                if done(self.last):
                    return self.last
        finally:
            alarm.cancel()
        raise AssertionError(f"it ended, or never came so far: {self.last} {self._read()}")

    def hear(self, said: str) -> None:
        """Take in the last reports."""
        for line in said.splitlines():
            self.last = json.loads(line)


class Site(Protocol):
    """A broker, with all that a test needs around it."""

    server: Server
    options: list[str]
    dead: str
    changes: str

    def publish(self, messages: Iterable[bytes]) -> None:
        """Publish messages, until the broker has confirmed all."""
        ...

    def read(self, name: str, many: int) -> list[tuple[bytes, dict[str, str]]]:
        """Return so many messages of a topic or subject, with their properties."""
        ...

    def close(self) -> None:
        """Let go of the broker."""
        ...


class MqttSite:
    """Mosquitto, with a publisher and a reader."""

    dead, changes = "refused/memory", "hub/changes"

    def __init__(self, directory: Path, more: str = "") -> None:
        self.server = broker(directory, more)
        self.server.start()
        url = f"mqtt://127.0.0.1:{self.server.port}"
        self.options = ["--mqtt", url, "--topic", "robots/+/memory", "--group", "hub",
                        "--client-id", "hub1"]  # fmt: skip
        self._come: queue.SimpleQueue[tuple[str, bytes, dict[str, str]]] = queue.SimpleQueue()
        self._client: Client | None = None

    def start(self) -> None:
        """Connect who publishes and reads."""
        ready = threading.Event()
        client = Client(
            CallbackAPIVersion.VERSION2, client_id="robot", protocol=MQTTProtocolVersion.MQTTv5
        )
        client.on_message = lambda _, __, m: self._come.put(
            (m.topic, bytes(m.payload), dict(getattr(m.properties, "UserProperty", ())))
        )
        client.on_connect = lambda c, *_: c.subscribe(
            [(self.dead, _qos1()), (self.changes, _qos1())]
        )
        client.on_subscribe = lambda *_: ready.set()
        client.reconnect_delay_set(1, 1)
        client.connect("127.0.0.1", self.server.port)
        client.loop_start()
        assert ready.wait(PATIENCE)
        self._client = client

    def publish(self, messages: Iterable[bytes]) -> None:
        """Publish messages as robots do, until all are confirmed."""
        if self._client is None:
            self.start()
        assert self._client is not None
        sent = [
            self._client.publish(f"robots/{n % 7}/memory", message, qos=1)
            for n, message in enumerate(messages)
        ]
        for info in sent:
            if info.rc == 0:
                info.wait_for_publish(PATIENCE)
            assert info.is_published()

    def read(self, name: str, many: int) -> list[tuple[bytes, dict[str, str]]]:
        """Return the messages of a topic."""
        found: list[tuple[bytes, dict[str, str]]] = []
        while len(found) < many:
            topic, data, told = self._come.get(timeout=PATIENCE)
            if topic == name:
                found.append((data, told))
        return found

    def close(self) -> None:
        """Stop all of it."""
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
        self.server.kill()


def _qos1() -> Any:
    from paho.mqtt.subscribeoptions import SubscribeOptions

    return SubscribeOptions(qos=1)


class NatsSite:
    """nats-server with three streams: what comes, what is refused, what happens."""

    dead, changes = "refused.memory", "hub.changes"

    def __init__(self, directory: Path) -> None:
        self.server = jetstream(directory)
        self.server.start()
        url = f"nats://127.0.0.1:{self.server.port}"
        self.options = ["--nats", url, "--stream", "MEMORY", "--durable", "hub", "--ack-wait", "2"]
        asyncio.run(self._make())

    def start(self) -> None:
        """Do nothing: publishers and readers connect by themselves."""

    async def _make(self) -> None:
        connection = await self._connect()
        context = connection.jetstream()
        for name, subject in (("MEMORY", "robots.*.memory"), ("REFUSED", self.dead),
                              ("CHANGES", self.changes)):  # fmt: skip
            await context.add_stream(name=name, subjects=[subject])
        await connection.close()

    async def _connect(self) -> Any:
        return await nats.connect(f"nats://127.0.0.1:{self.server.port}", connect_timeout=10)

    def publish(self, messages: Iterable[bytes]) -> None:
        """Publish messages as robots do, until all are confirmed."""

        async def work() -> None:
            connection = await self._connect()
            context = connection.jetstream()
            given = list(messages)
            for start in range(0, len(given), 500):
                await asyncio.gather(
                    *[
                        context.publish(f"robots.{n % 7}.memory", message, timeout=PATIENCE)
                        for n, message in enumerate(given[start : start + 500])
                    ]
                )
            await connection.close()

        asyncio.run(work())

    def read(self, name: str, many: int) -> list[tuple[bytes, dict[str, str]]]:
        """Return the messages of a subject."""

        async def work() -> list[tuple[bytes, dict[str, str]]]:
            connection = await self._connect()
            pulling = await connection.jetstream().pull_subscribe(name, durable="reader")
            found: list[tuple[bytes, dict[str, str]]] = []
            while len(found) < many:
                for one in await pulling.fetch(many - len(found), timeout=PATIENCE):
                    found.append((one.data, dict(one.headers or {})))
                    await one.ack()
            await connection.close()
            return found

        return asyncio.run(work())

    def close(self) -> None:
        """Stop it."""
        self.server.kill()
