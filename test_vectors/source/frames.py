# SPDX-License-Identifier: Apache-2.0
"""Bytes put together by hand: blobs of chosen headers and payloads, and zstd frames.

The frames hold raw and run-length blocks (RFC 8878 §3.1.1.2), which need no compressor.
"""

from __future__ import annotations

import struct

import oracle
from source.types import AT

COMPRESSED, CBOR = 4, 32
BLOCK = 128 << 10  # the largest block that zstd allows

#: The smallest belief: payload key -> encoded value.
MSGPACK = {
    "c": b"\xcb" + struct.pack(">d", 0.5),
    "ca": b"\xcf" + struct.pack(">Q", AT),
    "o": b"\xa1o",
    "r": b"\xa1r",
    "s": b"\xa1s",
    "t": b"\xa6belief",
}
CBOR_FORM = {
    "c": b"\xf9\x38\x00",
    "o": b"\x61o",
    "r": b"\x61r",
    "s": b"\x61s",
    "t": b"\x66belief",
    "ca": b"\x1b" + struct.pack(">Q", AT),
}


def blob(
    payload: bytes, flags: int = 0, kind: int = 1, ns: bytes = b"\x00\x00", at: int = AT // 1000
) -> bytes:
    """A blob of this header and payload, right or wrong."""
    return bytes([1, flags, kind]) + ns + struct.pack(">I", at) + payload


def msgpack(
    changes: dict[str, bytes | None] | None = None, kind: int = 1, flags: int = 0
) -> bytes:
    """A blob of the smallest belief with some values set, added, or (None) left out."""
    merged = {k: v for k, v in (MSGPACK | (changes or {})).items() if v is not None}
    keys = sorted(merged, key=str.encode)
    body = b"".join(oracle.pack_msgpack(key) + merged[key] for key in keys)
    return blob(bytes([0x80 + len(merged)]) + body, flags, kind)


def cbor(changes: dict[str, bytes | None] | None = None) -> bytes:
    """The same in CBOR."""
    merged = {k: v for k, v in (CBOR_FORM | (changes or {})).items() if v is not None}
    pairs = sorted(oracle.pack_cbor(key) + value for key, value in merged.items())
    return blob(bytes([0xA0 + len(merged)]) + b"".join(pairs), CBOR)


def raw_frame(content: bytes, stated: int | None = None) -> bytes:
    """One zstd frame of one raw block, with its content size or another."""
    size = len(content) if stated is None else stated
    return _frame_head(size) + _block(content, len(content), kind=0, last=True)


def sizeless_frame(content: bytes) -> bytes:
    """A frame that does not state its content size (and so has a window byte)."""
    return b"\x28\xb5\x2f\xfd\x00\x00" + _block(content, len(content), kind=0, last=True)


def bomb(size: int) -> bytes:
    """A frame of zero bytes, 4 bytes for each 128 KiB."""
    return _frame_head(size) + _zeros(size)


def sizeless_bomb(size: int) -> bytes:
    """The same, without the content size; its window has 1 MiB."""
    return b"\x28\xb5\x2f\xfd\x00\x50" + _zeros(size)


def _zeros(size: int) -> bytes:
    blocks = size // BLOCK
    return b"".join(_block(b"\x00", BLOCK, kind=1, last=n == blocks - 1) for n in range(blocks))


def _frame_head(size: int) -> bytes:
    magic = b"\x28\xb5\x2f\xfd"
    if size < 256:
        return magic + bytes([0x20, size])
    if size < 65792:
        return magic + b"\x60" + struct.pack("<H", size - 256)
    return magic + b"\xa0" + struct.pack("<I", size)


def _block(body: bytes, size: int, *, kind: int, last: bool) -> bytes:
    return ((size << 3) | (kind << 1) | last).to_bytes(3, "little") + body
