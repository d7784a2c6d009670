# SPDX-License-Identifier: Apache-2.0
"""Questions and answers of a sync as they cross a network.

zstd frames, which unpack to

    u32 length ++ value (``wire.py``) ++ grains in the stream framing of OMS §11.6

The grains are those of a batch; every other message has none. Integers are big-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast

from omsgrain.container.packed import Unpacked, pack_stream
from omsgrain.errors import CorruptError, TooLargeError
from omsgrain.sync import bounds, wire
from omsgrain.sync.peer import (
    SIZE,
    Batch,
    Greeting,
    Hello,
    Item,
    Position,
    Range,
    Space,
    Taken,
)

__all__ = [
    "ANSWERS",
    "MEDIA",
    "MOST",
    "PATH",
    "QUESTIONS",
    "Changes",
    "Give",
    "Lacking",
    "Ranges",
    "pack",
    "unpack",
]

T = TypeVar("T")

MEDIA: Final = "application/vnd.omsgrain.sync"
"""The media type of all messages."""
PATH: Final = "/v1/sync/"
"""What stands before the name of a question."""
MOST: Final = 4 * SIZE
"""Bytes that a message may unpack to: of a batch, and of the longest listing."""
_LENGTH = 4
_VALUE = 8 << 20  # bytes of a value: as Python objects it takes many times as much


@dataclass(frozen=True, slots=True)
class Changes:
    """Asks for what came after a position."""

    since: Position
    hello: Hello
    size: int

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        bounds.check((self.since, self.hello))


@dataclass(frozen=True, slots=True)
class Ranges:
    """Asks for ranges, or for the items in them."""

    space: Space
    prefixes: tuple[str, ...]
    hello: Hello

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        bounds.check_prefixes(self.prefixes)
        bounds.check(self.hello)


@dataclass(frozen=True, slots=True)
class Lacking:
    """Asks which items are not there."""

    space: Space
    items: tuple[Item, ...]

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        bounds.check_count(self.items)
        bounds.check(self.items)


@dataclass(frozen=True, slots=True)
class Give:
    """Asks for items."""

    space: Space
    keys: tuple[bytes, ...]
    hello: Hello

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        bounds.check_keys(self.keys)
        bounds.check(self.hello)


QUESTIONS: Final[dict[str, Any]] = {
    "greet": Hello,
    "share": tuple[bytes, ...],
    "changes": Changes,
    "ranges": Ranges,
    "listing": Ranges,
    "lacking": Lacking,
    "give": Give,
    "take": Batch,
}
"""What is asked, by name."""

ANSWERS: Final[dict[str, Any]] = {
    "greet": Greeting,
    "share": tuple[bytes, ...],
    "changes": Batch,
    "ranges": tuple[Range, ...],
    "listing": tuple[Item, ...],
    "lacking": bytes,
    "give": Batch,
    "take": Taken,
}
"""What is answered, by the name of the question."""


def pack(value: Any) -> bytes:
    """Make a message of a value."""
    grains: Sequence[bytes] = ()
    if isinstance(value, Batch):
        grains, value = value.grains, replace(value, grains=())
    head = wire.pack(value)
    return b"".join(pack_stream(grains, len(head).to_bytes(_LENGTH, "big") + head))


def unpack(cls: type[T], data: bytes, *, limit: int = MOST) -> T:
    """Read a message.

    Args:
        cls: what it must be, as for ``wire.unpack``.
        data: its bytes.
        limit: bytes that it may unpack to.

    Raises:
        CorruptError: it is none.
        TooLargeError: it unpacks to more than that.
        SchemaError: something in it has not its length, or is out of range.
        OmsError: what follows the value are no grains.
    """
    source = Unpacked(data, limit)
    size = int.from_bytes(source.exactly(_LENGTH), "big")
    if size > min(_VALUE, limit):
        raise TooLargeError(
            "a message is larger than is taken",
            expected=f"at most {min(_VALUE, limit)} bytes",
            found=f"{size} bytes",
        )
    value = wire.unpack(cls, source.exactly(size))
    if isinstance(value, Changes | Ranges | Lacking | Give):
        value.check()
    else:
        bounds.check(value)
    grains = tuple(source.grains())
    if isinstance(value, Batch):
        if value.grains:
            raise CorruptError("grains of a batch stand behind it")
        bounds.check_count(grains, bounds.GRAINS)
        return cast("T", replace(value, grains=grains))
    if grains:
        raise CorruptError("grains behind what is no batch")
    return value
