# SPDX-License-Identifier: Apache-2.0
"""Explain what each byte of a grain means.

The heads of the items lead through the payload. So a blob that strict reading refuses can be
explained too, as far as its lengths are valid. Only the core checks whether the bytes are
canonical.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import omsgrain as og
from omsgrain.errors import CorruptError, NotMapError, OmsError
from omsgrain.grain import plain
from omsgrain.header import HEADER_SIZE
from omsgrain.json_values import time_text

_LEVELS = ("public", "internal", "pii", "phi")
_FLAGS = ("signed", "encrypted", "compressed", "content refs", "embedding refs", "cbor")

_Head: TypeAlias = tuple[str, int, int]
"""Kind of an item, bytes of its head and body, number of items inside."""

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
class HeaderPart:
    offset: int
    size: int
    name: str
    hex: str
    meaning: str


@dataclass(frozen=True, slots=True)
class FieldPart:
    """One entry of the payload; its offsets are in the blob, decompressed."""

    name: str
    key: str
    offset: int
    value_offset: int
    end: int
    kind: str
    value: Any  # None if it could not be read
    note: str | None = None  # of a time its text


@dataclass(frozen=True, slots=True)
class Explanation:
    address: str
    blob: bytes  # decompressed, if its payload could be read
    size: int  # of the stored blob
    header: tuple[HeaderPart, ...]
    type: str | None  # None if the payload could not be read
    fields: tuple[FieldPart, ...]
    warnings: tuple[str, ...]
    error: OmsError | None = None  # of strict reading, if it was explained all the same

    def to_dict(self) -> dict[str, Any]:
        return {
            "address": self.address,
            "size": self.size,
            "type": self.type,
            "header": [asdict(part) for part in self.header],
            "fields": [asdict(part) for part in self.fields],
            "warnings": list(self.warnings),
            "error": None if self.error is None else self.error.to_dict(),
        }


def explain(source: bytes | og.Grain, *, lenient: bool = False) -> Explanation:
    error: OmsError | None = None
    grain: og.Grain | None = source if isinstance(source, og.Grain) else None
    blob = source.blob if isinstance(source, og.Grain) else source
    header = og.read_header(blob)
    if grain is None:
        try:
            grain = og.decode(blob)
        except OmsError as refused:
            if not lenient:
                raise
            error = refused
            with suppress(OmsError):
                grain = og.decode(blob, strict=False)
    shown = _unpacked(blob, grain) if header.compressed else blob
    opaque = header.encrypted or (header.compressed and shown is blob)
    return Explanation(
        address=grain.address if isinstance(source, og.Grain) and grain else og.address(blob),
        blob=shown,
        size=len(blob),
        header=_header(blob, header, None if grain is None else grain.fields.get("namespace")),
        type=None if grain is None else grain.type,
        fields=() if opaque else _fields(shown, header.encoding, grain),
        warnings=() if grain is None or error is not None else grain.warnings,
        error=error,
    )


def _unpacked(blob: bytes, grain: og.Grain | None) -> bytes:
    """Decompress a blob by encoding its grain again: a canonical payload has one form."""
    if grain is None:
        return blob
    try:
        again = og.encode(
            grain.to_dict(),
            encoding=grain.header.encoding,
            keep_type_name=True,
            type_byte=grain.header.type_byte if grain.header.type_byte > 10 else None,
        )
    except OmsError:
        return blob
    return blob[:HEADER_SIZE] + again[HEADER_SIZE:]


def _header(blob: bytes, header: og.header.Header, namespace: Any) -> tuple[HeaderPart, ...]:
    flags = [name for bit, name in enumerate(_FLAGS) if header.flags >> bit & 1]
    flags.append(f"sensitivity {header.sensitivity} ({_LEVELS[header.sensitivity]})")
    rows = (
        (1, "version", "OMS format version 1"),
        (1, "flags", f"{header.flags:08b}: {', '.join(flags)}"),
        (1, "type", _type_name(header.type_byte)),
        (2, "ns_hash", _ns_meaning(header.ns_hash, namespace)),
        (4, "created_at", f"{time_text(header.created_at * 1000)}, a hint"),
    )
    parts, at = [], 0
    for size, name, meaning in rows:
        parts.append(HeaderPart(at, size, name, blob[at : at + size].hex(), meaning))
        at += size
    return tuple(parts)


def _type_name(byte: int) -> str:
    names = {row.byte: row.name for row in og.registry.TYPES}
    if byte in names:
        return names[byte]
    return "domain profile, opaque" if byte >= 0xF0 else "reserved, opaque" if byte else "invalid"


def _ns_meaning(value: int, namespace: Any) -> str:
    if isinstance(namespace, str) and namespace:
        digest = hashlib.sha256(namespace.encode(errors="replace")).digest()
        matches = int.from_bytes(digest[:2], "big") == value
        return "SHA-256 of the namespace, first two bytes" if matches else "not the namespace's"
    return "no namespace" if value == 0 else "no namespace to compare with"


def _fields(blob: bytes, encoding: str, grain: og.Grain | None) -> tuple[FieldPart, ...]:
    known = _known(None if grain is None else grain.type)
    values: Mapping[str, Any] = {} if grain is None else grain.fields
    parts: list[FieldPart] = []
    try:
        for key, start, value_at, end, encoded in _entries(blob[HEADER_SIZE:], encoding):
            name, kind = known.get(key, (key, ""))
            value = plain(values.get(name))
            is_time = kind == "datetime" and isinstance(value, int)
            parts.append(
                FieldPart(
                    name=name,
                    key=key,
                    offset=HEADER_SIZE + start,
                    value_offset=HEADER_SIZE + value_at,
                    end=HEADER_SIZE + end,
                    kind=encoded,
                    value=value,
                    note=time_text(value) if is_time else None,
                )
            )
    except OmsError:
        pass  # show the readable part; the error of strict reading explains the rest
    return tuple(parts)


def _known(type_name: str | None) -> dict[str, tuple[str, str]]:
    """Key in the payload -> full name and kind, for a grain of the type."""
    types = {row.name for row in og.registry.TYPES}
    of_type = type_name if type_name in types else None
    names = {row.name for row in og.registry.FIELDS}
    fields = (og.registry.field(name, of_type) for name in names)
    return {row.short: (row.name, row.kind) for row in fields}


def _entries(payload: bytes, encoding: str) -> Iterator[tuple[str, int, int, int, str]]:
    """Walk the payload's map: each key, where it, its value and the rest begin, and the kind."""
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
        yield key, at, value, end, kind
        at = end


def _step(data: bytes, at: int, head: Callable[[bytes, int], _Head]) -> int:
    """Return the end of the item at a position; a counter avoids recursion at any depth."""
    pending = 1
    while pending:
        _, size, inside = head(data, at)
        at += size
        pending += inside - 1
        if at > len(data):
            raise CorruptError("the payload ends inside an item", offset=HEADER_SIZE + len(data))
    return at


def _msgpack(data: bytes, at: int) -> _Head:
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
        "no MessagePack item begins with this byte", offset=HEADER_SIZE + at, found=f"{first:02x}"
    )


def _cbor(data: bytes, at: int) -> _Head:
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


def _sized(kind: str, head: int, count: int) -> _Head:
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


_HEADS: dict[str, Callable[[bytes, int], _Head]] = {"msgpack": _msgpack, "cbor": _cbor}
