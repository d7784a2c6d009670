# SPDX-License-Identifier: Apache-2.0
"""The canonical form of values: widths, lengths, text, order, what is dropped and what kept."""

from __future__ import annotations

import base64
from typing import Any

from source.forms import Vector, encoded
from source.types import AT

_EDGES = [
    0,
    23,
    24,
    127,
    128,
    255,
    256,
    65535,
    65536,
    2**32 - 1,
    2**32,
    2**53 + 1,
    2**63,
    2**64 - 1,
]
_NEGATIVE = [-1, -24, -25, -32, -33, -128, -129, -256, -257, -32768, -32769, -(2**31),
-(2**31) - 1,
             -(2**32), -(2**32) - 1, -(2**63)]  # fmt: skip
_FLOATS = [0.0, -0.0, 0.5, 1.0, 65504.0, 65505.0, 5.960464477539063e-08, 0.1, 16777216.0,
3.4028234663852886e38,
           1e300, 5e-324, 1.5e-45]  # fmt: skip


def _state(**context: Any) -> dict[str, Any]:
    return {"type": "state", "context": context, "created_at": AT}


def _bytes(length: int) -> dict[str, str]:
    return {"$bytes": base64.b64encode(bytes(i % 256 for i in range(length))).decode()}


_ROWS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("integers", "the edges of every width", _state(up=_EDGES, down=_NEGATIVE)),
    ("floats", "always 64 bits in MessagePack, the shortest that keeps the value in CBOR",
     _state(floats=_FLOATS)),
    ("float-fields", "an integer given for a float64 field becomes a float",
     {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 1,
      "importance": 0, "created_at": AT}),
    ("strings", "the edges of every length", _state(s={str(n): "x" * n for n in
     (0, 1, 23, 24, 31, 32, 255, 256)})),
    ("bytes", "the edges of every length", _state(b=[_bytes(n) for n in (0, 1, 23, 24, 255,
     256)])),
    ("arrays", "the edges of short lengths", _state(a=[[0] * n for n in (0, 1, 15, 16, 23, 24)])),
    ("maps", "the edges of short lengths",
     _state(m=[{f"k{i:02}": i for i in range(n)} for n in (0, 1, 15, 16, 23, 24)])),
    ("key-order", "MessagePack: by UTF-8 bytes; CBOR: by encoded bytes, shorter keys first",
     _state(b=1, a=2, aa=3, Z=4, **{"é": 5, "€": 6, "😀": 7, "": 8, "a\u0000": 9, "\uffff": 10})),
    ("nfc", "keys and values are brought to NFC",
     _state(**{"cafe\u0301": "A\u030a", "hangul": "\u1112\u1161\u11ab", "ohm": "\u2126",
               "order": "a\u0323\u0307 a\u0307\u0323"})),
    ("nulls", "dropped from maps at every level, kept in arrays",
     {**_state(a=None, b={"c": None, "d": [None, {"e": None}]}), "namespace": None}),
    ("empty", "empty strings, arrays and maps are kept", _state(s="", a=[], m={})),
    ("mixed-scripts", "scripts, emoji and controls", _state(
        t=["Ελληνικά", "עברית", "العربية", "हिन्दी", "한국어", "日本語", "👩\u200d👩\u200d👧",
        "\u0000\u001f\u007f"])),
    ("times", "RFC 3339 text is floored to the millisecond", {
        "type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 0.5,
        "created_at": "2026-01-15T11:00:00.9999+01:00", "valid_from": "1969-12-31 23:59:59.9991z",
        "valid_to": "2016-12-31T23:59:60.5Z", "system_valid_from": "2026-01-15T10:00:00-00:30"}),
    ("unknown-fields", "kept as they are, their nested keys never compacted",
     {**_state(subject={"hash": 1}), "acme:subject": {"subject": 1, "related_to": [{"hash": 2}]}}),
    ("namespace-empty", "an empty namespace is kept and hashed as none",
     {**_state(), "namespace": ""}),
    ("before-1970", "other times than created_at may lie before 1970",
     {"type": "belief", "subject": "a", "relation": "b", "object": "c", "confidence": 0.5,
      "created_at": 0, "valid_from": -1, "valid_to": -62135596800000}),
    ("created-at-last", "the last second that the header can hold",
     {**_state(), "created_at": 4294967295999}),
)  # fmt: skip


def vectors() -> list[Vector]:
    """Each in both encodings."""
    out = []
    for n, (name, text, fields) in enumerate(_ROWS):
        out += [
            encoded(f"values/{2 * n + 1:03}-{name}-msgpack", text, fields),
            encoded(f"values/{2 * n + 2:03}-{name}-cbor", text, fields, {"encoding": "cbor"}),
        ]
    return out
