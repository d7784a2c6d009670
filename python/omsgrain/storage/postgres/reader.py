# SPDX-License-Identifier: Apache-2.0
"""A snapshot of a store in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from omsgrain import _core
from omsgrain.errors import StoreError
from omsgrain.grain import Grain, stored_grain
from omsgrain.storage.base import (
    MANY_ROWS,
    NAMED_GRAINS,
    PAGE_BYTES,
    PAGE_GRAINS,
    Reader,
    Which,
    misplaced,
    stored_at,
)
from omsgrain.storage.indexed_paths import rows_with
from omsgrain.storage.postgres import pool
from omsgrain.storage.postgres import statements as sql
from omsgrain.storage.postgres.cache import ExpectedPlaces, Prefetch
from omsgrain.storage.postgres.connection import Database, PostgresHead, failure
from omsgrain.storage.postgres.pool import Row, Statement, Wire, byteas
from omsgrain.storage.records import PAST
from omsgrain.storage.tables import INDEXED_RECORD, META, SEQUENCE, STATES, Table

_ROWS = 16, 512  # rows of a table to read at a time, at first and at most
_PLACES_A_PAGE = 16, 1_024  # the same for places
_KEYS = 16, 256  # the same for terms


class PostgresReader(Reader):
    """Reads in one transaction, which begins with the first read in the same round trip."""

    def __init__(self, database: Database, store_id: int) -> None:
        self.store_id = store_id
        self._database = database
        self._wire: Wire | None = None
        self._head: PostgresHead | None = None
        self._due: bytes | None = None  # the first key of due-0, which comes with the head
        self._ended = False
        self._ahead: Prefetch | None = Prefetch(
            self._has_of, lambda keys: self.some_rows(STATES, keys), self.blobs
        )
        self._along: ExpectedPlaces | None = None

    def end(self, how: str | None = "COMMIT") -> None:
        """End the transaction; an unfinished iteration cannot continue."""
        self._ended = True
        if self._wire is not None:
            self._database.end(self._wire, how)

    @property
    def head(self) -> PostgresHead:
        if self._head is None:
            self.ask()
        assert self._head is not None, "it comes with the first answer"
        return self._head

    @head.setter
    def head(self, head: PostgresHead) -> None:
        self._head = head

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Run statements in one round trip; return the rows of each."""
        if self._ended:
            raise StoreError("the snapshot is closed")
        if self._wire is None:
            opening = (sql.READ, ()), (sql.HEAD, (self.store_id,))
            self._wire, (_, head, *found) = self._database.begin(*opening, *statements)
            if not head:
                raise self._database.gone()
            *values, self._due = head[0]
            self._head = PostgresHead(*values)
            return found
        try:
            return self._wire.ask(*statements)
        except psycopg.Error as error:
            raise failure(self._database.place, "read the store", error) from None

    def run(self, text: str, *params: Any) -> list[Row]:
        return self.ask((text, (self.store_id, *params)))[0]

    def all(self, text: str, *params: Any) -> list[Row]:
        return self.run(text, *params)

    def of(self, table: Table, text: str, *params: Any) -> list[Row]:
        return self.run(text, *params)

    def one(self, text: str, *params: Any) -> Any:
        rows = self.all(text, *params)
        return rows[0][0] if rows else None

    # --- grains ---------------------------------------------------------------------------------

    def count(self) -> int:
        return self.head.grains

    def last_seq(self) -> int:
        return self.head.last_seq

    def first_due(self) -> int | None:
        if self._head is None:
            self.ask()
        due = self._due
        return None if due is None else int.from_bytes(due[: SEQUENCE.size], "big")

    def get(self, digest: bytes) -> bytes | None:
        blob: bytes | None = self.one(sql.GET, digest)
        return blob

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        known: dict[bytes, int] = {}
        for part in sql.together(digests):
            known.update(self.run(sql.FIND, byteas(part)))
        return [known.get(digest) for digest in digests]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        return [(seq, blob) for seq, _, blob in self.rows_from(after, grains, size)]

    def rows_from(self, after: int, grains: int, size: int) -> list[Row]:
        return self.all(sql.PAGE, after, grains, size) if after < sql.BEYOND else []

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; None for a damaged blob."""
        return _hashed(self.rows_from(after, PAGE_GRAINS, PAGE_BYTES))

    def hashed_blobs(self, seqs: Sequence[int]) -> list[tuple[int, bytes, bytes | None]]:
        return _hashed(self.all(sql.GRAINS, pool.numbers(seqs)))

    def blob_at(self, seq: int) -> bytes | None:
        if self._ahead is not None and (known := self._ahead.blob(seq)) is not None:
            return known[0]
        blob: bytes | None = self.one(sql.BLOB, seq) if seq < sql.BEYOND else None
        return blob

    def named_many(self, digests: Sequence[bytes]) -> list[Grain | None]:
        grains: list[Grain | None] = []
        for start in range(0, len(digests), NAMED_GRAINS):
            part = digests[start : start + NAMED_GRAINS]
            blobs: dict[bytes, bytes] = dict(self.all(sql.NAMED, byteas(part)))
            for digest in part:
                if (blob := blobs.get(digest)) is None:
                    return [*grains, None]
                grains.append(stored_at(digest, blob))
        return grains

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        numbers = [int.from_bytes(place[12:], "big") for place in places]
        blobs = self.blobs(numbers)
        there = [p for p, seq in zip(places, numbers, strict=True) if seq in blobs]
        found = _core.blobs_at([blobs[seq] for seq in numbers if seq in blobs], there, 0)
        if found is None:
            raise misplaced()
        return [
            (place, stored_grain(blob, address))
            for place, (blob, address) in zip(there, found, strict=True)
        ]

    def blobs(self, seqs: Sequence[int]) -> dict[int, bytes]:
        found = {} if self._ahead is None else self._ahead.brought(seqs)
        if rest := [seq for seq in seqs if seq not in found]:
            found |= self.all(sql.BLOBS, pool.numbers(rest))
        return found

    # --- terms ----------------------------------------------------------------------------------

    def term_count(self, key: bytes, which: Which = "all") -> int:
        return self.term_counts([(key, which)])[0]

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        asked = [(sql.term_count(which), (self.store_id, key)) for key, which in terms]
        return [int(rows[0][0]) for rows in self.ask(*asked)] if asked else []

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        if self._ahead is not None:
            known = self._ahead.has(key, place, which)
            if known is not None:
                return known
        return bool(self._has_of(key, [place], which))

    def _has_of(self, key: bytes, places: list[bytes], which: Which) -> set[bytes]:
        return {place for (place,) in self.all(sql.has_term(which), key, byteas(places))}

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        limit, most = _PLACES_A_PAGE
        if after is None:
            after = sql.ABOVE if newest else b""
        along, self._along = self._along or ExpectedPlaces(0, (), False), None
        if self._ahead is None:
            along = ExpectedPlaces(0, (), False)
        elif along.grains:
            limit = along.places
        while True:
            page = self._page_of(key, after, newest, which, limit, along)
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1], min(4 * limit, most)

    def expect_places(
        self, grains: int, terms: Sequence[bytes] = (), states: bool = False
    ) -> None:
        self._along = ExpectedPlaces(grains, tuple(terms), states)

    def _page_of(
        self,
        key: bytes,
        after: bytes,
        newest: bool,
        which: Which,
        limit: int,
        along: ExpectedPlaces,
    ) -> list[bytes]:
        blobs = along.blobs(limit)
        text = sql.places(which, newest, len(along.terms), along.states, blobs)
        rows = self.all(text, key, after, limit, *along.terms)
        page = [row[0] for row in rows]
        if self._ahead is not None and page:
            self._ahead.expect(page, **_brought(rows, along, which, blobs))
        return page

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        end = beyond(prefix)
        limit, most = _KEYS
        text = sql.keys(which, first=True)  # the prefix itself may be a key
        while True:
            rows = self.all(text, prefix, end, limit)
            yield from [key for key, there in rows if there]
            if len(rows) < limit:
                return
            text, prefix, limit = sql.keys(which, first=False), rows[-1][0], min(4 * limit, most)

    def places_between(
        self, first: bytes, last: bytes, after: bytes | None, newest: bool, which: Which, most: int
    ) -> list[bytes]:
        if after is None:
            after = sql.ABOVE if newest else b""
        text = sql.places_between(which, newest)
        page = [place for (place,) in self.all(text, first, last, after, most)]
        if self._ahead is not None and page:
            self._ahead.expect(page)
        return page

    def count_between(self, first: bytes, last: bytes, which: Which, most: int) -> int:
        return int(self.one(sql.count_between(which), first, last, most))

    def indexed_paths(self) -> _core.IndexedPaths | None:
        row = self.row(META, INDEXED_RECORD)
        return None if row is None else rows_with(row)

    # --- rows -----------------------------------------------------------------------------------

    def row(self, table: Table, key: bytes) -> bytes | None:
        if self._ahead is not None and table is STATES:
            known = self._ahead.state(key)
            if known is not None:
                return known[0]
        value: bytes | None = self.one(sql.row(table), key)
        return value

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for part in sql.together(keys):
            found.update(self.all(sql.some_rows(table), byteas(part)))
        return found

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        end = beyond(prefix)
        limit, most = _ROWS
        first = after is None or after < prefix
        start = prefix if after is None or first else after
        while True:
            page = self.of(table, sql.rows(table, first), start, end, limit)
            yield from page
            if len(page) < limit:
                return
            start, first, limit = page[-1][0], False, min(2 * limit, most)

    def suffixes(
        self, table: Table, prefixes: Sequence[bytes], most: int = MANY_ROWS
    ) -> list[bytes]:
        text, number = sql.rows(table, True), self.store_id
        asked = [(text, (number, prefix, beyond(prefix), most + 1)) for prefix in prefixes]
        found = [rows for part in sql.together(asked) for rows in self.ask(*part)]
        return [
            b"".join([key[len(prefix) :] for key, _ in rows])
            for prefix, rows in zip(prefixes, found, strict=True)
        ]

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        rows = self.of(table, sql.last_row(table))
        return rows[0] if rows else None


def past_of(reader: PostgresReader, seqs: Sequence[int]) -> set[bytes]:
    """Return the ends of the places of the past grains among these."""
    keys = [SEQUENCE.pack(seq) for seq in seqs]
    found = reader.some_rows(STATES, keys)
    return {key[-4:] for key, row in found.items() if row and row[0] & PAST}


def _brought(
    rows: Sequence[Row], along: ExpectedPlaces, which: Which, blobs: bool
) -> dict[str, Any]:
    """Return the answers that came with places, for ``Prefetch.expect``."""
    found: dict[str, Any] = {}
    if along.terms:
        found["has"] = {
            (term, which): {row[0] for row in rows if row[n]}
            for n, term in enumerate(along.terms, 1)
        }
    if along.states:
        at = 1 + len(along.terms)
        states = [(bytes(4) + row[0][12:], row[at]) for row in rows]
        found["states"] = {key: state for key, state in states if state is not None}
    if blobs:
        numbers = [(int.from_bytes(row[0][12:], "big"), row[-1]) for row in rows]
        found["blobs"] = {seq: blob for seq, blob in numbers if blob is not None}
    return found


def beyond(prefix: bytes) -> bytes:
    """Return the lowest key above all keys with a prefix."""
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return sql.ABOVE
    return stem[:-1] + bytes([stem[-1] + 1])


def _hashed(rows: Sequence[Row]) -> list[tuple[int, bytes, bytes | None]]:
    """Return the numbers, blobs and addresses of rows; no address for a damaged blob."""
    found = _core.stored_blobs([blob for _, _, blob in rows], 0)
    return [
        (seq, blob, digest if address == digest.hex() else None)
        for (seq, digest, blob), (_, address) in zip(rows, found, strict=True)
    ]
