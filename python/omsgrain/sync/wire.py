# SPDX-License-Identifier: Apache-2.0
"""The values of ``peer.py`` as bytes: MessagePack, a dataclass as an array of its fields."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import msgpack

from omsgrain.errors import CorruptError

__all__ = ["pack", "unpack"]

T = TypeVar("T")


def pack(value: Any) -> bytes:
    """Make bytes of a value, or of a tuple or list of them."""
    packed: bytes = msgpack.packb(_plain(value))
    return packed


def unpack(cls: type[T], data: bytes) -> T:
    """Read a value back.

    Args:
        cls: its class, or ``tuple[Range, ...]`` and the like.
        data: what ``pack`` made, here or elsewhere.

    Raises:
        CorruptError: these are not the bytes of such a value.
    """
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
