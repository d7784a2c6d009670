# SPDX-License-Identifier: Apache-2.0
"""Brokers: their URLs, the interface of a connection, and dead letters.

A source delivers an unacknowledged message again, after a crash or a lost connection. So the
bridge acknowledges last, and stores a repeated message once, at the address of its bytes.
"""

from __future__ import annotations

import errno
import json
import os
import ssl
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, Protocol
from urllib.parse import urlsplit

from omsgrain.durable import NewFiles
from omsgrain.errors import SchemaError, StoreError, UnsupportedError
from omsgrain.store.take_messages import MessageRefusal
from omsgrain.sync.http import is_loopback

_SCHEMES = {
    "mqtt": (1883, False),
    "mqtts": (8883, True),
    "nats": (4222, False),
    "tls": (4222, True),
}


class BrokerError(StoreError):
    """The broker refuses the client or a request for good; a retry does not help."""


class Unreachable(Exception):
    """The broker cannot be reached, or does not confirm; the text has no content of messages."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of the bridge; its repr shows no password."""

    user: str | None = None
    # the password, or a NATS token without a user name
    password: str | None = field(default=None, repr=False)
    file: Path | None = None  # NATS credentials: a JWT and its key
    # certificate authorities to trust, PEM; by default those of the system
    authority: Path | None = None
    certificate: Path | None = None  # the client certificate, PEM
    key: Path | None = None  # the certificate's private key, PEM


