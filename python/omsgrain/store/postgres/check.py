# SPDX-License-Identifier: Apache-2.0
"""Is everything in a store what it must be?

PostgreSQL looks after its own pages (``pg_amcheck``, data checksums). Here it is looked whether
the rows of a store fit together: every blob hashed, every index row looked up, every row of a
state led to its grain.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import OmsError
from omsgrain.grain import bare
from omsgrain.header import ENCRYPTED_BIT
from omsgrain.store.audit import verify
from omsgrain.store.base import CheckReport, Problem
from omsgrain.store.check_sealed import sealed_problems
from omsgrain.store.check_signatures import signature_problems
from omsgrain.store.check_states import state_problems
from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.adding import Added, terms_of
from omsgrain.store.postgres.database import Database
from omsgrain.store.postgres.reading import PostgresReader
from omsgrain.store.postgres.schema import SCHEMA, name_of
from omsgrain.store.postgres.upkeep import past_of
from omsgrain.store.tables import BLOBS, EVENTS, SEQUENCE, Table

if TYPE_CHECKING:
    from omsgrain.store.postgres.store import PostgresStore

__all__ = ["check"]

_MOST = 1_000  # problems that are told one by one
_WINDOW = 4_096  # numbers whose grains are looked up at once
_WINDOWS = 64


def check(store: PostgresStore) -> CheckReport:
    """Check a store in one snapshot."""
    problems: list[Problem] = []
    grains = rows = 0
    try:
        with store.reading(_Examined) as reader:
            reader.ask(("SET LOCAL statement_timeout = 0", ()))
            blobs = _BlobCheck(reader)
            found = chain(
                blobs.problems(),
                state_problems(reader),
                sealed_problems(reader),
                signature_problems(reader),
                _audit_problems(reader),
            )
            for problem in found:
                if len(problems) < _MOST:
                    problems.append(problem)
            grains, rows = blobs.grains, blobs.rows
    except OmsError as error:
        problems.append(Problem("file", None, str(error)))
    return CheckReport(not problems, tuple(problems), grains, rows)


def _audit_problems(reader: PostgresReader) -> Iterator[Problem]:
    for problem in verify(reader).problems:
        where = "" if problem.number is None else f"entry {problem.number}: "
        yield Problem("audit", None, where + problem.message)


class _Examined(PostgresReader):
    """A reader that looks up many grains at once, where a check asks for one."""

    def __init__(self, database: Database, store_id: int) -> None:
        super().__init__(database, store_id)
        self._window = lru_cache(maxsize=_WINDOWS)(self._window_at)

    def _window_at(self, number: int) -> dict[int, bytes]:
        start = number * _WINDOW
        return dict(self.all(sql.WINDOW, start, start + _WINDOW))

    def has_blob(self, seq: int) -> bool:
        return seq in self._window(seq // _WINDOW)

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Of a blob, the first bytes: of its address, and its header."""
        if table is not BLOBS:
            return super().row(table, key)
        (seq,) = SEQUENCE.unpack(key)
        return self._window(seq // _WINDOW).get(seq) if seq < 1 << 63 else None

    def entries(self, table: Table) -> int:
        return int(self.one(sql.entries(name_of(table))))


class _BlobCheck:
    """One pass over the blobs, and what the index says of each.

    Attributes:
        grains: how many were met.
        rows: how many index rows they must have.
    """

    def __init__(self, reader: PostgresReader) -> None:
        self.reader = reader
        self.grains = self.rows = 0
        self._bytes = 0

    def problems(self) -> Iterator[Problem]:
        after = 0
        while page := self.reader.hashed_page(after):
            after = page[-1][0]
            self.grains += len(page)
            self._bytes += sum(len(blob) for _, blob, _ in page)
            for seq, _, digest in page:
                if digest is None:
                    yield Problem("blob", seq, "the bytes are not those that were put")
            good: list[Added] = [(s, d, b) for s, b, d in page if d is not None]
            if good:
                yield from self._blobs(good)
                yield from self._terms(good)
        yield from self._totals(after)

    def _blobs(self, good: list[Added]) -> Iterator[Problem]:
        # Of a sealed one only its address can be told; signatures are looked at elsewhere.
        plain = [(seq, bare(blob)) for seq, _, blob in good if not blob[1] & ENCRYPTED_BIT]
        for index, error in _core.check_many([blob for _, blob in plain])[1]:
            yield Problem("blob", plain[index][0], str(error))
        found = self.reader.find([digest for _, digest, _ in good])
        for (seq, _, _), known in zip(good, found, strict=True):
            if known != seq:
                yield Problem("address", seq, "the address does not lead to the grain")

    def _terms(self, good: list[Added]) -> Iterator[Problem]:
        terms = terms_of(good, past_of(self.reader, [seq for seq, _, _ in good]))
        self.rows += sum(len(places) for _, places in terms.lists)
        missing = self.reader.all(sql.MISSING_TERMS, *terms.arrays())
        for seq in sorted({int.from_bytes(place[12:], "big") for (place,) in missing}):
            yield Problem("term", seq, "an index row is missing, or in the wrong state")

    def _totals(self, last: int) -> Iterator[Problem]:
        head, reader = self.reader.head, self.reader
        event = reader.last_row(EVENTS)
        if event is not None and len(event[0]) == SEQUENCE.size:
            last = max(last, *SEQUENCE.unpack(event[0]))
        if (head.grains, head.blob_bytes) != (self.grains, self._bytes) or last > head.last_seq:
            yield Problem("head", None, "the counts of the store are not those of its blobs")
        if reader.one(sql.entries(f"{SCHEMA}.addresses")) != self.grains:
            yield Problem("address", None, "there are more or fewer addresses than grains")
        if reader.one(sql.entries(f"{SCHEMA}.terms")) != self.rows:
            yield Problem("term", None, "there are more or fewer index rows than the grains have")
        if reader.all(sql.WRONG_COUNTS):
            yield Problem("term", None, "the count of a term is not that of its grains")
