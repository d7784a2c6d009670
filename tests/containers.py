# SPDX-License-Identifier: Apache-2.0
"""Containers made by hand, without the package's own writer; right or not.  Spec: OMS §11"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import cbor2
import pytest

import oracle
from omsgrain import _core
from support.random_grains import random_grain

SORTED, DEDUPLICATED, PACKED, FIELD_MAP, MANIFEST = 1, 2, 4, 8, 16
CODECS = ("none", "zstd", "lz4")


def belief(n: int, **fields: Any) -> dict[str, Any]:
    return {
        "type": "belief",
        "subject": f"robot-{n}",
        "relation": "mg:perceives",
        "object": f"shelf {n}",
        "confidence": 0.9,
        "created_at": 1_768_471_200_000 + 1000 * n,
    } | fields


def blob(n: int, **fields: Any) -> bytes:
    return oracle.encode(belief(n, **fields), "msgpack")


def address(grain: bytes) -> str:
    return hashlib.sha256(inner(grain)).hexdigest()


def sealed(n: int, size: int = 40) -> bytes:
    """A stand-in for an encrypted grain: a header with zeros, and noise."""
    return bytes([1, 2, 1, *bytes(6)]) + Random(n).randbytes(size)


def signed(grain: bytes, signature: bytes = b"s" * 64) -> bytes:
    """The grain with its signed bit, in an envelope; the signature is none."""
    return envelope(grain[:1] + bytes([grain[1] | 1]) + grain[2:], signature)


def envelope(grain: bytes, signature: bytes = b"s" * 64) -> bytes:
    parts = [cbor2.dumps({1: -8, 4: b"did:key:z6Mk"}), {"iat": 1}, grain, signature]
    return cbor2.dumps(cbor2.CBORTag(18, parts))


def inner(grain: bytes) -> bytes:
    return cbor2.loads(grain).value[2] if grain[:1] == b"\xd2" else grain


def pool(count: int, seed: str = "pool") -> list[bytes]:
    """Grains of all kinds: both encodings, envelopes, sealed ones."""
    rng = Random(seed)
    found = [
        oracle.encode(random_grain(rng), rng.choice(("msgpack", "cbor"))) for _ in range(count)
    ]
    found[2::9] = [signed(grain) for grain in found[2::9]]
    found[5::9] = [sealed(n) for n, _ in enumerate(found[5::9])]
    return found


def zstd_frame(data: bytes, *, stated: bool = True) -> bytes:
    """Data in raw blocks, in a frame that may state its size.  Spec: RFC 8878 §3.1.1"""
    blocks = [data[i : i + 65536] for i in range(0, len(data), 65536)] or [b""]
    heads = [
        (len(block) << 3 | (i == len(blocks) - 1)).to_bytes(3, "little")
        for i, block in enumerate(blocks)
    ]
    body = b"".join(head + block for head, block in zip(heads, blocks, strict=True))
    said = b"\xa0" + struct.pack("<I", len(data)) if stated else b"\x00\x50"
    return b"\x28\xb5\x2f\xfd" + said + body


def lz4_frame(data: bytes, *, stated: bool = True) -> bytes:
    """Data in stored blocks, in a frame that may state its size.  Spec: LZ4 frame format 1.6"""
    head = b"\x68\x40" + struct.pack("<Q", len(data)) if stated else b"\x60\x40"
    blocks = [data[i : i + 65536] for i in range(0, len(data), 65536)]
    body = b"".join(struct.pack("<I", len(block) | 1 << 31) + block for block in blocks)
    return b"\x04\x22\x4d\x18" + head + bytes([_xxh32(head) >> 8 & 0xFF]) + body + bytes(4)


def _xxh32(data: bytes) -> int:
    """Of less than 16 bytes."""
    p1, p2, p3, p4, p5 = 2654435761, 2246822519, 3266489917, 668265263, 374761393

    def turn(value: int, by: int) -> int:
        value &= 0xFFFFFFFF
        return (value << by | value >> (32 - by)) & 0xFFFFFFFF

    total, words = p5 + len(data), len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        total = turn(total + word * p3, 17) * p4
    for byte in data[4 * words :]:
        total = turn(total + byte * p5, 11) * p1
    total &= 0xFFFFFFFF
    total = (total ^ total >> 15) * p2 & 0xFFFFFFFF
    total = (total ^ total >> 13) * p3 & 0xFFFFFFFF
    return total ^ total >> 16


FRAME = {1: zstd_frame, 2: lz4_frame}


def make(
    grains: Sequence[bytes],
    *,
    flags: int = 0,
    codec: int = 0,
    manifest: bytes = b"",
    cuts: Sequence[int] = (),
    **broken: Any,
) -> bytes:
    """The file. `cuts` are where frames end, besides the end; `broken` overrides single fields:
    magic, version, count, field_map, manifest_at, reserved, offsets, region."""
    region = b"".join(grains)
    ends = [0]
    for grain in grains:
        ends.append(ends[-1] + len(grain))
    if codec:
        flags |= PACKED
        edges = [0, *cuts, len(region)]
        pieces = [region[a:b] for a, b in pairwise(edges)]
        region = b"".join(FRAME[codec](piece) for piece in pieces if piece)
    region = broken.get("region", region)
    flags |= MANIFEST * bool(manifest)
    base = 16 + 4 * len(grains)
    is_sealed = bool(grains) and grains[-1][0] == 1 and bool(grains[-1][1] & 2)
    at = base + len(region) if manifest and is_sealed else 0
    offsets = broken.get("offsets", [end + (0 if codec else base) for end in ends[:-1]])
    head = struct.pack(
        ">2sBBIBBIH",
        broken.get("magic", b"MG"),
        broken.get("version", 1),
        broken.get("flags", flags),
        broken.get("count", len(grains)),
        broken.get("field_map", 1),
        broken.get("codec_byte", codec),
        broken.get("manifest_at", at),
        broken.get("reserved", 0),
    )
    return closed(head + struct.pack(f">{len(offsets)}I", *offsets) + region + manifest)


def closed(body: bytes) -> bytes:
    """With the footer that belongs to it."""
    return body + hashlib.sha256(body).digest()


def reclosed(data: bytes) -> bytes:
    """With a new footer."""
    return closed(data[:-32])


def saved(directory: Path, data: bytes, name: str = "file.mg") -> Path:
    """A file is overwritten in place: some file systems sync one that is emptied and refilled."""
    path = directory / name
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(data)
        file.truncate()
    return path


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes are looked at for the end of a frame, each time from now on."""
    looked: list[int] = []
    measured = _core.measure_frame

    def measure(codec: int, data: bytes) -> tuple[int, int] | None:
        looked.append(len(data))
        return measured(codec, data)

    monkeypatch.setattr(_core, "measure_frame", measure)
    return looked
