# SPDX-License-Identifier: Apache-2.0
"""Key rings for tests, and what can be seen of one from outside."""

from __future__ import annotations

from pathlib import Path

from omsgrain.crypto.keyring import KeyRing, UserKeys
from omsgrain.errors import ErasedError

MASTER, OTHER = bytes(range(32)), bytes(range(100, 132))
NAMES = ("number", "content", "address", "token", "vector", "place")

Keys = tuple[bytes, ...]


def all_of(keys: UserKeys | None) -> Keys | None:
    """All that is in a user's keys, to compare."""
    return None if keys is None else tuple(getattr(keys, name) for name in NAMES)


def secrets_of(keys: UserKeys) -> Keys:
    """The same without the number, which is public."""
    return tuple(getattr(keys, name) for name in NAMES[1:])


def keys_of(ring: KeyRing, *users: str) -> dict[str, Keys | None]:
    return {user: all_of(ring.of_user(user)) for user in users}


def number_of(ring: KeyRing, user: str) -> bytes:
    keys = ring.of_user(user)
    assert keys is not None
    return keys.number


def is_erased(ring: KeyRing, number: bytes) -> bool:
    try:
        ring.by_number(number)
    except ErasedError:
        return True
    return False


def body(path: Path, ring: KeyRing, number: bytes) -> bytes:
    """The secret part of a record, as it is in the file."""
    offset = ring._index.numbers[number]
    record = ring._file.record(offset)
    return path.read_bytes()[offset + 60 : offset + 60 + len(record.body)]
