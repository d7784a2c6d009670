# SPDX-License-Identifier: Apache-2.0
"""Write grains and their index rows by COPY, or by INSERT.

PostgreSQL does not allow COPY into tables with row-level security, unless the role bypasses it.
Both ways take columns of bytes in binary.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from struct import Struct
from typing import NamedTuple

from omsgrain import _core
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.pool import (
    Array,
    Statement,
    Wire,
    alike,
    byteas,
    flags,
    numbers,
    repeated,
)
from omsgrain.storage.postgres.schema import SCHEMA

PLACE = 16
"""Bytes of a place."""

_COPIED = 64  # minimum grains that justify the three round trips of COPY
_TOGETHER = 65_536  # approximate bytes to give to the driver at a time
_ROWS_ADDED = 20_000  # index rows to make at a time

_START = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"
_LENGTH = Struct(">i")
_BLOB = Struct(">hiqiqi")  # fields, 8, store, 8, number, 32
_ADDRESS = Struct(">hiqi")  # fields, 8, store, 32
_SEQ = Struct(">iq")  # 8, number
_TERM = Struct(">hiqi")  # fields, 8, store, length of the key

Added = tuple[int, bytes, bytes]
"""A grain to add: number, address, blob."""


class IndexRows(NamedTuple):
    lists: list[tuple[bytes, list[bytes]]]  # each key with its places, sorted
    past: AbstractSet[bytes]  # the ends of the places of past grains

    def changes(self) -> dict[bytes, tuple[int, int]]:
        if not self.past:
            return {key: (len(places), 0) for key, places in self.lists}
        found = {}
        for key, places in self.lists:
            past = sum(place[12:] in self.past for place in places)
            found[key] = len(places) - past, past
        return found

    def arrays(self) -> tuple[Array, Array, Array]:
        """Return the rows as arrays: key, past, place."""
        keys = repeated((key, len(places)) for key, places in self.lists)
        places = [place for _, places in self.lists for place in places]
        return keys, flags([place[12:] in self.past for place in places]), alike(places, PLACE)


def terms_of(
    grains: list[Added],
    past: AbstractSet[bytes] = frozenset(),
    paths: _core.IndexedPaths | None = None,
    *,
    after: bytes | None = None,
) -> IndexRows:
    """Make the index rows of grains with the same function of the core as every store.

    With ``after``, only those of later terms.
    """
    tail = _core.Tail(paths=paths)
    tail.add([g[0] for g in grains], [g[2] for g in grains], [g[1] for g in grains])
    lists: list[tuple[bytes, list[bytes]]] = []
    while part := tail.rows_after(after, _ROWS_ADDED):
        lists += part
        after = lists[-1][0]
    return IndexRows(lists, past)


def add(
    wire: Wire, store_id: int, grains: list[Added], terms: IndexRows, *, copies: bool
) -> list[Statement]:
    """Add grains, their addresses and their index rows, each in the order of their trees."""
    ordered = sorted((digest, seq) for seq, digest, _ in grains)
    if copies and len(grains) >= _COPIED:
        _copy(wire, "blobs (store_id, seq, digest, blob)", _blobs(store_id, grains))
        _copy(wire, "addresses (store_id, digest, seq)", _addresses(store_id, ordered))
        return add_terms(wire, store_id, terms, copies=True)
    seqs, digests = numbers([seq for seq, _, _ in grains]), byteas([d for _, d, _ in grains])
    by_address = byteas([d for d, _ in ordered]), numbers([seq for _, seq in ordered])
    statements: list[Statement] = [
        (sql.ADD_BLOBS, (store_id, seqs, digests, byteas([blob for _, _, blob in grains]))),
        (sql.ADD_ADDRESSES, (store_id, *by_address)),
    ]
    return statements + add_terms(wire, store_id, terms, copies=False)


def add_terms(wire: Wire, store_id: int, terms: IndexRows, *, copies: bool) -> list[Statement]:
    """Add index rows; return the statements that remain to be run."""
    if not terms.lists:
        return []
    if copies:
        _copy(wire, "terms (store_id, key, past, place)", _terms(store_id, terms))
        return []
    return [(sql.ADD_TERMS, (store_id, *terms.arrays()))]


def _copy(wire: Wire, target: str, rows: Iterable[bytes]) -> None:
    with (
        wire.plain().cursor() as cursor,
        cursor.copy(f"COPY {SCHEMA}.{target} FROM STDIN (FORMAT BINARY)") as copy,
    ):
        part, size = [_START], 0
        for row in rows:
            part.append(row)
            size += len(row)
            if size >= _TOGETHER:
                copy.write(b"".join(part))
                part, size = [], 0
        part.append(_END)
        copy.write(b"".join(part))


def _blobs(store_id: int, grains: list[Added]) -> Iterator[bytes]:
    head, length = _BLOB.pack, _LENGTH.pack
    for seq, digest, blob in grains:
        yield head(4, 8, store_id, 8, seq, 32) + digest + length(len(blob)) + blob


def _addresses(store_id: int, ordered: list[tuple[bytes, int]]) -> Iterator[bytes]:
    head, tail = _ADDRESS.pack(3, 8, store_id, 32), _SEQ.pack
    return (head + digest + tail(8, seq) for digest, seq in ordered)


def _terms(store_id: int, terms: IndexRows) -> Iterator[bytes]:
    current, past = (_LENGTH.pack(1) + state + _LENGTH.pack(16) for state in (b"\0", b"\1"))
    for key, places in terms.lists:
        head = _TERM.pack(4, 8, store_id, len(key)) + key
        if terms.past:
            for place in places:
                yield head + (past if place[12:] in terms.past else current) + place
        else:
            start = head + current
            yield start + start.join(places)
