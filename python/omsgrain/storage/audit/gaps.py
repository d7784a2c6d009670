# SPDX-License-Identifier: Apache-2.0
"""Entries of the audit trail that were dropped with the grains that they are about.

A store with a bounded history would otherwise grow by an entry a put. Once its grains have aged
out, an entry of ``DROPPED`` has no use. The first entry, and all entries about
what people did, stay: holds, erasures, exports, reviews.

A gap must not hide a change of the trail. So each entry of the operation "retain" states a hash
over all gaps before it: the numbers of each, and the hash of the entry that follows it.
``verify`` takes gaps that the newest such entry does not state for missing entries.

    record of meta-0   "audit.gaps"
    value              hash over all gaps but the last, 32 bytes ++ first and last number of the
                       last gap, u64 each (none: last is before first) ++ the last sequence number
                       of the store after the last entry that was looked at, u64
    hash over gaps     SHA-256(hash over the gaps before, zeros before the first ++ first and last
                       number ++ hash of the entry that follows)
"""

from __future__ import annotations

import struct
from itertools import islice
from typing import Final, NamedTuple

from omsgrain.header import ENCRYPTED_BIT, created_seconds
from omsgrain.storage.audit.log import (
    HASH,
    HEAD_RECORD,
    HEAD_VALUE,
    NOTHING,
    NUMBER,
    link,
    read_entry,
    unpack_entry,
)
from omsgrain.storage.base import Reader, Writer
from omsgrain.storage.tables import AUDIT, META

GAPS_RECORD = b"audit.gaps"
STATED: Final = "gaps"
"""The name of the hash over all gaps in the details of an entry."""
DROPPED = frozenset(("put", "import", "supersede", "sign", "vector", "expire", "retain"))
"""Operations whose entries go with their grains, unless they have a note."""

GAPS_VALUE = struct.Struct(">32sQQQ")
_NUMBERS = struct.Struct(">QQ")
_NONE = 1 << 64  # beyond all sequence numbers


def closed(gaps: bytes, first: int, last: int, following: bytes) -> bytes:
    """Return the hash over some gaps and one more, given the hash of the entry behind it."""
    return link(gaps, _NUMBERS.pack(first, last) + following)


class _Gaps(NamedTuple):
    """The gaps of a trail."""

    before: bytes  # the hash over all gaps but the last
    first: int  # the number of the first entry of the last gap
    number: int  # of the last entry that was looked at, which ends the last gap
    last_seq: int  # of the store, after that entry

    def hash(self, following: bytes) -> bytes:
        """Return the hash over all gaps, given the hash of the entry behind the last one."""
        if self.number < self.first:
            return self.before
        return closed(self.before, self.first, self.number, following)


def has_gaps(reader: Reader) -> bool:
    return reader.row(META, GAPS_RECORD) is not None


def drop(writer: Writer, before: int, upto: int, most: int) -> str | None:
    """Drop the entries whose grains are gone, from the oldest on, among the next ``most``.

    The first entry about a grain that is left, and that may still age out, ends this. Grains from
    before a time (seconds since 1970) that are left stay for a reason, and encrypted ones up to a
    sequence number; so do the entries about them.

    Returns the hash over all gaps, for the details of an entry in the same transaction. None if
    there are no gaps, or the trail cannot be read.
    """
    head, gaps = writer.row(META, HEAD_RECORD), _read(writer)
    if head is None or gaps is None:
        return None
    end = HEAD_VALUE.unpack(head)[0]
    number, low = gaps.number, gaps.last_seq
    dropped: list[bytes] = []
    left = _Left(writer, before, upto)
    for place, row in islice(writer.rows(AUDIT, NUMBER.pack(number)), most):
        body = unpack_entry(row)  # what is looked at is checked below; `verify` reads it whole
        if place != NUMBER.pack(number + 1) or number + 1 >= end or body is None:
            break
        last_seq, operation = body["s"], body["o"]
        if type(last_seq) is not int or type(operation) is not str:
            break
        seq = left.after(low)
        if last_seq >= seq and left.is_young:
            break
        number, low = number + 1, last_seq
        if operation in DROPPED and low < seq and not ("m" in body or "x" in body):
            dropped.append(place)
        else:  # it stays, and ends the gap before it
            gaps = gaps._replace(number=number - 1)
            gaps = _Gaps(gaps.hash(row[:HASH]), number + 1, number, low)
    gaps = gaps._replace(number=number, last_seq=low)
    writer.unset_rows(AUDIT, dropped)
    writer.set_row(META, GAPS_RECORD, GAPS_VALUE.pack(*gaps))
    following = writer.row(AUDIT, NUMBER.pack(gaps.number + 1)) or b""
    found = gaps.hash(following[:HASH])
    return None if found == NOTHING else found.hex()


class _Left:
    """The next grain that is there."""

    def __init__(self, reader: Reader, before: int, upto: int) -> None:
        self._reader = reader
        self._before = before
        self._upto = upto
        self._seq = 0
        self.is_young = False

    def after(self, low: int) -> int:
        """Return the number of the first grain after a sequence number."""
        if self._seq <= low:
            for seq, blob in self._reader.page(low, 1):
                if blob[1] & ENCRYPTED_BIT:
                    self.is_young = seq > self._upto
                else:
                    self.is_young = created_seconds(blob) >= self._before
                self._seq = seq
                return seq
            self._seq, self.is_young = _NONE, False
        return self._seq


def _read(reader: Reader) -> _Gaps | None:
    """Return the gaps; None if the trail cannot be read."""
    record = reader.row(META, GAPS_RECORD)
    if record is not None and len(record) == GAPS_VALUE.size:
        return _Gaps(*GAPS_VALUE.unpack(record))
    first = reader.row(AUDIT, NUMBER.pack(1))
    body = None if first is None else read_entry(first)
    return None if record is not None or body is None else _Gaps(NOTHING, 2, 1, body["s"])
