# SPDX-License-Identifier: Apache-2.0
"""The positions of consumers of the change feed, kept in the store itself.

After a restore from a backup, the store assigns sequence numbers again. A position outside the
store would then be wrong, and the consumer would skip changes.
"""

from __future__ import annotations

from omsgrain.errors import IntegrityError, SchemaError
from omsgrain.storage.base import Reader
from omsgrain.storage.tables import LONGEST_KEY, META, SEQUENCE
from omsgrain.store.context import StorePart

PREFIX = b"position."
"""Prefix of the row names."""


class Consumers(StorePart):
    """``store.consumers``: the position of each consumer of ``changes``."""

    __slots__ = ()

    def position(self, name: str) -> int:
        """Return the ``seq`` of the last change that a consumer has processed, or 0.

        Args:
            name: the consumer's name.

        Raises:
            SchemaError: the name is invalid.
            IntegrityError: the row is damaged.
        """
        key = _key(name)
        with self._context.storage.read() as reader:
            return _position(reader, key)

    def set_position(self, name: str, seq: int) -> None:
        """Store the position of a consumer durably.

        Args:
            name: the consumer's name.
            seq: the ``seq`` of the last change that it has processed.

        Raises:
            SchemaError: the name is invalid, or the store has no such sequence number.
            StoreError: the store cannot be written.
        """
        key = _key(name)
        with self._context.storage.read() as reader:
            last = reader.last_seq()
        if type(seq) is not int or not 0 <= seq <= last:
            raise SchemaError("no change has this number", field="/seq", expected=f"0 to {last}")
        self._context.storage.write(lambda writer: writer.set_row(META, key, SEQUENCE.pack(seq)))


def _key(name: str) -> bytes:
    key = PREFIX + name.encode("utf-8", "surrogatepass") if isinstance(name, str) else PREFIX
    if not len(PREFIX) < len(key) <= LONGEST_KEY:
        longest = LONGEST_KEY - len(PREFIX)
        raise SchemaError(
            "invalid consumer name", field="/name", expected=f"1 to {longest} bytes of UTF-8"
        )
    return key


def _position(reader: Reader, key: bytes) -> int:
    row = reader.row(META, key)
    if row is None:
        return 0
    if len(row) != SEQUENCE.size:
        raise IntegrityError("the row with this consumer's position is damaged")
    return int(SEQUENCE.unpack(row)[0])
