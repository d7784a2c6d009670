# SPDX-License-Identifier: Apache-2.0
"""What was erased, so that it does not come back unnoticed; and nothing that says what it was.

    key    HMAC-SHA256 under the tombstone key of
           "address" ++ plain address, 32 | "identity" ++ UTF-8 in NFC | "urn" ++ UTF-8
    value  MessagePack map: "t" when, ms; "r" a word for the reason; "n" how often, if more than
           once: of an identity

The key is 32 random bytes, made when it is first needed. Without it nobody can try addresses or
names against the table. Stores that exchange grains share it, so that one knows what the other
erased.
"""

from __future__ import annotations

import hmac
import os
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgpack

from omsgrain.errors import IntegrityError, SchemaError, StoreError
from omsgrain.store.tables import META, TOMBSTONES

if TYPE_CHECKING:
    from omsgrain.store.base import Reader, Writer

__all__ = [
    "KEY_RECORD",
    "What",
    "add",
    "again",
    "export_key",
    "has",
    "import_key",
    "key",
    "lift",
    "mark",
    "refused",
    "times",
]

What: TypeAlias = Literal["address", "identity", "urn"]

KEY_RECORD = b"tombstone.key"
_KEY = 32
_DIGEST = 32


def key(writer: Writer) -> bytes:
    """Return the tombstone key; make it if there is none.

    Raises:
        StoreError: its record is damaged.
    """
    found = export_key(writer)
    if found is None:
        if next(writer.rows(TOMBSTONES), None) is not None:
            raise StoreError("there are tombstones, and the key they were made with is gone")
        found = os.urandom(_KEY)
        writer.set_row(META, KEY_RECORD, found)
    return found


def export_key(reader: Reader) -> bytes | None:
    """Return the tombstone key for a store that shall share it; None if there is none yet.

    Raises:
        StoreError: its record is damaged.
    """
    found = reader.row(META, KEY_RECORD)
    if found is not None and len(found) != _KEY:
        raise StoreError("the key of the tombstones is damaged")
    return found


def import_key(writer: Writer, shared: bytes) -> None:
    """Take over the key of another store, before anything was erased here.

    Raises:
        SchemaError: not 32 bytes.
        StoreError: there are tombstones here that were made with another key.
    """
    if not isinstance(shared, bytes) or len(shared) != _KEY:
        raise SchemaError("not the key of tombstones", expected=f"{_KEY} bytes")
    if export_key(writer) == shared:
        return
    if next(writer.rows(TOMBSTONES), None) is not None:
        raise StoreError("there are tombstones that were made with another key")
    writer.set_row(META, KEY_RECORD, shared)


def mark(shared: bytes, what: What, value: bytes | str) -> bytes:
    """Return what stands for an address, a name or a URN in the table.

    Args:
        shared: the tombstone key.
        what: what the value is.
        value: 32 bytes of an address, or a text.

    Raises:
        SchemaError: an address that is none, or no text.
    """
    if what == "address":
        if not isinstance(value, bytes) or len(value) != _DIGEST:
            raise SchemaError("not the digest of a grain", expected=f"{_DIGEST} bytes")
        return hmac.digest(shared, b"address" + value, "sha256")
    if not isinstance(value, str):
        raise SchemaError("a name is a text", expected="a string")
    text = unicodedata.normalize("NFC", value) if what == "identity" else value
    return hmac.digest(shared, what.encode() + text.encode(), "sha256")


def add(writer: Writer, what: What, value: bytes | str, at: int, reason_code: str) -> None:
    """Remember that something was erased; what is remembered already stays as it is.

    Args:
        writer: the transaction.
        what: what the value is.
        value: 32 bytes of an address, or a text.
        at: when, ms since 1970.
        reason_code: a word for the reason.
    """
    row = mark(key(writer), what, value)
    if writer.row(TOMBSTONES, row) is None:
        writer.set_row(TOMBSTONES, row, msgpack.packb({"t": at, "r": reason_code}))


def again(writer: Writer, what: What, value: bytes | str, at: int, reason_code: str) -> None:
    """Remember that something was erased, and how often: who has the count knows of the next."""
    row = mark(key(writer), what, value)
    count = times(writer, what, value) + 1
    more = {"n": count} if count > 1 else {}
    writer.set_row(TOMBSTONES, row, msgpack.packb({"t": at, "r": reason_code, **more}))


def lift(writer: Writer, what: What, value: bytes | str) -> None:
    """Forget that something was erased, for it was allowed to come back."""
    shared = export_key(writer)
    if shared is not None:
        writer.set_row(TOMBSTONES, mark(shared, what, value), None)


def times(reader: Reader, what: What, value: bytes | str) -> int:
    """Tell how often something was erased.

    Raises:
        IntegrityError: its row is damaged.
    """
    shared = export_key(reader)
    row = None if shared is None else reader.row(TOMBSTONES, mark(shared, what, value))
    if row is None:
        return 0
    try:
        return int(msgpack.unpackb(row).get("n", 1))
    except (ValueError, TypeError, AttributeError, msgpack.UnpackException):
        raise IntegrityError("a tombstone cannot be read: its row is damaged") from None


def has(reader: Reader, what: What, value: bytes | str) -> bool:
    """Tell whether something was erased."""
    shared = export_key(reader)
    return shared is not None and reader.row(TOMBSTONES, mark(shared, what, value)) is not None


def refused(reader: Reader, digests: Sequence[bytes]) -> set[int]:
    """Return which of some plain addresses were erased, by position.

    Where nothing was ever erased this is one look-up.
    """
    shared = export_key(reader)
    if shared is None or next(reader.rows(TOMBSTONES), None) is None:
        return set()
    marks = [mark(shared, "address", digest) for digest in digests]
    found = reader.some_rows(TOMBSTONES, marks)
    return {i for i, one in enumerate(marks) if one in found}
