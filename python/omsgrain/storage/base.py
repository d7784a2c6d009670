# SPDX-License-Identifier: Apache-2.0
"""The interface of a storage: blobs under their 32-byte digests, in order.

A digest is the SHA-256 of its blob. A storage may trust the given digest, or hash the blob.
``GrainStore`` verifies before a put; ``Reader.named`` and ``pages`` verify while reading. Reads
and writes happen in transactions:

    with store.read() as reader:                # one snapshot; keep it short
        blob = reader.get(digest)
    flags = store.write(lambda writer: writer.put([(digest, blob)]))    # all of it, or nothing

``tests/support/store_contract.py`` tests this interface for any implementation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from heapq import nlargest, nsmallest
from itertools import islice
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Literal,
    NamedTuple,
    Protocol,
    TypeAlias,
    TypeVar,
    runtime_checkable,
)

from omsgrain import _core
from omsgrain.counts import counted
from omsgrain.errors import IntegrityError, StoreError
from omsgrain.grain import Grain, stored_grain
from omsgrain.storage.records import PAST
from omsgrain.storage.tables import DUE, EVENT, EVENTS, SEQUENCE, STATES, Kind, Table

if TYPE_CHECKING:
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.postgres.connection import Database


def see_open(closed: bool, process: int) -> None:
    """Refuse use after ``close``, and in a fork of the process that opened the store."""
    if closed:
        raise StoreError("the store is closed")
    if os.getpid() != process:
        raise StoreError("the store was opened before a fork; open it again in this process")


@dataclass(frozen=True, slots=True)
class StoreStats:
    """The size of a store.

    Attributes:
        grains: number of grains.
        blob_bytes: total bytes of their blobs.
        last_seq: the last sequence number.
        watermark: the last sequence number whose index rows are on disk.
        file_bytes: size of the store's file; 0 in memory.
        map_bytes: reserved address space, which grows automatically; 0 in memory.
        format: the store format; 0 in memory.
        free_bytes: bytes of the file that new grains use again; 0 in memory and PostgreSQL.
    """

    grains: int
    blob_bytes: int
    last_seq: int
    watermark: int = 0
    file_bytes: int = 0
    map_bytes: int = 0
    format: int = 0
    free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """The result of a rebuild.

    Attributes:
        grains: number of indexed grains.
        rows: number of their index rows.
        readdressed: number of addresses that were missing.
        damaged: sequence numbers of damaged blobs, which get no rows.
    """

    grains: int
    rows: int
    readdressed: int
    damaged: tuple[int, ...]

    __repr__ = counted


@dataclass(frozen=True, slots=True)
class CompactReport:
    """The result of a compaction.

    Attributes:
        before: bytes of the data file before.
        after: bytes of the new data file.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class CheckProblem:
    """A finding of a check.

    Attributes:
        where: "blob", "address", "term", "head" or "file".
        seq: the sequence number of the grain concerned, or None.
        message: what is wrong.
    """

    where: str
    seq: int | None
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The result of a check.

    Attributes:
        ok: whether nothing is wrong.
        problems: the first thousand findings.
        grains: number of checked grains.
        rows: number of checked index rows.
    """

    ok: bool
    problems: tuple[CheckProblem, ...]
    grains: int
    rows: int

    __repr__ = counted


T = TypeVar("T")

Which: TypeAlias = Literal["current", "past", "all"]
"""Which grains an index returns: current ones, past ones (superseded, retracted or restricted), or
both."""

PAGE_GRAINS = 1_000
PAGE_BYTES = 4 << 20
NAMED_GRAINS = 128  # grains that ``named_many`` reads at once

MANY_ROWS = 1 << 32
"""More rows than any prefix has."""

NEVER = 1 << 62
"""More commits than a store has."""


class Reader(Protocol):
    """A snapshot of the store: the commits up to one moment.

    The moment is the opening of the snapshot or, for a store on a server, the first read. The
    storages derive their readers from this class, and override the methods that they can answer
    faster.
    """

    __slots__ = ()

    @property
    def raw(self) -> Reader:
        """The reader below the decryption, which finds grains by their stored addresses only."""
        return self

    def keys_of(self, seq: int) -> UserKeys | None:
        """Return the keys of an encrypted grain; None from a reader without keys."""
        return None

    def count(self) -> int:
        """Return the number of grains."""
        ...

    def follows(self) -> tuple[_core.HeldFile, int] | None:
        """Return the commit of a ``CommitReader`` with exactly these grains, if it is known."""
        return None

    def file_use(self) -> tuple[int, int]:
        """Return the bytes of the file that are in use, before this transaction, and of the blobs.

        Only a writer of a storage with a file can tell: 0 is unknown.
        """
        return 0, 0

    def last_seq(self) -> int:
        """Return the last sequence number of a grain or an event; 0 for an empty store."""
        ...

    def get(self, digest: bytes) -> bytes | None:
        """Return the blob with a digest, or None."""
        seq = self.find([digest])[0]
        return None if seq is None else self.blob_at(seq)

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number for each digest, or None if it is missing."""
        ...

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        """Return the next blobs with their sequence numbers, in order, until there are enough.

        The first blob is always read, however large it is.
        """
        ...

    def hashed_page(self, after: int) -> list[tuple[int, bytes, bytes | None]]:
        """Return the next sequence numbers, blobs and digests; no digest for a damaged blob."""
        ...

    def marked_rows(self, after: int, size: int) -> tuple[list[bytes], int] | None:
        """Return the next rows, of about so many bytes, and the number of the last.

        A row is a blob behind the first bytes of its digest; None from a storage without them.
        """
        return None

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number, or None."""
        ...

    def blobs(self, seqs: Sequence[int]) -> dict[int, bytes]:
        """Return those of some blobs that are there."""
        return {seq: blob for seq in seqs if (blob := self.blob_at(seq)) is not None}

    def hashed_blobs(self, seqs: Sequence[int]) -> list[tuple[int, bytes, bytes | None]]:
        """Return those of some blobs that are there, as ``hashed_page`` does."""
        ...

    def grain(self, seq: int) -> Grain | None:
        """Return the grain with a sequence number, or None.

        The address is that of the stored blob. An encrypted grain is decrypted if the keys are
        here; otherwise only its header is readable.
        """
        blob = self.blob_at(seq)
        return None if blob is None else stored(blob)

    def named(self, digest: bytes) -> Grain | None:
        """Return the grain at an address, verified by its hash; None if it is missing.

        With keys, an encrypted grain is decrypted by any key that fits, or refused.
        """
        blob = self.get(digest)
        return None if blob is None else stored_at(digest, blob)

    def named_many(self, digests: Sequence[bytes]) -> list[Grain | None]:
        """Return the grains at some addresses, verified, up to the first that is absent."""
        grains: list[Grain | None] = []
        for digest in digests:
            grain = self.named(digest)
            grains.append(grain)
            if grain is None:
                break
        return grains

    def expect_places(
        self, grains: int, terms: Sequence[bytes] = (), states: bool = False
    ) -> None:
        """Announce what will be read of the grains in the next iteration over places.

        That is about so many grains that have all terms, and perhaps the states of all. It affects
        only speed: a store on a server returns it along with the places.
        """
        return None

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        """Return the grains at some places of the index as ``grain`` does; skip missing ones."""
        read = [(place, self.grain(int.from_bytes(place[12:], "big"))) for place in places]
        found = [(place, grain) for place, grain in read if grain is not None]
        if not _core.all_placed([place for place, _ in found], [g.address for _, g in found]):
            raise misplaced()
        return found

    def term_count(self, key: bytes, which: Which = "all") -> int:
        """Return how many grains have a term, in one look-up; ``_core.term`` makes its key.

        The count is never below the number that ``places`` yields. It can be higher while grains
        in the memtable are of the other sort or removed.
        """
        ...

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each term, as ``term_count`` does."""
        return [self.term_count(key, which) for key, which in terms]

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        """Return whether the grain at a place has a term, and is one of ``which``."""
        ...

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        """Iterate over the places of the grains with a term, in order, after one of them."""
        ...

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        """Iterate over the distinct terms of grains whose keys have a prefix, sorted."""
        ...

    def places_between(
        self, first: bytes, last: bytes, after: bytes | None, newest: bool, which: Which, most: int
    ) -> list[bytes]:
        """Return the next places under all terms from one to another, in order.

        All are read each time. A place must be under one of the terms at most.
        """
        ...

    def count_between(self, first: bytes, last: bytes, which: Which, most: int) -> int:
        """Return how many places are under all terms from one to another, at most ``most``."""
        ...

    def is_past(self, seq: int) -> bool:
        """Return whether a grain was superseded, retracted or restricted."""
        row = self.row(STATES, SEQUENCE.pack(seq))
        return bool(row and row[0] & PAST)

    def first_due(self) -> int | None:
        """Return the earliest deadline in due-0, ms since 1970, or None."""
        row = next(self.rows(DUE), None)
        return None if row is None else int.from_bytes(row[0][: SEQUENCE.size], "big")

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key in a table of life STATE, or None."""
        ...

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those keys that exist, in a table of life STATE.

        For a store on a server, this is one round trip.
        """
        return {key: value for key in keys if (value := self.row(table, key)) is not None}

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Iterate over the keys and values of a table of life STATE, by rising keys.

        A writer may change rows during the iteration, which may or may not include added rows.
        """
        ...

    def suffixes(
        self, table: Table, prefixes: Sequence[bytes], most: int = MANY_ROWS
    ) -> list[bytes]:
        """Return for each prefix the rest of the keys that begin with it, concatenated.

        They may be in any order. Of more than ``most`` keys, some more than ``most`` are returned.
        """
        return [
            b"".join([key[len(at) :] for key, _ in islice(self.rows(table, prefix=at), most + 1)])
            for at in prefixes
        ]

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        """Return the highest key of a table of life STATE and its value; None if it is empty."""
        ...


class Writer(Reader, Protocol):
    """A write transaction, which also reads what it has written."""

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append (digest, blob) pairs in the given order; return for each whether it is new.

        An existing or repeated digest changes nothing. A removed one is new again, with a new
        number.
        """
        ...

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        """Set the value of a key in a table of life STATE; None deletes it."""
        ...

    def set_rows(self, table: Table, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Set many keys of a table of life STATE or BLIND, in any order.

        A table in sorted runs must not have the keys yet.
        """
        for key, value in rows:
            self.set_row(table, key, value)

    def unset_rows(self, table: Table, keys: Sequence[bytes]) -> None:
        """Delete many keys of a table of life STATE or BLIND."""
        for key in keys:
            self.set_row(table, key, None)

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        """Delete rows of a table of life STATE or BLIND whose keys have a prefix; count them."""
        ...

    def event(self, kind: Kind, seq: int, digest: bytes) -> int:
        """Write an event about a grain; return the event's own sequence number."""
        number = self.next_number()
        self.set_row(EVENTS, SEQUENCE.pack(number), EVENT.pack(kind, seq, digest))
        return number

    def next_number(self) -> int:
        """Use up a sequence number, for an event with a row in another table."""
        ...

    def set_past(self, seq: int, past: bool) -> None:
        """Move a grain's index rows to the past ones, or back, after its state was set."""
        ...

    def set_paths(self, record: bytes | None, *, later: bool = True) -> None:
        """Set the record of the indexed paths, in a commit of its own.

        With ``later``, it changes the index rows of grains to come.
        """
        ...

    def change_values(self, path: _core.IndexedPaths, first: int, last: int, *, add: bool) -> None:
        """Write or drop the index rows of one path for the grains in ``(first, last]``."""
        ...

    def commits_since(self) -> tuple[int, int]:
        """Return how many commits ago this process called ``flush`` and ``remove_many`` last."""
        return NEVER, NEVER

    def flush(self, least: int = 1) -> None:
        """Write the index rows that wait for it, if those of so many grains or more do.

        No other work may share the transaction.
        """
        return None

    def remove(self, seq: int) -> None:
        """Remove a grain, as ``remove_many`` does."""
        self.remove_many([seq])

    def remove_many(self, seqs: Sequence[int]) -> None:
        """Remove grains, given by rising numbers, and all rows about them but events and reviews.

        Removing a missing grain changes nothing. If nothing else in the commit uses a sequence
        number, one is skipped, so that the last number identifies the state of the store.
        """
        ...


@runtime_checkable
class CommitStorage(Protocol):
    """A storage that reads its newest commit in one call of the core."""

    def latest(self) -> _core.CommitReader | None:
        """Return the reader of the newest known commit, or None.

        Its methods return None if there is a newer one, and for whatever a snapshot must answer.
        """
        ...


TEXT_FILE, VECTOR_FILES = "text.db", "vectors-*.usearch*"
"""The names of the text index and of the vector graphs in a store's directory."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The place for derived data beside a storage's tables; empty for a storage in memory."""

    folder: Path | None = None  # a directory for further files
    database: Database | None = None  # the database with its tables, for further tables
    store_id: int = 0  # the number of the store in that database


class Transactions(Protocol):
    """The transactions of a storage, perhaps with keys that decrypt. Threads may share them."""

    readonly: bool  # whether ``write`` raises

    def read(self) -> AbstractContextManager[Reader]:
        """Open a snapshot. Do not write while you hold one: the writer may have to wait for it."""
        ...

    def write(
        self, work: Callable[[Writer], T], *, expecting: Sequence[bytes] = (), alone: bool = False
    ) -> T:
        """Run ``work`` in a write transaction, and return its result durably.

        An exception in ``work`` rolls back the transaction. ``work`` may run again over the same
        snapshot, for example after the file grew, so it must have no other effects. A store on a
        server fetches the addresses that it expects in advance. ``alone``: it shares the commit
        with no other work.
        """
        ...


class Storage(Transactions, Protocol):
    """A storage backend. Threads may share it.

    After ``close``, and in a forked child, every method except ``close`` raises StoreError.
    """

    name: str  # a short description of the place of the store
    sidecar: Sidecar  # the place of the text index and the vector graphs

    def on_write(self, call: Callable[[], None]) -> None:
        """Call a function, which must be fast, after each write of this handle."""
        ...

    def sync(self) -> None:
        """Sync what was written with ``durability="relaxed"``."""
        ...

    def flush(self) -> None:
        """Write the memtable to disk; only speed depends on it."""
        ...

    def rebuild(self) -> RebuildReport:
        """Rebuild the index from the blobs."""
        ...

    def check(self) -> CheckReport:
        """Check every blob, address and index row."""
        ...

    def compact(self) -> CompactReport:
        """Rewrite the store's file without removed data."""
        ...

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the current store to a new place."""
        ...

    def stats(self) -> StoreStats:
        """Return the size of the store."""
        ...

    def close(self) -> None:
        """Close the store. A second call does nothing."""
        ...


class ScannedBlob(NamedTuple):
    """A blob of a scan."""

    seq: int  # its sequence number
    digest: bytes  # SHA-256 of the blob as it was read
    blob: bytes  # the bytes
    sound: bool  # whether the digest has this number in the store; if not, bytes are damaged


def pages(store: Transactions, after: int = 0) -> Iterator[list[ScannedBlob]]:
    """Yield pages of all current blobs, and hash each blob.

    Each page is a snapshot of its own, closed before the page is yielded. So a long scan does not
    keep old pages of the file, and the caller may write. Blobs stored meanwhile are left out, so
    that the scan ends.
    """
    with store.read() as reader:
        last = reader.last_seq()
    while after < last:
        with store.read() as reader:
            rows = [row for row in reader.page(after) if row[0] <= last]
            digests = [sha256(blob).digest() for _, blob in rows]
            found = reader.find(digests)
        if not rows:
            return
        yield [
            ScannedBlob(seq, digest, blob, seq == known)
            for (seq, blob), digest, known in zip(rows, digests, found, strict=True)
        ]
        after = rows[-1][0]


def entries(store: Transactions, after: int = 0) -> Iterator[ScannedBlob]:
    for page in pages(store, after):
        for entry in page:
            if not entry.sound:
                raise damaged(entry)
            yield entry


def damaged(entry: ScannedBlob) -> IntegrityError:
    return IntegrityError(
        f"the bytes stored under sequence number {entry.seq} are damaged", found=entry.digest.hex()
    )


def dropped(writer: Writer, table: Table, prefix: bytes, most: int) -> int:
    rows = list(islice(writer.rows(table, prefix=prefix), most))
    for key, _ in rows:
        writer.set_row(table, key, None)
    return len(rows)


def next_places(
    walk: Iterator[bytes], after: bytes | None, newest: bool, most: int
) -> list[bytes]:
    """Return the next places of a walk that is in any order."""
    if after is not None:
        walk = (place for place in walk if (place < after if newest else place > after))
    return nlargest(most, walk) if newest else nsmallest(most, walk)


def stored(blob: bytes) -> Grain:
    """Make the grain of a stored blob; its fields are decoded on demand."""
    return stored_grain(blob, _core.address(blob))


def stored_at(digest: bytes, blob: bytes) -> Grain:
    """Make the grain of the blob stored at an address, verified by its hash."""
    grain = stored(blob)
    if grain.address != digest.hex():
        raise damaged_at(digest, grain.address)
    return grain


def damaged_at(digest: bytes, found: str) -> IntegrityError:
    """Make the error for bytes that do not match their digest."""
    return IntegrityError("the stored bytes are damaged", expected=digest.hex(), found=found)


def misplaced() -> IntegrityError:
    """Make the error for a grain that does not belong to its place in the index."""
    return IntegrityError("a stored grain or its index row is damaged")
