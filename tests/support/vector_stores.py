# SPDX-License-Identifier: Apache-2.0
"""Stores with vectors, for tests of searching them."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from hashlib import sha256
from random import Random
from typing import Any, TypeAlias

from omsgrain.search import vectors
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.tables import DELETED, VECTORS

Floats: TypeAlias = Sequence[float]


def put(store: Storage, count: int, start: int = 0) -> list[int]:
    """Put some blobs; return their sequence numbers."""
    blobs = [b"\1\0grain %d" % number for number in range(start, start + count)]
    pairs = [(sha256(blob).digest(), blob) for blob in blobs]
    store.write(lambda writer: writer.put(pairs))
    with store.read() as reader:
        return [seq for seq in reader.find([digest for digest, _ in pairs]) if seq is not None]


def add(store: Storage, rows: Mapping[int, Floats], model: Any = "m") -> None:
    def work(writer: Writer) -> None:
        for seq, vector in rows.items():
            vectors.add(writer, seq, vector, model)

    store.write(work)


def remove(store: Storage, seqs: Sequence[int]) -> None:
    """Delete grains as a store does."""

    def work(writer: Writer) -> None:
        for seq in seqs:
            blob = writer.blob_at(seq)
            assert blob is not None
            writer.remove(seq)
            writer.event(DELETED, seq, sha256(blob).digest())

    store.write(work)


def set_row(store: Storage, key: bytes, row: bytes) -> None:
    store.write(lambda writer: writer.set_row(VECTORS, key, row))


def noise(random: Random, dimension: int) -> list[float]:
    return [random.gauss(0, 1) for _ in range(dimension)]


def cosine(a: Floats, b: Floats) -> float:
    a, b = array("f", a), array("f", b)
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return product / (math.hypot(*a) * math.hypot(*b))
