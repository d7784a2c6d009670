# SPDX-License-Identifier: Apache-2.0
"""Iterate over all blobs of a storage in short snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import islice
from typing import NamedTuple

from omsgrain import _core
from omsgrain.errors import IntegrityError
from omsgrain.grain import Grain, stored_grain
from omsgrain.storage.base import Storage, Writer
from omsgrain.storage.tables import Table


class ScannedBlob(NamedTuple):
    """A blob of a scan.

    Attributes:
        seq: its sequence number.
        digest: SHA-256 of the blob as it was read.
        blob: the bytes.
        sound: whether the digest has this number in the store; if not, bytes are damaged.
    """

    seq: int
    digest: bytes
    blob: bytes
    sound: bool


def pages(store: Storage, after: int = 0) -> Iterator[list[ScannedBlob]]:
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


def entries(store: Storage, after: int = 0) -> Iterator[ScannedBlob]:
    for page in pages(store, after):
        for entry in page:
            if not entry.sound:
                raise damaged(entry)
            yield entry


def damaged(entry: ScannedBlob) -> IntegrityError:
    return IntegrityError(
        f"the bytes stored under sequence number {entry.seq} are damaged",
        found=entry.digest.hex(),
    )


def dropped(writer: Writer, table: Table, prefix: bytes, most: int) -> int:
    rows = list(islice(writer.rows(table, prefix=prefix), most))
    for key, _ in rows:
        writer.set_row(table, key, None)
    return len(rows)


def stored(blob: bytes) -> Grain:
    """Make the grain of a stored blob; its fields are decoded on demand."""
    return stored_grain(blob, _core.address(blob))


def verified(digest: bytes, blob: bytes) -> Grain:
    """Make the grain of a blob whose hash must be a digest."""
    grain = stored(blob)
    if grain.address != digest.hex():
        raise damaged_at(digest, grain.address)
    return grain


def named_each(
    named: Callable[[bytes], Grain | None], digests: Sequence[bytes]
) -> list[Grain | None]:
    """Read the grains at some addresses one by one, up to the first that is absent."""
    grains: list[Grain | None] = []
    for digest in digests:
        grain = named(digest)
        grains.append(grain)
        if grain is None:
            break
    return grains


def damaged_at(digest: bytes, found: str) -> IntegrityError:
    """Make the error for bytes that do not match their digest."""
    return IntegrityError("the stored bytes are damaged", expected=digest.hex(), found=found)


def placed(
    read: Callable[[int], Grain | None], places: Sequence[bytes]
) -> list[tuple[bytes, Grain]]:
    """Read the grains at some places one by one, for ``grains_at``."""
    read_all = [(place, read(int.from_bytes(place[12:], "big"))) for place in places]
    found = [(place, grain) for place, grain in read_all if grain is not None]
    if not _core.all_placed([place for place, _ in found], [g.address for _, g in found]):
        raise misplaced()
    return found


def misplaced() -> IntegrityError:
    """Make the error for a grain that does not belong to its place in the index."""
    return IntegrityError("a stored grain or its index row is damaged")
