# SPDX-License-Identifier: Apache-2.0
"""Grains and their index rows as statements, which take columns of bytes in binary."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from omsgrain import _core
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.pool import (
    Array,
    Statement,
    alike,
    byteas,
    flags,
    numbers,
    repeated,
)

PLACE = 16
"""Bytes of a place."""

_ROWS_ADDED = 20_000  # index rows to make at a time

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


def add(store_id: int, grains: list[Added], terms: IndexRows) -> list[Statement]:
    """Add grains, their addresses and their index rows, each in the order of their trees."""
    ordered = sorted((digest, seq) for seq, digest, _ in grains)
    seqs, digests = numbers([seq for seq, _, _ in grains]), byteas([d for _, d, _ in grains])
    by_address = byteas([d for d, _ in ordered]), numbers([seq for _, seq in ordered])
    return [
        (sql.ADD_BLOBS, (store_id, seqs, digests, byteas([blob for _, _, blob in grains]))),
        (sql.ADD_ADDRESSES, (store_id, *by_address)),
        *add_terms(store_id, terms),
    ]


def add_terms(store_id: int, terms: IndexRows) -> list[Statement]:
    """Add index rows."""
    return [(sql.ADD_TERMS, (store_id, *terms.arrays()))] if terms.lists else []
