# SPDX-License-Identifier: Apache-2.0
"""Tombstones: traces of erased grains and names, which do not tell what was erased.

    key    HMAC-SHA256 under the tombstone key of
           "address" ++ plain address, 32 | "identity" ++ UTF-8 in NFC | "urn" ++ UTF-8
    value  MessagePack map: "t" when, ms; "r" a word for the reason; "n" how often, if more than
           once: of an identity; "h" the hash of the namespace, 2 bytes of the header, where it is
           known: a sync of some namespaces leaves out the tombstones of others

The key is 32 random bytes, made when it is first needed. Without the key no one can test addresses
or names against the table. Stores that exchange grains share it, so that one knows what the other
erased. If both had a key before they met, each keeps its own and learns the other's, and looks for
erased grains under all of them. A store that meets one with as many keys as a store can have goes
on with those. It keeps its own keys to itself, for what it erased with them.

An encrypted grain has two tombstones, one for each address. A store without its key knows only
the stored address.
"""

from __future__ import annotations

import hmac
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgpack

from omsgrain.errors import IntegrityError, RangeError, SchemaError, StoreError
from omsgrain.storage import records as toggles
from omsgrain.storage.tables import META, TOMBSTONES

if TYPE_CHECKING:
    from omsgrain.storage.base import Reader, Writer

What: TypeAlias = Literal["address", "identity", "urn"]

KEY_RECORD = b"tombstone.key"
FURTHER_RECORD = b"tombstone.further"
"""The keys of other stores, one behind the other, sorted."""
ALONE_RECORD = b"tombstone.alone"
"""Keys that no other store has taken, one behind the other, sorted."""
_RECORDS = (KEY_RECORD, FURTHER_RECORD, ALONE_RECORD)
MOST_KEYS = 64
"""Keys that stores share, at the most: each costs an HMAC for every grain that is put."""
_KEY = 32
_DIGEST = 32
_ADDRESS = b"address"


def key(writer: Writer) -> bytes:
    """Return the tombstone key; make it if there is none."""
    found = export_key(writer)
    if found is None:
        if next(writer.rows(TOMBSTONES), None) is not None:
            raise StoreError("there are tombstones, and the key they were made with is gone")
        found = os.urandom(_KEY)
        writer.set_row(META, KEY_RECORD, found)
    return found


def export_key(reader: Reader) -> bytes | None:
    found = reader.row(META, KEY_RECORD)
    if found is not None and len(found) != _KEY:
        raise StoreError("the key of the tombstones is damaged")
    return found


def key_records(reader: Reader) -> tuple[bytes, ...]:
    """Return the key records of a store, for a store restored from it."""
    return tuple(reader.row(META, record) or b"" for record in _RECORDS)


def import_keys(writer: Writer, records: Sequence[bytes]) -> None:
    """Take over the keys of the store that this one was."""
    own = export_key(writer)
    erased = next(writer.rows(TOMBSTONES), None) is not None
    for record, value in zip(_RECORDS, records, strict=True):
        writer.set_row(META, record, value or None)
    if erased and own not in keys(writer):
        raise StoreError("there are tombstones that were made with another key")


def keys(reader: Reader) -> tuple[bytes, ...]:
    """Return all keys that tombstones here were made with, the store's own first."""
    return (*common(reader), *_several(reader, ALONE_RECORD))


def common(reader: Reader) -> tuple[bytes, ...]:
    """Return the keys that other stores have, or are to have, the store's own first."""
    own, others = export_key(reader), _several(reader, FURTHER_RECORD)
    return others if own is None else (own, *others)


def _several(reader: Reader, record: bytes) -> tuple[bytes, ...]:
    found = reader.row(META, record) or b""
    if len(found) % _KEY:
        raise StoreError("the keys of the tombstones are damaged")
    return tuple(found[at : at + _KEY] for at in range(0, len(found), _KEY))


def adopt(writer: Writer, theirs: Iterable[bytes]) -> None:
    """Take over the keys of another store: the first as the store's own, if it has none yet.

    Where it has some, and the other has as many as a store can have, the other's take their place:
    all stores that share them understand what is erased from then on.
    """
    given = tuple(dict.fromkeys(theirs))
    known, alone = common(writer), _several(writer, ALONE_RECORD)
    fresh = [one for one in given if one not in known]
    if any(not isinstance(one, bytes) or len(one) != _KEY for one in fresh):
        raise SchemaError("not the key of tombstones", expected=f"{_KEY} bytes")
    if not fresh:
        return
    if len(known) + len(fresh) <= MOST_KEYS:
        own, *others = (*known, *fresh)
    elif len(given) == MOST_KEYS:
        own, *others = given
        alone = tuple({*alone, *known} - {*given})
    else:
        raise RangeError("too many keys of tombstones", expected=f"at most {MOST_KEYS}")
    if len(alone) > MOST_KEYS:
        raise RangeError("too many keys of tombstones", expected=f"at most {MOST_KEYS}")
    writer.set_row(META, KEY_RECORD, own)
    writer.set_row(META, FURTHER_RECORD, b"".join(sorted(others)) or None)
    writer.set_row(META, ALONE_RECORD, b"".join(sorted({*alone} - {own, *others})) or None)


