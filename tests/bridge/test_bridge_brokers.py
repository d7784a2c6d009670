# SPDX-License-Identifier: Apache-2.0
"""Which broker, who asks, and what the adapter of MQTT does at the border of its library."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from omsgrain.bridge import mqtt
from omsgrain.bridge.broker import BrokerError, Credentials, Letter, Unreachable, broker, covers
from omsgrain.bridge.mqtt import Mqtt, shared
from omsgrain.errors import OmsError
from omsgrain.server.log import Log

MQTT, NATS = ("mqtt", "mqtts"), ("nats", "tls")
SECRET = Credentials("ada", "sesame")


@pytest.mark.parametrize(
    ("pattern", "name", "yes"),
    [
        ("robots/+/memory", "robots/7/memory", True),
        ("robots/+/memory", "robots/7/refused", False),
        ("robots/+/memory", "robots/memory", False),
        ("robots/#", "robots/7/memory", True),
        ("robots/#", "hub/changes", False),
        ("#", "hub/changes", True),
        ("robots", "robots/7", False),
        ("robots/7", "robots", False),
    ],
)
def test_what_a_subscription_covers(pattern: str, name: str, yes: bool) -> None:
    assert covers(pattern, name, between="/", one="+", rest="#") is yes
    dotted = [
        text.replace("/", ".").replace("+", "*").replace("#", ">") for text in (pattern, name)
    ]
    assert covers(*dotted, between=".", one="*", rest=">") is yes


@pytest.mark.parametrize(
    ("url", "schemes", "who", "code"),
    [
        ("mqtt://ada:sesame@127.0.0.1", MQTT, Credentials(), "ERR_SCHEMA"),
        ("mqtt://", MQTT, Credentials(), "ERR_SCHEMA"),
        ("mqtt://h:many", MQTT, Credentials(), "ERR_SCHEMA"),
        ("mqtt://h:0", MQTT, Credentials(), "ERR_SCHEMA"),
        ("mqtt://h/topic", MQTT, Credentials(), "ERR_SCHEMA"),
        ("nats://h", MQTT, Credentials(), "ERR_SCHEMA"),
        ("mqtt://h", NATS, Credentials(), "ERR_SCHEMA"),
        ("mqtt://h", MQTT, SECRET, "ERR_UNSUPPORTED"),
        ("nats://h", NATS, SECRET, "ERR_UNSUPPORTED"),
        ("mqtt://h", MQTT, Credentials(authority=Path("ca.pem")), "ERR_SCHEMA"),
        ("mqtts://h", MQTT, Credentials(certificate=Path("c.pem")), "ERR_SCHEMA"),
    ],
)
def test_urls_that_are_refused(
    url: str, schemes: tuple[str, ...], who: Credentials, code: str
) -> None:
    with pytest.raises(OmsError) as caught:
        broker(url, schemes, who)
    assert caught.value.code == code
    assert caught.value.field in (None, f"/{schemes[0]}")
    assert "sesame" not in str(caught.value)


def test_urls() -> None:
    assert (
        broker("mqtt://hub.example.org", MQTT, Credentials()).name == "mqtt://hub.example.org:1883"
    )
    assert broker("mqtts://[::1]:9", MQTT, SECRET).name == "mqtts://[::1]:9"
    assert broker("tls://h", NATS, SECRET).port == 4222
    assert not broker("mqtt://localhost", MQTT, SECRET).tls
    found = broker("mqtt://hub.example.org", MQTT, SECRET, in_clear=True)
    assert found.context() is None
    assert "sesame" not in repr(found)


@pytest.mark.parametrize("topic", ["", "a/#/b", "a+", "a/b#", "+a/b", "$share/g/a", "a\0"])
def test_filters_that_are_none(topic: str) -> None:
    with pytest.raises(OmsError):
        shared(topic, None)
    with pytest.raises(OmsError):
        shared("a/+/#", topic or "a/b")


class Info(SimpleNamespace):
    """The answer of paho to a published message."""

    rc: int = 0
    mid: int = 1
    done: bool = True

    def is_published(self) -> bool:
        return self.done

    def wait_for_publish(self, timeout: float) -> None:
        pass


class Fake:
    """A client of paho that is connected to nothing."""

    def __init__(self, version: object, **options: Any) -> None:
        self.options = options
        self.acks: list[int] = []
        self.published: list[tuple[Any, ...]] = []
        self.info = Info()
        self.subscribed: list[Any] = []
        self.ended = False

    def connect_async(self, host: str, port: int, keepalive: int, **more: Any) -> None:
        self.connected = (host, port, more)

    def ack(self, number: int, qos: int) -> None:
        self.acks.append(number)

    def publish(self, topic: str, data: bytes, **more: Any) -> Info:
        self.published.append((topic, data, more["properties"]))
        return self.info

    def subscribe(self, topics: Any) -> None:
        self.subscribed.append(topics)

    def disconnect(self) -> None:
        self.ended = True

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


def reason(kind: int, name: str) -> ReasonCode:
    return ReasonCode(kind, name)


class Wired:
    """The adapter with the fake client, and what paho would call."""

    def __init__(self, **more: Any) -> None:
        self.said = io.StringIO()
        where = broker("mqtt://localhost", MQTT, SECRET)
        topics = [shared("robots/+/memory", "hub")]
        self.mqtt = Mqtt(where, "me", topics, Log("json", self.said), in_flight=2, **more)
        self.fake: Any = self.mqtt._client

    def connect(self, why: str = "Success", session: bool = True, **told: Any) -> None:
        flags = SimpleNamespace(session_present=session)
        code = reason(PacketTypes.CONNACK, why)
        self.mqtt._on_connect(self.fake, None, flags, code, SimpleNamespace(**told))  # type: ignore[arg-type]

    def lose(self, why: str = "Unspecified error") -> None:
        code = reason(PacketTypes.DISCONNECT, why)
        self.mqtt._on_disconnect(self.fake, None, None, code, None)

    def come(self, number: int, qos: int = 1, again: bool = False) -> None:
        message = SimpleNamespace(payload=b"x", topic="t", dup=again, mid=number, qos=qos)
        self.mqtt._on_message(self.fake, None, message)  # type: ignore[arg-type]


@pytest.fixture
def wired(monkeypatch: pytest.MonkeyPatch) -> Wired:
    monkeypatch.setattr(mqtt, "Client", Fake)
    return Wired()


def test_a_session_that_lasts_and_a_bound_on_what_is_in_flight(wired: Wired) -> None:
    assert wired.fake.options["manual_ack"]
    host, port, more = wired.fake.connected
    assert (host, port, more["clean_start"]) == ("localhost", 1883, False)
    asked = more["properties"]
    assert (asked.ReceiveMaximum, asked.SessionExpiryInterval) == (2, 7 * 86_400)
    wired.connect()
    ((topic, options),) = wired.fake.subscribed[0]
    assert (topic, options.QoS) == ("$share/hub/robots/+/memory", 1)
    wired.mqtt.close()
    assert wired.fake.ended


def test_acknowledged_over_the_connection_that_it_came_by_or_not_at_all(wired: Wired) -> None:
    wired.connect()
    wired.come(1)
    first = wired.mqtt.fetch(9, 0)
    wired.lose()
    wired.mqtt.settle(first, ())
    assert wired.fake.acks == []
    wired.connect()
    wired.mqtt.settle(first, ())  # 1 may be another message's number by now
    assert wired.fake.acks == []
    wired.come(1, again=True)
    (second,) = wired.mqtt.fetch(9, 0)
    assert second.again
    wired.mqtt.settle([second], ())
    assert wired.fake.acks == [1]


def test_a_redelivered_message_is_stored_once(wired: Wired) -> None:
    wired.connect()
    wired.come(1)
    wired.lose()
    wired.connect(session=False)  # the broker has forgotten it: it is here and nowhere else
    assert len(wired.mqtt.fetch(9, 0)) == 1
    wired.come(2)
    wired.lose()
    wired.connect(session=True)
    assert wired.mqtt.fetch(9, 0) == []


def test_messages_without_flow_control_are_dropped_and_reported(wired: Wired) -> None:
    wired.connect()
    for number in range(6):
        wired.come(number, qos=0)
    assert len(wired.mqtt.fetch(9, 0)) == 2
    told = [json.loads(line) for line in wired.said.getvalue().splitlines()]
    assert [one["messages"] for one in told if one["event"] == "dropped"] == [1, 2, 4]


@pytest.mark.parametrize(
    ("why", "for_good"),
    [
        ("Bad user name or password", True),
        ("Not authorized", True),
        ("Server unavailable", False),
        ("Server busy", False),
    ],
)
def test_connections_that_are_refused(wired: Wired, why: str, for_good: bool) -> None:
    wired.connect(why)
    if for_good:
        with pytest.raises(BrokerError):
            wired.mqtt.fetch(1, 0)
    else:
        assert wired.mqtt.fetch(1, 0) == []
    assert "sesame" not in wired.said.getvalue()


@pytest.mark.parametrize("why", ["Granted QoS 0", "Unspecified error", "Topic filter invalid"])
def test_subscriptions_that_are_refused(wired: Wired, why: str) -> None:
    wired.connect()
    codes = [reason(PacketTypes.SUBACK, why)]
    wired.mqtt._on_subscribe(wired.fake, None, 1, codes, None)
    with pytest.raises(BrokerError):
        wired.mqtt.fetch(1, 0)


def test_another_of_the_same_name(wired: Wired) -> None:
    wired.connect()
    wired.lose("Session taken over")
    with pytest.raises(BrokerError):
        wired.mqtt.fetch(1, 0)


def test_publishing(wired: Wired, monkeypatch: pytest.MonkeyPatch) -> None:
    letter = Letter(b"data", (("code", "ERR_EMPTY"),))
    with pytest.raises(Unreachable):  # not connected: nothing gathers here
        wired.mqtt.publish("refused", [letter])
    assert not wired.fake.published
    wired.connect(MaximumPacketSize=1_000)
    wired.mqtt.publish("refused", [letter, letter])
    assert len(wired.fake.published) == 2
    topic, data, told = wired.fake.published[0]
    assert (topic, data, told.UserProperty) == ("refused", b"data", [("code", "ERR_EMPTY")])
    with pytest.raises(BrokerError):
        wired.mqtt.publish("refused", [Letter(bytes(1_000))])
    wired.fake.info.done = False
    monkeypatch.setattr(mqtt, "_CONFIRM", 0)
    with pytest.raises(Unreachable):
        wired.mqtt.publish("refused", [letter])


@pytest.mark.parametrize(
    ("why", "error"), [("Not authorized", BrokerError), ("Quota exceeded", Unreachable)]
)
def test_a_broker_that_does_not_take_a_letter(
    wired: Wired, why: str, error: type[Exception]
) -> None:
    wired.connect()
    send = wired.fake.publish

    def refuse(*arguments: Any, **named: Any) -> Any:
        wired.mqtt._on_publish(wired.fake, None, 1, reason(PacketTypes.PUBACK, why), None)
        return send(*arguments, **named)

    wired.fake.publish = refuse
    with pytest.raises(error):
        wired.mqtt.publish("refused", [Letter(b"data")])
