# SPDX-License-Identifier: Apache-2.0
"""Where each record of a key file is. Some 300 bytes of memory a record."""

from __future__ import annotations

from omsgrain.crypto.keyring.file import START, RingFile
from omsgrain.crypto.keyring.record import FIXED, Records, State, damaged

__all__ = ["Index"]

_SHORT = 16  # bytes of an identity that tell it from others


class Index:
    """Where the records are.

    Attributes:
        numbers: offset by number.
        living: the numbers of those that nobody has met destroyed: who wants all that live need
            not read again each that was ever destroyed.
        identities: offset of the last record by identity.
        erased: how many were destroyed when they were read.
        pending: a destruction was cut off.
    """

    __slots__ = ("_end", "erased", "identities", "living", "numbers", "pending")

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}
        self.living: dict[bytes, None] = {}
        self.identities: dict[bytes, int] = {}
        self.erased = 0
        self.pending = False
        self._end = START

    def extend(self, file: RingFile, records: Records) -> None:
        """Add what came behind.

        Raises:
            KeyMissingError: the file is damaged.
        """
        count = file.head.records
        for offset, record in file.records(self._end):
            if record.number in self.numbers:
                raise damaged("a record that is there twice", offset)
            self.numbers[record.number] = offset
            self.identities[record.identity[:_SHORT]] = offset
            state = records.state(record)
            if state is State.LIVE:
                self.living[record.number] = None
            else:
                self.erased += 1
            self.pending = self.pending or state is State.ERASING
            self._end = offset + FIXED + len(record.body)
        if len(self.numbers) != count:
            raise damaged("another number of records than the file says")

    def offset_of(self, identity: bytes) -> int | None:
        """Where the last record of a user is."""
        return self.identities.get(identity[:_SHORT])

    def is_ahead_of(self, file: RingFile) -> bool:
        """Tell whether the file has less than was read: an older one was copied over it."""
        return file.head.end < self._end
