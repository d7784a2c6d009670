# SPDX-License-Identifier: Apache-2.0
"""A walk through all blobs of a store, wherever it is kept, by short snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import NamedTuple

from omsgrain.errors import IntegrityError
from omsgrain.store.base import Store

__all__ = ["Entry", "damaged", "entries", "pages"]


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
