# SPDX-License-Identifier: Apache-2.0
"""A pass over all blobs: are they what was put, and does the index say just that of each?"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat

from omsgrain.store.base import Problem, Which
from omsgrain.store.checking import Hashed, Pass
from omsgrain.store.reading import LmdbReader
from omsgrain.store.recent import RUN, Recent
from omsgrain.store.tables import ADDRESSES, BLOBS, MARK, PAST_TERMS, SEQUENCE, TERMS

__all__ = ["BlobCheck"]


class BlobCheck(Pass[LmdbReader]):
    """One pass."""

    def __init__(self, reader: LmdbReader) -> None:
        super().__init__(reader)
        self._addressed = 0

    def problems(self) -> Iterator[Problem]:
        """Walk, and yield what is wrong."""
        head = self.reader.head
        run, before, after = Recent(0), 0, 0
        while page := self.reader.hashed_page(after):
            after = page[-1][0]
            yield from self._blobs(page)
            run.add_rows([(s, b, d) for s, b, d in page if d is not None and s <= head.watermark])
            if run.tail.rows() > 8 * RUN:
                yield from self._terms(run, before + 1, after)
                run, before = Recent(0), after
        yield from self._terms(run, before + 1, after)
        entries, addressed = self.reader.entries, self._addressed
        yield from self.of_head(
            after,
            (head.grains, head.blob_bytes, head.last_seq),
            (entries(ADDRESSES), addressed),
            entries(TERMS) + entries(PAST_TERMS),
        )

    def _blobs(self, page: list[Hashed]) -> Iterator[Problem]:
        yield from self.of_blobs(page)
        good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
        row_at, number_of = self.reader.getter(BLOBS), self.reader.getter(ADDRESSES)
        watermark = self.reader.head.watermark
        for seq, blob, digest in good:
            key = SEQUENCE.pack(seq)
            row = row_at(key)
            if row is None or row[MARK:] != blob:
                yield Problem("blob", seq, "the number does not lead to the grain")
            if seq <= watermark:
                self._addressed += 1
                # A row of another length is damage of another kind, and raised as such.
                if number_of(digest) != key and self.reader.row_of(digest) != seq:
                    yield Problem("address", seq, "the address does not lead to the grain")

    def _terms(self, run: Recent, first: int, last: int) -> Iterator[Problem]:
        """Look up every row of the grains between two numbers, each by a search of its own."""
        past = self.reader.past_between(first, last)
        key: bytes | None = None
        with self.reader.cursor(TERMS) as current, self.reader.cursor(PAST_TERMS) as before:
            among = current.set_key_dup, before.set_key_dup
            while part := run.tail.rows_after(key, RUN):
                for key, places in part:
                    self.rows += len(places)
                    if past:
                        found = all([among[place[12:] in past](key, place) for place in places])
                    else:
                        found = all(map(among[0], repeat(key), places))
                    if not found:
                        yield from self._missing(key, places, past)

    def _missing(self, key: bytes, places: list[bytes], past: set[bytes]) -> Iterator[Problem]:
        """Name the grains that lack a row under a key."""
        for place in places:
            which: Which = "past" if place[12:] in past else "current"
            if not self.reader.has_term(key, place, which):
                seq = int.from_bytes(place[12:], "big")
                yield Problem("term", seq, "an index row is missing, or in the wrong table")
