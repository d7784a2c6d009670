# SPDX-License-Identifier: Apache-2.0
"""What every storage offers: blobs under their 32-byte digests, in order of arrival.

A digest is the SHA-256 of its blob: a storage may trust the one it is given, or hash the blob.
``GrainStore`` verifies before it puts, ``Reader.named`` and ``scan.pages`` as they read.
Reading and writing happen in transactions, and only there:

    with store.read() as reader:        # one snapshot; keep it short
        blob = reader.get(digest)
    flags = store.write(lambda writer: writer.put([(digest, blob)]))    # all of it, or nothing

``tests/support/store_contract.py`` is this contract as tests, for any implementation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias, TypeVar, runtime_checkable

from omsgrain.counts import counted
from omsgrain.errors import RangeError, SchemaError, number_found
from omsgrain.grain import Grain
from omsgrain.storage.tables import Kind, Table

if TYPE_CHECKING:
    from omsgrain.crypto.seal import UserKeys
    from omsgrain.storage.postgres.connection import Database

LONGEST = 2_000_000
"""Seconds: more than that PostgreSQL does not take, nor a lock of Python's."""


def is_durable(durability: str) -> bool:
    """Tell whether each commit waits for the disk.

    Raises:
        SchemaError: it is no durability.
    """
    if durability not in ("commit", "relaxed"):
        raise SchemaError(
            "unknown durability", field="/durability", expected='"commit" or "relaxed"'
        )
    return durability == "commit"


def see_range(name: str, value: float, least: int = 0, most: int = LONGEST) -> None:
    """See that a number is within its range; one that is no number is not.

    Raises:
        RangeError: it is not.
    """
    if not least <= value <= most:
        raise RangeError(
            f"{name} is out of its range",
            field=f"/{name}",
            expected=f"{least} to {most}",
            found=number_found(value),
        )


@dataclass(frozen=True, slots=True)
class StoreStats:
    """How much a store holds.

    Attributes:
        grains: number of grains.
        blob_bytes: bytes of their blobs together.
        last_seq: the last sequence number given.
        watermark: the last sequence number that the index tables cover; the rest is in memory.
        file_bytes: size of the store's file; 0 in memory.
        map_bytes: address space set aside for it, which grows by itself; 0 in memory.
        format: the store format; 0 in memory.
    """

    grains: int
    blob_bytes: int
    last_seq: int
    watermark: int = 0
    file_bytes: int = 0
    map_bytes: int = 0
    format: int = 0


@dataclass(frozen=True, slots=True)
class RebuildReport:
    """What a rebuild found.

    Attributes:
        grains: how many were indexed.
        rows: how many index rows they have.
        readdressed: how many addresses were missing from the table.
        damaged: sequence numbers of blobs that are no longer what was put; they get no rows.
    """

    grains: int
    rows: int
    readdressed: int
    damaged: tuple[int, ...]

    __repr__ = counted


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did.

    Attributes:
        before: bytes of the data file.
        after: bytes of the new one.
    """

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class CheckProblem:
    """Something that a check found.

    Attributes:
        where: "blob", "address", "term", "head" or "file".
        seq: the sequence number of the grain, if it is about one.
        message: what is wrong.
    """

    where: str
    seq: int | None
    message: str


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check found.

    Attributes:
        ok: nothing is wrong.
        problems: what is wrong, the first thousand.
        grains: how many were checked.
        rows: how many index rows were checked.
    """

    ok: bool
    problems: tuple[CheckProblem, ...]
    grains: int
    rows: int

    __repr__ = counted


T = TypeVar("T")

Which: TypeAlias = Literal["current", "past", "all"]
"""Which grains an index answers with: those that are current, those that were superseded,
retracted or restricted, or both."""

PAGE_GRAINS = 1_000
PAGE_BYTES = 4 << 20


