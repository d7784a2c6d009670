# SPDX-License-Identifier: Apache-2.0
"""The key file as bytes: after a crash at any point it has its old or its new content.

    offset  size   field
    0       8      "omsgkeys"
    8       2      version, 1
    4096    76     slot 0: where everything is and how much
    8192    76     slot 1: the same; one of the two is always whole
    12288   2048   area 0: root and file key, wrapped under the master key by one call
    16384   2048   area 1: the same, by turns
    20480          records, one after the other up to the end that the slot says

A slot, in big-endian order:

    0       8      sequence: one more with each write of a slot; the higher one counts
    8       8      generation: higher after each destruction, rewrap and rekey
    16      8      end of the last record
    24      8      number of records
    32      8      how many of them are destroyed
    40      4      1 while records are being destroyed, else 0
    44      4      area in use, 0 or 1
    48      4      bytes in it
    52      8      first bytes of their SHA-256
    60      16     first bytes of the SHA-256 of the 60 bytes before

A record, a multiple of eight bytes:

    0       8      state: zeros, or an HMAC of the head under a key of the root: destroyed
    8       4      length of the record       | head, which never changes and is
    12      4      generation of the user     | authenticated with the secret part
    16      8      number                     |
    24      32     HMAC of the user id        |
    56      4      CRC-32 of the head
    60      12     nonce                      | zeros, once destroyed
    72      32n    AES-256-GCM under the      |
    ..             file key: salt 32, length  |
    ..             u16, user id, zeros        |
    ..      16     tag                        |

Between two changes slot 0 is on the disk, and slot 1 has the same content but may not be. A change
writes its records, syncs (slot 1 with them), writes slot 0, syncs, writes slot 1. A destruction is
first announced in slot 1, so that another process can finish it. A page has one slot: a torn write
damages no other.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import struct
import threading
import zlib
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from omsgrain.crypto import private_file
from omsgrain.crypto.master_key import LONGEST
from omsgrain.crypto.seal import LONGEST as seal_LONGEST
from omsgrain.crypto.seal import hkdf
from omsgrain.errors import KeyMissingError, UnsupportedError

STATE, NUMBER, SALT, NONCE, TAG = 8, 8, 32, 12, 16
_HEAD = struct.Struct(">II8s32s")  # length, generation, number, identity
_SUM = struct.Struct(">I")
_NAME = struct.Struct(">H")
_STEP = 32  # bytes; padding to whole steps hides the length of a name
_CHECKED = STATE + _HEAD.size
#: Bytes before the secret part.
FIXED = _CHECKED + _SUM.size
#: The most bytes of a record.
LARGEST = FIXED + NONCE + SALT + _NAME.size + seal_LONGEST + _STEP + TAG
_LIVE = bytes(STATE)


class RecordState(Enum):
    LIVE = 0
    ERASING = 1
    ERASED = 2


class KeyRecord(NamedTuple):
    state: bytes  # zeros, or the mark of destruction
    head: bytes  # the constant part; authenticated with the secret part
    number: bytes  # its number in the store's tables
    identity: bytes  # an HMAC of the user id
    generation: int  # from 1
    body: bytes  # the secret part: nonce, cipher text, tag; or zeros


def damaged(what: str, offset: int | None = None) -> KeyMissingError:
    """Return the error for a damaged key file."""
    return KeyMissingError("the key file is damaged", found=what, offset=offset)


def parse(data: bytes, at: int, offset: int) -> KeyRecord:
    """Read the record that begins at ``at`` in the data, and at ``offset`` in the file."""
    if at + FIXED > len(data):
        raise damaged("a record is cut short", offset)
    length, generation, number, identity = _HEAD.unpack_from(data, at + STATE)
    head = data[at + STATE : at + _CHECKED]
    if _SUM.unpack_from(data, at + _CHECKED)[0] != zlib.crc32(head):
        raise damaged("the checksum of a record is wrong", offset)
    if at + length > len(data):
        raise damaged("a record is cut short", offset)
    body = data[at + FIXED : at + length]
    return KeyRecord(data[at : at + STATE], head, number, identity, generation, body)


def pack(record: KeyRecord) -> bytes:
    check = _SUM.pack(zlib.crc32(record.head))
    return b"".join((record.state, record.head, check, record.body))


class Records:
    """Writes and reads records with the keys of one key file."""

    __slots__ = ("_cipher", "_directory", "_marks")

    def __init__(self, root: bytes, file_key: bytes) -> None:
        self._cipher = AESGCM(file_key)
        self._directory = hkdf(root, b"omsgrain/1 directory")
        self._marks = hkdf(root, b"omsgrain/1 destroyed")

    def identity(self, name: bytes) -> bytes:
        """Return the identity of a user, an HMAC that only the owner of the root can compute."""
        return hmac.digest(self._directory, name, "sha256")

    def new(self, name: bytes, identity: bytes, generation: int) -> bytes:
        """Make a live record with a new salt and number."""
        return self.write(os.urandom(NUMBER), identity, generation, os.urandom(SALT), name)

    def write(
        self, number: bytes, identity: bytes, generation: int, salt: bytes, name: bytes
    ) -> bytes:
        text = salt + _NAME.pack(len(name)) + name
        text += bytes(-len(text) % _STEP)
        length = FIXED + NONCE + len(text) + TAG
        head = _HEAD.pack(length, generation, number, identity)
        nonce = os.urandom(NONCE)
        body = nonce + self._cipher.encrypt(nonce, text, head)
        return pack(KeyRecord(_LIVE, head, number, identity, generation, body))

    def mark(self, record: KeyRecord) -> bytes:
        """Return the state of the record that marks its destruction."""
        return hmac.digest(self._marks, record.head, "sha256")[:STATE]

    def state(self, record: KeyRecord) -> RecordState:
        """Return the state of a record; a damaged one may seem live."""
        if record.state == _LIVE:
            return RecordState.LIVE
        if not any(record.body):
            return RecordState.ERASED
        return RecordState.ERASING if record.state == self.mark(record) else RecordState.LIVE

    def open(self, record: KeyRecord, offset: int) -> tuple[bytes, bytes]:
        nonce, rest = record.body[:NONCE], record.body[NONCE:]
        try:
            text = self._cipher.decrypt(nonce, rest, record.head)
        except (InvalidTag, ValueError):
            text = None
        if text is None:  # outside, so that no error contains another
            raise damaged("a record cannot be decrypted", offset)
        (size,) = _NAME.unpack_from(text, SALT)
        start = SALT + _NAME.size
        return text[:SALT], text[start : start + size]

    def copy(self, record: KeyRecord, offset: int, into: Records) -> bytes:
        """Write the record again under the key of another file, or as destroyed."""
        if self.state(record) is RecordState.LIVE:
            salt, name = self.open(record, offset)
            return into.write(record.number, record.identity, record.generation, salt, name)
        return pack(record._replace(state=self.mark(record), body=bytes(len(record.body))))


_SLOT = struct.Struct(">QQQQQIII8s")
_SLOT_SUM = 16
#: Bytes of a slot.
SIZE = _SLOT.size + _SLOT_SUM


class SlotHead(NamedTuple):
    sequence: int
    generation: int
    end: int
    records: int
    erased: int
    erasing: int
    area: int
    size: int
    check: bytes

    def next(self, **changes: Any) -> SlotHead:
        return self._replace(sequence=self.sequence + 1, **changes)


def slot(head: SlotHead) -> bytes:
    body = _SLOT.pack(*head)
    return body + hashlib.sha256(body).digest()[:_SLOT_SUM]


def read_slot(raw: bytes) -> SlotHead | None:
    """Read a slot; None if it is torn or damaged."""
    body, check = raw[: _SLOT.size], raw[_SLOT.size : SIZE]
    if len(check) < _SLOT_SUM or hashlib.sha256(body).digest()[:_SLOT_SUM] != check:
        return None
    return SlotHead(*_SLOT.unpack(body))


_MAGIC, _VERSION = b"omsgkeys", 1
_FIRST = struct.Struct(">8sH")
_PAGE = 4096
_SLOTS = (_PAGE, 2 * _PAGE)
_AREAS = (3 * _PAGE, 4 * _PAGE)
#: The offset of the first record.
START = 5 * _PAGE
_SPAN = _SLOTS[1] + SIZE - _SLOTS[0]  # from slot 0 to the end of slot 1
_PIECE = 4 << 20
_TRIES = 100


class RingFile:
    """An open key file."""

    __slots__ = (
        "_lock",
        "_raw",
        "_second",
        "doubt",
        "handle",
        "head",
        "path",
        "readonly",
        "settled",
    )

    head: SlotHead  # content of its slots at the last look

    def __init__(self, path: Path, handle: int, *, readonly: bool = False) -> None:
        self.path = path
        self.handle = handle  # its descriptor
        self.readonly = readonly  # it cannot be written
        self.settled = False  # both slots were equal, without unfinished work
        self.doubt = False  # a sync failed: the disk may have less than we read
        self._raw = b""
        self._second: SlotHead | None = None  # the content of slot 1
        self._lock = threading.Lock()  # so that the last read of a thread is kept

    @classmethod
    def create(cls, path: Path, wrapped: bytes, generation: int) -> RingFile:
        """Make a file without records; it is on the disk after the first `commit`.

        It has no name before `appear`.
        """
        file = cls(path, private_file.create(path))
        try:
            private_file.zero(file.handle, 0, START)
            private_file.write_at(file.handle, _FIRST.pack(_MAGIC, _VERSION), 0)
            area = file._write_area(0, wrapped)
            file.head = SlotHead(0, generation, START, 0, 0, 0, *area)
        except BaseException:
            file.discard()
            raise
        return file

    def appear(self) -> None:
        """Give a new file its name, when it is complete."""
        private_file.appear(self.handle, self.path)

    @classmethod
    def open(cls, path: Path) -> RingFile:
        try:
            handle, readonly = private_file.open_private(path)
        except FileNotFoundError:
            raise KeyMissingError("the key file is missing") from None
        file = cls(path, handle, readonly=readonly)
        try:
            file._check_first()
            file.look()
        except BaseException:
            file.close()
            raise
        return file

    def _check_first(self) -> None:
        first = private_file.read_at(self.handle, _FIRST.size, 0)
        if len(first) < _FIRST.size or not first.startswith(_MAGIC):
            raise KeyMissingError("not a key file")
        if _FIRST.unpack(first)[1] != _VERSION:
            raise UnsupportedError(
                "a key file of another version",
                expected=str(_VERSION),
                found=str(_FIRST.unpack(first)[1]),
            )

    def is_same(self) -> bool:
        """Return whether the file is in its place and unchanged since the last look."""
        try:
            same = private_file.read_at(self.handle, _SPAN, _SLOTS[0]) == self._raw
            return same and os.fstat(self.handle).st_nlink > 0
        except OSError:
            return False

    def is_in_place(self) -> bool:
        """Return whether the path leads to this file."""
        try:
            there, here = os.stat(self.path), os.fstat(self.handle)
        except FileNotFoundError:
            return False
        return (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)

    def is_gone(self) -> bool:
        """Return whether another file replaced it: then it has no name, or was overwritten."""
        return not os.fstat(self.handle).st_nlink or not any(
            private_file.read_at(self.handle, _SPAN, _SLOTS[0])
        )

    def look(self) -> None:
        with self._lock:
            for _ in range(_TRIES):  # another process may be writing now
                raw = private_file.read_at(self.handle, _SPAN, _SLOTS[0])
                heads = [read_slot(raw[:SIZE]), read_slot(raw[-SIZE:])]
                whole = [head for head in heads if head is not None]
                if whole:
                    break
            else:
                raise damaged("both slots are damaged", _SLOTS[0])
            head, size = max(whole), os.fstat(self.handle).st_size
            if head.end > size:
                raise damaged("the file is cut short", size)
            self.head, self._second, self._raw = head, heads[1], raw
            same = heads[0] == heads[1] and head.end == size
            self.settled = same and not head.erasing and not self._has_remains()

    def announce(self, head: SlotHead) -> None:
        """Announce a destruction in slot 1; the next `sync` writes it to the disk."""
        private_file.write_at(self.handle, slot(head), _SLOTS[1])
        self.look()

    def commit(self, head: SlotHead) -> None:
        """Sync the written records to the disk, and then make them valid."""
        if self._second != self.head:  # slot 0 may be torn next
            private_file.write_at(self.handle, slot(self.head), _SLOTS[1])
        self.sync()
        self.conclude(head)

    def conclude(self, head: SlotHead) -> None:
        """Make the written records valid, if slot 1 is on the disk."""
        private_file.write_at(self.handle, slot(head), _SLOTS[0])
        self.sync()
        private_file.write_at(self.handle, slot(head), _SLOTS[1])
        self.look()

    def sync(self) -> None:
        try:
            private_file.sync(self.handle)
        except OSError:
            self.doubt = True
            raise

    def wrapped(self) -> bytes:
        while True:
            head = self.head
            at = _AREAS[head.area & 1]
            wrapped = private_file.read_at(self.handle, min(head.size, LONGEST), at)
            if _check(wrapped) == head.check:
                return wrapped
            self.look()
            if self.head == head:  # and no other process has rewrapped them
                raise damaged("the checksum of the wrapped secrets is wrong", at)

    def rewrap(self, wrapped: bytes, generation: int) -> None:
        """Replace the wrapped secrets, and overwrite the old ones."""
        area, size, check = self._write_area(1 - self.head.area, wrapped)
        self.commit(self.head.next(generation=generation, area=area, size=size, check=check))
        self.clear()
        self.sync()
        self.look()

    def _has_remains(self) -> bool:
        return any(private_file.read_at(self.handle, LONGEST, _AREAS[1 - (self.head.area & 1)]))

    def clear(self) -> None:
        """Overwrite unused bytes: after the last record, and in the other area."""
        os.ftruncate(self.handle, self.head.end)
        if self._has_remains():
            at = _AREAS[1 - (self.head.area & 1)]
            private_file.zero(self.handle, at, at + LONGEST)

    def _write_area(self, area: int, wrapped: bytes) -> tuple[int, int, bytes]:
        private_file.write_at(self.handle, wrapped.ljust(LONGEST, b"\0"), _AREAS[area])
        return area, len(wrapped), _check(wrapped)

    def record(self, offset: int) -> KeyRecord:
        size = min(LARGEST, self.head.end - offset)
        return parse(private_file.read_at(self.handle, size, offset), 0, offset)

    def records(self, start: int) -> Iterator[tuple[int, KeyRecord]]:
        data, at, offset, end = b"", 0, start, self.head.end
        while offset < end:
            if len(data) - at < LARGEST and offset + len(data) - at < end:
                left = end - offset - (len(data) - at)
                more = private_file.read_at(self.handle, min(_PIECE, left), end - left)
                if not more:
                    raise damaged("the file is cut short", end - left)
                data, at = data[at:] + more, 0
            record = parse(data, at, offset)
            yield offset, record
            length = FIXED + len(record.body)
            at, offset = at + length, offset + length

    def mark(self, offset: int, mark: bytes) -> None:
        private_file.write_at(self.handle, mark, offset)

    def destroy(self, offset: int, record: KeyRecord) -> None:
        private_file.zero(self.handle, offset + FIXED, offset + FIXED + len(record.body))

    def append(self, data: bytes) -> None:
        """Write records after the last; they are not valid before `commit`."""
        private_file.write_at(self.handle, data, self.head.end)

    def touch(self) -> None:
        """Write all bytes again: after a failed sync, the system treats them as written."""
        self.doubt = False
        for offset in range(0, self.head.end, _PIECE):
            data = private_file.read_at(self.handle, min(_PIECE, self.head.end - offset), offset)
            private_file.write_at(self.handle, data, offset)

    def close(self) -> None:
        handle, self.handle = self.handle, -1
        if handle >= 0:
            os.close(handle)

    def discard(self) -> None:
        handle, self.handle = self.handle, -1
        private_file.discard(handle, self.path)

    def __del__(self) -> None:
        self.close()


def _check(wrapped: bytes) -> bytes:
    return hashlib.sha256(wrapped).digest()[:8]


_SHORT = 16  # bytes of an identity that distinguish it from others


class RecordIndex:
    """The positions of the records."""

    __slots__ = ("_end", "erased", "identities", "living", "numbers", "pending")

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # offset by number
        # Numbers of records not known to be destroyed: a walk over all users skips the others.
        self.living: dict[bytes, None] = {}
        self.identities: dict[bytes, int] = {}  # offset of the last record by identity
        self.erased = 0  # how many were destroyed when they were read
        self.pending = False  # a destruction was interrupted
        self._end = START

    def extend(self, file: RingFile, records: Records) -> None:
        count = file.head.records
        for offset, record in file.records(self._end):
            if record.number in self.numbers:
                raise damaged("a record occurs twice", offset)
            self.numbers[record.number] = offset
            self.identities[record.identity[:_SHORT]] = offset
            state = records.state(record)
            if state is RecordState.LIVE:
                self.living[record.number] = None
            else:
                self.erased += 1
            self.pending = self.pending or state is RecordState.ERASING
            self._end = offset + FIXED + len(record.body)
        if len(self.numbers) != count:
            raise damaged("the number of records is not that of the slot")

    def offset_of(self, identity: bytes) -> int | None:
        return self.identities.get(identity[:_SHORT])

    def is_ahead_of(self, file: RingFile) -> bool:
        """Return whether the file has fewer records than were read, as a restored one has."""
        return file.head.end < self._end
