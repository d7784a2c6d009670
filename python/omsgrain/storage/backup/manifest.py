# SPDX-License-Identifier: Apache-2.0
"""The manifest of a backup: its parts, and what the store was at that moment.

It is canonical JSON, and its SHA-256 is the backup's id. A reader accepts only the bytes that the
writer makes, so a manifest has one form. It names parts by hash only, so it leads to no other
object.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, NamedTuple

from omsgrain.errors import IntegrityError, UnsupportedError
from omsgrain.json_values import time_text
from omsgrain.storage.backup.parts import MOST_BYTES, MOST_ROWS

VERSION: Final = 1
MOST_MANIFEST = 64 << 20
"""Bytes: a manifest of 500,000 parts, which are two billion grains."""
LAST_NUMBER = (1 << 32) - 1
"""The last sequence number that an index can hold."""
LATEST = 1 << 48
"""Ms since 1970."""
_MOST_FORMAT = 1 << 32
_HASH = re.compile("[0-9a-f]{64}")
_TABLE = re.compile("[a-z0-9-]{1,64}")


class PartEntry(NamedTuple):
    """A part in a manifest."""

    table: str
    sha256: str
    size: int
    rows: int


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup of a store.

    Attributes:
        id: SHA-256 of the manifest, hex.
        created_at: the moment of the backup, ms since 1970. It rises from backup to backup.
        grains: number of grains.
        blob_bytes: total bytes of their blobs.
        last_seq: the last sequence number.
        format: the store format.
        parent: the id of the backup before it; None for the first one.
        store: SHA-256 of the first entry of the store's audit trail; None if there is none. It
            tells stores apart.
        parts: the parts, by table.
    """

    id: str
    created_at: int
    grains: int
    blob_bytes: int
    last_seq: int
    format: int
    parent: str | None
    store: str | None
    parts: tuple[PartEntry, ...]

    def __repr__(self) -> str:
        when = time_text(self.created_at)
        return f"<Backup {self.id[:16]} of {when}, grains={self.grains} bytes={self.bytes}>"

    @property
    def bytes(self) -> int:
        """Total bytes of the parts."""
        return sum(part.size for part in self.parts)


def encode(values: dict[str, Any], parts: list[PartEntry]) -> bytes:
    """Return the bytes of a manifest; ``values`` are the attributes except id and parts."""
    whole = {"omsgrain.backup": VERSION, **values, "parts": parts}
    return json.dumps(whole, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def decode(data: bytes) -> Backup:
    """Read a manifest.

    Raises:
        IntegrityError: it is damaged.
        UnsupportedError: a newer omsgrain wrote it.
    """
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError):
        raise _malformed("JSON") from None
    if not isinstance(whole, dict):
        raise _malformed("an object")
    version = whole.pop("omsgrain.backup", None)
    if type(version) is int and version > VERSION:
        raise UnsupportedError(
            "a newer omsgrain made this backup",
            expected=f"version {VERSION} of the manifest",
            found=str(min(version, _MOST_FORMAT)),
        )
    parts = whole.pop("parts", None)
    if version != VERSION or not isinstance(parts, list):
        raise _malformed("the manifest of a backup")
    entries = [_entry(part) for part in parts]
    numbers = {
        "created_at": LATEST,
        "grains": LAST_NUMBER,
        "blob_bytes": 1 << 62,
        "last_seq": LAST_NUMBER,
        "format": _MOST_FORMAT,
    }
    for name, most in numbers.items():
        if type(whole.get(name)) is not int or not 0 <= whole[name] <= most:
            raise _malformed(f"{name}, at most {most}")
    for name in ("parent", "store"):
        if whole.get(name, "") is not None and not _is_hash(whole.get(name)):
            raise _malformed(f"{name}, a hash or null")
    if whole.keys() != {*numbers, "parent", "store"} or encode(whole, entries) != data:
        raise _malformed("canonical JSON with the members of a backup")
    return Backup(id=sha256(data).hexdigest(), parts=tuple(entries), **whole)


def _entry(part: object) -> PartEntry:
    if isinstance(part, list) and len(part) == 4:
        table, digest, size, rows = part
        if (
            isinstance(table, str)
            and _TABLE.fullmatch(table)
            and _is_hash(digest)
            and type(size) is int
            and type(rows) is int
            and 0 < rows <= MOST_ROWS
            and rows <= size <= MOST_BYTES
        ):
            return PartEntry(table, digest, size, rows)
    raise _malformed("a part: table, hash, size, rows")


def _is_hash(value: object) -> bool:
    return isinstance(value, str) and _HASH.fullmatch(value) is not None


def _malformed(expected: str) -> IntegrityError:
    return IntegrityError("the manifest of a backup is damaged", expected=expected)
