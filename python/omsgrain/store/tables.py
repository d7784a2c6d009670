# SPDX-License-Identifier: Apache-2.0
"""Every table of a store on disk: its name, its life, the bytes of its keys and values.

    table        life    key                        value
    blobs-0      BLOBS   sequence number, u64       first 8 bytes of the address ++ blob
    addresses-0  BLOBS   address, 32 bytes          sequence number, u64
    terms-0      INDEX   kind and term of a filter  places of grains, 16 bytes each, sorted
    meta-0       STATE   name of a record           below

    record of meta-0    value
    omsgrain.format     u32, the format of the whole store
    head                u64 last sequence number given ++ u64 bytes of all blobs ++ u64 grains ++
                        u64 watermark

Blobs are written at once; addresses and terms cover the grains up to the watermark, and are
written behind it in sorted runs (``recent.py`` has the rest). Keys and places of terms-0 are made
in ``rust/core/src/index_rows.rs``, which draws them.

The 8 bytes before a blob tell damage: an address that stands nowhere else yet is made from its
blob again, and a blob with a flipped byte would quietly get another one.

All integers are big-endian, so that keys sort by number. The number in a table's name is the
format of its rows: rows of another layout go into a table of another name, so that no reader takes
one for the other. Sequence numbers start at 1, rise with every grain, and are never given twice.
Some may be missing: other events will take theirs from the same row, and erased grains leave gaps.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum

__all__ = [
    "ADDRESSES",
    "BLOBS",
    "FORMAT",
    "FORMAT_RECORD",
    "FORMAT_VALUE",
    "HEAD",
    "HEAD_RECORD",
    "MARK",
    "META",
    "SEQUENCE",
    "TABLES",
    "TERMS",
    "Life",
    "Table",
]

FORMAT = 1
"""The format this code writes. It rises when an older reader could not read the store rightly."""

FORMAT_RECORD = b"omsgrain.format"
FORMAT_VALUE = struct.Struct(">I")
HEAD_RECORD = b"head"
HEAD = struct.Struct(">QQQQ")
SEQUENCE = struct.Struct(">Q")
MARK = 8
"""Bytes of the address before a blob."""


class Life(Enum):
    """How a table's rows come and go, and so what a backup or a rebuild must do with them."""

    BLOBS = "written once; never changed but by erasure"
    INDEX = "a pure function of the blobs; rebuilding gives the same bytes"
    BLIND = "rows of encrypted grains, written with the blob; kept by a rebuild"
    STATE = "what is known about the grains; a backup must keep it beside BLOBS and BLIND"


@dataclass(frozen=True, slots=True, eq=False)  # a key of dicts on the hot path: by identity
class Table:
    """One LMDB database of the store."""

    name: bytes
    life: Life
    places: bool = False
    """Whether a key has many values, all of one size."""


BLOBS = Table(b"blobs-0", Life.BLOBS)
ADDRESSES = Table(b"addresses-0", Life.BLOBS)
TERMS = Table(b"terms-0", Life.INDEX, places=True)
META = Table(b"meta-0", Life.STATE)

TABLES = (BLOBS, ADDRESSES, TERMS, META)
