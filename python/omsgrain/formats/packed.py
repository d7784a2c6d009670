# SPDX-License-Identifier: Apache-2.0
"""Embeddings that came as arrays of numbers, in a tenth of their text and to the last digit.

A packed array is a letter and base64: ``f`` float32, for numbers that are the shortest spelling of
one; ``d`` float64, for all others. Both little-endian. What holds anything but such numbers, an
integer say, stays as it is.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Callable
from typing import Any

from omsgrain import _core
from omsgrain.errors import FormatError

__all__ = ["Apart", "Whole", "float32", "pack", "packing", "unpack"]

Record = dict[str, Any]
Apart = Callable[[Record], "tuple[Record, str | None]"]
"""The record without its embedding, and that."""
Whole = Callable[[Record, str], Record]
"""The record with its embedding."""


def pack(values: Any) -> str | None:
    """The text of an array of numbers; None if it does not come back from it as it was."""
    if not isinstance(values, list) or not values:
        return None
    packed = _core.pack_floats(values)
    if packed is None:
        return None
    data, narrow = packed
    return ("f" if narrow else "d") + base64.b64encode(data).decode("ascii")


def unpack(text: str) -> list[float]:
    """The numbers of a packed array.

    Raises:
        FormatError: this is none.
    """
    try:
        data = base64.b64decode(text[1:], validate=True)
        if text[:1] == "f" and len(data) % 4 == 0:
            return _core.unpack_floats(data)
        if text[:1] == "d":
            return list(struct.unpack(f"<{len(data) // 8}d", data))
    except (ValueError, struct.error):
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
        return {**record, name: {**record[name], vector: None}}, packed

    def whole(record: Record, packed: str) -> Record:
        inner = record.get(name)
        if not isinstance(inner, dict) or vector not in inner:
            raise FormatError("a record has no place for its embedding", rule="packed")
        return {**record, name: {**inner, vector: unpack(packed)}}

    return apart, whole
