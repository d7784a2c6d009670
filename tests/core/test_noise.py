# SPDX-License-Identifier: Apache-2.0
"""Any bytes at all: they are read, and then written the same, or refused with a declared error."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

import omsgrain as og
import oracle
from omsgrain.errors import OmsError
from support.known_grains import VECTORS
from support.random_grains import random_grain
from support.rewritten_blobs import rewrite
from support.scale import Scale

# Mutated names look like typos.
pytestmark = pytest.mark.filterwarnings("ignore::omsgrain.errors.OmsWarning")


def packed_seeds(rng: Random, count: int) -> list[bytes]:
    encodings = rng.choices(("msgpack", "cbor"), k=count)
    return [oracle.encode(random_grain(rng), encoding) for encoding in encodings]


def outcome(blob: bytes) -> str:
    """The code of the refusal, or "read" after checking that the same bytes are written again."""
    try:
        grain = og.decode(blob)
    except OmsError as error:
        return error.code
    assert grain.header.compressed or rewrite(grain) == blob
    return "read"


def test_random_bytes(scale: Scale) -> None:
    rng = Random("noise")
    codes = Counter(outcome(rng.randbytes(rng.randrange(64))) for _ in range(scale.noise))
    assert codes["read"] == 0


def test_random_payloads(scale: Scale) -> None:
    rng = Random("payloads")
    codes: Counter[str] = Counter()
    for _ in range(scale.noise):
        cbor = rng.random() < 0.5
        head = bytes([1, 32 if cbor else 0, rng.choice((1, 8, 0xF0)), *bytes(6)])
        first = (0xA0 if cbor else 0x80) + rng.randrange(4)
        codes[outcome(head + bytes([first]) + rng.randbytes(rng.randrange(24)))] += 1
    assert len(codes) > 1


def mutated(rng: Random, blob: bytes) -> bytes:
    data = bytearray(blob)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data))
        kind = rng.randrange(6)
        if kind == 0:
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 1:
            data[at] = rng.choice((0, 1, 0x1F, 0x7F, 0x80, 0x90, 0xA0, 0xC0, 0xF6, 0xFF))
        elif kind == 2:
            data.insert(at, rng.randrange(256))
        elif kind == 3:
            del data[at : at + rng.choice((1, 2, 8))]
        elif kind == 4:
            data[at : at + 2] = reversed(data[at : at + 2])
        else:
            start = rng.randrange(len(data))
            data[at:at] = data[start : start + rng.randrange(12)]
        if not data:
            break
    return bytes(data)


def test_mutated_grains(scale: Scale) -> None:
    rng = Random("mutations")
    seeds = [oracle.encode(vector.fields, keep_type_name=True) for vector in VECTORS]
    seeds += [
        oracle.encode(random_grain(rng), rng.choice(("msgpack", "cbor"))) for _ in range(300)
    ]
    seeds = [seed for seed in seeds if len(seed) < 2000]
    codes = Counter(outcome(mutated(rng, rng.choice(seeds))) for _ in range(scale.noise))
    assert codes["read"] > scale.noise // 50
    assert codes["ERR_CORRUPT"] > scale.noise // 5


def test_mutated_compressed_grains(scale: Scale) -> None:
    rng = Random("compressed")
    seeds = [og.encode(random_grain(rng), compress=True) for _ in range(100)]
    assert {outcome(seed) for seed in seeds} == {"read"}
    codes = Counter(outcome(mutated(rng, rng.choice(seeds))) for _ in range(scale.noise // 4))
    assert codes["read"] > scale.noise // 200  # zstd without a checksum: it is another grain
    assert codes["ERR_CORRUPT"] > scale.noise // 8


def test_lenient_reading_raises_only_declared_errors(scale: Scale) -> None:
    rng = Random("lenient")
    seeds = packed_seeds(rng, 100)
    for _ in range(scale.noise // 4):
        blob = mutated(rng, rng.choice(seeds))
        for read in (lambda b: og.decode(b, strict=False), og.read_header, og.verify):
            try:
                read(blob)
            except OmsError:
                continue


def test_mutated_json(scale: Scale) -> None:
    rng = Random("json")
    seeds = [og.decode(og.encode(random_grain(rng))).to_json().encode() for _ in range(100)]
    lines = [mutated(rng, rng.choice(seeds)).replace(b"\n", b"") for _ in range(scale.noise // 4)]
    batch = og.encode_jsonl(b"\n".join(lines), errors="collect")
    assert {outcome(blob) for blob in batch.blobs} == {"read"}
    assert len(batch) + len(batch.errors) == sum(1 for line in lines if line.strip())
    assert all(item.line and lines[item.line - 1].strip() for item in batch.errors)
