# SPDX-License-Identifier: Apache-2.0
"""Reading what another writer made wrongly, for inspection only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omsgrain import _core, registry
from omsgrain.errors import CorruptError, OmsError, UnsupportedError
from omsgrain.grain import Grain

_MAX = 1 << 20  # bytes; what a strict reader would take
_DEPTH = 100  # levels; a strict reader takes 32


def read_leniently(blob: bytes) -> Grain:
    """Read a blob as far as it can be read; why it is refused stands in ``warnings``.

    Raises:
        TooShortError, VersionError: there is no header to go by.
        CorruptError: not even a lenient reader finds a map.
        UnsupportedError: the payload is packed or sealed, so there is nothing to look at.
    """
    try:
        return Grain(blob)
    except OmsError as refused:
        header = _core.header(blob)
        reason = str(refused)
    flags, type_byte = header[1], header[2]
    if flags & 0b110:
        raise UnsupportedError("a packed or sealed payload cannot be read leniently")
    packed = blob[9 : 9 + _MAX]
    payload = _unpack(packed, cbor=bool(flags & 32))
    _refuse_larger(payload, 2 * len(packed))  # a byte of MessagePack can be two values
    grain_type = next((t for t in registry.TYPES if t.byte == type_byte), None)
    name = grain_type.name if grain_type else None
    fields = {_full_name(str(key), name): value for key, value in payload.items()}
    return Grain._of(blob, header, name, [reason], fields)


def _unpack(payload: bytes, cbor: bool) -> dict[Any, Any]:
    try:
        if cbor:
            import cbor2

            value = cbor2.loads(payload)
        else:
            import msgpack

            value = msgpack.unpackb(payload, strict_map_key=False, raw=False)
    except Exception as cause:
        # The libraries raise many kinds; all of them mean that the bytes cannot be read.
        raise CorruptError("not even a lenient reader can read the payload") from cause
    if not isinstance(value, dict):
        raise CorruptError("the payload is not a map", found=type(value).__name__)
    return value


def _refuse_larger(payload: dict[Any, Any], size: int) -> None:
    """Refuse what is more than its bytes can hold: CBOR has parts that stand for other parts.

    A few bytes of it can be a map without an end, or one that fills any memory when it is written.
    """
    level: list[Any] = [payload]
    for _ in range(_DEPTH):
        size -= len(level)
        below: list[Any] = []
        for value in level:
            if isinstance(value, str | bytes):
                size -= len(value)
            elif isinstance(value, Mapping):
                below += value
                below += value.values()
            elif isinstance(value, list | tuple | set | frozenset):
                below += value
            elif hasattr(value, "tag"):  # of CBOR, which nobody here knows
                below.append(value.value)
            if len(below) > size:
                raise CorruptError("the payload holds more than its bytes can")
        if not below:
            return
        level = below
    raise CorruptError("nested too deep", expected=f"at most {_DEPTH} levels")


def _full_name(key: str, type_name: str | None) -> str:
    matches = [f for f in registry.FIELDS if f.short == key]
    own = [f for f in matches if f.scope == type_name]
    return (own or matches)[0].name if matches else key
