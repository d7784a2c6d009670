# SPDX-License-Identifier: Apache-2.0
"""Embeddings that came as arrays of numbers, in a tenth of their text and to the last digit.

A packed array is a letter and base64: ``f`` float32, for numbers that are the shortest spelling of
one; ``d`` float64, for all others. Both little-endian. What holds anything but such numbers, an
integer say, stays as it is.
"""

from __future__ import annotations

import binascii
import math
import struct
from collections.abc import Callable
from typing import Any

from omsgrain.errors import FormatError

__all__ = ["Apart", "Whole", "float32", "pack", "packing", "unpack"]

Record = dict[str, Any]
Apart = Callable[[Record], "tuple[Record, str | None]"]
"""The record without its embedding, and that."""
Whole = Callable[[Record, str], Record]
"""The record with its embedding."""


def pack(values: Any) -> str | None:
    """The text of an array of numbers; None if it does not come back from it as it was."""
    if not isinstance(values, list) or not values or not all(type(one) is float for one in values):
        return None
    try:
        short = struct.pack(f"<{len(values)}f", *values)
    except OverflowError:
        short = None
    if short is not None and _widened(short) == values:
        return "f" + _base64(short)
    return "d" + _base64(struct.pack(f"<{len(values)}d", *values))


def unpack(text: str) -> list[float]:
    """The numbers of a packed array.

    Raises:
        FormatError: this is none.
    """
    try:
        data = binascii.a2b_base64(text[1:], strict_mode=True)
        if text[:1] == "f":
            return _widened(data)
        if text[:1] == "d":
            return list(struct.unpack(f"<{len(data) // 8}d", data))
    except (binascii.Error, struct.error, ValueError):
        pass
    raise FormatError("no packed array of numbers", rule="packed")


def float32(values: Any) -> bytes | None:
    """An array of numbers as a store searches it: float32, little-endian; None if it is none."""
    if not isinstance(values, list) or not values:
        return None
    if not all(type(one) in (float, int) for one in values):
        return None
    try:
        data = struct.pack(f"<{len(values)}f", *values)
    except (OverflowError, struct.error):
        return None
    return data if math.isfinite(sum(values)) else None


def packing(name: str, vector: str = "vector") -> tuple[Apart, Whole]:
    """The hooks of a `Shape` whose records have an embedding: an object that holds the vector.

    Args:
        name: the member of the record that is the embedding.
        vector: the member of that which is the array.
    """

    def apart(record: Record) -> tuple[Record, str | None]:
        inner = record.get(name)
        packed = pack(inner.get(vector)) if isinstance(inner, dict) else None
        if packed is None:
            return record, None
        # A null keeps its place among the other members.
        return {**record, name: {**inner, vector: None}}, packed

    def whole(record: Record, packed: str) -> Record:
        inner = record.get(name)
        if not isinstance(inner, dict) or vector not in inner:
            raise FormatError("a record has no place for its embedding", rule="packed")
        return {**record, name: {**inner, vector: unpack(packed)}}

    return apart, whole


def _widened(data: bytes) -> list[float]:
    """The doubles whose spelling is the shortest that is nearest to each float32."""
    return [_shortest(one) for one in struct.unpack(f"<{len(data) // 4}f", data)]


def _shortest(value: float) -> float:
    for digits in range(6, 10):
        near = float(f"{value:.{digits}g}")
        try:
            if struct.unpack("<f", struct.pack("<f", near))[0] == value:
                return near
        except OverflowError:
            continue  # rounded up, beyond the largest
    return value


def _base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode("ascii")
