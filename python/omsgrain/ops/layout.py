# SPDX-License-Identifier: Apache-2.0
"""Where each entry of a payload stands: only heads are read, values are stepped over.

For people who look at bytes; whether the bytes are canonical is the core's to say. So it also
reads what another writer made badly, as far as the lengths in it hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from omsgrain.errors import CorruptError, NotMapError

HEADER_SIZE = 9

#: What a head says: kind of the item, bytes of head and body, number of items inside.
Head: TypeAlias = tuple[str, int, int]

_MSGPACK_SIZED = {  # first byte -> kind, bytes of the length
    0xC4: ("bytes", 1), 0xC5: ("bytes", 2), 0xC6: ("bytes", 4),
    0xC7: ("ext", 1), 0xC8: ("ext", 2), 0xC9: ("ext", 4),
    0xD9: ("string", 1), 0xDA: ("string", 2), 0xDB: ("string", 4),
    0xDC: ("array", 2), 0xDD: ("array", 4), 0xDE: ("map", 2), 0xDF: ("map", 4),
}  # fmt: skip
_MSGPACK_FIXED = {  # first byte -> kind, bytes of the body
    0xC0: ("nil", 0), 0xC2: ("false", 0), 0xC3: ("true", 0), 0xCA: ("float32", 4),
    0xCB: ("float64", 8), 0xCC: ("uint8", 1), 0xCD: ("uint16", 2), 0xCE: ("uint32", 4),
    0xCF: ("uint64", 8), 0xD0: ("int8", 1), 0xD1: ("int16", 2), 0xD2: ("int32", 4),
    0xD3: ("int64", 8), 0xD4: ("ext", 2), 0xD5: ("ext", 3), 0xD6: ("ext", 5),
    0xD7: ("ext", 9), 0xD8: ("ext", 17),
}  # fmt: skip
_CBOR_SIMPLE = {20: "false", 21: "true", 22: "null", 25: "float16", 26: "float32", 27: "float64"}


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One key of the payload map and its value, by their offsets in the payload."""

    key: str
    start: int
    value: int
    end: int
    kind: str


def entries(payload: bytes, encoding: str) -> Iterator[MapEntry]:
    """Walk the payload's map."""
    head = _HEADS[encoding]
    kind, size, inside = head(payload, 0)
    if not kind.startswith("map"):
        raise NotMapError("the payload is not a map", offset=HEADER_SIZE, found=kind.split("(")[0])
    at = size
    for _ in range(inside // 2):
        key_kind, key_size, _ = head(payload, at)
        value = _step(payload, at, head)
        kind, _, _ = head(payload, value)
        end = _step(payload, value, head)
        if key_kind.startswith("string"):
            length = int(key_kind[len("string(") : -1])
            key = payload[at + key_size - length : at + key_size].decode(errors="replace")
        else:
            key = f"<{key_kind}>"
        yield MapEntry(key, at, value, end, kind)
        at = end


def _step(data: bytes, at: int, head: Callable[[bytes, int], Head]) -> int:
    """The end of the item at a position; a counter instead of recursion, whatever the depth."""
    pending = 1
    while pending:
        _, size, inside = head(data, at)
        at += size
        pending += inside - 1
        if at > len(data):
            raise CorruptError("the payload ends inside an item", offset=HEADER_SIZE + len(data))
    return at


def _msgpack(data: bytes, at: int) -> Head:
    first = _read(data, at, 1)
    if first < 0x80 or first >= 0xE0:
        return "fixint", 1, 0
    if first < 0xC0:
        kind, count = ("map", first & 15) if first < 0x90 else ("array", first & 15)
        return _sized("string", 1, first & 31) if first >= 0xA0 else _sized(kind, 1, count)
    if first in _MSGPACK_SIZED:
        kind, width = _MSGPACK_SIZED[first]
        return _sized(kind, 1 + width, _read(data, at + 1, width))
    if first in _MSGPACK_FIXED:
        kind, size = _MSGPACK_FIXED[first]
        _read(data, at, 1 + size)
        return kind, 1 + size, 0
    raise CorruptError(
        "no MessagePack item begins so", offset=HEADER_SIZE + at, found=f"{first:02x}"
    )


def _cbor(data: bytes, at: int) -> Head:
    first = _read(data, at, 1)
    major, low = first >> 5, first & 31
    if low > 27:
        raise CorruptError(
            "indefinite or reserved length", offset=HEADER_SIZE + at, found=f"{first:02x}"
        )
    width = 0 if low < 24 else 1 << (low - 24)
    count = _read(data, at + 1, width) if width else low
    if major == 7:
        return _CBOR_SIMPLE.get(low, "simple"), 1 + width, 0
    if major < 2:
        return ("uint" if major == 0 else "negative"), 1 + width, 0
    if major == 6:
        return f"tag({count})", 1 + width, 1
    return _sized(("bytes", "string", "array", "map")[major - 2], 1 + width, count)


def _sized(kind: str, head: int, count: int) -> Head:
    name = f"{kind}({count})"
    if kind == "ext":
        return name, head + 1 + count, 0
    if kind in ("string", "bytes"):
        return name, head + count, 0
    return name, head, count * 2 if kind == "map" else count


def _read(data: bytes, at: int, width: int) -> int:
    if at + width > len(data):
        raise CorruptError("the payload ends inside an item", offset=HEADER_SIZE + len(data))
    return int.from_bytes(data[at : at + width], "big")


_HEADS: dict[str, Callable[[bytes, int], Head]] = {"msgpack": _msgpack, "cbor": _cbor}
