# SPDX-License-Identifier: Apache-2.0
"""A second encoder of OMS 1.2 in the standard library alone, to compare the core with.

It compacts, converts, packs, heads and hashes; it does not validate. It shares no line and no
table with the Rust core, so both must read the specification alike to give the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any, TypedDict
from unicodedata import normalize

import oracle_tables as tables

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[Tt ](\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:[Zz]|([+-])(\d\d):(\d\d))"
)


class Stages(TypedDict):
    """Every stage between a dict and its address."""

    compact: dict[str, Any]
    payload: bytes
    header: bytes
    blob: bytes
    address: str


def epoch_ms(value: Any) -> Any:
    """A datetime field as int ms, floored; integers (and what is no time) as they are."""
    if isinstance(value, datetime):
        return (value - _EPOCH) // timedelta(milliseconds=1)
    if not isinstance(value, str) or (parts := _RFC3339.fullmatch(value)) is None:
        return value
    year, month, day, hour, minute, second = (int(parts[i]) for i in range(1, 7))
    offset = timedelta(hours=int(parts[9] or 0), minutes=int(parts[10] or 0))
    whole = datetime(year, month, day, hour, minute, min(second, 59), tzinfo=timezone.utc)
    seconds = (whole - _EPOCH) // timedelta(seconds=1)
    seconds -= int(offset.total_seconds()) * (-1 if parts[8] == "-" else 1)
    if second == 60:  # the leap second is taken as the start of the next one
        return (seconds + 1) * 1000
    return seconds * 1000 + int((parts[7] or "").ljust(3, "0")[:3])


def clean(value: Any) -> Any:
    """NFC everywhere, nulls out of maps (not out of arrays)."""
    if isinstance(value, str):
        return normalize("NFC", value)
    if isinstance(value, Mapping):
        return {normalize("NFC", k): clean(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    return bytes(value) if isinstance(value, (bytearray, memoryview)) else value


def full_names(fields: Mapping[str, Any], old_name: str, type_name: str) -> dict[str, Any]:
    """The fields without nulls, 1.1 field names replaced where the type name is a 1.1 name."""
    out = {normalize("NFC", k): v for k, v in fields.items() if v is not None}
    aliases = tables.ALIASES.get(type_name, {}) if old_name in tables.NAMES_1_1 else {}
    for alias, (name, negated) in aliases.items():
        if alias in out and name not in out:
            value = out.pop(alias)
            out[name] = not value if negated else value
    return out


def compact(
    fields: Mapping[str, Any], *, keep_type_name: bool = False, type_byte: int | None = None
) -> dict[str, Any]:
    """The map that is packed: short keys, times in ms, floats, NFC, no nulls (keys unsorted)."""
    opaque = type_byte is not None and type_byte > 10
    old_name = "" if opaque else fields["type"]
    type_name = tables.OLD_NAMES.get(old_name, old_name)
    named = full_names(fields, old_name, type_name)
    datetimes = set(tables.DATETIME)
    for profile, extra in tables.PROFILE_DATETIME.items():
        if f"profile:{profile}" in named.get("structural_tags", ()):
            datetimes |= set(extra)
    out: dict[str, Any] = {}
    for name, value in named.items():
        if not opaque and name in datetimes:
            value = epoch_ms(value)
        value = clean(value)
        floats = tables.FLOAT64 if not opaque else frozenset()
        if name in floats:
            value = float(value)
        if name in tables.NESTED and isinstance(value, list):
            value = [_compact_entry(tables.NESTED[name], entry, floats) for entry in value]
        out[short_key(type_name, name)] = value
    if not opaque and not keep_type_name:
        out["t"] = type_name
    return out


def short_key(type_name: str, name: str) -> str:
    """The key of a field in a payload; an unknown name is its own."""
    return tables.BY_TYPE.get((type_name, name)) or tables.SHORT.get(name, name)


def _compact_entry(table: dict[str, str], entry: Any, floats: frozenset[str]) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {table.get(k, k): float(v) if k in floats else v for k, v in entry.items()}


def _head(n: int, inline: int, base: int, *firsts: int) -> bytes:
    """The shortest head: in one byte up to `inline`, else a first byte for 1, 2, 4, 8 bytes."""
    if n <= inline:
        return bytes([base + n])
    fits = ((w, f) for w, f in zip((1, 2, 4, 8), firsts, strict=False) if f and n < 256**w)
    width, first = next(fits)
    return bytes([first]) + n.to_bytes(width, "big")


def pack_msgpack(v: Any) -> bytes:
    """Canonical MessagePack.  Spec: OMS §4."""
    if v is None or isinstance(v, bool):
        return {None: b"\xc0", False: b"\xc2", True: b"\xc3"}[v]
    if isinstance(v, int) and v >= -32:
        return bytes([256 + v]) if v < 0 else _head(v, 127, 0, 0xCC, 0xCD, 0xCE, 0xCF)
    if isinstance(v, int):
        power = next(p for p in range(4) if v >= -(256**2**p) // 2)
        return bytes([0xD0 + power]) + v.to_bytes(2**power, "big", signed=True)
    if isinstance(v, float):
        return b"\xcb" + struct.pack(">d", v)
    if isinstance(v, str):
        return _head(len(raw := v.encode()), 31, 0xA0, 0xD9, 0xDA, 0xDB) + raw
    if isinstance(v, bytes):
        return _head(len(v), -1, 0, 0xC4, 0xC5, 0xC6) + v
    if isinstance(v, list):
        return _head(len(v), 15, 0x90, 0, 0xDC, 0xDD) + b"".join(map(pack_msgpack, v))
    pairs = sorted((k.encode(), pack_msgpack(k) + pack_msgpack(item)) for k, item in v.items())
    return _head(len(v), 15, 0x80, 0, 0xDE, 0xDF) + b"".join(pair for _, pair in pairs)


def _cbor_head(major: int, n: int) -> bytes:
    return _head(n, 23, major << 5, *(major << 5 | low for low in (24, 25, 26, 27)))


def _cbor_float(v: float) -> bytes:
    for first, fmt in ((b"\xf9", ">e"), (b"\xfa", ">f")):
        try:
            raw = struct.pack(fmt, v)
        except OverflowError:
            continue
        if struct.unpack(fmt, raw)[0] == v:
            return first + raw
    return b"\xfb" + struct.pack(">d", v)


def pack_cbor(v: Any) -> bytes:
    """Canonical CBOR.  Spec: OMS §16.2, RFC 8949 §4.2.1."""
    if v is None or isinstance(v, bool):
        return {None: b"\xf6", False: b"\xf4", True: b"\xf5"}[v]
    if isinstance(v, int):
        return _cbor_head(0, v) if v >= 0 else _cbor_head(1, -1 - v)
    if isinstance(v, float):
        return _cbor_float(v)
    if isinstance(v, str):
        return _cbor_head(3, len(raw := v.encode())) + raw
    if isinstance(v, bytes):
        return _cbor_head(2, len(v)) + v
    if isinstance(v, list):
        return _cbor_head(4, len(v)) + b"".join(map(pack_cbor, v))
    pairs = sorted((pack_cbor(k), pack_cbor(item)) for k, item in v.items())
    return _cbor_head(5, len(v)) + b"".join(k + item for k, item in pairs)


PACK: dict[str, Callable[[Any], bytes]] = {"msgpack": pack_msgpack, "cbor": pack_cbor}


def header(payload: Mapping[str, Any], byte: int, *, encoding: str, sensitivity: int = 0) -> bytes:
    """The 9 header bytes that a compacted payload map asks for.  Spec: OMS §3."""
    tags = [t for t in payload.get("tags", []) if isinstance(t, str)]
    levels = tables.TAG_LEVEL.items()
    asked = (level for prefix, level in levels for t in tags if t.startswith(prefix))
    flags = (8 if payload.get("cr") else 0) | (16 if payload.get("er") else 0)
    flags |= (32 if encoding == "cbor" else 0) | max([sensitivity, *asked]) << 6
    namespace = payload.get("ns") or None
    ns_hash = hashlib.sha256(namespace.encode()).digest()[:2] if namespace else bytes(2)
    created = payload.get("ca")
    seconds = created // 1000 if isinstance(created, int) and 0 <= created < 1000 << 32 else 0
    return bytes([1, flags, byte]) + ns_hash + struct.pack(">I", seconds)


def address(blob: bytes) -> str:
    """The content address."""
    return hashlib.sha256(blob).hexdigest()


def stages(
    fields: Mapping[str, Any],
    encoding: str = "msgpack",
    sensitivity: int = 0,
    keep_type_name: bool = False,
    type_byte: int | None = None,
) -> Stages:
    """Every stage of the encoding of a dict."""
    small = compact(fields, keep_type_name=keep_type_name, type_byte=type_byte)
    if type_byte is None:
        type_byte = tables.TYPE_BYTE[tables.OLD_NAMES.get(small["t"], small["t"])]
    payload = PACK[encoding](small)
    head = header(small, type_byte, encoding=encoding, sensitivity=sensitivity)
    blob = head + payload
    return Stages(compact=small, payload=payload, header=head, blob=blob, address=address(blob))


def encode(fields: Mapping[str, Any], encoding: str = "msgpack", **options: Any) -> bytes:
    """The blob; the options are those of `stages`."""
    return stages(fields, encoding, **options)["blob"]