@dataclass(frozen=True, slots=True)
class Broker:
    scheme: str  # ``mqtt``, ``mqtts``, ``nats`` or ``tls`` (NATS over TLS)
    host: str
    port: int
    credentials: Credentials = field(default_factory=Credentials)

    @property
    def tls(self) -> bool:
        return _SCHEMES[self.scheme][1]

    @property
    def name(self) -> str:
        """The URL of the broker, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def context(self) -> ssl.SSLContext | None:
        """Return the settings of TLS; None without TLS."""
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
    option = f"/{schemes[0]}"
    text = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise SchemaError("not the URL of a broker", field=option, expected=text) from None
    if parts.username is not None or parts.password is not None:
        expected = "--user, with --password-file or OMSGRAIN_BROKER_PASSWORD"
        what = "the URL of the broker contains a user name or password"
        raise SchemaError(what, field=option, expected=expected)
    more = parts.path.strip("/") or parts.query or parts.fragment
    if parts.scheme not in schemes or not parts.hostname or port == 0 or more:
        raise SchemaError("not the URL of a broker", field=option, expected=text)
    usual, _ = _SCHEMES[parts.scheme]
    found = Broker(parts.scheme, parts.hostname, port or usual, credentials)
    secret = credentials.password is not None
    if secret and not (found.tls or in_clear or is_loopback(found.host)):
        raise UnsupportedError(
            "the password would cross the network unencrypted",
            expected=f"{schemes[-1]}://, or --plain-password",
        )
    if not found.tls and (credentials.authority or credentials.certificate):
        raise SchemaError(
            "--ca, --cert and --key need a URL with TLS",
            field=option,
            expected=f"{schemes[-1]}://",
        )
    if (credentials.certificate is None) != (credentials.key is None):
        raise SchemaError("--cert and --key need each other")
    return found


@dataclass(frozen=True, slots=True)
class Message:
    """A message that a broker delivered."""

    data: bytes
    origin: str  # the topic or subject; it may name persons, so it is never logged
    again: bool  # whether the broker delivered it before
    token: Any  # what the source needs to acknowledge it


@dataclass(frozen=True, slots=True)
class Letter:
    data: bytes
    properties: tuple[tuple[str, str], ...] = ()  # texts that are sent with it


class MessageSource(Protocol):
    """A source of messages, with a limit of unacknowledged ones. One thread calls it."""

    def fetch(self, most: int, wait: float) -> list[Message]:
        """Return up to ``most`` messages; wait up to ``wait`` seconds for the first one."""
        ...

    def settle(self, messages: Sequence[Message], refused: Collection[int]) -> None:
        """Acknowledge messages in their order; ``refused`` has positions of refused ones."""
        ...

    def hold(self, messages: Sequence[Message]) -> None:
        """Tell the broker that work on these continues, so that it does not deliver them again."""
        ...

    def give_back(self, messages: Sequence[Message]) -> None:
        """Let the broker deliver these to another client."""
        ...

    def close(self) -> None:
        """Disconnect; the broker keeps unacknowledged messages. A second call does nothing."""
        ...


class Sink(Protocol):
    """A publisher of messages. Any thread may call it."""

    def publish(self, name: str, letters: Sequence[Letter]) -> None:
        """Publish letters in order; return once the broker has confirmed all."""
        ...


class BrokerConnection(MessageSource, Sink, Protocol):
    """A connection to a broker, for both directions."""


class Inbox:
    """A queue of messages between the thread of a client library and the bridge."""

    def __init__(self) -> None:
        self._messages: SimpleQueue[Message] = SimpleQueue()
        self.fatal: BrokerError | None = None  # it ended the connection for good

    def __len__(self) -> int:
        return self._messages.qsize()

    def add(self, message: Message) -> None:
        self._messages.put(message)

    def fetch(self, most: int, wait: float) -> list[Message]:
        """As ``MessageSource.fetch``; raise the fatal error once the queue is empty."""
        found: list[Message] = []
        with suppress(Empty):
            get = self._messages.get
            found.append(get(timeout=wait) if wait > 0 else self._messages.get_nowait())
            while len(found) < most:
                found.append(self._messages.get_nowait())
        if not found and self.fatal is not None:
            raise self.fatal
        return found

    def clear(self) -> list[Message]:
        found: list[Message] = []
        with suppress(Empty):
            while True:
                found.append(self._messages.get_nowait())
        return found


def covers(pattern: str, name: str, *, between: str, one: str, rest: str) -> bool:
    """Whether a subscription would deliver a message published under a name."""
    asked, found = pattern.split(between), name.split(between)
    for i, part in enumerate(asked):
        if part == rest:
            # In MQTT "a/#" covers "a" itself; in NATS "a.>" does not, so the check is too strict
            # there.
            return True
        if i >= len(found) or part not in (one, found[i]):
            return False
    return len(asked) == len(found)


class Aside(NamedTuple):
    """A refused message, and the reason."""

    message: Message
    refusal: MessageRefusal


class DeadLetters(Protocol):
    """A place for refused messages. A second write of one gives an equal letter, or one file."""

    def write(self, refused: Sequence[Aside]) -> None:
        """Write refused messages; they are durable when it returns."""
        ...


def properties(aside: Aside) -> dict[str, str]:
    """Return the properties of a refused message: the reason and its origin, no content."""
    error = aside.refusal.error
    values = {"code": error.code, "reason": str(error), "origin": aside.message.origin}
    if aside.refusal.count > 1:
        values["refused"] = str(aside.refusal.count)
    if aside.refusal.erased:
        values["withheld"] = "erased"
    return values


def kept(aside: Aside) -> bytes:
    """Return the bytes to keep of a refused message: all, or none of an erased grain."""
    return b"" if aside.refusal.erased else aside.message.data


class Topic:
    """Refused messages under a topic or subject of a broker."""

    def __init__(self, sink: Sink, name: str) -> None:
        self._sink = sink
        self._name = name

    def write(self, refused: Sequence[Aside]) -> None:
        self._sink.publish(
            self._name,
            [Letter(kept(one), tuple(properties(one).items())) for one in refused],
        )


class DeadLetterDirectory:
    """Refused messages as files: HASH.message with the bytes, HASH.json with the reason.

    The name is the hash of the message and its reason, so it has no content.
    """

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        self._path = path

    def write(self, refused: Sequence[Aside]) -> None:
        with NewFiles(replace=True) as files:
            for one in refused:
                reason = json.dumps(properties(one), ensure_ascii=False).encode()
                data = kept(one)
                name = sha256(len(reason).to_bytes(8, "big") + reason + data).hexdigest()[:32]
                for path, content in (
                    (self._path / f"{name}.json", reason + b"\n"),
                    (self._path / f"{name}.message", data),
                ):
                    if not path.exists():
                        files.add(path, [content])
