# SPDX-License-Identifier: Apache-2.0
"""Blobs made by hand, right but for one thing: what no writer of ours would give."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import oracle
from oracle_tables import OLD_NAMES, TYPE_BYTE

#: A valid belief, compacted, without a namespace and at time 0: its header is nearly all zeros.
BELIEF: dict[str, Any] = {"c": 1.0, "ca": 0, "o": "c", "r": "b", "s": "a", "t": "belief"}

Pair = tuple[bytes, bytes]


def pairs(
    encoding: str, fields: dict[str, Any], raw: dict[str, bytes] | None = None
) -> list[Pair]:
    """The packed keys and values in canonical order; `raw` values are taken as they are."""
    pack = oracle.PACK[encoding]
    packed = {k: pack(v) for k, v in fields.items()} | (raw or {})
    by_bytes = sorted(packed, key=lambda k: k.encode() if encoding == "msgpack" else pack(k))
    return [(pack(key), packed[key]) for key in by_bytes]


def payload(encoding: str, items: Sequence[Pair]) -> bytes:
    """A map of these pairs (at most 15), in the order given."""
    head = {"msgpack": 0x80, "cbor": 0xA0}[encoding] + len(items)
    return bytes([head]) + b"".join(key + value for key, value in items)


def blob(encoding: str, body: bytes, *, type_byte: int = 1, flags: int = 0) -> bytes:
    """A header without namespace and time, and a payload."""
    return bytes([1, flags | (32 if encoding == "cbor" else 0), type_byte, *bytes(6)]) + body


def belief(encoding: str, raw: dict[str, bytes] | None = None, **changes: Any) -> bytes:
    """The belief with some compacted fields changed (None: left out), and raw values besides."""
    fields = {k: v for k, v in (BELIEF | changes).items() if v is not None}
    return blob(encoding, payload(encoding, pairs(encoding, fields, raw)))


def with_value(encoding: str, value: bytes) -> bytes:
    """The belief with an unknown field of these bytes."""
    return belief(encoding, {"x_raw": value})


_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
RAW, RLE = 0, 1


def zstd_block(kind: int, data: bytes, size: int, *, last: bool) -> bytes:
    return struct.pack("<I", last | kind << 1 | size << 3)[:3] + data


def zstd_frame(data: bytes, *, size: int | None = -1, checksum: int = 0) -> bytes:
    """A frame of one raw block, stating the content size given (-1: the true one).

    Without a size (None) it states a window of 1 MiB instead.
    """
    if size is None:
        head = bytes([checksum << 2, 10 << 3])
    else:
        stated = len(data) if size == -1 else size
        head = bytes([0xE0 | checksum << 2]) + struct.pack("<Q", stated)
    return _ZSTD_MAGIC + head + zstd_block(RAW, data, len(data), last=True)


def zstd_bomb(blocks: int, *, size: int) -> bytes:
    """A frame of blocks that each say: 128 KiB of one byte."""
    block = 128 << 10
    body = [zstd_block(RLE, b"\x00", block, last=n == blocks - 1) for n in range(blocks)]
    return _ZSTD_MAGIC + b"\xe0" + struct.pack("<Q", size) + b"".join(body)


def compressed(encoding: str, frame: bytes) -> bytes:
    """The belief's header with the compressed bit, and this instead of the payload."""
    return blob(encoding, frame, flags=4)


def made(encoding: str, small: dict[str, Any]) -> bytes:
    """The blob of a compacted map, as another writer would have made it."""
    byte = TYPE_BYTE[OLD_NAMES.get(small["t"], small["t"])]
    return blob(encoding, payload(encoding, pairs(encoding, small)), type_byte=byte)
