# SPDX-License-Identifier: Apache-2.0
"""Is everything in a store what it must be?

PostgreSQL looks after its own pages (``pg_amcheck``, data checksums). Here it is looked whether
the rows of a store fit together: every blob hashed, every index row looked up, every row of a
state led to its grain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from omsgrain.store.base import CheckReport, Problem
from omsgrain.store.checking import Pass, examine
from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.adding import Added, terms_of
from omsgrain.store.postgres.database import Database
from omsgrain.store.postgres.failures import RefusedError
from omsgrain.store.postgres.reading import PostgresReader
from omsgrain.store.postgres.schema import SCHEMA, name_of
from omsgrain.store.postgres.upkeep import past_of
from omsgrain.store.tables import BLOBS, SEQUENCE, Table

if TYPE_CHECKING:
    from omsgrain.store.postgres.store import PostgresStore

__all__ = ["check"]

_WINDOW = 4_096  # numbers whose grains are looked up at once
_WINDOWS = 64


def check(store: PostgresStore) -> CheckReport:
    """Check a store in one snapshot.

    Raises:
        StoreError: the server went away, or would not let it be looked at.
    """
    with store.reading(_Examined) as reader:
        reader.ask(("SET LOCAL statement_timeout = 0", ()))
        return examine(reader, _BlobCheck(reader), passing=(RefusedError,))


class _Examined(PostgresReader):
    """A reader that looks up many grains at once, where a check asks for one."""

    def __init__(self, database: Database, store_id: int) -> None:
        super().__init__(database, store_id)
        self._window = lru_cache(maxsize=_WINDOWS)(self._window_at)

    def _window_at(self, number: int) -> dict[int, bytes]:
        start = number * _WINDOW
        return dict(self.all(sql.WINDOW, start, start + _WINDOW - 1))

    def _first_of(self, seq: int) -> bytes | None:
        """The first bytes of a grain: of its address, and its header."""
        return self._window(seq // _WINDOW).get(seq) if seq < sql.BEYOND else None

    def has_blob(self, seq: int) -> bool:
        return self._first_of(seq) is not None

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key; of a blob, its first bytes."""
        if table is not BLOBS:
            return super().row(table, key)
        (seq,) = SEQUENCE.unpack(key)
        return self._first_of(seq)

    def entries(self, table: Table) -> int:
        return int(self.one(sql.entries(name_of(table))))


class _BlobCheck(Pass["_Examined"]):
    """One pass over the blobs, and what the index says of each."""

    def problems(self) -> Iterator[Problem]:
        after, reader = 0, self.reader
        while page := reader.hashed_page(after):
            after = page[-1][0]
            yield from self.of_blobs(page)
            good: list[Added] = [(s, d, b) for s, b, d in page if d is not None]
            if good:
                found = reader.find([digest for _, digest, _ in good])
                for (seq, _, _), known in zip(good, found, strict=True):
                    if known != seq:
                        yield Problem("address", seq, "the address does not lead to the grain")
                yield from self._terms(good)
        head = reader.head
        addresses, terms = [
            int(reader.one(sql.entries(f"{SCHEMA}.{name}"))) for name in ("addresses", "terms")
        ]
        counts = head.grains, head.blob_bytes, head.last_seq
        yield from self.of_head(after, counts, (addresses, self.grains), terms)
        if reader.all(sql.WRONG_COUNTS):
            yield Problem("term", None, "the count of a term is not that of its grains")

    def _terms(self, good: list[Added]) -> Iterator[Problem]:
        terms = terms_of(good, past_of(self.reader, [seq for seq, _, _ in good]))
        self.rows += sum(len(places) for _, places in terms.lists)
        missing = self.reader.all(sql.MISSING_TERMS, *terms.arrays())
        for seq in sorted({int.from_bytes(place[12:], "big") for (place,) in missing}):
            yield Problem("term", seq, "an index row is missing, or in the wrong state")
