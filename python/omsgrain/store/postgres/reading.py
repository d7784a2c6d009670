# SPDX-License-Identifier: Apache-2.0
"""A snapshot: one REPEATABLE READ transaction, asked by keys and by pages of keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from omsgrain import _core
from omsgrain.errors import StoreError
from omsgrain.grain import Grain
from omsgrain.store.base import PAGE_BYTES, PAGE_GRAINS, Which
from omsgrain.store.postgres import arrays
from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.ahead import Ahead, Along, Named
from omsgrain.store.postgres.arrays import Array, byteas
from omsgrain.store.postgres.database import Database, Head
from omsgrain.store.postgres.failures import failure
from omsgrain.store.postgres.wire import Row, Statement, Wire
from omsgrain.store.simply import misplaced, stored
from omsgrain.store.state import PAST
from omsgrain.store.tables import SEQUENCE, STATES, Table

__all__ = ["PostgresReader", "beyond"]

_ROWS = 16, 512  # rows of a table read at a time, at first and at the most
_PLACES = 16, 1_024  # the same of places
_KEYS = 16, 256  # the same of terms


class PostgresReader:
    """Reads in one transaction, which begins with the first question, in the same round trip.

    Args:
        database: where.
        store_id: the number of the store.
    """

    def __init__(self, database: Database, store_id: int) -> None:
        self.store_id = store_id
        self._database = database
        self._wire: Wire | None = None
        self._head: Head | None = None
        self._ended = False
        self._ahead: Ahead | None = Ahead(
            self._has_of, lambda keys: self.some_rows(STATES, keys), self._blobs_of
        )
        self._named: Named | None = Named(self._named_of)
        self._along: Along | None = None

    def end(self, how: str | None = "COMMIT") -> None:
        """End the transaction: a walk that was left half-way cannot go on.

        Args:
            how: the statement that ends it; None: it has ended.
        """
        self._ended = True
        if self._wire is not None:
            self._database.end(self._wire, how)

    @property
    def head(self) -> Head:
        """The head of the store as this transaction sees it."""
        if self._head is None:
            self.ask()
        assert self._head is not None, "it comes with the first answer"
        return self._head

    @head.setter
    def head(self, head: Head) -> None:
        self._head = head

    def ask(self, *statements: Statement) -> list[list[Row]]:
        """Put questions in one round trip; return the rows that each gives."""
        if self._ended:
            raise StoreError("the snapshot is over")
        if self._wire is None:
            return self._begin(statements)
        try:
            return self._wire.ask(*statements)
        except psycopg.Error as error:
            raise failure(self._database.place, "read the store", error) from None

    def _begin(self, statements: Sequence[Statement]) -> list[list[Row]]:
        opening = (sql.READ, ()), (sql.HEAD, (self.store_id,))
        self._wire, (_, head, *found) = self._database.begin(*opening, *statements)
        if not head:
            raise self._database.gone()
        self._head = Head(*head[0])
        return found

    def all(self, text: str, *params: Any) -> list[Row]:
        """Ask for rows of the store; its number is the first parameter."""
        return self._run(text, self.store_id, *params)

    def _run(self, text: str, *params: Any) -> list[Row]:
        return self.ask((text, params))[0]

    def of(self, table: Table, text: str, *params: Any) -> list[Row]:
        """Ask for rows of one table of keys and values."""
        return self.all(text, *params)

    def among(self, text: str, asked: Array, *params: Any) -> list[Row]:
        """Ask for those of a list that are there."""
        return self._run(text, asked, self.store_id, *params)

    def one(self, text: str, *params: Any) -> Any:
        """Ask for one value; None if there is no row."""
        rows = self.all(text, *params)
        return rows[0][0] if rows else None

    # --- grains ---------------------------------------------------------------------------------

    def count(self) -> int:
        """Return the number of grains."""
        return self.head.grains

    def last_seq(self) -> int:
        """Return the last sequence number given."""
        return self.head.last_seq

    def expect(self, digests: Sequence[bytes]) -> None:
        """Say which grains will be asked for by their addresses."""
        if self._named is not None:
            self._named.expect(digests)

    def _named_of(self, digests: list[bytes]) -> dict[bytes, tuple[int, bytes]]:
        found = self.among(sql.NAMED, byteas(digests))
        return {digest: (seq, blob) for digest, seq, blob in found}

    def get(self, digest: bytes) -> bytes | None:
        """Return the blob put under the digest, or None."""
        if self._named is not None and (found := self._named.find(digest)) is not None:
            return None if found[0] is None else self._named.blob(found[0])
        blob: bytes | None = self.one(sql.GET, digest)
        return blob

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number of each; None where there is no such grain."""
        if self._named is not None and len(digests) == 1:
            expected = self._named.find(digests[0])
            if expected is not None:
                return [*expected]
        known: dict[bytes, int] = {}
        for part in sql.together(digests):
            known.update(self.among(sql.FIND, byteas(part)))
        return [known.get(digest) for digest in digests]

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        """Return the next blobs with their sequence numbers, in order."""
        return [(seq, blob) for seq, _, blob in self.rows_from(after, grains, size)]

    def rows_from(self, after: int, grains: int, size: int) -> list[Row]:
        """Return the next numbers, addresses and blobs."""
        return self.all(sql.PAGE, after, grains, size) if after < sql.BEYOND else []

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and addresses; no address for a damaged blob."""
        rows = self.rows_from(after, PAGE_GRAINS, PAGE_BYTES)
        found = _core.stored_blobs([blob for _, _, blob in rows], 0)
        return [
            (seq, blob, digest if address == digest.hex() else None)
            for (seq, digest, blob), (_, address) in zip(rows, found, strict=True)
        ]

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number, or None."""
        if self._ahead is not None and (known := self._ahead.blob(seq)) is not None:
            return known[0]
        if self._named is not None and (named := self._named.blob(seq)) is not None:
            return named
        blob: bytes | None = self.one(sql.BLOB, seq) if seq < sql.BEYOND else None
        return blob

    def grain(self, seq: int) -> Grain | None:
        """Return the grain with a sequence number; a sealed one stays so."""
        blob = self.blob_at(seq)
        return None if blob is None else stored(blob)

    def named(self, digest: bytes) -> Grain | None:
        """Return the grain at an address; a sealed one stays so."""
        blob = self.get(digest)
        return None if blob is None else stored(blob)

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        """Return the grains at some places of the index; their blobs are hashed together."""
        numbers = [int.from_bytes(place[12:], "big") for place in places]
        blobs = {} if self._ahead is None else self._ahead.brought(numbers)
        if rest := [seq for seq in numbers if seq not in blobs]:
            blobs |= self._blobs_of(rest)
        there = [p for p, seq in zip(places, numbers, strict=True) if seq in blobs]
        found = _core.blobs_at([blobs[seq] for seq in numbers if seq in blobs], there, 0)
        if found is None:
            raise misplaced()
        return [
            (place, Grain._stored(blob, address))
            for place, (blob, address) in zip(there, found, strict=True)
        ]

    def _blobs_of(self, numbers: list[int]) -> dict[int, bytes]:
        return dict(self.among(sql.BLOBS, arrays.numbers(numbers)))

    # --- terms ----------------------------------------------------------------------------------

    def term_count(self, key: bytes, which: Which = "all") -> int:
        """Return how many grains have a term: of a term that many have, by its count."""
        return self.term_counts([(key, which)])[0]

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each of some terms, in one round trip."""
        number = self.store_id
        asked = [(sql.COUNTS[which], (number, key, number, key)) for key, which in terms]
        return [int(rows[0][0]) for rows in self.ask(*asked)] if asked else []

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        """Tell whether the grain at a place has a term, and is one of ``which``."""
        if self._ahead is not None:
            known = self._ahead.has(key, place, which)
            if known is not None:
                return known
        return bool(self._has_of(key, [place], which))

    def _has_of(self, key: bytes, places: list[bytes], which: Which) -> set[bytes]:
        return {place for (place,) in self.among(sql.HAS[which], byteas(places), key)}

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        """Walk the places of the grains that have a term, by pages, each asked for when needed."""
        limit, most = _PLACES
        if after is None:
            after = sql.ABOVE if newest else b""
        along, self._along = self._along or Along(0, (), False), None
        if self._ahead is None:
            along = Along(0, (), False)
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
        """Say what will be asked of the grains whose places are walked next."""
        self._along = Along(grains, tuple(terms), states)

    def _page_of(
        self, key: bytes, after: bytes, newest: bool, which: Which, limit: int, along: Along
    ) -> list[bytes]:
        """Read places, and what will be asked of them."""
        number, blobs = self.store_id, along.blobs(limit)
        params: list[Any] = [number] if blobs else []
        for term in along.terms:
            params += [number, term]
        params += [number] if along.states else []
        params += [number, key, after, limit]
        params += [number, key, after, limit, limit] if which == "all" else []
        text = sql.places(which, newest, len(along.terms), along.states, blobs)
        rows = self.all(text, *params[1:])
        page = [row[0] for row in rows]
        if self._ahead is not None and page:
            self._ahead.expect(page, **_brought(rows, along, which, blobs))
        return page

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        """Walk the terms whose keys begin with a prefix, each once, sorted."""
        end = beyond(prefix)
        limit, most = _KEYS
        after: bytes | None = None
        while True:
            # The first one may be the prefix itself; from then on, what comes behind.
            first = sql.FIRST_KEY if after is None else sql.NEXT_KEY
            start = prefix if after is None else after
            text = sql.KEYS[which].format(first=first)
            rows = self.all(text, start, end, self.store_id, end, limit, self.store_id)
            yield from [key for key, there in rows if there]
            if len(rows) < limit:
                return
            after, limit = rows[-1][0], min(4 * limit, most)

    # --- rows -----------------------------------------------------------------------------------

    def is_past(self, seq: int) -> bool:
        """Tell whether a grain was superseded, retracted or restricted."""
        row = self.row(STATES, SEQUENCE.pack(seq))
        return bool(row and row[0] & PAST)

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key in a table of life STATE or BLIND, or None."""
        if self._ahead is not None and table is STATES:
            known = self._ahead.state(key)
            if known is not None:
                return known[0]
        value: bytes | None = self.one(sql.row(table), key)
        return value

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those of some keys that are there."""
        found: dict[bytes, bytes] = {}
        for part in sql.together(keys):
            found.update(self.among(sql.some_rows(table), byteas(part)))
        return found

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Walk keys and values by rising keys, in pages, so that a writer may change them."""
        end = beyond(prefix)
        limit, most = _ROWS
        if after is None or after < prefix:
            page = self.of(table, sql.rows_from(table), prefix, end, limit)
        else:
            page = self.of(table, sql.rows_after(table), after, end, limit)
        while True:
            yield from page
            if len(page) < limit:
                return
            after, limit = page[-1][0], min(2 * limit, most)
            page = self.of(table, sql.rows_after(table), after, end, limit)

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        """Return the highest key and its value; None if the table is empty."""
        rows = self.of(table, sql.last_row(table))
        return rows[0] if rows else None


def _brought(rows: Sequence[Row], along: Along, which: Which, blobs: bool) -> dict[str, Any]:
    """What came along with places, as ``Ahead.expect`` takes it."""
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
    """Return a key above all that begin with a prefix, and below or equal to all others above."""
    stem = prefix.rstrip(b"\xff")
    if not stem:
        return sql.ABOVE
    return stem[:-1] + bytes([stem[-1] + 1])
