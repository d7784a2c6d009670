# SPDX-License-Identifier: Apache-2.0
"""How far those who follow the changes of a store have come, kept in the store itself.

A position beside the store would be wrong as soon as the store is restored from a backup: numbers
are given again then, and what they stand for would be passed over.
"""

from __future__ import annotations

from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import LONGEST_KEY, META, SEQUENCE
from omsgrain.store.base import Base

PREFIX = b"position."
"""What the names of their records begin with."""


class Following(Base):
    """The part of a GrainStore that remembers positions."""

    def position(self, name: str) -> int:
        """Return the last ``seq`` of ``changes`` that a follower has seen to; 0 before any.

        Args:
            name: of the follower.

        Raises:
            SchemaError: not a name.
            IntegrityError: its row is damaged.
        """
        key = _key(name)
        with self._store.read() as reader:
            return _position(reader, key)

    def set_position(self, name: str, seq: int) -> None:
        """Remember how far a follower has come, durably.

        Args:
            name: of the follower.
            seq: of the last change that it has seen to.

        Raises:
            SchemaError: not a name, or not a sequence number of this store.
            StoreError: it cannot be written.
        """
        key = _key(name)
        with self._store.read() as reader:
            last = reader.last_seq()
        if type(seq) is not int or not 0 <= seq <= last:
            raise SchemaError("no such change", field="/seq", expected=f"0 to {last}")
        self._store.write(lambda writer: writer.set_row(META, key, SEQUENCE.pack(seq)))


def _key(name: str) -> bytes:
    key = PREFIX + name.encode("utf-8", "surrogatepass") if isinstance(name, str) else PREFIX
    if not len(PREFIX) < len(key) <= LONGEST_KEY:
        longest = LONGEST_KEY - len(PREFIX)
        raise SchemaError("not a name", field="/name", expected=f"1 to {longest} bytes of text")
    return key


def _position(reader: Reader, key: bytes) -> int:
    row = reader.row(META, key)
    if row is None:
        return 0
    if len(row) != SEQUENCE.size:
        raise IntegrityError("a position of the change feed is damaged")
    return int(SEQUENCE.unpack(row)[0])
