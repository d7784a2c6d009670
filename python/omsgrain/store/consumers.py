# SPDX-License-Identifier: Apache-2.0
"""The positions of consumers of the change feed, kept in the store itself.

A position outside the store would be wrong once the store is restored from a backup: sequence
numbers are used again then, and the consumer would skip changes.
"""

from __future__ import annotations

from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import LONGEST_KEY, META, SEQUENCE
from omsgrain.store.context import StorePart

PREFIX = b"position."
"""What the names of their records begin with."""


class Consumers(StorePart):
    """``store.consumers``: how far each consumer of ``changes`` is."""

    __slots__ = ()

    def position(self, name: str) -> int:
        """Return the last ``seq`` of ``changes`` that a consumer has processed; 0 before any.

        Args:
            name: of the consumer.

        Raises:
            SchemaError: not a name.
            IntegrityError: its row is damaged.
        """
        key = _key(name)
        with self._context.storage.read() as reader:
            return _position(reader, key)

    def set_position(self, name: str, seq: int) -> None:
        """Storage how far a consumer is, durably.

        Args:
            name: of the consumer.
            seq: of the last change that it has processed.

        Raises:
            SchemaError: not a name, or not a sequence number of this store.
            StoreError: it cannot be written.
        """
        key = _key(name)
        with self._context.storage.read() as reader:
            last = reader.last_seq()
        if type(seq) is not int or not 0 <= seq <= last:
            raise SchemaError("no such change", field="/seq", expected=f"0 to {last}")
        self._context.storage.write(lambda writer: writer.set_row(META, key, SEQUENCE.pack(seq)))


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
