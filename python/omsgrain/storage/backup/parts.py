# SPDX-License-Identifier: Apache-2.0
"""Parts of a backup: rows of one table, packed, under the SHA-256 of their bytes.

    row    length of the key, u16 ++ length of the value, u32 ++ key ++ value
    part   rows by rising keys

A part ends where the CRC of a key says so, after 4,096 rows on average; at 8 MB or 65,536 rows at
the latest. So a part of rows that did not change has the same bytes in the next backup, whatever
was added or removed elsewhere.

The keys of encrypted grains' rows are random, so new rows would be in all parts. Such a table is
first divided by the numbers of the grains: into ranges of 4,096 times a power of 16, as the digits
of the last number have it. New grains change the last ranges only; sixteen ranges become one when
they are full. So a row is sent again once for each power, and a pass over the table needs few
buffers.

A backup contains the blobs and all tables of the lives STATE and BLIND. A row of blobs-0 is a
sequence number and a blob. Restoring makes the index and the addresses again.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from omsgrain.errors import IntegrityError
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import (
    BLIND,
    BLOBS,
    FORMAT_RECORD,
    HEAD_RECORD,
    KEPT,
    KEYED,
    LONGEST_KEY,
    META,
    PLAIN,
    SEQUENCE,
    TABLES,
    Life,
    Table,
)

TABLES_KEPT = (*(t for t in TABLES if t.life in (Life.STATE, Life.BLIND)), BLOBS)
"""The tables of a backup. The states come first: index rows of grains depend on them."""
MOST_BYTES = 64 << 20
"""The largest part that is read; a writer's are 8 MB and one row at the most."""

MOST_ROWS = 1 << 16
"""Rows of a part: so the memory of a reader is limited too."""

Row = tuple[bytes, bytes]
_ROW = struct.Struct(">HI")
_ROWS = 4_096  # of a part on average
_FULL = 8 << 20  # bytes
BLOB_FRAME = _ROW.size + SEQUENCE.size
"""Bytes of a row of blobs-0 beside the blob."""
_OWN = {FORMAT_RECORD, HEAD_RECORD}  # of the files that a store is in
_CELL, _DIGIT = 12, 4  # bits: grains of the smallest range, and how many times more the next has
_MANY = {BLIND: 4}  # how many times more rows a part has, on average
_BY_GRAIN: dict[Table, Callable[[bytes, bytes], bytes]] = {
    BLIND: lambda key, _: key[-4:],
    KEYED: lambda key, _: key[-4:],
    KEPT: lambda key, _: key[-4:],
    PLAIN: lambda _, value: value[-4:],
}
"""The tables with random keys, and where a row has the last bytes of its grain's number."""


class TablePart(NamedTuple):
    """A part before it is stored."""

    table: Table
    rows: int
    data: bytes


def parts_of(reader: Reader) -> Iterator[TablePart]:
    """Yield all parts of a snapshot, table by table."""
    for table in TABLES_KEPT:
        if table in _BY_GRAIN:
            yield from _divided(table, reader.rows(table), ranges(reader.last_seq()))
        else:
            yield from _packed(table, _blobs(reader) if table is BLOBS else _rows(reader, table))


def _rows(reader: Reader, table: Table) -> Iterable[Row]:
    rows = reader.rows(table)
    return (row for row in rows if row[0] not in _OWN) if table is META else rows


def _blobs(reader: Reader) -> Iterator[Row]:
    after = 0
    while page := reader.hashed_page(after):
        for after, blob, digest in page:
            if digest is None:
                raise IntegrityError(
                    f"the bytes stored under sequence number {after} are damaged",
                    expected="a store without problems; `check` finds them",
                )
            yield SEQUENCE.pack(after), blob


class _Packer:
    """Packs rows of a table, which come by rising keys, into parts."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._rows = _ROWS * _MANY.get(table, 1)
        self._data = bytearray()
        self._count = 0

    def add(self, key: bytes, value: bytes) -> TablePart | None:
        """Add a row; return the part that it completes."""
        data = self._data
        data += _ROW.pack(len(key), len(value))
        data += key
        data += value
        self._count += 1
        full = len(data) >= _FULL or self._count == MOST_ROWS
        return self.end() if full or zlib.crc32(key) % self._rows == 0 else None

    def end(self) -> TablePart | None:
        """Return the part of the rows that are left, if there are any."""
        if not self._count:
            return None
        part = TablePart(self._table, self._count, bytes(self._data))
        self._data, self._count = bytearray(), 0
        return part


def _packed(table: Table, rows: Iterable[Row]) -> Iterator[TablePart]:
    packer = _Packer(table)
    for key, value in rows:
        if part := packer.add(key, value):
            yield part
    if part := packer.end():
        yield part


def _divided(table: Table, rows: Iterable[Row], ends: list[int]) -> Iterator[TablePart]:
    packers = [_Packer(table) for _ in range(len(ends) + 1)]
    end_of = _BY_GRAIN[table]
    for key, value in rows:
        number = int.from_bytes(end_of(key, value), "big")
        if part := packers[bisect_right(ends, number)].add(key, value):
            yield part
    for packer in packers:
        if part := packer.end():
            yield part


def ranges(last: int) -> list[int]:
    """Return where the ranges of grains end, up to a number; what follows is one more range."""
    ends, at = [], 0
    for shift in range(32 - _DIGIT, _CELL - 1, -_DIGIT):
        while at + (1 << shift) <= last:
            at += 1 << shift
            ends.append(at)
    return ends


def is_ordered(table: Table) -> bool:
    """Tell whether the rows of a table rise from part to part."""
    return table not in _BY_GRAIN


def rows_in(data: bytes, after: bytes = b"") -> list[Row]:
    """Return the rows of a part, whose keys all follow another key."""
    rows: list[Row] = []
    at = 0
    while at < len(data):
        if at + _ROW.size > len(data):
            raise _malformed(at)
        key_size, size = _ROW.unpack_from(data, at)
        start = at + _ROW.size
        middle, end = start + key_size, start + key_size + size
        key = data[start:middle]
        if end > len(data) or not after < key or key_size > LONGEST_KEY:
            raise _malformed(at)
        if len(rows) == MOST_ROWS:
            raise _malformed(at)
        rows.append((key, data[middle:end]))
        after, at = key, end
    return rows


def _malformed(at: int) -> IntegrityError:
    return IntegrityError("a part of the backup is malformed", offset=at)
