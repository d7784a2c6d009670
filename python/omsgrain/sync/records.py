# SPDX-License-Identifier: Apache-2.0
"""What a store keeps about its syncs, in records of meta-0.

    sync.id                        16 random bytes: the store's own id
    sync.seen. ++ store ++ scope   MessagePack list: how far the feed of that store was taken
    sync.followed. ++ store ++ scope   digest of the tombstones of that store that were taken
    sync.came. ++ store            MessagePack list of the numbers, from and to, that rows have
                                   which came from that store, and need not go back
    sync.erasing. ++ number        marks of tombstones whose grains are not looked for yet

A scope is the namespaces that were synced: who takes some of them has not seen the others.
"""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Sequence
from typing import Any, Final, TypeAlias

import blake3
import msgpack

from omsgrain.errors import StoreError
from omsgrain.store.base import Reader, Writer
from omsgrain.store.tables import EVENTS, META, SEQUENCE
from omsgrain.sync.peer import START, Position

__all__ = [
    "MARK",
    "Spans",
    "add_came",
    "add_erasing",
    "came",
    "clear_erasing",
    "erasing",
    "follow",
    "followed",
    "identify",
    "mark_at",
    "see",
    "seen",
    "store_id",
]

MARK: Final = 32
_ID = b"sync.id"
_SEEN = b"sync.seen."
_FOLLOWED = b"sync.followed."
_CAME = b"sync.came."
_ERASING = b"sync.erasing."
_ID_BYTES = 16
_SHORT = 8
_BACK = 64  # numbers that are looked at for one that is taken

Spans: TypeAlias = list[tuple[int, int]]
"""Numbers from and to, both inclusive, rising."""


def store_id(reader: Reader) -> bytes | None:
    """Return the id of a store; None if it never took part in a sync."""
    return reader.row(META, _ID)


def identify(writer: Writer) -> bytes:
    """Return the id of a store; make one if there is none."""
    found = store_id(writer)
    if found is None:
        found = os.urandom(_ID_BYTES)
        writer.set_row(META, _ID, found)
    return found


def seen(reader: Reader, store: bytes, namespaces: Sequence[str] | None) -> Position | None:
    """Return how far the feed of another store was taken."""
    row = reader.row(META, _SEEN + store + _scope(namespaces))
    return None if row is None else Position(*_read(row))


def see(
    writer: Writer, store: bytes, namespaces: Sequence[str] | None, position: Position
) -> None:
    """Remember how far the feed of another store was taken."""
    packed = msgpack.packb([position.seq, position.mark])
    writer.set_row(META, _SEEN + store + _scope(namespaces), packed)


def followed(reader: Reader, store: bytes, namespaces: Sequence[str] | None) -> bytes:
    """Return the digest that the tombstones of a store had when they were taken; or nothing."""
    return reader.row(META, _FOLLOWED + store + _scope(namespaces)) or b""


def follow(writer: Writer, store: bytes, namespaces: Sequence[str] | None, digest: bytes) -> None:
    """Remember that all tombstones of a store were taken."""
    writer.set_row(META, _FOLLOWED + store + _scope(namespaces), digest)


def came(reader: Reader, store: bytes) -> Spans:
    """Return the numbers of the rows that came from another store."""
    row = reader.row(META, _CAME + store)
    return [] if row is None or not store else [(first, last) for first, last in _read(row)]


def add_came(writer: Writer, store: bytes, fresh: Spans, taken: Position | None) -> None:
    """Remember rows that came from another store.

    Args:
        writer: the transaction.
        store: its id.
        fresh: their numbers.
        taken: how far that store has taken the feed of this one: what lies before need not be
            remembered any more.
    """
    end = START.seq if taken is None else taken.seq
    spans: Spans = []
    for first, last in (*came(writer, store), *fresh):
        if last <= end or last < first:
            continue
        if spans and spans[-1][1] + 1 >= first:
            spans[-1] = (spans[-1][0], max(last, spans[-1][1]))
        else:
            spans.append((first, last))
    writer.set_row(META, _CAME + store, msgpack.packb(spans) if spans else None)


def add_erasing(writer: Writer, marks: Sequence[bytes]) -> None:
    """Remember marks whose grains are to be looked for."""
    if marks:
        last = max((key for key, _ in writer.rows(META, prefix=_ERASING)), default=None)
        number = 0 if last is None else SEQUENCE.unpack(last[len(_ERASING) :])[0] + 1
        writer.set_row(META, _ERASING + SEQUENCE.pack(number), b"".join(marks))


def erasing(reader: Reader) -> set[bytes]:
    """Return the marks whose grains are to be looked for."""
    return {mark for _, row in reader.rows(META, prefix=_ERASING) for mark in _marks(row)}


def clear_erasing(writer: Writer, done: Container[bytes]) -> None:
    """Forget marks whose grains were looked for; those that others have added since stay."""
    for key, row in list(writer.rows(META, prefix=_ERASING)):
        left = b"".join(mark for mark in _marks(row) if mark not in done)
        if left != row:
            writer.set_row(META, key, left or None)


def _marks(row: bytes) -> Iterator[bytes]:
    return (row[at : at + MARK] for at in range(0, len(row), MARK))


def mark_at(reader: Reader, seq: int) -> bytes:
    """Return what tells that a store has the history it had, up to a number.

    It is a digest of the row at that number or next before it; nothing where there is none near.
    """
    for at in range(seq, max(seq - _BACK, 0), -1):
        row = reader.row(EVENTS, SEQUENCE.pack(at)) or reader.blob_at(at)
        if row is not None:
            return blake3.blake3(SEQUENCE.pack(at) + row).digest(_SHORT)
    return b""


def _scope(namespaces: Sequence[str] | None) -> bytes:
    if namespaces is None:
        return b""
    return blake3.blake3(msgpack.packb(sorted(set(namespaces)))).digest(_SHORT)


def _read(row: bytes) -> Iterator[Any]:
    try:
        return iter(msgpack.unpackb(row, use_list=False))
    except (ValueError, TypeError, msgpack.UnpackException):
        raise StoreError("what is remembered of a sync is damaged") from None
