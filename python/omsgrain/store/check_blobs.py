# SPDX-License-Identifier: Apache-2.0
"""A pass over all blobs: are they what was put, and does the index say just that of each?"""

from __future__ import annotations

from collections.abc import Iterator

from omsgrain import _core
from omsgrain.grain import bare
from omsgrain.store.base import Problem
from omsgrain.store.reading import LmdbReader
from omsgrain.store.recent import RUN, Recent
from omsgrain.store.tables import ADDRESSES, EVENTS, PAST_TERMS, SEQUENCE, TERMS

__all__ = ["BlobCheck"]

_ENCRYPTED = 2  # bit of the second header byte


class BlobCheck:
    """One pass.

    Attributes:
        grains: how many were met.
        rows: how many index rows they must have.
    """

    def __init__(self, reader: LmdbReader) -> None:
        self.reader = reader
        self.grains = self.rows = 0
        self._addressed = self._blob_bytes = 0

    def problems(self) -> Iterator[Problem]:
        """Walk, and yield what is wrong."""
        head = self.reader.head
        run, after = Recent(0), 0
        while page := self.reader.hashed_page(after):
            after = page[-1][0]
            yield from self._blobs(page)
            run.add_rows([(s, b, d) for s, b, d in page if d is not None and s <= head.watermark])
            if run.tail.rows() > 8 * RUN:
                yield from self._terms(run)
                run = Recent(0)
        yield from self._terms(run)
        yield from self._totals(after)

    def _blobs(self, page: list[tuple[int, bytes, bytes | None]]) -> Iterator[Problem]:
        good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
        bad = [seq for seq, _, digest in page if digest is None]
        yield from (Problem("blob", seq, "the bytes are not those that were put") for seq in bad)
        # Of a sealed one only its address can be told; signatures are looked at elsewhere.
        plain = [(seq, bare(blob)) for seq, blob, _ in good if not blob[1] & _ENCRYPTED]
        for index, error in _core.check_many([blob for _, blob in plain])[1]:
            yield Problem("blob", plain[index][0], str(error))
        for seq, blob, digest in good:
            if self.reader.blob_at(seq) != blob:
                yield Problem("blob", seq, "the number does not lead to the grain")
            if seq <= self.reader.head.watermark:
                self._addressed += 1
                if self.reader.row_of(digest) != seq:
                    yield Problem("address", seq, "the address does not lead to the grain")
        self.grains += len(page)
        self._blob_bytes += sum(len(blob) for _, blob, _ in page)

    def _terms(self, run: Recent) -> Iterator[Problem]:
        past: dict[bytes, bool] = {}  # by the end of a place
        key: bytes | None = None
        while part := run.tail.rows_after(key, RUN):
            for key, places in part:
                self.rows += len(places)
                for place in places:
                    end = place[12:]
                    if end not in past:
                        past[end] = self.reader.is_past(int.from_bytes(end, "big"))
                    if not self.reader.has_term(key, place, "past" if past[end] else "current"):
                        seq = int.from_bytes(end, "big")
                        yield Problem(
                            "term", seq, "an index row is missing, or in the wrong table"
                        )

    def _totals(self, last: int) -> Iterator[Problem]:
        head, reader = self.reader.head, self.reader
        event = reader.last_row(EVENTS)
        if event is not None and len(event[0]) == SEQUENCE.size:
            last = max(last, *SEQUENCE.unpack(event[0]))
        counts = (head.grains, head.blob_bytes)
        if counts != (self.grains, self._blob_bytes) or last > head.last_seq:
            yield Problem("head", None, "the counts of the store are not those of its blobs")
        if reader.entries(ADDRESSES) != self._addressed:
            yield Problem("address", None, "there are more or fewer addresses than grains")
        if reader.entries(TERMS) + reader.entries(PAST_TERMS) != self.rows:
            yield Problem("term", None, "there are more or fewer index rows than the grains have")
