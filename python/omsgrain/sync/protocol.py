# SPDX-License-Identifier: Apache-2.0
"""Questions and answers of a sync as they cross a network.

zstd frames, which unpack to

    u32 length ++ value (``wire.py``) ++ grains in the stream framing of OMS §11.6

The grains are those of a batch; every other message has none. Integers are big-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

import msgpack

from omsgrain.container.stream import Unpacked, pack_stream
from omsgrain.errors import CorruptError, TooLargeError
from omsgrain.sync import peer
from omsgrain.sync.peer import (
    SIZE,
    Batch,
    BatchResult,
    Greeting,
    Hello,
    Position,
    Range,
    Space,
    SyncItem,
)

T = TypeVar("T")


def pack_value(value: Any) -> bytes:
    """Make bytes of a value, or of a tuple or list of them."""
    packed: bytes = msgpack.packb(_plain(value))
    return packed


def unpack_value(cls: type[T], data: bytes) -> T:
    """Read a value back."""
    try:
        read = msgpack.unpackb(data, use_list=False, strict_map_key=True)
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        raise CorruptError("not a message of a sync: no MessagePack") from None
    made: T = _made(cls, read)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    return value


def _made(kind: Any, value: Any) -> Any:
    """A value of a type, checked down to its parts."""
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        if value is None and NoneType in get_args(kind):
            return None
        (kind,) = (one for one in get_args(kind) if one is not NoneType)
        return _made(kind, value)
    if origin is tuple:
        if type(value) is not tuple:
            raise _wrong(kind)
        item = get_args(kind)[0]
        if item in (bytes, str, int):
            if not set(map(type, value)) <= {item}:
                raise _wrong(kind)
            return value
        return tuple(_made(item, one) for one in value)
    if origin is Literal:
        if type(value) is not str or value not in get_args(kind):
            raise _wrong(kind)
        return value
    if is_dataclass(kind) and isinstance(kind, type):
        kinds = _kinds(kind)
        if type(value) is not tuple or len(value) != len(kinds):
            raise _wrong(kind)
        return kind(*map(_made, kinds, value))
    if type(value) is not kind:
        raise _wrong(kind)
    return value


@cache
def _kinds(cls: type) -> tuple[Any, ...]:
    hints = get_type_hints(cls)
    return tuple(hints[field.name] for field in fields(cls))


def _wrong(kind: Any) -> CorruptError:
    return CorruptError(
        "not a message of a sync", expected=getattr(kind, "__name__", str(kind)).lower()
    )


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
        peer.check((self.since, self.hello))


@dataclass(frozen=True, slots=True)
class Ranges:
    """Asks for ranges, or for the items in them."""

    space: Space
    prefixes: tuple[str, ...]
    hello: Hello

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        peer.check_prefixes(self.prefixes)
        peer.check(self.hello)


@dataclass(frozen=True, slots=True)
class Lacking:
    """Asks which items are not there."""

    space: Space
    items: tuple[SyncItem, ...]

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        peer.check_count(self.items)
        peer.check(self.items)


@dataclass(frozen=True, slots=True)
class Give:
    """Asks for items."""

    space: Space
    keys: tuple[bytes, ...]
    hello: Hello

    def check(self) -> None:
        """See that it is a question that can be; errors as of ``bounds.check``."""
        peer.check_keys(self.keys)
        peer.check(self.hello)


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
    "listing": tuple[SyncItem, ...],
    "lacking": bytes,
    "give": Batch,
    "take": BatchResult,
}
"""What is answered, by the name of the question."""


def pack(value: Any) -> bytes:
    """Make a message of a value."""
    grains: Sequence[bytes] = ()
    if isinstance(value, Batch):
        grains, value = value.grains, replace(value, grains=())
    head = pack_value(value)
    return b"".join(pack_stream(grains, len(head).to_bytes(_LENGTH, "big") + head))


def unpack(cls: type[T], data: bytes, *, limit: int = MOST) -> T:
    """Read a message."""
    source = Unpacked(data, limit)
    size = int.from_bytes(source.exactly(_LENGTH), "big")
    if size > min(_VALUE, limit):
        raise TooLargeError(
            "a message is larger than is taken",
            expected=f"at most {min(_VALUE, limit)} bytes",
            found=f"{size} bytes",
        )
    value = unpack_value(cls, source.exactly(size))
    if isinstance(value, Changes | Ranges | Lacking | Give):
        value.check()
    else:
        peer.check(value)
    grains = tuple(source.grains())
    if isinstance(value, Batch):
        if value.grains:
            raise CorruptError("grains of a batch stand behind it")
        peer.check_count(grains, peer.GRAINS)
        return cast("T", replace(value, grains=grains))
    if grains:
        raise CorruptError("grains behind what is no batch")
    return value
