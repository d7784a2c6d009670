# SPDX-License-Identifier: Apache-2.0
"""Writing to a store on disk: blobs at once, the index behind the watermark in sorted runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omsgrain.store.environment import Environment
from omsgrain.store.reading import Head, LmdbReader
from omsgrain.store.recent import Recent
from omsgrain.store.tables import ADDRESSES, BLOBS, HEAD, HEAD_RECORD, MARK, META, SEQUENCE, TERMS
from omsgrain.store.turns import Session

if TYPE_CHECKING:
    from lmdb import Transaction

__all__ = ["LmdbWriter"]

_ROWS_TOGETHER = 20_000  # index rows handed to LMDB at a time


class LmdbWriter(LmdbReader):
    """Appends in one write transaction, which it may share with other writers' works."""

    __slots__ = ("_session",)

    def __init__(self, env: Environment, txn: Transaction[bytes], session: Session) -> None:
        super().__init__(env, txn, env.recent, session)
        self._session = session

    def seq_of(self, digest: bytes) -> int | None:
        """Return the sequence number of an address; None if it is not there."""
        session = self._session
        seq = session.fresh.get(digest) or session.pending.get(digest)
        return super().seq_of(digest) if seq is None else seq

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append the blobs that are new; tell which those were."""
        seq, blob_bytes, grains, watermark = self.head
        flags, blobs = [], []
        for digest, blob in items:
            new = self.seq_of(digest) is None
            flags.append(new)
            if new:
                seq, blob_bytes, grains = seq + 1, blob_bytes + len(blob), grains + 1
                self._session.fresh[digest] = seq
                blobs.append((SEQUENCE.pack(seq), digest[:MARK] + blob))
        if len(blobs) == 1:  # the single put of a robot's loop: without a cursor it is cheaper
            self._txn.put(*blobs[0], append=True, db=self._tables[BLOBS])
        elif blobs:
            with self._txn.cursor(self._tables[BLOBS]) as cursor:
                cursor.putmulti(blobs, append=True)
        if blobs:
            self._set_head(Head(seq, blob_bytes, grains, watermark))
        return flags

    def _parts(self) -> list[tuple[Recent, int, int]]:
        """What is not committed yet stands apart: it may be taken back."""
        base, last = self._session.base or 0, self.head.last_seq
        self.recent.load_rows(self, base)
        own = Recent(base)
        own.load_rows(self, last)
        return [(self.recent, self.head.watermark, base), (own, base, last)]

    def _set_head(self, head: Head) -> None:
        self.head = head
        self._txn.put(HEAD_RECORD, HEAD.pack(*head), db=self._tables[META])

    def flush(self) -> None:
        """Write the addresses and index rows of all grains beyond the watermark."""
        head, recent = self.head, self.recent
        recent.load_rows(self, head.last_seq)
        self.add_addresses(recent.digests)
        self.add_rows(recent)
        self.set_watermark()

    def set_watermark(self) -> None:
        """Say that the index covers all grains."""
        self._set_head(self.head._replace(watermark=self.head.last_seq))

    def add_addresses(self, digests: dict[bytes, int]) -> None:
        """Write addresses in order, since neighbours share pages."""
        rows = sorted((digest, SEQUENCE.pack(seq)) for digest, seq in digests.items())
        with self._txn.cursor(self._tables[ADDRESSES]) as cursor:
            cursor.putmulti(rows)

    def add_rows(self, recent: Recent) -> None:
        """Write index rows in order.

        Appended behind the places that a term has, which fills LMDB's pages whole and not by half;
        what is older than a place already there goes between the others.
        """
        key: bytes | None = None
        with self._txn.cursor(self._tables[TERMS]) as cursor:
            while part := recent.tail.rows_after(key, _ROWS_TOGETHER):
                rows = [(key, place) for key, places in part for place in places]
                _, added = cursor.putmulti(rows, append=True)
                if added < len(rows):
                    cursor.putmulti(rows, dupdata=False)
                key = part[-1][0]

    def drop_terms(self) -> None:
        """Empty the table of terms."""
        self._txn.drop(self._tables[TERMS], delete=False)
