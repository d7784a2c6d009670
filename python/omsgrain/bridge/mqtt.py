# SPDX-License-Identifier: Apache-2.0
"""MQTT 5, by paho-mqtt: QoS 1, explicit acknowledgements, a session across connections.

The broker sends at most ``in_flight`` unacknowledged messages (the receive maximum): that is the
back-pressure. A message is acknowledged only over the connection that delivered it. The broker
delivers it again over the next one, where its number may belong to another message.

paho's thread reads from the network and calls the methods that begin with ``_on``; it reconnects
at growing intervals.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from paho.mqtt.client import Client, MQTTMessage, MQTTMessageInfo
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.subscribeoptions import SubscribeOptions

from omsgrain.bridge.broker import Broker, BrokerError, Inbox, Letter, Message, Unreachable
from omsgrain.errors import SchemaError
from omsgrain.server.log import Log

_KEEPALIVE: Final = 30  # seconds
_DELAYS: Final = (1, 60)  # seconds between two tries to connect
_CONFIRM: Final = 30.0  # seconds that a broker has to confirm
_SLICE: Final = 0.25  # seconds until a lost connection is noticed
_ROOM: Final = 64  # bytes of a packet around the topic, the data and the properties
#: Permanent reasons: the version of MQTT, the client id, the credentials, the request.
_FOR_GOOD: Final = frozenset((0x84, 0x85, 0x86, 0x87, 0x8A, 0x8C, 0x8E, 0x8F, 0x90, 0x9E, 0xA2))
_TAKEN_OVER: Final = 0x8E


class _Token(NamedTuple):
    """The acknowledgement of a message: its number, and the connection that delivered it."""

    connection: int
    number: int
    qos: int


def shared(topic: str, group: str | None) -> str:
    """Return the subscription of a topic, shared by the bridges of a group."""
    levels = topic.split("/")
    wild = any("#" in one or "+" in one for one in levels[:-1] if one != "+")
    if (
        not topic
        or "\0" in topic
        or wild
        or not (levels[-1] in ("#", "+") or {"#", "+"}.isdisjoint(levels[-1]))
    ):
        raise SchemaError(
            "--topic is not a valid topic filter", field="/topic", expected="a/+/b, a/#"
        )
    if topic.startswith("$share/"):
        raise SchemaError(
            "--topic is a shared subscription",
            field="/topic",
            expected="the topic, and its group as --group",
        )
    if group is None:
        return topic
    if not group or not {"/", "+", "#", "\0"}.isdisjoint(group):
        raise SchemaError(
            "--group is not a valid group name", field="/group", expected="no /, + or #"
        )
    return f"$share/{group}/{topic}"


class Mqtt:
    """A connection to a broker: a source of messages and a sink for others."""

    def __init__(
        self,
        broker: Broker,
        client: str,
        topics: Sequence[str],
        log: Log,
        *,
        in_flight: int = 2_000,
        session: int = 7 * 86_400,
    ) -> None:
        self._topics = list(topics)
        self._log = log
        self._in_flight = in_flight
        self._inbox = Inbox()
        self._lock = threading.Lock()
        self._connection = 0
        self._up = False
        self._largest: int | None = None
        self._publishing = threading.Lock()
        self._failed: dict[int, Any] = {}
        self._closed = False
        self._dropped = 0
        self._client = client_ = Client(
            CallbackAPIVersion.VERSION2,
            client_id=client,
            protocol=MQTTProtocolVersion.MQTTv5,
            manual_ack=True,
        )
        client_.on_connect = self._on_connect
        client_.on_disconnect = self._on_disconnect
        client_.on_connect_fail = self._on_connect_fail
        client_.on_subscribe = self._on_subscribe
        client_.on_message = self._on_message
        client_.on_publish = self._on_publish
        who = broker.credentials
        if who.user is not None:
            client_.username_pw_set(who.user, who.password)
        if (context := broker.context()) is not None:
            client_.tls_set_context(context)
        client_.reconnect_delay_set(*_DELAYS)
        asked = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]  # paho's
        asked.ReceiveMaximum = in_flight
        asked.SessionExpiryInterval = session
        client_.connect_async(
            broker.host, broker.port, _KEEPALIVE, clean_start=False, properties=asked
        )
        client_.loop_start()

    def fetch(self, most: int, wait: float) -> list[Message]:
        found = self._inbox.fetch(most, wait)
        if not found and getattr(self._client, "_thread", None) is None:
            raise BrokerError("the thread of the connection ended")
        return found

    def settle(self, messages: Sequence[Message], refused: Collection[int]) -> None:
        """Acknowledge messages of this connection; the broker repeats those of an earlier one."""
        with self._lock:
            for message in messages:
                token: _Token = message.token
                if token.qos and token.connection == self._connection:
                    self._client.ack(token.number, token.qos)

    def hold(self, messages: Sequence[Message]) -> None:
        """Do nothing: MQTT does not deliver again while the connection is open."""

    def give_back(self, messages: Sequence[Message]) -> None:
        """Do nothing: MQTT delivers again after the next connect, or to another of the group."""

    def close(self) -> None:
        """Disconnect; the broker keeps the session."""
        if not self._closed:
            self._closed = True
            self._client.disconnect()
            self._client.loop_stop()

    def publish(self, name: str, letters: Sequence[Letter]) -> None:
        with self._publishing:
            self._failed.clear()
            sent = [self._send(name, letter) for letter in letters]
            until = time.monotonic() + _CONFIRM
            for info in sent:
                self._confirmed(info, until)
            found = [self._failed[info.mid] for info in sent if info.mid in self._failed]
        for reason in found:
            if reason.value in _FOR_GOOD:
                raise BrokerError("the broker refuses published messages", found=str(reason))
            raise Unreachable(f"the broker did not accept it: {reason}")

    def _send(self, name: str, letter: Letter) -> MQTTMessageInfo:
        if self._inbox.fatal is not None:
            raise self._inbox.fatal
        if not self._up:
            raise Unreachable("not connected")  # else retries would pile up in the client
        properties = Properties(PacketTypes.PUBLISH)  # type: ignore[no-untyped-call]  # paho's
        if letter.properties:
            properties.UserProperty = list(letter.properties)
        size = sum(len(k.encode()) + len(v.encode()) + 5 for k, v in letter.properties)
        size += len(letter.data) + len(name.encode()) + _ROOM
        if self._largest is not None and size > self._largest:
            raise BrokerError(
                "the message is too large for the broker",
                expected=f"at most {self._largest} bytes, or --dead-letter-dir",
            )
        info = self._client.publish(name, letter.data, qos=1, properties=properties)
        if info.rc != MQTTErrorCode.MQTT_ERR_SUCCESS:
            raise Unreachable("not connected")
        return info

    def _confirmed(self, info: MQTTMessageInfo, until: float) -> None:
        while not info.is_published():
            left = until - time.monotonic()
            if left <= 0 or not self._up:
                raise Unreachable("the broker did not confirm")
            info.wait_for_publish(min(left, _SLICE))

    def _on_connect(
        self, client: Client, data: Any, flags: Any, reason: Any, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            if reason.value in _FOR_GOOD:
                self._end("the broker refuses the connection", reason)
            else:
                self._log.write("refused", reason=str(reason))  # paho tries again
            return
        with self._lock:
            self._connection += 1
            self._up = True
            self._largest = getattr(properties, "MaximumPacketSize", None)
        if flags.session_present:
            self._inbox.clear()  # the broker delivers them again
        self._log.write("connected", session=bool(flags.session_present))
        if self._topics:
            options = SubscribeOptions(
                qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_IF_NEW_SUB
            )
            client.subscribe([(topic, options) for topic in self._topics])

    def _on_disconnect(
        self, client: Client, data: Any, flags: Any, reason: Any, properties: Properties | None
    ) -> None:
        with self._lock:
            self._connection += 1
            self._up = False
        if self._closed:
            return
        self._log.write("disconnected", reason=str(reason))
        if reason.value == _TAKEN_OVER:
            self._end("another client has the same client id", reason)

    def _on_connect_fail(self, client: Client, data: Any) -> None:
        error = sys.exc_info()[0] or OSError  # paho calls this while it handles the error
        self._log.write("connect_failed", reason=error.__name__)

    def _on_subscribe(
        self, client: Client, data: Any, number: int, reasons: Any, properties: Properties | None
    ) -> None:
        for reason in reasons:
            if reason.is_failure:
                self._end("the broker refuses the subscription", reason)
            elif reason.value < 1:
                self._end("the broker grants only QoS 0: messages would be lost", reason)
        if self._inbox.fatal is None:
            self._log.write("subscribed", topics=len(reasons))

    def _on_message(self, client: Client, data: Any, message: MQTTMessage) -> None:
        if not message.qos and len(self._inbox) >= self._in_flight:
            self._dropped += 1  # the receive maximum does not count QoS 0
            if self._dropped & (self._dropped - 1) == 0:  # the 1st, 2nd, 4th, and so on
                self._log.write("dropped", qos=0, messages=self._dropped)
            return
        token = _Token(self._connection, message.mid, message.qos)
        self._inbox.add(Message(bytes(message.payload), message.topic, bool(message.dup), token))

    def _on_publish(
        self, client: Client, data: Any, number: int, reason: Any, properties: Properties | None
    ) -> None:
        if reason.is_failure:
            self._failed[number] = reason

    def _end(self, text: str, reason: Any) -> None:
        self._inbox.fatal = BrokerError(text, found=str(reason))
        self._client.disconnect()
