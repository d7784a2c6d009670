# SPDX-License-Identifier: Apache-2.0
"""Where a query stopped, as a text that its next call takes.

A cursor names the last grain given, by time, address and sequence number, and the query it belongs
to. Grains that arrive later, or are gone, do not move it: what follows that grain follows.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import struct

from omsgrain.errors import SchemaError

_LAYOUT = struct.Struct(">B8s16s")
_VERSION = 2


def fingerprint(*parts: object) -> bytes:
    """Eight bytes that tell one query from another; of parts that ``repr`` tells apart."""
    return hashlib.sha256(repr(parts).encode()).digest()[:8]


def pack(query: bytes, place: bytes) -> str:
    return base64.urlsafe_b64encode(_LAYOUT.pack(_VERSION, query, place)).decode("ascii")


def unpack(cursor: str, query: bytes) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(cursor.encode("ascii"))
        version, own, place = _LAYOUT.unpack(raw)
    except (AttributeError, UnicodeEncodeError, binascii.Error, struct.error):
        raise SchemaError("not a cursor", field="/cursor") from None
    if version != _VERSION:
        raise SchemaError("a cursor of another version", field="/cursor", found=str(version))
    if own != query:
        raise SchemaError("the cursor belongs to a query with other filters", field="/cursor")
    return bytes(place)
