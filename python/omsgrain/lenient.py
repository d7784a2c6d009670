# SPDX-License-Identifier: Apache-2.0
"""Reading what another writer made wrongly, for inspection only."""

from __future__ import annotations

from typing import Any

from omsgrain import _core, registry
from omsgrain.errors import CorruptError, OmsError, UnsupportedError
from omsgrain.grain import Grain

_MAX = 1 << 20  # bytes; what a strict reader would take


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
    payload = _unpack(blob[9 : 9 + _MAX], cbor=bool(flags & 32))
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


def _full_name(key: str, type_name: str | None) -> str:
    matches = [f for f in registry.FIELDS if f.short == key]
    own = [f for f in matches if f.scope == type_name]
    return (own or matches)[0].name if matches else key
