# SPDX-License-Identifier: Apache-2.0
"""Every table of a store on disk: its name, its life, the bytes of its keys and values.

    table        life    key                        value
    blobs-0      BLOBS   sequence number, u64       the grain's blob
    addresses-0  BLOBS   address, 32 bytes          sequence number, u64
    meta-0       STATE   name of a record           below

    record of meta-0    value
    omsgrain.format     u32, the format of the whole store
    head                u64 last sequence number given ++ u64 bytes of all blobs

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
    "META",
    "SEQUENCE",
    "TABLES",
    "Life",
    "Table",
]

FORMAT = 1
"""The format this code writes. It rises when an older reader could not read the store rightly."""

FORMAT_RECORD = b"omsgrain.format"
FORMAT_VALUE = struct.Struct(">I")
HEAD_RECORD = b"head"
HEAD = struct.Struct(">QQ")
SEQUENCE = struct.Struct(">Q")


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


BLOBS = Table(b"blobs-0", Life.BLOBS)
ADDRESSES = Table(b"addresses-0", Life.BLOBS)
META = Table(b"meta-0", Life.STATE)

TABLES = (BLOBS, ADDRESSES, META)