class Reader(Protocol):
    """A snapshot of the store: what was committed at one moment, and nothing later.

    The moment is when it was opened, or where the store is on a server, when it was asked first.
    """

    def count(self) -> int:
        """Return the number of grains."""
        ...

    def last_seq(self) -> int:
        """Return the last sequence number given, to a grain or another event; 0 before any."""
        ...

    def get(self, digest: bytes) -> bytes | None:
        """Return the blob put under the digest, or None."""
        ...

    def find(self, digests: Sequence[bytes]) -> list[int | None]:
        """Return the sequence number of each, None where there is no such grain."""
        ...

    def page(
        self, after: int, grains: int = PAGE_GRAINS, size: int = PAGE_BYTES
    ) -> list[tuple[int, bytes]]:
        """Return the next blobs with their sequence numbers, in order.

        Args:
            after: the last sequence number already seen; 0 from the start.
            grains: at most so many.
            size: no more once so many bytes are together; the first blob always comes.
        """
        ...

    def blob_at(self, seq: int) -> bytes | None:
        """Return the blob with a sequence number, or None."""
        ...

    def grain(self, seq: int) -> Grain | None:
        """Return the grain with a sequence number, or None.

        Its address is that of the stored blob. A sealed one is opened where the keys are;
        elsewhere it shows its header and nothing else.
        """
        ...

    def named(self, digest: bytes) -> Grain | None:
        """Return the grain at an address, verified by its hash; None if there is none.

        Where the keys are, a sealed one is opened, with any key that opens it.

        Raises:
            IntegrityError: the stored bytes are damaged.
            KeyMissingError: there are keys here, and none that opens it.
            ErasedError: its key was destroyed.
            OmsError: what was sealed is no grain.
        """
        ...

    def expect(self, digests: Sequence[bytes]) -> None:
        """Say which grains will be asked for by their addresses, in this order.

        It changes no answer: a store on a server reads several of them at once.
        """
        ...

    def expect_places(
        self, grains: int, terms: Sequence[bytes] = (), states: bool = False
    ) -> None:
        """Say what will be asked of the grains whose places are walked next.

        It changes no answer: a store on a server brings it along with the places.

        Args:
            grains: about how many of those that have all terms will be read.
            terms: the terms that each is looked up in.
            states: whether it is asked what became of each.
        """
        ...

    def grains_at(self, places: Sequence[bytes]) -> list[tuple[bytes, Grain]]:
        """Return the grains at some places of the index, each as ``grain`` does.

        Those that are not there are left out.

        Raises:
            IntegrityError: a grain does not belong at its place.
        """
        ...

    def term_count(self, key: bytes, which: Which = "all") -> int:
        """Return how many grains have a term, in one look-up; ``_core.term`` makes its key.

        At least so many as ``places`` yields; more only where grains that came last, and are not
        in the index tables yet, are of the other sort or removed.
        """
        ...

    def term_counts(self, terms: Sequence[tuple[bytes, Which]]) -> list[int]:
        """Return how many grains have each of some terms, as ``term_count`` does."""
        ...

    def has_term(self, key: bytes, place: bytes, which: Which = "all") -> bool:
        """Tell whether the grain at a place has a term, and is one of ``which``."""
        ...

    def places(
        self, key: bytes, after: bytes | None, newest: bool, which: Which = "all"
    ) -> Iterator[bytes]:
        """Walk the places of the grains that have a term, in order.

        Args:
            key: the term.
            after: start behind this place; None from the start.
            newest: downwards from the newest, instead of upwards from the oldest.
            which: only current ones, only past ones, or all.
        """
        ...

    def keys(self, prefix: bytes, which: Which = "all") -> Iterator[bytes]:
        """Walk the terms that grains have whose keys begin with a prefix, each once, sorted."""
        ...

    def is_past(self, seq: int) -> bool:
        """Tell whether a grain was superseded, retracted or restricted."""
        ...

    def row(self, table: Table, key: bytes) -> bytes | None:
        """Return the value of a key in a table of life STATE, or None."""
        ...

    def some_rows(self, table: Table, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """Return the values of those of some keys that are there, in a table of life STATE.

        To ask for many so is one round trip where the store is on a server.
        """
        ...

    def rows(
        self, table: Table, after: bytes | None = None, prefix: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        """Walk the keys and values of a table of life STATE, by rising keys.

        A writer may change rows while it walks; whether it meets those that it adds is open.

        Args:
            table: the table.
            after: only keys beyond this one.
            prefix: only keys that begin so.
        """
        ...

    def last_row(self, table: Table) -> tuple[bytes, bytes] | None:
        """Return the highest key of a table of life STATE and its value; None if it is empty."""
        ...


@runtime_checkable
class KeyedReader(Protocol):
    """A reader that has keys."""

    def keys_of(self, seq: int) -> UserKeys:
        """Return the keys that seal a grain.

        Raises:
            KeyMissingError: there are none here.
            ErasedError: they were destroyed.
        """
        ...


class Writer(Reader, Protocol):
    """A write transaction; it also reads, and sees what it has written."""

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append (digest, blob) pairs in the order given.

        Returns:
            For each, whether it is new; a digest already there, or given earlier, changes nothing.
            One that was removed is new again, with a new number.
        """
        ...

    def set_row(self, table: Table, key: bytes, value: bytes | None) -> None:
        """Set the value of a key in a table of life STATE; None deletes it.

        Raises:
            StoreError: a key of no bytes, or of more than 511.
        """
        ...

    def set_rows(self, table: Table, rows: Iterable[tuple[bytes, bytes]]) -> None:
        """Set many keys of a table of life STATE or BLIND, in any order.

        Of a table whose keys are cut, the two parts of each key, in order.
        """
        ...

    def drop_rows(self, table: Table, prefix: bytes, most: int) -> int:
        """Delete rows of a table of life STATE or BLIND whose keys begin with a prefix.

        Args:
            table: the table.
            prefix: what their keys begin with.
            most: so many at the most.

        Returns:
            How many there were.
        """
        ...

    def event(self, kind: Kind, seq: int, digest: bytes) -> int:
        """Note that something happened to a grain.

        Returns:
            The event's own sequence number.
        """
        ...

    def set_past(self, seq: int, past: bool) -> None:
        """Move a grain's index rows to the past ones, or back.

        Args:
            seq: the grain.
            past: what ``is_past`` says of it, after its row of states-0 was set.
        """
        ...

    def remove(self, seq: int) -> None:
        """Take out a grain and every row about it; its events and reviews stay.

        Removing what is not there changes nothing. If nothing else in the commit took a number,
        one is given up, so that the last number tells a store from what it was before.
        """
        ...


TEXT_FILE, VECTOR_FILES = "text.db", "vectors-*.usearch*"
"""The text index beside a store on disk, and the graphs of its vectors."""


@dataclass(frozen=True, slots=True)
class Sidecar:
    """Where a storage keeps derived data beside its tables; in memory it has no such place.

    Attributes:
        folder: a directory for further files.
        database: the database that its tables are in, for further tables.
        store_id: the number of the store in that database.
    """

    folder: Path | None = None
    database: Database | None = None
    store_id: int = 0


class Storage(Protocol):
    """A place for blobs. Every method may be called from any thread.

    After ``close`` and in a forked child every method but ``close`` raises StoreError.
    """

    @property
    def name(self) -> str:
        """Where the store is, in a few words."""
        ...

    @property
    def readonly(self) -> bool:
        """Whether ``write`` is refused."""
        ...

    @property
    def sidecar(self) -> Sidecar:
        """Where the text index and the graphs of vectors are."""
        ...

    def read(self) -> AbstractContextManager[Reader]:
        """Open a snapshot. Never write while you hold one: the writer may have to wait for it."""
        ...

    def write(self, work: Callable[[Writer], T], *, expecting: Sequence[bytes] = ()) -> T:
        """Run ``work`` in a write transaction and return what it returned, durably.

        An exception from ``work`` takes back all it wrote. ``work`` may run more than once (the
        file had to grow), each time over the same snapshot, so it must have no effects outside.

        Args:
            work: what to do.
            expecting: addresses that it will look for; a store on a server does so at once.

        Raises:
            StoreError: read-only, full or broken; nothing was written.
        """
        ...

    def sync(self) -> None:
        """Make durable what was written with ``durability="relaxed"``."""
        ...

    def flush(self) -> None:
        """Write out what is held in memory for the index; nothing depends on it."""
        ...

    def rebuild(self) -> RebuildReport:
        """Rebuild the index from the blobs."""
        ...

    def check(self) -> CheckReport:
        """Look at every blob, address and index row."""
        ...

    def compact(self) -> CompactReport:
        """Rewrite the store's file, without what was removed."""
        ...

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Copy the store as it is now to a new place."""
        ...

    def stats(self) -> StoreStats:
        """Return how much the store holds."""
        ...

    def close(self) -> None:
        """Let go of the store; a second call does nothing."""
        ...
