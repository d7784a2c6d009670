# SPDX-License-Identifier: Apache-2.0
"""Every table of a store on disk: its name, its life, its keys and values.

    table         life    key                        value
    blobs-0       BLOBS   sequence number, u64       first 8 bytes of the address ++ blob
    addresses-1   BLOBS   first 7 bytes ++ grain, u32  nothing: of the newest addresses
    old-addresses-0  BLOBS  the same                 nothing: of all other addresses
    terms-2       INDEX   kind and term of a filter  places of current grains, 16 bytes each
    past-2        INDEX   kind and term of a filter  the same of past grains
    meta-0        STATE   name of a record           below
    states-0      STATE   grain, u64                 bits, 1 byte ++ msgpack map (``records.py``)
    counters-0    STATE   grain, u64                 u64 times read ++ u64 when last, ms
    holds-0       STATE   grain, u64                 msgpack list of holds
    toggles-0     STATE   grain, u64 ++ what         msgpack list (``records.py``)
    supersedes-0  STATE   new u64 ++ old u64         nothing
    lineages-0    STATE   grain, u64                 grain, u64, the name of its lineage
    guards-0      STATE   lineage, u64 ++ grain u64  nothing: its policy covers the lineage
    reviews-0     STATE   event, of a put grain, u64 msgpack map
    events-0      STATE   event, u64                 kind, 1 byte ++ grain, u64 ++ its address, 32
    removals-0    STATE   event, u64                 ranges of removed grains (``records.py``)
    named-0       STATE   beginning of an address    9 bytes a place (``mentions.py``)
    audit-0       STATE   number of the entry, u64   msgpack entry
    notes-0       STATE   number of the entry, u64   salt, 16 bytes ++ a reason in UTF-8
    models-0      STATE   name ++ 0 ++ dimension     msgpack map
    vectors-0     STATE   model, u32 ++ grain, u64   float32, little-endian, one per dimension
    signatures-0  STATE   grain, u64 ++ signer, 16   envelope without blob (``signatures.py``)
    sealed-0      BLIND   grain, u64                 number of its key, 8 bytes
    keyed-0       BLIND   key, 8 ++ grain, u64       nothing: the grains of a key
    kept-0        BLIND   key, 8 ++ grain, u64       nothing: those that may have to be kept
    blind-1       BLIND   key, 8 ++ token, 16 ++     nothing; in sorted runs (``sorted_runs.py``)
                          place with masked time, 16
    plain-0       BLIND   key, 8 ++ token, 16        grain, u64: which has this plain address
    veiled-0      BLIND   model, u32 ++ grain, u64   an encrypted vector
    tombstones-0  STATE   HMAC of what is erased, 32 msgpack map
    due-0         STATE   deadline, ms, u64 ++ u64   msgpack map: a queued erasure
    tokens-0      STATE   SHA-256 of a token, 32     msgpack map (``tokens.py``)

    record of meta-0    value
    omsgrain.format     u32, the format of the whole store
    head                u64 last sequence number ++ u64 bytes of all blobs ++ u64 grains ++
                        u64 watermark
    named               u64 last event that named-0 covers
    indexed             the indexed paths (``indexed_paths.py``); absent if there are none
    sealed              1 byte, 1; absent until a grain was encrypted here
    position.NAME       u64 last change that the consumer NAME has processed

Blobs are written at once. Addresses and terms cover the grains up to the watermark, and are
written later in sorted runs (``memtable.py`` has the rest). Keys and places of terms come from
``rust/core/src/index_rows.rs``, which shows their layout. A grain that was superseded, retracted
or restricted is past: its rows are in past-2, all others in terms-2. Both tables are a pure
function of the blobs, of the bits in states-0, and of the indexed paths.

The 8 bytes before a blob reveal damage. An address that is in no other table yet is computed from
its blob. Without these bytes, a blob with a flipped byte would silently get another address.

All integers are big-endian, so that keys sort by number. The number in a table's name is the
format of its rows: another layout gets another name, so that no reader confuses them. Sequence
numbers start at 1, rise with every grain and every other event, and are never assigned twice. So
the numbers of grains have gaps, from events and from removed grains.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, TypeAlias

from omsgrain.errors import IntegrityError

FORMAT = 6
"""The format of this code. It rises when older readers cannot read the store correctly."""
INDEXED_FORMAT = 7
"""The format of a store with indexed paths. Code that knows only the one above would write no rows
of them."""

FORMAT_RECORD = b"omsgrain.format"
FORMAT_VALUE = struct.Struct(">I")
HEAD_RECORD = b"head"
INDEXED_RECORD = b"indexed"
HEAD = struct.Struct(">QQQQ")
SEQUENCE = struct.Struct(">Q")
COUNTER = struct.Struct(">QQ")
EVENT = struct.Struct(">cQ32s")
FINGERPRINTS: Final = b"f"
"""The kind of the keys of fingerprints."""
VALUES: Final = b"z"
"""The kind of the keys of values at indexed paths; no other kind is above it."""
MARK = 8
"""Bytes of the address before a blob."""
ADDRESS = 7
"""Bytes of an address in the tables of addresses; the grain's number follows, in 4 bytes."""
NEWEST_ADDRESSES = 262_144
"""Rows that addresses-1 keeps; where more would be, whole keys of it are moved on."""
LONGEST_KEY = 511
"""Maximum bytes of a key; the minimum is one."""

