# SPDX-License-Identifier: Apache-2.0
"""Embeddings as text: float32, little-endian, in base64. Spec: AIMEM §2.7."""

from __future__ import annotations

import binascii
import math
import sys
from array import array

__all__ = ["decode", "encode"]


def decode(text: str) -> bytes | None:
    """The bytes of an embedding; None if it is none: junk, no whole floats, NaN or infinity."""
    if len(text) % 4 or not text.isascii():
        return None
    try:
        data = binascii.a2b_base64(text)
    except binascii.Error:
        return None
    # One spelling only, so that what is written again is what was read.
    if len(data) % 4 or encode(data) != text:
        return None
    floats = array("f", data)
    if sys.byteorder == "big":
        floats.byteswap()
    # No sum of float32 overflows a double; NaN and infinity come through it.
    return data if math.isfinite(sum(floats)) else None


def encode(data: bytes) -> str:
    """The text of an embedding's bytes."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")
