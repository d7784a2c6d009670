# SPDX-License-Identifier: Apache-2.0
"""Writing to a store on disk: blobs at once, the index behind the watermark in sorted runs."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from hashlib import sha256
from itertools import islice
from operator import itemgetter
from typing import TYPE_CHECKING

from omsgrain import _core
from omsgrain.errors import StoreError
from omsgrain.storage.base import Which, dropped
from omsgrain.storage.lmdb import sorted_runs
from omsgrain.storage.lmdb.memtable import Appended, Memtable
from omsgrain.storage.lmdb.pages import used_bytes
from omsgrain.storage.lmdb.reader import LmdbReader, hashed
from omsgrain.storage.lmdb.term_reader import StoreHead
from omsgrain.storage.records import forget
from omsgrain.storage.tables import (
    ADDRESS,
    ADDRESSES,
    BLOBS,
    EVENT,
    EVENTS,
    FORMAT,
    FORMAT_RECORD,
    FORMAT_VALUE,
    HEAD,
    HEAD_RECORD,
    INDEXED_FORMAT,
    INDEXED_RECORD,
    LONGEST_KEY,
    MARK,
    META,
    NEWEST_ADDRESSES,
    OLD_ADDRESSES,
    PAST_TERMS,
    SEQUENCE,
    TERMS,
    VALUES,
    Kind,
    Table,
)

if TYPE_CHECKING:
    from lmdb import Cursor, Transaction

    from omsgrain.storage.lmdb.commit_queue import CommitBatch
    from omsgrain.storage.lmdb.environment import Environment

_ROWS_TOGETHER = 20_000  # index rows handed to LMDB at a time
_MANY = 16  # keys that are looked up in order
_PLACES_TOGETHER = 256  # places read at a time, since rows may be moved during a walk


class LmdbWriter(LmdbReader):
    """Writes in one write transaction, which the works of other threads may share."""

    __slots__ = ("_env", "_held", "_session", "paths")

    def __init__(self, env: Environment, txn: Transaction[bytes], session: CommitBatch) -> None:
        super().__init__(env, txn, env.memtable, session)
        self._session = session
        self._env = env
        self._held = env.file.held
        self._plain = self._whole = False  # it would have to be asked again after every row
        self.paths = self.memtable.paths  # those of the grains to come

    def follows(self) -> tuple[_core.HeldFile, int] | None:
        """Return the last commit, unless another work of this one may have removed grains."""
        return (self._held, self._txn.id() - 1) if self._session.writer is None else None

    def seq_of(self, digest: bytes) -> int | None:
        session = self._session
        for known in (session.fresh, session.pending):
            seq = known.get(digest)
            if seq is not None and self.has_blob(seq):
                return seq
        return super().seq_of(digest)

    def _unsettled(self) -> tuple[Container[bytes], ...]:
        session = self._session
        known = (*super()._unsettled(), session.fresh, session.pending)
        return tuple([one for one in known if one])

    def file_use(self) -> tuple[int, int]:
        page_size, commit = self.commit()
        # No other commit can follow the last one now, so it needs no snapshot.
        used = used_bytes(self._env.file.fd, page_size, commit - 1)
        return used or 0, self.head.blob_bytes

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        if len(items) == 1:
            return [self._put_one(*items[0])]
        digests = [digest for digest, _ in items]
        if self._are_new(digests):
            flags = [True] * len(items)
        else:
            flags, added = [], set[bytes]()
            for digest in digests:
                flags.append(digest not in added and self.seq_of(digest) is None)
                added.add(digest)
            items = [item for item, new in zip(items, flags, strict=True) if new]
            digests = [digest for digest, _ in items]
        if items:
            self._add(digests, [blob for _, blob in items])
        return flags

    def _are_new(self, digests: Sequence[bytes]) -> bool:
        """Whether none is in the store, and none is there twice; without asking for each."""
        session, unlike = self._session, set(digests)
        if len(unlike) < len(digests):
            return False
        for known in (session.fresh, session.pending, self.memtable.digests):
            if not known.keys().isdisjoint(unlike):
                return False
        return not (self.addresses() and self._listed(digests))

    def _put_one(self, digest: bytes, blob: bytes) -> bool:
        """Append one blob if it is new, with as few calls as that takes."""
        session = self._session
        if (
            digest in session.fresh
            or digest in session.pending
            or digest in self.memtable.digests
            or (self.addresses() and self._listed([digest]))
        ) and self.seq_of(digest) is not None:
            return False
        last, blob_bytes, grains, watermark = self.head
        last += 1
        self._txn.put(
            SEQUENCE.pack(last), digest[:MARK] + blob, append=True, db=self._tables[BLOBS]
        )
        session.own.append(Appended(last, [digest], [blob]))
        session.fresh[digest] = last
        self._set_head(StoreHead(last, blob_bytes + len(blob), grains + 1, watermark))
        return True

    def _add(self, digests: list[bytes], blobs: list[bytes]) -> None:
        last, blob_bytes, grains, watermark = self.head
        self._session.own.append(Appended.of(last + 1, digests, blobs, self.paths))
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            cursor.putmulti(_core.blob_rows(last + 1, digests, blobs, MARK), append=True)
        more, size = len(blobs), sum(map(len, blobs))
        self._session.fresh.update(zip(digests, range(last + 1, last + 1 + more), strict=True))
        self._set_head(StoreHead(last + more, blob_bytes + size, grains + more, watermark))

    def append(self, first: int, items: Sequence[tuple[bytes, bytes]]) -> None:
        """Append grains under numbers that they have elsewhere, beyond all that are here.

        For copies of other stores: the addresses are trusted to be new.
        """
        self._set_head(self.head._replace(last_seq=first - 1))
        self._add([digest for digest, _ in items], [blob for _, blob in items])

    def advance(self, last: int) -> None:
        """Give up all numbers up to one."""
        self._set_head(self.head._replace(last_seq=max(last, self.head.last_seq)))

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        if table.runs or table.split or len(keys) < _MANY:
            return super().some_rows(table, keys)
        with self._txn.cursor(self._tables[table]) as cursor:
            return dict(cursor.getmulti(sorted(keys)))  # neighbours share pages

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        if not 0 < len(key) <= LONGEST_KEY:
            _check_keys([key])
        if table.runs:
            with self._txn.cursor(self._tables[table]) as cursor:
                sorted_runs.remove(cursor, [key])
                if value is not None:
                    sorted_runs.add(cursor, [(key, value)])
        elif table.split:
            key, rest = key[: table.split], key[table.split :]
            if value is None:
                self._txn.delete(key, rest, self._tables[table])
            else:
                self._txn.put(key, rest, dupdata=False, db=self._tables[table])
        elif value is None:
            self._txn.delete(key, db=self._tables[table])
        else:
            self._txn.put(key, value, db=self._tables[table])

    def set_rows(self, table: Table, rows: Iterable[tuple[bytes, bytes]]) -> None:
        if not table.runs:  # those are of one size
            rows = sorted(rows)
            _check_keys(map(itemgetter(0), rows))
        with self._txn.cursor(self._tables[table]) as cursor:
            if table.runs:
                sorted_runs.add(cursor, rows)
            elif table.split:
                cut = table.split
                cursor.putmulti([(key[:cut], key[cut:]) for key, _ in rows], dupdata=False)
            else:
                cursor.putmulti(rows)

    def unset_rows(self, table: Table, keys: Sequence[bytes]) -> None:
        _check_keys(keys)
        with self._txn.cursor(self._tables[table]) as cursor:
            if table.runs:
                sorted_runs.remove(cursor, keys)
            elif table.split:
                cut, find, delete = table.split, cursor.set_key_dup, cursor.delete
                for key in keys:
                    if find(key[:cut], key[cut:]):
                        delete()
            else:
                at, find_key, delete = cursor.key, cursor.set_key, cursor.delete
                for key in keys:
                    if at() == key or find_key(key):  # after a deletion it is at the next row
                        delete()

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        if table.runs and len(prefix) == sorted_runs.GROUP:
            with self._txn.cursor(self._tables[table]) as cursor:
                return sorted_runs.drop(cursor, prefix, most)
        return dropped(self, table, prefix, most)

    def event(self, kind: Kind, seq: int, digest: bytes) -> int:
        number = self.head.last_seq + 1
        row = EVENT.pack(kind, seq, digest)
        self._txn.put(SEQUENCE.pack(number), row, append=True, db=self._tables[EVENTS])
        self._set_head(self.head._replace(last_seq=number))
        return number

    def next_number(self) -> int:
        self._set_head(self.head._replace(last_seq=self.head.last_seq + 1))
        return self.head.last_seq

    def set_past(self, seq: int, past: bool) -> None:
        if seq > self.head.watermark:
            return  # they are not written yet, and its state says where to
        source, target = (TERMS, PAST_TERMS) if past else (PAST_TERMS, TERMS)
        for key, place in self._rows_of(seq):
            self._txn.delete(key, place, self._tables[source])
            self._txn.put(key, place, dupdata=False, db=self._tables[target])

    def remove(self, seq: int) -> None:
        self.remove_many([seq])

    def remove_many(self, seqs: Sequence[int]) -> None:
        with self._txn.cursor(self._tables[BLOBS]) as cursor:
            rows = cursor.getmulti([SEQUENCE.pack(seq) for seq in sorted(set(seqs))])
        if not rows:
            return
        found = hashed([(int.from_bytes(key, "big"), row) for key, row in rows])
        numbers = [seq for seq, _, _ in found]
        watermark = self.head.watermark
        good = [(seq, blob, digest) for seq, blob, digest in found if digest is not None]
        damaged = {seq for seq, _, digest in found if digest is None}
        self._drop_terms([one for one in good if one[0] <= watermark], damaged)
        if numbers[-1] > watermark:
            # Older snapshots need their index rows, which could not be made later.
            self.memtable.load_rows(self, self._session.base or 0)
        forget(self, numbers)
        self._drop_addresses([row[:ADDRESS] + key[-4:] for key, row in rows])
        self.unset_rows(BLOBS, [key for key, _ in rows])
        self._env.removed = int(self._txn.id())
        last, blob_bytes, grains, watermark = self.head
        # Snapshots differ by their last numbers: those with and without it must differ.
        last = max(last, (self._session.base or 0) + 1)
        size = sum(len(blob) for _, blob, _ in found)
        self._set_head(StoreHead(last, blob_bytes - size, grains - len(rows), watermark))

    def _drop_addresses(self, keys: list[bytes]) -> None:
        """Drop the addresses of grains; each key is that of ``address_key``."""
        keys.sort()
        for table in (OLD_ADDRESSES, ADDRESSES):
            split, left = table.split, []
            with self._txn.cursor(self._tables[table]) as cursor:
                find, delete = cursor.set_key_dup, cursor.delete
                for key in keys:
                    if find(key[:split], key[split:]):
                        delete()
                    else:
                        left.append(key)
            keys = left

    def _drop_terms(self, good: list[tuple[int, bytes, bytes]], damaged: AbstractSet[int]) -> None:
        """Drop the index rows of grains, each given with its blob and address."""
        for key, place in self._rows_by_number(damaged) if damaged else ():
            for table in (TERMS, PAST_TERMS):
                self._txn.delete(key, place, self._tables[table])
        tail = _core.Tail(True, self.indexed_paths())
        tail.add([one[0] for one in good], [one[1] for one in good], [one[2] for one in good])
        self._drop_rows(tail, None)

    def _drop_rows(self, tail: _core.Tail, after: bytes | None) -> None:
        """Drop index rows, of the terms after one only."""
        with (
            self._txn.cursor(self._tables[TERMS]) as current,
            self._txn.cursor(self._tables[PAST_TERMS]) as past,
        ):
            find, delete = current.set_key_dup, current.delete
            while part := tail.rows_after(after, _ROWS_TOGETHER):
                for after, places in part:
                    if len(places) == 1 and find(after, places[0]):
                        delete()
                    elif left := _drop_places(current, after, places):
                        _drop_places(past, after, left)

    def _rows_of(self, seq: int) -> list[tuple[bytes, bytes]]:
        """The keys and places of a grain's index rows; none for a damaged blob."""
        row = self._txn.get(SEQUENCE.pack(seq), b"", self._tables[BLOBS])
        blob = row[MARK:]
        digest = sha256(blob).digest()
        if digest[:MARK] != row[:MARK]:
            return []
        tail = _core.Tail(True, self.indexed_paths())
        tail.add([seq], [blob], [digest])
        return [
            (key, place)
            for key, places in tail.rows_after(None, _ROWS_TOGETHER)
            for place in places
        ]

    def _rows_by_number(self, seqs: Iterable[int]) -> list[tuple[bytes, bytes]]:
        """The index rows of grains whose blobs no longer tell them: all tables are read."""
        ends = {SEQUENCE.pack(seq)[-4:] for seq in seqs}
        found = []
        for table in (TERMS, PAST_TERMS):
            with self._txn.cursor(self._tables[table]) as cursor:
                found += [(key, place) for key, place in cursor if place[12:] in ends]
        return found

    def _bucket(self, bucket: bytes, which: Which) -> dict[bytes, list[bytes]]:
        found = super()._bucket(bucket, which)
        self._last_bucket = None  # rows may change
        return found

    def _disk_places(
        self, table: Table, key: bytes, after: bytes | None, newest: bool
    ) -> Iterator[bytes]:
        while True:
            walk = super()._disk_places(table, key, after, newest)
            page = list(islice(walk, _PLACES_TOGETHER))
            yield from page
            if len(page) < _PLACES_TOGETHER:
                return
            after = page[-1]

    def _parts(self) -> list[tuple[Memtable, int, int]]:
        """Uncommitted rows are kept apart: they may be rolled back."""
        session, last = self._session, self.head.last_seq
        base = session.base or 0
        self.memtable.load_rows(self, base)
        if session.rows is None:
            session.rows = Memtable(base, paths=self.paths)
        session.rows.load_rows(self, last)
        return [(self.memtable, self.head.watermark, base), (session.rows, base, last)]

    def _set_head(self, head: StoreHead) -> None:
        self.head = head
        self._txn.put(HEAD_RECORD, HEAD.pack(*head), db=self._tables[META])

    def commits_since(self) -> tuple[int, int]:
        commit = int(self._txn.id())
        return commit - self._env.flushed, commit - self._env.removed

    def flush(self, least: int = 1) -> None:
        """Write the addresses and index rows beyond the watermark."""
        memtable, head = self.memtable, self.head
        if head.last_seq - head.watermark < least:
            return
        memtable.load_rows(self, head.last_seq)
        removed: set[int] = set()
        if len(memtable.numbers) != head.grains - self.addresses():  # some, or damage
            there = self._numbers(head.watermark, head.last_seq)
            removed = set(memtable.numbers).difference(there)
        digests = memtable.digests
        if removed:
            digests = {d: n for d, n in digests.items() if n not in removed}
        self.add_addresses(digests)
        self.add_rows(memtable, removed)
        self.set_watermark()
        self._env.flushed = int(self._txn.id())

    def set_watermark(self) -> None:
        """Say that the index covers all grains."""
        self._set_head(self.head._replace(watermark=self.head.last_seq))

    def add_addresses(self, digests: dict[bytes, int]) -> None:
        """Write addresses in order, since neighbours share pages."""
        self._move_addresses(self.entries(ADDRESSES) + len(digests) - NEWEST_ADDRESSES)
        rows = _core.address_rows(list(digests), list(digests.values()))
        with self._txn.cursor(self._tables[ADDRESSES]) as cursor:
            cursor.putmulti(rows)

    def _move_addresses(self, least: int) -> None:
        """Move so many rows or more to the table of old addresses: those of the fullest keys.

        Each run touches every page of addresses-1. Of the other table it touches the pages of a
        few keys, and each of these gets many rows.
        """
        if least <= 0:
            return
        with (
            self._txn.cursor(self._tables[ADDRESSES]) as new,
            self._txn.cursor(self._tables[OLD_ADDRESSES]) as old,
        ):
            sizes = [(new.count(), key) for key in new.iternext_nodup()]
            for size, key in sorted(sizes, reverse=True):
                new.set_key(key)
                old.putmulti([(key, value) for value in new.iternext_dup()])
                new.set_key(key)
                new.delete(dupdata=True)
                least -= size
                if least <= 0:
                    return

    def set_paths(self, record: bytes | None, *, later: bool = True) -> None:
        watermark = self.head.watermark
        if later:
            self.flush()
        self.set_row(META, INDEXED_RECORD, record)
        number = FORMAT if record is None else INDEXED_FORMAT
        self.set_row(META, FORMAT_RECORD, FORMAT_VALUE.pack(number))
        if later:
            # The watermark must rise: then every process makes its memtable again.
            if self.head.watermark == watermark:
                self.next_number()
                self.set_watermark()
            self.paths = self.indexed_paths()

    def change_values(self, path: _core.IndexedPaths, first: int, last: int, *, add: bool) -> None:
        while page := [row for row in self.hashed_page(first) if row[0] <= last]:
            first = page[-1][0]
            run = Memtable(0, paths=path)
            good = [(seq, blob, digest) for seq, blob, digest in page if digest is not None]
            run.add_rows(good)
            run.digests.update((digest, seq) for seq, _, digest in good)
            if add:
                self.add_rows(run, after=VALUES)
            else:
                self._drop_rows(run.tail, VALUES)

    def add_rows(
        self,
        memtable: Memtable,
        removed: AbstractSet[int] = frozenset(),
        after: bytes | None = None,
    ) -> None:
        """Write index rows in order, those of past grains apart, of removed ones none.

        With ``after``, only those of later terms.
        """
        numbers = memtable.digests.values()
        ends = self.past_between(min(numbers, default=0), max(numbers, default=0))
        past = {int.from_bytes(end, "big") for end in ends}  # numbers that places hold: 4 bytes
        if past:
            self._append(PAST_TERMS, memtable, past, True, after)
        self._append(TERMS, memtable, past | removed, False, after)

    def _append(
        self,
        table: Table,
        memtable: Memtable,
        numbers: AbstractSet[int],
        inside: bool,
        key: bytes | None,
    ) -> None:
        """Write the index rows of some grains, or of all others, after a term.

        Appended behind the places that a term has, which fills LMDB's pages whole and not by half;
        what is older than a place already there goes between the others.
        """
        with self._txn.cursor(self._tables[table]) as cursor:
            while part := memtable.tail.part(key, _ROWS_TOGETHER, numbers, inside):
                rows, key = part
                taken, added = cursor.putmulti(rows, append=True)
                if added < taken:
                    cursor.putmulti(rows, dupdata=False)

    def drop_terms(self) -> None:
        for table in (TERMS, PAST_TERMS):
            self._txn.drop(self._tables[table], delete=False)


def _drop_places(cursor: Cursor[bytes], key: bytes, places: list[bytes]) -> list[bytes]:
    """Delete places of a key; returns those that it does not have."""
    if not cursor.set_key(key):
        return places
    if places == list(islice(cursor.iternext_dup(), len(places))):  # the oldest of the key
        cursor.set_key(key)
        if cursor.count() == len(places):
            cursor.delete(dupdata=True)
        else:
            delete = cursor.delete
            for _ in places:
                delete()
        return []
    missing = []
    at: tuple[bytes, bytes] | None = None
    for place in places:
        # After a deletion the cursor is at the next place, and old grains are side by side.
        if at == (key, place) or cursor.set_key_dup(key, place):
            cursor.delete()
            at = cursor.item()
        else:
            missing.append(place)
            at = None
    return missing


def _check_keys(keys: Iterable[bytes]) -> None:
    """LMDB's own refusal would end the whole commit."""
    for size in set(map(len, keys)):
        if not 0 < size <= LONGEST_KEY:
            raise StoreError("a key of that length cannot be stored", found=f"{size} bytes")