Kind: TypeAlias = Literal[b"S", b"V", b"D", b"H", b"R", b"X", b"E", b"G"]
"""Events about a grain. A put is not an event: its blob shows it."""
SUPERSEDED: Final = b"S"
VERIFIED: Final = b"V"
DELETED: Final = b"D"
HELD: Final = b"H"
RELEASED: Final = b"R"
RESTRICTED: Final = b"X"
EMBEDDED: Final = b"E"  # the grain got a vector
SIGNED: Final = b"G"


class Life(Enum):
    """How a table's rows are written, and so what a backup or a rebuild must do with them."""

    BLOBS = "written once; never changed but by erasure"
    INDEX = "a pure function of the blobs and their states; rebuilding gives the same bytes"
    BLIND = "rows of encrypted grains, written with the blob; kept by a rebuild"
    STATE = "what is known about the grains; a backup must keep it beside BLOBS and BLIND"


@dataclass(frozen=True, slots=True, eq=False)  # a key of dicts on the hot path: by identity
class Table:
    name: bytes
    life: Life
    places: bool = False
    """Whether a key has many values of one size."""
    split: int = 0
    """Where a key is split on disk: the second part is a value, the first part is stored once.
    Readers see one key with an empty value."""
    runs: bool = False
    """Whether LMDB has its rows in sorted runs (``lmdb/sorted_runs.py``); they have no values."""


BLOBS = Table(b"blobs-0", Life.BLOBS)
ADDRESSES = Table(b"addresses-1", Life.BLOBS, places=True, split=1)
OLD_ADDRESSES = Table(b"old-addresses-0", Life.BLOBS, places=True, split=1)
TERMS = Table(b"terms-2", Life.INDEX, places=True)
PAST_TERMS = Table(b"past-2", Life.INDEX, places=True)
META = Table(b"meta-0", Life.STATE)
STATES = Table(b"states-0", Life.STATE)
COUNTERS = Table(b"counters-0", Life.STATE)
HOLDS = Table(b"holds-0", Life.STATE)
TOGGLES = Table(b"toggles-0", Life.STATE)
SUPERSEDES = Table(b"supersedes-0", Life.STATE)
LINEAGES = Table(b"lineages-0", Life.STATE)
GUARDS = Table(b"guards-0", Life.STATE)
REVIEWS = Table(b"reviews-0", Life.STATE)
EVENTS = Table(b"events-0", Life.STATE)
REMOVALS = Table(b"removals-0", Life.STATE)
NAMED = Table(b"named-0", Life.STATE)
AUDIT = Table(b"audit-0", Life.STATE)
NOTES = Table(b"notes-0", Life.STATE)
MODELS = Table(b"models-0", Life.STATE)
VECTORS = Table(b"vectors-0", Life.STATE)
SIGNATURES = Table(b"signatures-0", Life.STATE)
SEALED = Table(b"sealed-0", Life.BLIND)
KEYED = Table(b"keyed-0", Life.BLIND)
KEPT = Table(b"kept-0", Life.BLIND)
BLIND = Table(b"blind-1", Life.BLIND, runs=True)
PLAIN = Table(b"plain-0", Life.BLIND)
VEILED = Table(b"veiled-0", Life.BLIND)
TOMBSTONES = Table(b"tombstones-0", Life.STATE)
DUE = Table(b"due-0", Life.STATE)
TOKENS = Table(b"tokens-0", Life.STATE)

TABLES = tuple(table for table in list(globals().values()) if isinstance(table, Table))
"""All tables, in the order above."""


def event_of(row: bytes) -> tuple[bytes, int, bytes]:
    """Parse a row of events-0: the kind, the number of the grain, and its address or mark."""
    try:
        kind, seq, digest = EVENT.unpack(row)
    except struct.error:
        raise IntegrityError("an event of the store is damaged") from None
    return kind, seq, digest


def counter_of(row: bytes | None) -> tuple[int, int | None]:
    """Parse a row of counters-0: number of reads, and time of the last, ms since 1970."""
    if row is None:
        return 0, None
    try:
        count, last = COUNTER.unpack(row)
    except struct.error:
        raise IntegrityError("the read count of a grain is damaged") from None
    return count, last


def pieces(row: bytes, size: int) -> list[bytes]:
    """Split a row of entries of one size."""
    return [row[at : at + size] for at in range(0, len(row), size)]
