# SPDX-License-Identifier: Apache-2.0
"""A write transaction: what is written waits until a question or the commit needs it.

Each round trip costs as much as a hundred rows. So grains, rows and changes of state wait here,
and go together, the last of them with the commit itself. Questions about single rows are answered
from what waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from omsgrain.errors import StoreError
from omsgrain.store.base import Which
from omsgrain.store.postgres import arrays
from omsgrain.store.postgres import statements as sql
from omsgrain.store.postgres.adding import Added, terms_of
from omsgrain.store.postgres.arrays import Array, byteas
from omsgrain.store.postgres.counting import Counts
from omsgrain.store.postgres.database import Database, Head
from omsgrain.store.postgres.indexing import IndexWriter
from omsgrain.store.postgres.wire import Row, Statement, Wire
from omsgrain.store.state import forget
from omsgrain.store.tables import EVENT, EVENTS, LONGEST_KEY, META, SEQUENCE, Kind, Table

__all__ = ["PostgresWriter"]

_GATHERED = 16 << 20  # bytes that wait at the most
_ROW = 64  # what a row is taken for, beside its bytes


class PostgresWriter(IndexWriter):
    """Writes in one transaction, which has locked the head of the store.

    Args:
        database: where.
        wire: on which the transaction has begun.
        store_id: the number of the store.
        head: its head.
        counts: the terms that have a count, as this process knew them.
        commits: the names of the store's last commits.
        copies: whether COPY is let.
        meta: the rows of the table META.
        known: the numbers of some addresses; None of those that are not there.
    """

    def __init__(
        self,
        database: Database,
        wire: Wire,
        store_id: int,
        head: Head,
        counts: Counts,
        *,
        commits: bytes,
        copies: bool,
        meta: dict[bytes, bytes],
        known: dict[bytes, int | None],
    ) -> None:
        super().__init__(database, wire, store_id, head, commits=commits, copies=copies)
        self._grains: dict[int, Added] = {}
        self._numbers: dict[bytes, int] = {}  # of those, by address
        self._known = known  # of addresses that were looked for
        self._rows: dict[Table, dict[bytes, bytes | None]] = {}
        self._moves: dict[int, bool] = {}  # grains that became past, or current again
        self._meta: dict[bytes, bytes] | None = meta  # as they are in the table
        self._size = 0
        self.counts = counts.loaded(self)

    # --- what waits -----------------------------------------------------------------------------

    def all(self, text: str, *params: Any) -> list[Row]:
        """Ask for rows of the store; all that waits is sent before."""
        self.settle()
        return self.run(text, self.store_id, *params)

    def among(self, text: str, asked: Array, *params: Any) -> list[Row]:
        """Ask for those of a list that are there; all that waits is sent before."""
        self.settle()
        return super().among(text, asked, *params)

    def of(self, table: Table, text: str, *params: Any) -> list[Row]:
        """Ask for rows of one table; what waits for others goes on waiting."""
        if table in self._rows:
            self.settle()
        return self.run(text, self.store_id, *params)

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each of some terms; all that waits is sent before."""
        self.settle()
        return super().term_counts(terms)

    def settle(self) -> None:
        """Send all that waits."""
        if self._grains or self._rows or self._moves:
            self._send(self._statements())

    def finish(self) -> None:
        """Send all that waits, and commit; take back if nothing was written.

        Raises:
            psycopg.Error: the database refused, or its answer was lost; ``committing`` tells
                whether it may have committed.
        """
        statements = self._statements()
        if not (statements or self._sent or self.head != self._base):
            # The lock alone would make the commit wait for the disk; see also ``Database.end``.
            self._send([("SET LOCAL synchronous_commit = off", ()), ("COMMIT", ())])
            return
        self.committing = True
        self._send([*statements, self._head_row(), ("COMMIT", ())])

    def _statements(self) -> list[Statement]:
        """What waits, as statements in the order in which they must run."""
        statements: list[Statement] = []
        if self._moves:
            self._move()
        if self._grains:
            statements += self._added()
        for table, rows in self._rows.items():
            dropped = [key for key, value in rows.items() if value is None]
            kept = sorted((key, value) for key, value in rows.items() if value is not None)
            statements += [(sql.drop_row(table), (self.store_id, key)) for key in dropped]
            if kept:
                keys, values = byteas([k for k, _ in kept]), byteas([v for _, v in kept])
                statements.append((sql.set_rows(table), (self.store_id, keys, values)))
        if META in self._rows:
            self._meta = None
        self._rows, self._size = {}, 0
        return statements

    def _added(self) -> list[Statement]:
        grains, self._grains, self._numbers = [*self._grains.values()], {}, {}
        past = {SEQUENCE.pack(seq)[-4:] for seq, is_past in self._moves.items() if is_past}
        self._moves = {}
        terms = terms_of(grains, past)
        statements = self._adding(grains, terms)
        statements += self._recounted(terms.changes())
        chosen = self.counts.chosen(grains)
        if chosen:
            self._send(statements)
            statements = []
            self.counts = self.counts.noticed(self, chosen)
        return statements

    def _wait(self, size: int) -> None:
        """Note that something more waits; send it all if that has become much."""
        self._size += size + _ROW
        if self._size >= _GATHERED:
            self.settle()

    # --- grains ---------------------------------------------------------------------------------

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number of each; what waits is known here."""
        ours, before = self._numbers, self._known
        known = {d: ours.get(d, before.get(d)) for d in digests if d in ours or d in before}
        if asked := [digest for digest in digests if digest not in known]:
            known.update(zip(asked, self._found(asked), strict=True))
        return [known[digest] for digest in digests]

    def _found(self, digests: Sequence[bytes]) -> list[int | None]:
        """Look in the table of addresses, as it is; what waits stays waiting."""
        known: dict[bytes, int] = {}
        for part in sql.together(digests):
            known.update(self.run(sql.FIND, byteas(part), self.store_id))
        return [known.get(digest) for digest in digests]

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number."""
        waiting = self._grains.get(seq)
        return super().blob_at(seq) if waiting is None else waiting[2]

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append the blobs that are new; tell which those were."""
        known = self.find([digest for digest, _ in items])
        flags = []
        last, size, count = self.head.last_seq, 0, 0
        added = set[bytes]()
        for (digest, blob), seq in zip(items, known, strict=True):
            new = seq is None and digest not in added
            flags.append(new)
            if new:
                last += 1
                added.add(digest)
                self._grains[last] = last, digest, bytes(blob)
                self._numbers[digest] = last
                self._known.pop(digest, None)
                size, count = size + len(blob), count + 1
        _, blob_bytes, grains, ordinal = self.head
        self.head = Head(last, blob_bytes + size, grains + count, ordinal)
        if count:
            self._wait(size)
        return flags

    def event(self, kind: Kind, seq: int, digest: bytes) -> int:
        """Note that something happened to a grain; return the event's own number."""
        number = self.head.last_seq + 1
        self.head = self.head._replace(last_seq=number)
        self.set_row(EVENTS, SEQUENCE.pack(number), EVENT.pack(kind, seq, digest))
        return number

    def remove(self, seq: int) -> None:
        """Take out a grain and every row about it."""
        self.settle()
        grains = self.grains_of([seq])
        if not grains:
            return
        forget(self, seq)
        _, digest, blob = grains[0]
        self._known.pop(digest, None)
        self.drop_terms(self._rows_of(grains))
        statements: list[Statement] = [
            (sql.DROP_ADDRESS, (self.store_id, digest, seq)),
            (sql.DROP_BLOB, (self.store_id, seq)),
        ]
        self._send(statements)
        last, blob_bytes, count, ordinal = self.head
        # Whoever follows the store tells snapshots apart by their last numbers.
        last = max(last, self._base.last_seq + 1)
        self.head = Head(last, blob_bytes - len(blob), count - 1, ordinal)

    def grains_of(self, numbers: list[int]) -> list[Added]:
        """Return numbers, addresses and blobs of those that are there."""
        return self.among(sql.GRAINS, arrays.numbers(numbers))

    # --- the index ------------------------------------------------------------------------------

    def set_past(self, seq: int, past: bool) -> None:
        """Move a grain's index rows to the past ones, or back."""
        self._moves[seq] = past
        self._wait(0)

    def _move(self) -> None:
        """Move the index rows of grains that do not wait themselves."""
        moves = {seq: past for seq, past in self._moves.items() if seq not in self._grains}
        if not moves:
            return
        self._moves = {seq: past for seq, past in self._moves.items() if seq in self._grains}
        numbers = [*moves]
        for start in range(0, len(numbers), sql.TOGETHER):
            part = arrays.numbers(numbers[start : start + sql.TOGETHER])
            grains: list[Added] = self.run(sql.GRAINS, part, self.store_id)
            rows = self._rows_of(grains)
            self.move_terms(
                [(key, moves[int.from_bytes(place[12:], "big")], place) for key, place in rows]
            )

    # --- rows -----------------------------------------------------------------------------------

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key; of what waits, that."""
        waiting = self._rows.get(table)
        if waiting is not None and key in waiting:
            return waiting[key]
        if table is META:  # few, and each is asked for at every put
            if self._meta is None:
                self._meta = dict(self.run(sql.all_rows(table), self.store_id))
            return self._meta.get(key)
        rows = self.run(sql.row(table), self.store_id, key)
        return rows[0][0] if rows else None

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those of some keys that are there; of what waits, those."""
        waiting = self._rows.get(table, {})
        asked = [key for key in keys if key not in waiting]
        found = {key: value for key in keys if (value := waiting.get(key)) is not None}
        for part in sql.together(asked):
            found.update(self.run(sql.some_rows(table), byteas(part), self.store_id))
        return found

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        """Set the value of a key; None deletes it."""
        if not 0 < len(key) <= LONGEST_KEY:
            raise StoreError("a key of that length cannot be stored", found=f"{len(key)} bytes")
        self._rows.setdefault(table, {})[key] = value
        self._wait(len(key) + len(value or b""))

    def set_rows(self, table: Table, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Set many keys; of a table whose keys are cut, the two parts of each."""
        for key, value in rows:
            if table.split:
                key, value = key + value, b""
            self.set_row(table, key, value)
