# SPDX-License-Identifier: Apache-2.0
"""MCAP files, read record by record, with every checksum verified.

The library ``mcap`` reads the fields of a record. Sizes are compared with the file and the limits
first, and chunks are decompressed up to the size that they state.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from io import BytesIO
from typing import Any, BinaryIO, Final, TypeAlias

from omsgrain import _core
from omsgrain.errors import FormatError, OmsError, UnsupportedError, library
from omsgrain.formats.bag.base import (
    LIMITS,
    BagAttachment,
    BagChannel,
    BagCounts,
    BagLimits,
    BagMessage,
    BagMetadata,
)

BagEntry: TypeAlias = BagChannel | BagMessage | BagAttachment | BagMetadata

MAGIC: Final = b"\x89MCAP0\r\n"
"""The first and the last bytes of a file."""
SUFFIX: Final = ".mcap"
NEED: Final = "MCAP files need mcap"
_HEAD: Final = struct.Struct("<BQ")  # opcode, length
_MESSAGE: Final = struct.Struct("<HIQQ")  # channel, sequence, log time, publish time
_CODECS: Final = {"zstd": 1, "lz4": 2}  # as the core numbers them
_PIECE: Final = 1 << 20
_FOOTER: Final = 8 + 8 + 4  # bytes
_ATTACHMENT: Final = 64 << 10  # bytes of an attachment's names
_STATISTICS: Final = 1 << 20  # bytes; of all 65,536 channels it has fewer


def is_mcap(path: str | os.PathLike[str]) -> bool:
    """Whether a file is an MCAP file, by its first bytes or its name; a pipe is none."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC or os.fspath(path).endswith(SUFFIX)


