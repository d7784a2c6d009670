# SPDX-License-Identifier: Apache-2.0
"""Embeddings as text: float32, little-endian, in base64. Spec: AIMEM §2.7."""

from __future__ import annotations

import binascii
import math
import sys
from array import array

__all__ = ["decode", "encode", "is_endless", "is_zero"]


def decode(text: str) -> bytes | None:
    """The bytes of an embedding; None if it is none: junk, no whole floats, NaN or infinity."""
    data = _bytes(text)
    return data if data is not None and _is_finite(data) else None


def is_endless(text: str) -> bool:
    """Whether it would be an embedding, were there not NaN or infinity in it."""
    data = _bytes(text)
    return data is not None and not _is_finite(data)


def _bytes(text: str) -> bytes | None:
    if len(text) % 4 or not text.isascii():
        return None
    try:
        data = binascii.a2b_base64(text)
    except binascii.Error:
        return None
    # One spelling only, so that what is written again is what was read.
    return None if len(data) % 4 or encode(data) != text else data


def is_zero(data: bytes) -> bool:
    """Whether all floats of an embedding are zero: it points nowhere."""
    return not any(_floats(data))


def _is_finite(data: bytes) -> bool:
    # No sum of float32 overflows a double; NaN and infinity come through it.
    return math.isfinite(sum(_floats(data)))


def _floats(data: bytes) -> array[float]:
    floats = array("f", data)
    if sys.byteorder == "big":
        floats.byteswap()
    return floats


def encode(data: bytes) -> str:
    """The text of an embedding's bytes."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")