def mark(shared: bytes, what: What, value: bytes | str) -> bytes:
    """Return the key of an address, a name or a URN in the table."""
    if what == "address":
        if not isinstance(value, bytes) or len(value) != _DIGEST:
            raise SchemaError("not the digest of a grain", expected=f"{_DIGEST} bytes")
        return hmac.digest(shared, _ADDRESS + value, "sha256")
    if not isinstance(value, str):
        raise SchemaError("a name is a text", expected="a string")
    text = unicodedata.normalize("NFC", value) if what == "identity" else value
    return hmac.digest(shared, what.encode() + text.encode(), "sha256")


def marks(shared: bytes, digests: Iterable[bytes]) -> Iterator[bytes]:
    """Make the marks of many addresses; ``mark`` takes twice as long for each."""
    from omsgrain.storage.audit import log

    return (log.hmac(shared, _ADDRESS + digest) for digest in digests)


def mark_of(reader: Reader, digest: bytes) -> bytes | None:
    found = [mark(one, "address", digest) for one in keys(reader)]
    standing = (one for one in found if reader.row(TOMBSTONES, one) is not None)
    return next(standing, found[0] if found else None)


def row_of(at: int, reason_code: str, times: int = 1, hint: bytes = b"") -> bytes:
    more = {"n": times if times > 1 else 0, "h": hint}
    values = {"t": at, "r": reason_code} | {name: one for name, one in more.items() if one}
    row: bytes = msgpack.packb(values)
    return row


def read_row(row: bytes) -> tuple[int, str, int, bytes]:
    """Return what a row says: when, the reason, how often, and the hint."""
    try:
        said = msgpack.unpackb(row)
        times, hint = toggles.counted(int(said.get("n", 1))), bytes(said.get("h", b""))
        return int(said["t"]), str(said["r"]), times, hint
    except (ValueError, TypeError, KeyError, AttributeError):
        raise IntegrityError("a tombstone cannot be read: its row is damaged") from None


def add(
    writer: Writer,
    what: What,
    values: Sequence[tuple[bytes | str, bytes]],
    at: int,
    reason_code: str,
) -> None:
    """Add tombstones of values, each with its hint; one that exists stays as it is."""
    if not values:
        return
    own, *others = (key(writer), *(one for one in keys(writer) if one != export_key(writer)))
    found = {mark(own, what, value): (value, hint) for value, hint in values}
    known = writer.some_rows(TOMBSTONES, list(found)).keys()
    packed: dict[bytes, bytes] = {}
    rows: list[tuple[bytes, bytes]] = []
    for row, (value, hint) in found.items():
        further = (mark(other, what, value) for other in others)
        if row in known or any(writer.row(TOMBSTONES, one) is not None for one in further):
            continue
        if hint not in packed:
            packed[hint] = row_of(at, reason_code, hint=hint)
        rows.append((row, packed[hint]))
    writer.set_rows(TOMBSTONES, rows)


def again(writer: Writer, what: What, value: bytes | str, at: int, reason_code: str) -> None:
    """Add a tombstone, or raise its count, which tells other stores of another erasure."""
    row = mark(key(writer), what, value)
    count = min(times(writer, what, value) + 1, toggles.MOST)
    writer.set_row(TOMBSTONES, row, row_of(at, reason_code, count))


def lift(writer: Writer, what: What, value: bytes | str) -> None:
    for shared in keys(writer):
        writer.set_row(TOMBSTONES, mark(shared, what, value), None)


def times(reader: Reader, what: What, value: bytes | str) -> int:
    marks = (mark(shared, what, value) for shared in keys(reader))
    rows = [row for one in marks if (row := reader.row(TOMBSTONES, one)) is not None]
    return max((read_row(row)[2] for row in rows), default=0)


def has(reader: Reader, what: What, value: bytes | str) -> bool:
    marks = (mark(shared, what, value) for shared in keys(reader))
    return any(reader.row(TOMBSTONES, one) is not None for one in marks)


def refused(reader: Reader, digests: Sequence[bytes]) -> set[int]:
    """Return which of some plain addresses were erased, by position.

    Where nothing was ever erased this is one look-up.
    """
    known = keys(reader)
    if not known or next(reader.rows(TOMBSTONES), None) is None:
        return set()
    marked = [one for shared in known for one in marks(shared, digests)]
    found = reader.some_rows(TOMBSTONES, marked)
    return {n % len(digests) for n, one in enumerate(marked) if one in found}