class McapReader:
    """The entries of an MCAP file, which must be seekable, in the order of the file."""

    def __init__(self, stream: BinaryIO, limits: BagLimits = LIMITS) -> None:
        self._stream = stream
        self._limits = limits
        self._records = library("mcap", "mcap.records", NEED)
        self._fields = library("mcap", "mcap.data_stream", NEED).ReadDataStream
        self._opcodes = library("mcap", "mcap.opcode", NEED).Opcode
        self._size = stream.seek(0, os.SEEK_END)
        self._crc = 0
        self._schemas: dict[int, Any] = {}
        self._schema_bytes = 0
        self._channels: dict[int, BagChannel] = {}
        # The conventions that the file follows, such as "ros2"; known after the first entry.
        self.profile = ""
        self.stated: BagCounts | None = None  # by the file itself; known after the last entry
        stream.seek(0)

    def __iter__(self) -> Iterator[BagEntry]:
        """Yield channels, messages, attachments and metadata; errors say where, by ``offset``."""
        if self._read(len(MAGIC)) != MAGIC:
            raise FormatError("not an MCAP file", offset=0, expected="the magic of MCAP 0")
        codes, first = self._opcodes, True
        while True:
            at, before = self._stream.tell(), self._crc
            code, length = _HEAD.unpack(self._read(_HEAD.size))
            if length > self._size - at - _HEAD.size:
                raise _cut(at)
            if first and code != codes.HEADER:
                raise FormatError("the first record is no header", offset=at)
            if code == codes.ATTACHMENT:
                yield self._attachment(at, length)
                self._stream.seek(at + _HEAD.size + length)  # it may have been read meanwhile
                continue
            if length > self._limits.record:
                expected = f"at most {self._limits.record} bytes"
                raise FormatError(
                    "the record is too large", offset=at, expected=expected, found=str(length)
                )
            content = self._read(length)
            if code == codes.CHUNK:
                yield from self._chunk(content, at)
            elif code == codes.METADATA:
                found = self._record("Metadata", content, at)
                yield BagMetadata(found.name, found.metadata)
            elif code == codes.HEADER:
                self.profile, first = self._record("Header", content, at).profile, False
            elif code == codes.DATA_END:
                self._end(self._record("DataEnd", content, at).data_section_crc, before, at)
                return
            elif code == codes.FOOTER:
                raise FormatError("the data section has no end", offset=at)
            else:
                entry = self._entry(code, content, at, None)
                if entry is not None:
                    yield entry

    def attachment(self, entry: BagAttachment) -> Iterator[bytes]:
        """Yield the bytes of an attachment in pieces."""
        self._stream.seek(entry.start)
        left = entry.size
        while left:
            piece = self._stream.read(min(left, _PIECE))
            if not piece:
                raise _cut(entry.start)
            left -= len(piece)
            yield piece

    def _read(self, size: int) -> bytes:
        data = self._stream.read(size)
        if len(data) < size:
            raise _cut(self._stream.tell())
        self._crc = zlib.crc32(data, self._crc)
        return data

    def _record(self, kind: str, content: bytes, at: int) -> Any:
        """Read the fields of a record of the library's class; bytes behind them are ignored."""
        try:
            return getattr(self._records, kind).read(self._fields(_ExactBytes(content)))
        except (OmsError, ValueError, struct.error, OverflowError):
            raise FormatError(f"a broken record of the kind {kind}", offset=at) from None

    def _entry(
        self, code: int, content: bytes, at: int, inside: int | None
    ) -> BagChannel | BagMessage | None:
        """Read a record of a kind that chunks can hold too; return None for others."""
        codes = self._opcodes
        if code == codes.MESSAGE:
            return self._message(content, at, inside)
        if code == codes.CHANNEL:
            return self._channel(self._record("Channel", content, at), at)
        if code == codes.SCHEMA:
            self._schema(self._record("Schema", content, at), at)
        elif inside is not None and code in (codes.CHUNK, codes.ATTACHMENT, codes.DATA_END):
            raise FormatError("no record for the inside of a chunk", offset=at)
        return None

    def _message(self, content: bytes, at: int, inside: int | None) -> BagMessage:
        try:
            number, sequence, log_time, publish_time = _MESSAGE.unpack_from(content)
        except struct.error:
            raise FormatError("a broken record of the kind Message", offset=at) from None
        channel = self._channels.get(number)
        if channel is None:
            raise FormatError("a message of an unknown channel", offset=at, found=str(number))
        data = content[_MESSAGE.size :]
        return BagMessage(channel, sequence, log_time, publish_time, data, at, inside)

    def _schema(self, found: Any, at: int) -> None:
        known = self._schemas.get(found.id)
        if known == found:
            return
        if known is not None or found.id == 0:
            raise FormatError("two schemas of one number", offset=at, found=str(found.id))
        self._schema_bytes += len(found.data)
        if self._schema_bytes > self._limits.schemas:
            expected = f"at most {self._limits.schemas} bytes"
            raise FormatError("the schemas are too large", offset=at, expected=expected)
        self._schemas[found.id] = found

    def _channel(self, found: Any, at: int) -> BagChannel | None:
        schema = self._schemas.get(found.schema_id)
        if schema is None and found.schema_id:
            raise FormatError("a channel of an unknown schema", offset=at)
        channel = BagChannel(
            found.id,
            found.topic,
            found.message_encoding,
            schema.name if schema else "",
            schema.encoding if schema else "",
            schema.data if schema else b"",
            found.metadata,
        )
        known = self._channels.setdefault(found.id, channel)
        if known != channel:
            raise FormatError("two channels of one number", offset=at, found=str(found.id))
        return channel if known is channel else None

    def _chunk(self, content: bytes, at: int) -> Iterator[BagEntry]:
        chunk = self._record("Chunk", content, at)
        data = self._decompressed(chunk, at)
        if chunk.uncompressed_crc not in (0, zlib.crc32(data)):
            raise FormatError("the checksum of the chunk is wrong", offset=at, rule="crc")
        place = 0
        while place < len(data):
            try:
                code, length = _HEAD.unpack_from(data, place)
            except struct.error:
                raise _cut(at) from None
            start = place + _HEAD.size
            if length > len(data) - start:
                raise _cut(at)
            entry = self._entry(code, data[start : start + length], at, place)
            if entry is not None:
                yield entry
            place = start + length

    def _decompressed(self, chunk: Any, at: int) -> bytes:
        size, most = chunk.uncompressed_size, self._limits.chunk
        if size > most:
            expected = f"at most {most} bytes"
            raise FormatError(
                "the chunk is too large", offset=at, expected=expected, found=str(size)
            )
        if not chunk.compression:
            data: bytes = chunk.data
        elif chunk.compression in _CODECS:
            codec, packed = _CODECS[chunk.compression], chunk.data
            try:
                data = _core.FrameReader(codec, packed, 0, len(packed)).read(size + 1)
            except OmsError:
                raise FormatError("the chunk cannot be decompressed", offset=at) from None
        else:
            expected = ", ".join(("none", *_CODECS))
            raise UnsupportedError("an unknown compression", offset=at, expected=expected)
        if len(data) != size:
            raise FormatError("the chunk has another size", offset=at, expected=f"{size} bytes")
        return data

    def _attachment(self, at: int, length: int) -> BagAttachment:
        """Read the names of an attachment, and compare its checksum piece by piece."""
        start = at + _HEAD.size
        head = self._stream.read(min(length, _ATTACHMENT))
        exact = self._fields(_ExactBytes(head))
        try:
            times = exact.read8(), exact.read8()
            names = exact.read_prefixed_string(), exact.read_prefixed_string()
            size = exact.read8()
        except (OmsError, ValueError, struct.error, OverflowError):
            raise FormatError("a broken record of the kind Attachment", offset=at) from None
        first = start + exact.count
        if exact.count + size + 4 != length:
            raise FormatError("the attachment has another size", offset=at, found=str(size))
        self._stream.seek(start)
        left, crc = length - 4, 0
        while left:
            piece = self._read(min(left, _PIECE))
            crc = zlib.crc32(piece, crc)
            left -= len(piece)
        if int.from_bytes(self._read(4), "little") not in (0, crc):
            raise FormatError("the checksum of the attachment is wrong", offset=at, rule="crc")
        return BagAttachment(*names, *times, first, size)

    def _end(self, expected: int, found: int, at: int) -> None:
        """Check what follows the data: its checksum, the summary and the footer."""
        if expected not in (0, found):
            raise FormatError("the checksum of the data section is wrong", offset=at, rule="crc")
        start = self._stream.tell()
        last = self._size - len(MAGIC) - _FOOTER - _HEAD.size
        self._stream.seek(max(last, 0))
        code, length = _HEAD.unpack(self._read(_HEAD.size))
        if last < start or (code, length) != (self._opcodes.FOOTER, _FOOTER):
            raise FormatError("the file has no footer at its end", offset=max(last, 0))
        footer = self._record("Footer", self._read(_FOOTER), last)
        if self._read(len(MAGIC)) != MAGIC:
            raise FormatError("the file does not end as MCAP", offset=self._size - len(MAGIC))
        if footer.summary_start not in (0, start):
            raise FormatError("the summary begins elsewhere", offset=last, expected=str(start))
        if footer.summary_crc:
            self._stream.seek(start)
            left, crc = last + _HEAD.size + _FOOTER - 4 - start, 0
            while left:
                piece = self._stream.read(min(left, _PIECE))
                crc = zlib.crc32(piece, crc)
                left -= len(piece)
            if crc != footer.summary_crc:
                raise FormatError("the checksum of the summary is wrong", offset=start, rule="crc")
        if footer.summary_start:
            self._summary(start, last)

    def _summary(self, at: int, end: int) -> None:
        """Look for the record of statistics; others repeat what the data have."""
        while at < end:
            self._stream.seek(at)
            code, length = _HEAD.unpack(self._read(_HEAD.size))
            following = at + _HEAD.size + length
            if following > end:
                raise FormatError("a record is longer than the summary", offset=at)
            if code == self._opcodes.STATISTICS:
                if length > _STATISTICS:
                    raise FormatError("the record is too large", offset=at, found=str(length))
                self.stated = self._counts(self._record("Statistics", self._read(length), at))
            at = following

    def _counts(self, found: Any) -> BagCounts:
        messages: dict[str, int] = {}
        for number, count in found.channel_message_counts.items():
            channel = self._channels.get(number)
            topic = f"channel {number}" if channel is None else channel.topic
            messages[topic] = messages.get(topic, 0) + count
        known = found.message_count > 0
        return BagCounts(
            messages or None,  # an empty map says nothing
            found.message_count,
            found.message_start_time if known else None,
            found.message_end_time if known else None,
            found.attachment_count,
            found.metadata_count,
        )


class _ExactBytes(BytesIO):
    """Bytes that are never read beyond their end: the library would return fewer."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size is not None and len(data) < size:
            raise FormatError("the field is longer than its record")
        return data


def _cut(at: int) -> FormatError:
    return FormatError("the file is cut short", offset=at, expected="a complete MCAP file")
