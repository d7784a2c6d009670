# SPDX-License-Identifier: Apache-2.0
"""What every store offers: blobs under their 32-byte digests, in order of arrival.

A digest is the SHA-256 of its blob: a store may trust the one it is told, and may make it again
from the blob. ``GrainStore`` verifies before it puts and after it gets, and ``pages`` as it walks.
Reading and writing happen in transactions, and only there:

    with store.read() as reader:        # one snapshot; keep it short
        blob = reader.get(digest)
    flags = store.write(lambda writer: writer.put([(digest, blob)]))    # all of it, or nothing

``tests/store_contract.py`` is this contract as tests, for any implementation.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple, Protocol, TypeVar

from omsgrain.errors import IntegrityError

__all__ = [
    "PAGE_BYTES",
    "PAGE_GRAINS",
    "CheckReport",
    "Entry",
    "Problem",
    "Reader",
    "RebuildReport",
    "Store",
    "StoreStats",
    "Writer",
    "damaged",
    "entries",
    "pages",
]

T = TypeVar("T")

PAGE_GRAINS = 1_000
PAGE_BYTES = 4 << 20


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


@dataclass(frozen=True, slots=True)
class Problem:
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
    problems: tuple[Problem, ...]
    grains: int
    rows: int


class Entry(NamedTuple):
    """One blob met on a walk.

    Attributes:
        seq: its sequence number.
        digest: SHA-256 of the blob as it was read.
        blob: the bytes.
        sound: the store knows that digest under that number; if not, bytes were damaged.
    """

    seq: int
    digest: bytes
    blob: bytes
    sound: bool


class Reader(Protocol):
    """A snapshot of the store: what was committed when it was opened, and nothing later."""

    def count(self) -> int:
        """Return the number of grains."""
        ...

    def last_seq(self) -> int:
        """Return the last sequence number given; 0 before the first grain."""
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

    def term_count(self, key: bytes) -> int:
        """Return how many grains have a term; ``_core.term`` makes its key."""
        ...

    def has_term(self, key: bytes, place: bytes) -> bool:
        """Tell whether the grain at a place has a term."""
        ...

    def places(self, key: bytes, after: bytes | None, newest: bool) -> Iterator[bytes]:
        """Walk the places of the grains that have a term, in order.

        Args:
            key: the term.
            after: start behind this place; None from the start.
            newest: downwards from the newest, instead of upwards from the oldest.
        """
        ...


class Writer(Reader, Protocol):
    """A write transaction; it also reads, and sees what it has written."""

    def put(self, items: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        """Append (digest, blob) pairs in the order given.

        Returns:
            For each, whether it is new; a digest already there, or given earlier, changes nothing.
        """
        ...


class Store(Protocol):
    """A place for blobs. Every method may be called from any thread.

    After ``close`` and in a forked child every method but ``close`` raises StoreError.
    """

    @property
    def readonly(self) -> bool:
        """Whether ``write`` is refused."""
        ...

    def read(self) -> AbstractContextManager[Reader]:
        """Open a snapshot. Never write while you hold one: the writer may have to wait for it."""
        ...

    def write(self, work: Callable[[Writer], T]) -> T:
        """Run ``work`` in a write transaction and return what it returned, durably.

        An exception from ``work`` takes back all it wrote. ``work`` may run more than once (the
        file had to grow), each time over the same snapshot, so it must have no effects outside.

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
        """Make the index anew from the blobs."""
        ...

    def check(self) -> CheckReport:
        """Look at every blob, address and index row."""
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


def pages(store: Store, after: int = 0) -> Iterator[list[Entry]]:
    """Walk through all blobs that are there now, and hash each.

    Each page is a snapshot of its own, closed before the page is yielded: a long walk holds back
    no old pages of the file, and whoever walks may write. Blobs that arrive meanwhile are left
    out, so that the walk ends.
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
            Entry(seq, digest, blob, seq == known)
            for (seq, blob), digest, known in zip(rows, digests, found, strict=True)
        ]
        after = rows[-1][0]


def entries(store: Store, after: int = 0) -> Iterator[Entry]:
    """Walk through all blobs that are there now, as ``pages`` does.

    Raises:
        IntegrityError: at the first damaged one.
    """
    for page in pages(store, after):
        for entry in page:
            if not entry.sound:
                raise damaged(entry)
            yield entry


def damaged(entry: Entry) -> IntegrityError:
    """Make the error for an entry that is not sound."""
    return IntegrityError(
        f"the bytes stored under number {entry.seq} are not those that were put",
        found=entry.digest.hex(),
    )
