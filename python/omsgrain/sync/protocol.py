# SPDX-License-Identifier: Apache-2.0
"""Requests and responses of a sync as bytes, and the limits of every value in them.

A message is a zstd frame. Decompressed it is

    u32 length ++ value in MessagePack ++ grains in the stream framing of OMS §11.6

Only batches have grains. Integers are big-endian. A dataclass is the array of its fields.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cache
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

import msgpack

from omsgrain.container.stream import Unpacked, pack_stream
from omsgrain.errors import CorruptError, RangeError, SchemaError, TooLargeError
from omsgrain.store.holds import LONGEST
from omsgrain.sync.peer import (
    FRAME,
    GRAINS,
    ID,
    ITEMS,
    KEY,
    LEAST_FRAME,
    PLACE,
    SHORT,
    SIZE,
    Batch,
    BatchResult,
    GrainState,
    Greeting,
    Hello,
    HoldToggle,
    Kind,
    Position,
    Reconciled,
    Refusal,
    Space,
    Tombstone,
)

T = TypeVar("T")
Check: TypeAlias = Callable[[Any], None]

MEDIA: Final = "application/vnd.omsgrain.sync"
"""The media type of all messages."""
PATH: Final = "/v1/sync/"
"""The path of a request, before its name."""
MOST: Final = 4 * SIZE
"""Bytes of a decompressed message."""
_LENGTH = 4
_VALUE = 8 << 20  # bytes of a value; as Python objects it takes many times as much
_DIGEST, _HINT = 32, 2  # bytes
_WORD, _NAME, _NAMESPACES = 256, 1_024, 1_000
_LAST: Final = 2**63 - 1
_LISTED: Final = 100 * ITEMS


@dataclass(frozen=True, slots=True)
class Changes:
    """The request ``changes``."""

    since: Position
    hello: Hello
    size: int


@dataclass(frozen=True, slots=True)
class Reconcile:
    """The request ``reconcile``."""

    space: Space
    message: bytes
    hello: Hello
    initiator: bool
    limit: int


@dataclass(frozen=True, slots=True)
class Get:
    """The request ``give``."""

    kind: Kind
    keys: tuple[bytes, ...]
    hello: Hello


QUESTIONS: Final[dict[str, Any]] = {
    "greet": Hello,
    "share": tuple[bytes, ...],
    "changes": Changes,
    "reconcile": Reconcile,
    "lacking": tuple[bytes, ...],
    "give": Get,
    "take": Batch,
}
"""Name of a request on the wire -> the type of its value."""

ANSWERS: Final[dict[str, Any]] = {
    "greet": Greeting,
    "share": tuple[bytes, ...],
    "changes": Batch,
    "reconcile": Reconciled,
    "lacking": bytes,
    "give": Batch,
    "take": BatchResult,
}
"""Name of a request on the wire -> the type of its response."""


def pack(value: Any) -> bytes:
    grains: Sequence[bytes] = ()
    if isinstance(value, Batch):
        grains, value = value.grains, replace(value, grains=())
    head = pack_value(value)
    return b"".join(pack_stream(grains, len(head).to_bytes(_LENGTH, "big") + head))


def unpack(cls: type[T], data: bytes, *, limit: int = MOST) -> T:
    source = Unpacked(data, limit)
    size = int.from_bytes(source.exactly(_LENGTH), "big")
    if size > min(_VALUE, limit):
        raise TooLargeError(
            "the sync message is too large",
            expected=f"at most {min(_VALUE, limit)} bytes",
            found=f"{size} bytes",
        )
    value = unpack_value(cls, source.exactly(size))
    check(value)
    grains = tuple(source.grains())
    if isinstance(value, Batch):
        if value.grains:
            raise CorruptError("the grains of a batch belong after its value")
        check_count(grains, GRAINS)
        return cast("T", replace(value, grains=grains))
    if grains:
        raise CorruptError("grains after a message that is not a batch")
    return value


def pack_value(value: Any) -> bytes:
    """Encode a value, or a tuple or list of values."""
    packed: bytes = msgpack.packb(_plain(value))
    return packed


def unpack_value(cls: type[T], data: bytes) -> T:
    """Decode a value of a type; check the types of all its parts."""
    try:
        read = msgpack.unpackb(data, use_list=False, strict_map_key=True)
    except (ValueError, TypeError):
        raise CorruptError("not a sync message: invalid MessagePack") from None
    made: T = _made(cls, read)
    return made


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in fields(value)]
    return value


def _made(kind: Any, value: Any) -> Any:
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
        "not a sync message", expected=getattr(kind, "__name__", str(kind)).lower()
    )


def check(value: Any) -> None:
    """Refuse a value with a part that is too long, too many or out of range."""
    if isinstance(value, tuple):
        _all(_LISTED, check)(value)
    for name, limit in _LIMITS.get(type(value), {}).items():
        limit(getattr(value, name))


def check_count(items: Sequence[Any], most: int = ITEMS) -> None:
    """Refuse more items than one message may have."""
    if len(items) > most:
        raise RangeError(
            "too many items in one message", expected=f"at most {most}", found=str(len(items))
        )


def check_addresses(addresses: Sequence[bytes]) -> None:
    """Refuse invalid addresses, or too many."""
    check_count(addresses)
    for address in addresses:
        _key(address)


def check_keys(keys: Sequence[bytes], most: int = ITEMS) -> None:
    """Refuse invalid keys; a key may be short, or end with the offset of a piece."""
    check_count(keys, most)
    for key in keys:
        if len(key) not in (SHORT, KEY, KEY + PLACE):
            raise SchemaError("not the key of an item", expected=f"{SHORT} or {KEY} bytes")


def _exactly(size: int) -> Check:
    def check_size(data: bytes) -> None:
        if len(data) != size:
            raise SchemaError("wrong number of bytes", expected=str(size), found=str(len(data)))

    return check_size


def _at_most(size: int) -> Check:
    def check_size(data: bytes) -> None:
        if len(data) > size:
            raise SchemaError("too many bytes", expected=f"at most {size}", found=str(len(data)))

    return check_size


def _id(data: bytes) -> None:
    if data:
        _exactly(ID)(data)


def _text(most: int) -> Check:
    def check_length(text: str | None) -> None:
        if text is not None and len(text) > most:
            raise RangeError("a text is too long", expected=f"at most {most} letters")

    return check_length


def _from(least: int, last: int = _LAST) -> Check:
    def check_range(number: int) -> None:
        # A Python peer can pass any value; a row with another type could not be read again.
        if type(number) is not int:
            raise SchemaError("not an integer", found=type(number).__name__)
        if not least <= number <= last:
            raise RangeError("a number is out of range", expected=f"{least} to {last}")

    return check_range


def _all(most: int, each: Check) -> Check:
    def check_each(items: Sequence[Any] | None) -> None:
        check_count(items or (), most)
        for one in items or ():
            each(one)

    return check_each


def _valid_to(number: int | None) -> None:
    if number is not None:
        _from(-_LAST)(number)


_number, _word, _key, _digest = _from(0), _text(_WORD), _exactly(KEY), _at_most(_DIGEST)
# The store refuses only a higher epoch, and not its whole batch.
_epoch = _from(0, 2**64 - 1)
_namespaces, _parts = _all(_NAMESPACES, _text(_NAME)), _all(GRAINS, check)
_LIMITS: Final[dict[type, dict[str, Check]]] = {
    Position: {"seq": _number, "mark": _digest},
    Hello: {"store": _id, "namespaces": _namespaces},
    Greeting: {
        "store": _id,
        **dict.fromkeys(("version", "grains"), _number),
        **dict.fromkeys(("position", "seen"), check),
        **dict.fromkeys(("keys", "tombstones", "holds", "followed"), _digest),
    },
    Reconciled: {
        **dict.fromkeys(("message", "have", "need"), _at_most(_VALUE)),
        "sample": _all(ITEMS, _key),
    },
    HoldToggle: {
        "authority": _text(LONGEST),
        "reason_code": _word,
        "epoch": _epoch,
        "since": _number,
    },
    GrainState: {
        "address": _key,
        "successors": _all(_LISTED, _key),
        "valid_to": _valid_to,
        "restricted": _epoch,
        "holds": _all(_LISTED, check),
    },
    Tombstone: {
        "mark": _key,
        "reason_code": _word,
        "at": _number,
        "times": _from(1),
        "hint": _at_most(_HINT),
    },
    Refusal: {"address": _key, "code": _word, "rule": _word},
    Batch: {
        "store": _id,
        "namespaces": _namespaces,
        **dict.fromkeys(("until", "taken"), check),
        **dict.fromkeys(("grains", "states", "tombstones", "withheld"), _parts),
        "rest": lambda keys: check_keys(keys, _LISTED),
        "followed": _digest,
    },
    BatchResult: {
        **dict.fromkeys(
            ("stored", "duplicates", "states", "tombstones", "erased", "unproven"), _number
        ),
        "waiting": _all(GRAINS, _key),
        "refused": _all(4 * GRAINS, check),
    },
    Changes: {"since": check, "hello": check},
    Reconcile: {
        "message": _at_most(2 * FRAME),
        "hello": check,
        "limit": _from(LEAST_FRAME, FRAME),
    },
    Get: {"keys": check_keys, "hello": check},
}
"""Type of a value -> the limits of its fields."""
