# SPDX-License-Identifier: Apache-2.0
"""Key records: one a user and generation. `file` has the layout.

Destroying a record writes its mark, which only the root's holder can make, then zeros over its
secret part. So no damaged byte destroys a record, and one that was cut off half way is known.
"""

from __future__ import annotations

import hmac
import os
import struct
import zlib
from enum import Enum
from typing import NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from omsgrain.crypto.derive import LONGEST, hkdf
from omsgrain.errors import KeyMissingError

__all__ = ["FIXED", "LARGEST", "STATE", "Record", "Records", "State", "damaged", "pack", "parse"]

STATE, NUMBER, SALT, NONCE, TAG = 8, 8, 32, 12, 16
_HEAD = struct.Struct(">II8s32s")  # length, generation, number, identity
_SUM = struct.Struct(">I")
_NAME = struct.Struct(">H")
_STEP = 32  # bytes; a name is padded to whole steps, so that lengths say less
_CHECKED = STATE + _HEAD.size
#: Bytes before the secret part.
FIXED = _CHECKED + _SUM.size
#: Bytes that a record may have.
LARGEST = FIXED + NONCE + SALT + _NAME.size + LONGEST + _STEP + TAG
_LIVE = bytes(STATE)


class State(Enum):
    """What a record says of itself."""

    LIVE = 0
    ERASING = 1
    ERASED = 2


class Record(NamedTuple):
    """A record as it stands in the file.

    Attributes:
        state: zeros, or the mark of destruction.
        head: what does not change; it is authenticated with the secret part.
        number: what the store's tables call it.
        identity: an HMAC of the user id.
        generation: from 1.
        body: the secret part: nonce, cipher text, tag; or zeros.
    """

    state: bytes
    head: bytes
    number: bytes
    identity: bytes
    generation: int
    body: bytes


def damaged(what: str, offset: int | None = None) -> KeyMissingError:
    """The error for a key file that is not as it was written."""
    return KeyMissingError("the key file is damaged", found=what, offset=offset)


def parse(data: bytes, at: int, offset: int) -> Record:
    """Read the record that begins at ``at`` in the data, and at ``offset`` in the file.

    Raises:
        KeyMissingError: there is none, or it is cut off.
    """
    if at + FIXED > len(data):
        raise damaged("a record that is cut off", offset)
    length, generation, number, identity = _HEAD.unpack_from(data, at + STATE)
    head = data[at + STATE : at + _CHECKED]
    if _SUM.unpack_from(data, at + _CHECKED)[0] != zlib.crc32(head):
        raise damaged("a record with another checksum", offset)
    if at + length > len(data):
        raise damaged("a record that is cut off", offset)
    body = data[at + FIXED : at + length]
    return Record(data[at : at + STATE], head, number, identity, generation, body)


def pack(record: Record) -> bytes:
    """The bytes of a record."""
    check = _SUM.pack(zlib.crc32(record.head))
    return b"".join((record.state, record.head, check, record.body))


class Records:
    """Writes and reads records; has the keys of one key file for that."""

    __slots__ = ("_cipher", "_directory", "_marks")

    def __init__(self, root: bytes, file_key: bytes) -> None:
        self._cipher = AESGCM(file_key)
        self._directory = hkdf(root, b"omsgrain/1 directory")
        self._marks = hkdf(root, b"omsgrain/1 destroyed")

    def identity(self, name: bytes) -> bytes:
        """What a user is found by: it can be made only where the root is."""
        return hmac.digest(self._directory, name, "sha256")

    def new(self, name: bytes, identity: bytes, generation: int) -> bytes:
        """Make a live record with a fresh salt and number."""
        return self.write(os.urandom(NUMBER), identity, generation, os.urandom(SALT), name)

    def write(
        self, number: bytes, identity: bytes, generation: int, salt: bytes, name: bytes
    ) -> bytes:
        """Write a live record."""
        text = salt + _NAME.pack(len(name)) + name
        text += bytes(-len(text) % _STEP)
        length = FIXED + NONCE + len(text) + TAG
        head = _HEAD.pack(length, generation, number, identity)
        nonce = os.urandom(NONCE)
        body = nonce + self._cipher.encrypt(nonce, text, head)
        return pack(Record(_LIVE, head, number, identity, generation, body))

    def mark(self, record: Record) -> bytes:
        """What the state of the record is once it is to be destroyed."""
        return hmac.digest(self._marks, record.head, "sha256")[:STATE]

    def state(self, record: Record) -> State:
        """Tell what state a record is in; one that is damaged may seem to live."""
        if record.state == _LIVE:
            return State.LIVE
        if not any(record.body):
            return State.ERASED
        return State.ERASING if record.state == self.mark(record) else State.LIVE

    def open(self, record: Record, offset: int) -> tuple[bytes, bytes]:
        """Decrypt a live record.

        Returns:
            Its salt, and the user id in UTF-8.

        Raises:
            KeyMissingError: it is damaged.
        """
        nonce, rest = record.body[:NONCE], record.body[NONCE:]
        try:
            text = self._cipher.decrypt(nonce, rest, record.head)
        except (InvalidTag, ValueError):
            text = None
        if text is None:
            raise damaged("a record that does not open", offset)
        (size,) = _NAME.unpack_from(text, SALT)
        start = SALT + _NAME.size
        return text[:SALT], text[start : start + size]

    def copy(self, record: Record, offset: int, into: Records) -> bytes:
        """Write the record again under the key of another file; what is destroyed stays so."""
        if self.state(record) is State.LIVE:
            salt, name = self.open(record, offset)
            return into.write(record.number, record.identity, record.generation, salt, name)
        return pack(record._replace(state=self.mark(record), body=bytes(len(record.body))))
