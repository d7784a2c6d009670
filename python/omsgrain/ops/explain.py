# SPDX-License-Identifier: Apache-2.0
"""Say what each byte of a grain means."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import omsgrain as og
from omsgrain.errors import OmsError
from omsgrain.grain import plain
from omsgrain.json_values import time_text
from omsgrain.ops.layout import HEADER_SIZE, entries

_LEVELS = ("public", "internal", "pii", "phi")
_FLAGS = ("signed", "encrypted", "compressed", "content refs", "embedding refs", "cbor")


@dataclass(frozen=True, slots=True)
class HeaderPart:
    """Some bytes of the header and what they say."""

    offset: int
    size: int
    name: str
    hex: str
    meaning: str


@dataclass(frozen=True, slots=True)
class FieldPart:
    """One entry of the payload.

    Attributes:
        name: the full name.
        key: the key in the payload.
        offset: where the entry begins in the blob (of a compressed one, as if unpacked).
        value_offset: where its value begins.
        end: where it ends.
        kind: how the value is encoded.
        value: the value as JSON can hold it; None if it could not be read.
        note: the value in words, where it needs them: of a time, the time.
    """

    name: str
    key: str
    offset: int
    value_offset: int
    end: int
    kind: str
    value: Any
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """A blob taken apart.

    Attributes:
        address: the content address of these bytes.
        blob: the bytes; a compressed blob unpacked, if its payload could be read.
        size: length of the blob as it is stored.
        type: the 1.2 name, or None if the payload could not be read.
        error: why strict reading refuses the blob; only lenient explaining gives one.
    """

    address: str
    blob: bytes
    size: int
    header: tuple[HeaderPart, ...]
    type: str | None
    fields: tuple[FieldPart, ...]
    warnings: tuple[str, ...]
    error: OmsError | None = None

    def to_dict(self) -> dict[str, Any]:
        """The explanation as JSON-ready values, without the blob."""
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
    """Take a blob apart."""
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
            grain = _lenient(blob)
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


def _lenient(blob: bytes) -> og.Grain | None:
    try:
        return og.decode(blob, strict=False)
    except OmsError:
        return None


def _unpacked(blob: bytes, grain: og.Grain | None) -> bytes:
    """A strictly read payload is what the writer writes, so writing it again unpacks it."""
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
        for entry in entries(blob[HEADER_SIZE:], encoding):
            name, kind = known.get(entry.key, (entry.key, ""))
            value = plain(values.get(name))
            parts.append(
                FieldPart(
                    name=name,
                    key=entry.key,
                    offset=HEADER_SIZE + entry.start,
                    value_offset=HEADER_SIZE + entry.value,
                    end=HEADER_SIZE + entry.end,
                    kind=entry.kind,
                    value=value,
                    note=time_text(value)
                    if kind == "datetime" and isinstance(value, int)
                    else None,
                )
            )
    except OmsError:
        pass  # what can be read is shown; the error of strict reading says the rest
    return tuple(parts)


def _known(type_name: str | None) -> dict[str, tuple[str, str]]:
    """Key in the payload -> full name and kind, for a grain of the type."""
    types = {row.name for row in og.registry.TYPES}
    of_type = type_name if type_name in types else None
    names = {row.name for row in og.registry.FIELDS}
    fields = (og.registry.field(name, of_type) for name in names)
    return {row.short: (row.name, row.kind) for row in fields}
