# SPDX-License-Identifier: Apache-2.0
"""What a broker must offer, so that the rest does not know which one it is.

A source delivers a message again unless it was settled: after a crash, after a lost connection. So
the bridge settles last, and what comes twice is stored once, under the address of its bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from omsgrain.errors import StoreError


class BrokerError(StoreError):
    """The broker refuses for good: who asks, or what is asked. To try again is for nothing."""


class Unreachable(Exception):
    """The broker cannot be reached, or does not confirm. The text has no content."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a broker delivered.

    Attributes:
        data: its bytes.
        origin: the topic or subject; it may name persons, so no log has it.
        again: the broker says that it delivered it before.
        token: by which the source settles it.
    """

    data: bytes
    origin: str
    again: bool
    token: Any


@dataclass(frozen=True, slots=True)
class Letter:
    """What is to be published.

    Attributes:
        data: its bytes.
        properties: what is told beside it, as texts.
    """

    data: bytes
    properties: tuple[tuple[str, str], ...] = ()


class MessageSource(Protocol):
    """Where messages come from. It holds no more than it was told to, and then asks for none.

    One thread calls it.
    """

    def fetch(self, most: int, wait: float) -> list[Message]:
        """Return what has come, ``most`` at the most; nothing if nothing comes for so long."""
        ...

    def settle(self, messages: Sequence[Message], refused: Collection[int]) -> None:
        """Acknowledge messages, in the order in which they came."""
        ...

    def hold(self, messages: Sequence[Message]) -> None:
        """Say that they are still worked on, so that they are not delivered again meanwhile."""
        ...

    def give_back(self, messages: Sequence[Message]) -> None:
        """Let somebody else have them, now if that can be said."""
        ...

    def close(self) -> None:
        """Leave the broker; it keeps what was not settled. A second call does nothing."""
        ...


class Sink(Protocol):
    """Where messages go. Any thread may call it."""

    def publish(self, name: str, letters: Sequence[Letter]) -> None:
        """Publish letters, in order; all are with the broker when this returns."""
        ...


def covers(pattern: str, name: str, *, between: str, one: str, rest: str) -> bool:
    """Tell whether a subscription would deliver what is published under a name."""
    asked, found = pattern.split(between), name.split(between)
    for i, part in enumerate(asked):
        if part == rest:
            # In MQTT "a/#" covers "a" itself; in NATS "a.>" does not, and no harm comes of it.
            return True
        if i >= len(found) or part not in (one, found[i]):
            return False
    return len(asked) == len(found)
